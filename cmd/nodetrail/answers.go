package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/exceptions"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// answerFlags are the flags by which a report is judged: who answers for what, what was known before, and what fails.
type answerFlags struct {
	waive, except, baseline, failOn string
	fail                            report.FailOn
	before                          *report.Report
}

func (f *answerFlags) flags(fs *pflag.FlagSet) {
	fs.StringVar(&f.waive, "waive", "", "a `FILE` of waivers: who accepts the risk of unproven checks")
	fs.StringVar(&f.except, "exceptions", "", "a `FILE` of exceptions: --fail-on ignores these findings, and the report still lists them")
	fs.StringVar(&f.baseline, "baseline", "",
		"a `FILE` with a report as JSON: --fail-on looks only at findings that it does not have, and the report says what is new and what is gone")
	fs.StringVar(&f.failOn, "fail-on", "", "exit 2 if one of these applies, as a list: a finding is at least low, medium, high or critical; not-ready, the answer "+
		"is not ready; not-confined, the answer is not confined")
	fs.BoolVar(&f.fail.AcceptWaivers, "accept-waivers", false, "--fail-on not-ready and not-confined accept an answer that rests on waivers")
}

// files are those that the flags name.
func (f *answerFlags) files() []string { return []string{f.waive, f.except, f.baseline} }

// read understands the flags and reads the files that they name. own are the names of the user's own rules.
func (f *answerFlags) read(own ...string) (waivers []checks.Waiver, excepted []exceptions.Exception, err error) {
	if err := f.fail.Parse(f.failOn); err != nil {
		return nil, nil, fmt.Errorf("--fail-on: %w", err)
	}
	if waivers, err = app.ReadWaivers(f.waive); err != nil {
		return nil, nil, fmt.Errorf("--waive: %w", err)
	}
	if excepted, err = app.ReadExceptions(f.except, own...); err != nil {
		return nil, nil, fmt.Errorf("--exceptions: %w", err)
	}
	if f.before, err = app.ReadBaseline(f.baseline); err != nil {
		return nil, nil, fmt.Errorf("--baseline: %w", err)
	}
	return waivers, excepted, nil
}

// compare marks what is new since the baseline, if one was given.
func (f *answerFlags) compare(r *report.Report) {
	if f.before != nil {
		r.Compare(f.before)
	}
}

// check is the error of a report that fails, errFindings, with all that makes it fail. found says of findings that are severe enough how many there are and
// how severe.
func (f *answerFlags) check(r *report.Report, found func() string) error {
	var errs []error
	if n, _ := r.Failing(f.fail.Severity); f.fail.Severity != rules.None && n > 0 {
		errs = append(errs, fmt.Errorf("%w %s: %s", errFindings, f.fail.Severity, found()))
	}
	if f.fail.NotReady && !r.Readiness.Good(f.fail.AcceptWaivers) {
		errs = append(errs, answerError("--fail-on not-ready: the answer is: "+r.Readiness.Verdict))
	}
	if f.fail.NotConfined && !r.Confinement.Good(f.fail.AcceptWaivers) {
		errs = append(errs, answerError("--fail-on not-confined: the answer is: "+r.Confinement.Verdict))
	}
	return errors.Join(errs...)
}

// answerError is a sentence that ends a command with exitFindings.
type answerError string

func (s answerError) Error() string        { return string(s) }
func (s answerError) Is(target error) bool { return target == errFindings }
