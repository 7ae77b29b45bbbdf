package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/file"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// Outcome is what came of a scenario.
type Outcome struct {
	// Verdicts are collapsed, in the order of judgement, of nodes and of others that a rule flagged.
	Verdicts []Verdict
	Report   *report.Report
}

// Run puts a scenario through the parts of analyze: it reads the log, learns state from it, judges, checks the rules and reports.
func Run(ctx context.Context, s *Scenario) (*Outcome, error) {
	state, err := s.Cluster()
	if err != nil {
		return nil, err
	}
	mode, err := pipeline.ParseMode(s.Flags.Mode)
	if err != nil {
		return nil, fmt.Errorf("%s: authorization-mode: %w", s.Path, err)
	}
	auth := nodeauthz.NewAuthorizer(state.Graph, s.Flags.Features, s.Flags.Skew)
	judge := &pipeline.Judge{
		Node: auth, RBAC: state.RBAC, State: pipeline.NewView(state, auth), Rules: rules.All(), Memory: rules.NewMemory(), Mode: mode,
	}
	var sink pipeline.StateSink
	if s.Flags.StateFromAudit {
		sink = state
	}
	b := report.NewBuilder()
	var verdicts []Verdict
	detectors := rules.NewDetectors(judge.Rules, rules.DetectorOptions{})
	stream := pipeline.NewStream(judge, sink, pipeline.Options{Skew: s.Flags.Skew}, func(j *pipeline.Judgement) error {
		b.Add(j)
		detectors.Observe(&j.Request, judge.State)
		if j.IsNode || len(j.Findings) > 0 {
			verdicts = append(verdicts, VerdictOf(j))
		}
		return nil
	})
	inputs, err := file.Expand([]string{"-"}, bytes.NewReader(s.Log))
	if err != nil {
		return nil, fmt.Errorf("%s: the log: %w", s.Path, err)
	}
	res, err := file.Read(ctx, inputs, file.Options{Want: audit.Want{State: s.Flags.StateFromAudit}}, func(in file.Batch) error {
		return stream.Batch(&pipeline.Batch{Events: in.Events, Release: in.Release})
	})
	if err == nil {
		err = errors.Join(res.Errors...)
	}
	if err == nil {
		err = stream.Flush()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the log: %w", s.Path, err)
	}
	detectors.Flush(judge.State, func(d *rules.Detection) {
		entry := pipeline.DetectionEntry(d)
		b.AddEntry(&entry)
	})
	return &Outcome{Verdicts: Collapse(verdicts), Report: b.Report(s.facts(res, stream.Counts(), state, mode))}, nil
}

// facts are what analyze tells a report besides its judgements.
func (s *Scenario) facts(res *file.Result, counts pipeline.Counts, state *cluster.State, mode *pipeline.Mode) report.Facts {
	sum := state.Summary()
	return report.Facts{
		Events: report.Events{
			Read: res.Counts.Read, Node: counts.Node, Judged: counts.Judged, Duplicates: counts.Duplicates,
			Malformed: res.Counts.Malformed, Skipped: res.Counts.Skipped + counts.OutOfWindow,
		},
		State: report.State{Objects: sum.Objects, Warnings: append(state.Warnings(res.First, res.Last), sum.Places...)},
		Authorization: report.Authorization{
			Mode: mode.String(), Inferred: mode.Inferred(), KubernetesVersion: s.Flags.Features.Version(), FeatureGates: s.Flags.Features.NonDefault(),
		},
		HasState: s.State != nil, Holes: state.Holes(res.First, res.Last),
	}
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
	add("ready: %t, evidence %s", r.Readiness.Ready, r.Readiness.Evidence)
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
