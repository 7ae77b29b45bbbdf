// Package analyzed puts scenarios through app.Analyze.
//
// What goes in: a scenario. What comes out: its verdicts, and the report. It is apart from package scenario because the tests of what app imports
// read the corpus, too. It imports app, internal/test/scenario, pipeline and report; nothing but tests imports it.
package analyzed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/internal/test/scenario"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/tally"
)

// Outcome is what came of a scenario.
type Outcome struct {
	// Entries are what the report counts; with the Facts they are what it is made of.
	Entries []tally.Entry
	Facts   report.Facts

	// Verdicts are collapsed, in the order of judgement, of nodes and of others that a rule flagged.
	Verdicts []scenario.Verdict
	Report   *report.Report
}

// Run analyzes a scenario.
func Run(ctx context.Context, s *scenario.Scenario) (*Outcome, error) {
	var verdicts []scenario.Verdict
	var entries []tally.Entry
	o := app.AnalyzeOptions{
		Authorization: app.Authorization{
			Skew: s.Flags.Skew, AuthorizationMode: s.Flags.Mode,
		},
		Input:   app.Input{Logs: []string{"-"}, Stdin: bytes.NewReader(s.Log), NoBodies: !s.Flags.StateFromAudit},
		Counted: func(e *tally.Entry) { entries = append(entries, e.Own()) },
		Each: func(j *pipeline.Judgement) error {
			if j.IsNode || len(j.Findings) > 0 {
				verdicts = append(verdicts, scenario.VerdictOf(j))
			}
			return nil
		},
	}
	if f := &s.Flags.Features; f.Minor > 0 {
		o.KubernetesVersion, o.FeatureGates = f.Version(), f.NonDefault()
	}
	if s.State != nil {
		var err error
		if o.Loaded, err = s.Cluster(); err != nil {
			return nil, err
		}
	}
	a, err := app.Analyze(ctx, o)
	if err == nil {
		err = errors.Join(a.Log.Errors...)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Path, err)
	}
	return &Outcome{Entries: entries, Facts: a.Facts, Verdicts: scenario.Collapse(verdicts), Report: a.Report}, nil
}

// Summarize writes in short what of a report scenarios expect.
func Summarize(r *report.Report) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	e, v, a, m := r.Events, r.Verdicts, r.Agreement, r.Authorization
	how := "given"
	if m.Inferred {
		how = "inferred"
	}
	add("mode: %q %s", m.Mode, how)
	add("events: read %d, node %d, judged %d, duplicates %d, malformed %d, skipped %d", e.Read, e.Node, e.Judged, e.Duplicates, e.Malformed, e.Skipped)
	add("verdicts: allow %d, deny %d, unknown %d; races: allow %d, deny %d", v.Allow, v.Deny, v.Unknown, v.Races.Allow, v.Races.Deny)
	add("agreement: %d of %d, races %d of %d, reasons %d of %d", a.Agree, a.Compared, a.Races.Agree, a.Races.Compared, a.Reasons.Equal, a.Reasons.Compared)
	for _, state := range []string{"failed", "passed"} { // the others are unproven
		var names []string
		for _, c := range slices.Concat(r.Readiness.Checks, r.Confinement.Checks) {
			if c.State == state && !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
		}
		if len(names) > 0 {
			add("%s: %s", state, strings.Join(names, ", "))
		}
	}
	if w := r.Worst().String(); w != "" {
		add("worst: %s", w)
	}
	const most = 12 // of a storm's findings all are alike
	for i := range r.Findings {
		f := &r.Findings[i]
		if i == most {
			add("finding: and %d more", len(r.Findings)-most)
			break
		}
		add("finding: %s %s x%d: %s", f.Severity, f.Rule, f.Count, f.Message)
	}
	for _, b := range r.Readiness.Blockers {
		add("blocker: %s", b)
	}
	for _, w := range r.Readiness.Warnings {
		add("warning: %s", w)
	}
	return out
}
