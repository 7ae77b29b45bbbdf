package app

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/exceptions"
	"github.com/nodetrail/nodetrail/internal/filekind"
	"github.com/nodetrail/nodetrail/internal/listfile"
	"github.com/nodetrail/nodetrail/internal/userfile"
	"github.com/nodetrail/nodetrail/report"
)

// FileError is what is wrong with what a file holds, or with reading it. Its words name the file.
type FileError struct{ Err error }

func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *FileError) Unwrap() error { return e.Err }

func fileError(err error) error {
	if err == nil {
		return nil
	}
	return &FileError{err}
}

// ReadWaivers reads a file of waivers; none where path is empty. The error names the file, and the line where one is to blame.
func ReadWaivers(path string) ([]checks.Waiver, error) {
	return document(path, filekind.Waivers, func(f io.Reader) ([]checks.Waiver, error) {
		b, err := atMost(f, checks.MaxWaiverBytes)
		if err != nil {
			return nil, err
		}
		return checks.ParseWaivers(b)
	})
}

// ReadExceptions reads a file of exceptions; none where path is empty. own are the names of the user's own rules. The error is as that of [ReadWaivers].
func ReadExceptions(path string, own ...string) ([]exceptions.Exception, error) {
	return document(path, filekind.Exceptions, func(f io.Reader) ([]exceptions.Exception, error) {
		b, err := atMost(f, exceptions.MaxBytes)
		if err != nil {
			return nil, err
		}
		return exceptions.Parse(b, own...)
	})
}

// ReadBaseline reads a report that was written as JSON; nil where path is empty. The error is as that of [ReadWaivers].
func ReadBaseline(path string) (*report.Report, error) {
	return document(path, filekind.Report, report.ReadBaseline)
}

// ReadAuditPolicy reads an audit policy; nil where path is empty.
func ReadAuditPolicy(path string) (*coverage.Policy, error) {
	if path == "" {
		return nil, nil
	}
	p, err := coverage.ReadPolicy(path)
	return p, fileError(MisplacedOr(err, path, filekind.AuditPolicy))
}

// document reads a file that has one value; the zero value where path is empty.
func document[T any](path string, kind filekind.Kind, parse func(io.Reader) (T, error)) (none T, err error) {
	if path == "" {
		return none, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return none, fileError(userfile.Unreadable(path, err))
	}
	defer f.Close()
	out, err := parse(f)
	var unread *fs.PathError
	switch {
	case errors.As(err, &unread):
		return none, fileError(MisplacedOr(userfile.Unreadable(path, err), path, kind))
	case err != nil:
		return none, fileError(MisplacedOr(listfile.In(path, err), path, kind))
	}
	return out, nil
}

// atMost reads all, or a byte more than the parser takes, which then says that there is too much.
func atMost(r io.Reader, limit int64) ([]byte, error) { return io.ReadAll(io.LimitReader(r, limit+1)) }
