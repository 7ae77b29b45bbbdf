package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/exceptions"
	"github.com/nodetrail/nodetrail/internal/filekind"
	"github.com/nodetrail/nodetrail/report"
)

const (
	exceptionsUsage = "a `FILE` of exceptions: findings that somebody answers for are hidden from --fail-on, and listed as before"
	baselineUsage   = "a `FILE` with a report as JSON: --fail-on looks only at findings that it does not have, and the report says what is new and what is gone"
)

// readExceptions reads the file that --exceptions names, if any. own are the names of the user's own rules.
func readExceptions(path string, own ...string) ([]exceptions.Exception, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--exceptions: cannot read %w", app.PathError(path, err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, exceptions.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("--exceptions: cannot read %w", app.PathError(path, err))
	}
	out, err := exceptions.Parse(b, own...)
	if err != nil {
		return nil, fmt.Errorf("--exceptions: %w", app.MisplacedOr(placed(path, err), path, filekind.Exceptions))
	}
	return out, nil
}

var (
	decoderLine = regexp.MustCompile(`(?m)^ *line ([0-9]+): (.*)$`)
	decoderType = regexp.MustCompile(` (in type|into) [][*]*[a-z]+\.[A-Za-z]+$`)
)

// placed is the error of a file of YAML with its path. Of what the decoder says of values it keeps the first, with its line: the decoder has one for each
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

// readBaseline reads the report that --baseline names, if any.
func readBaseline(path string) (*report.Report, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--baseline: cannot read %w", app.PathError(path, err))
	}
	defer f.Close()
	r, err := report.ReadBaseline(f)
	if err != nil {
		return nil, fmt.Errorf("--baseline: %w", app.MisplacedOr(fmt.Errorf("%s: %w", path, err), path, filekind.Report))
	}
	return r, nil
}

// compare marks what is new since the baseline, if one was given.
func (f *failOn) compare(r *report.Report) {
	if f.baseline != nil {
		r.Compare(f.baseline)
	}
}
