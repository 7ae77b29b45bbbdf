package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nodetrail/nodetrail/internal/filekind"
	"github.com/nodetrail/nodetrail/pipeline/file"
)

// Misplaced is the error of a file that its beginning shows to be something else than what was wanted: it names the file, what it is and where to give it.
// Nil if that does not show, and of what is no regular file and no folder.
func Misplaced(path string, wanted filekind.Kind) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil // whoever reads the file says so
	case info.IsDir() && wanted != filekind.State:
		return fmt.Errorf("%s: a folder, not %s: give one file", path, wanted)
	case !info.Mode().IsRegular():
		return nil
	}
	r, done, err := file.Open(context.Background(), path, nil)
	if err != nil {
		return nil // as above
	}
	defer done()
	head := make([]byte, filekind.HeadBytes)
	n, err := io.ReadFull(r, head)
	whole := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if what := filekind.Of(head[:n], whole).Misplaced(wanted); what != "" {
		return fmt.Errorf("%s: %s", path, what)
	}
	return nil
}

// MisplacedOr is what Misplaced finds, or else err; nil if err is.
func MisplacedOr(err error, path string, wanted filekind.Kind) error {
	if err == nil {
		return nil
	}
	if m := Misplaced(path, wanted); m != nil {
		return m
	}
	return err
}
