package app

import (
	"fmt"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/wording"
)

// Notices are sentences about the analysis that whoever asked for it should read next to the report.
func (a *Analysis) Notices() (out []string) {
	for i := range a.Report.Findings {
		if x := &a.Report.Findings[i]; x.Reason == rules.OwnFailed || x.Reason == rules.OwnCostly {
			out = append(out, fmt.Sprintf("rule %s, %d times: %s", x.Rule, x.Count, wording.Visible(x.Message)))
		}
	}
	for _, name := range a.Unkept {
		out = append(out, wording.CannotKeep(name))
	}
	if emptyWindow(a.Counts) {
		out = append(out, wording.NothingInWindow(a.Log.First, a.Log.Last))
	} else if a.Counts.Later > 0 {
		out = append(out, wording.Continues(a.Counts.Later, a.Log.Last))
	}
	if a.Clocks.several() {
		out = append(out, wording.ClocksApart(a.Clocks.Requests, a.Clocks.Most, a.Clocks.Skew()))
	} else if a.Clocks.few() && checks.StateIn(a.Facts.Checks, "agreement") == checks.Failed {
		out = append(out, wording.ClocksMayBeApart(a.Clocks.Requests, a.Clocks.Most, a.Clocks.Skew()))
	}
	return append(out, a.disorder()...)
}

// disorder says which inputs are not in the order of time, if requests of nodes were left out for that. What goes from the newest event to the oldest is an error.
func (a *Analysis) disorder() (out []string) {
	if a.LeftOut == 0 {
		return nil
	}
	for i := range a.Log.Reversals {
		if r := &a.Log.Reversals[i]; r.From.Sub(r.To) > rules.DefaultLateness {
			out = append(out, wording.GoesBack(r.Input, r.From, r.To))
		}
	}
	if len(out) > 0 || len(a.Log.Errors) == 0 {
		out = append(out, wording.LeftOut(a.LeftOut))
	}
	return out
}
