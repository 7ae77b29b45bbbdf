package main

import (
	"fmt"
	"io"
	"os"

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
		return nil, fmt.Errorf("--exceptions: %w", app.MisplacedOr(fmt.Errorf("%s: %w", path, err), path, filekind.Exceptions))
	}
	return out, nil
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
