package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/exceptions"
	"github.com/nodetrail/nodetrail/internal/filekind"
	"github.com/nodetrail/nodetrail/report"
)

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
	return p, MisplacedOr(err, path, filekind.AuditPolicy)
}

// document reads a file that has one value; the zero value where path is empty.
func document[T any](path string, kind filekind.Kind, parse func(io.Reader) (T, error)) (none T, err error) {
	if path == "" {
		return none, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return none, fmt.Errorf("cannot read %w", PathError(path, err))
	}
	defer f.Close()
	out, err := parse(f)
	var unread *fs.PathError
	switch {
	case errors.As(err, &unread):
		return none, MisplacedOr(fmt.Errorf("cannot read %w", PathError(path, err)), path, kind)
	case err != nil:
		return none, MisplacedOr(placed(path, err), path, kind)
	}
	return out, nil
}

// atMost reads all, or a byte more than the parser takes, which then says that there is too much.
func atMost(r io.Reader, limit int64) ([]byte, error) { return io.ReadAll(io.LimitReader(r, limit+1)) }

var (
	decoderLine = regexp.MustCompile(`(?m)^ *line ([0-9]+): (.*)$`)
	decoderType = regexp.MustCompile(` (in type|into) [][*]*[a-z]+\.[A-Za-z]+$`)
)

// placed is the error of a file with its path. Of what the decoder of YAML says of values it keeps the first, with its line: the decoder has one for each
// mistake, and names types of this program.
func placed(path string, err error) error {
	_, said, is := strings.Cut(err.Error(), "yaml: unmarshal errors:\n")
	if all := decoderLine.FindAllStringSubmatch(said, -1); is && len(all) > 0 {
		what, more := decoderType.ReplaceAllString(all[0][2], ""), ""
		if n := len(all) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		return fmt.Errorf("%s:%s: %s%s", path, all[0][1], what, more)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// OverInput is the error of a file to be written that is one of the inputs; nil for all others, and for what is not there.
func OverInput(path string, inputs []string) error {
	out, err := os.Stat(path)
	if err != nil || !out.Mode().IsRegular() {
		return nil //nolint:nilerr // what is not there is written over by nobody
	}
	for _, p := range inputs {
		if in, err := os.Stat(p); err == nil && os.SameFile(in, out) {
			return fmt.Errorf("%s is also an input, and would be overwritten", path)
		}
	}
	return nil
}
