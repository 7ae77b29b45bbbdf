package web

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/tally"
)

// maxRelated bounds FindingPage.Related, listedAtMost the findings on the pages of nodes, bindings and objects.
const (
	maxRelated   = 10
	listedAtMost = 100
)

func (d *data) findings(ctx context.Context, q FindingsQuery) (*FindingsPage, error) {
	c, err := choose(q)
	if err != nil {
		return nil, err
	}
	s, err := d.snapshot(ctx, q.Window)
	if err != nil {
		return nil, err
	}
	if !d.hasRule(s, q.Rule) {
		return nil, badQuery("rule: there is no rule %q", q.Rule)
	}
	all := c.chosen(s)
	page, next, previous := c.page(all)
	q.Limit = c.limit
	out := &FindingsPage{
		Query: q, Window: s.report.Window, Findings: listOf(page), Groups: c.groupsOf(all), Total: len(all), Next: next, Previous: previous, Facets: s.facets,
	}
	for _, f := range all {
		out.Requests += f.Count
	}
	return out, nil
}

func listOf(all []*found) []Finding {
	out := make([]Finding, len(all))
	for i, f := range all {
		out[i] = f.Finding
	}
	return out
}

func (d *data) each(ctx context.Context, q FindingsQuery, begin func(), f func(*Finding) error) error {
	q.Limit, q.Cursor = 0, ""
	c, err := choose(q)
	if err != nil {
		return err
	}
	s, err := d.snapshot(ctx, q.Window)
	if err != nil {
		return err
	}
	if !d.hasRule(s, q.Rule) {
		return badQuery("rule: there is no rule %q", q.Rule)
	}
	all := c.chosen(s)
	begin()
	for _, one := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(&one.Finding); err != nil {
			return err
		}
	}
	return nil
}

func (d *data) finding(ctx context.Context, id string) (*FindingPage, error) {
	s, err := d.snapshot(ctx, "")
	if err != nil {
		return nil, err
	}
	i, there := s.byID[id]
	if !there {
		return nil, errNotFound
	}
	f := s.all[i]
	out := &FindingPage{Paste: f.PasteException(d.o.Now()), Finding: f.Finding, Related: related(s, f)}
	rule, err := d.rule(ctx, f.Rule, "")
	switch {
	case errors.Is(err, errNotFound): // of a rule that is no more
		out.Rule = Rule{Name: f.Rule, Severity: f.Severity, Runbook: f.Runbook}
	case err != nil:
		return nil, err
	default:
		out.Rule = *rule
	}
	steps, err := d.o.Store.FindingSteps(ctx, &f.key, s.from, s.to.Add(1))
	if err != nil {
		return nil, d.unavailable(ctx, err)
	}
	out.Trend = trendOf(steps, f.First, f.Last, d.o.Step, d.o.Hourly)
	out.Explanation, out.Unexplained = d.explain(ctx, f)
	return out, nil
}

// unavailable is the error of a store that cannot be read.
func (d *data) unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(errUnavailable, err)
}

// explain explains the latest request of a finding, or says why that cannot be.
func (d *data) explain(ctx context.Context, f *found) (*explain.Explanation, string) {
	switch {
	case f.Verb == "" || f.Resource == "" && f.Name == "":
		return nil, "this finding is not about one request"
	case d.o.Live == nil:
		return nil, d.o.NoLive
	}
	x, err := d.o.Live.Explain(ctx, &f.key, f.Last)
	if err != nil {
		return nil, err.Error()
	}
	var by explain.Binding
	if f.Binding != nil {
		by = explain.Binding(*f.Binding)
	}
	x.Outcome = explain.OutcomeOf(f.Count, f.Allowed, f.Authorized, f.Answers, by)
	return x, ""
}

// related are findings of the same node, object or binding, the latest first; those that have more in common before others.
func related(s *snapshot, f *found) []Finding {
	common := func(o *found) (n int) {
		if o.Node == f.Node {
			n++
		}
		if f.Name != "" && o.Name == f.Name && o.Namespace == f.Namespace && o.Resource == f.Resource && o.APIGroup == f.APIGroup {
			n++
		}
		if f.Binding != nil && o.Binding != nil && *f.Binding == *o.Binding {
			n++
		}
		return n
	}
	var out []*found
	for _, o := range s.all {
		if o == f || common(o) == 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(out, o, func(a, b *found) int {
			return cmp.Or(cmp.Compare(common(b), common(a)), b.Last.Compare(a.Last), strings.Compare(a.ID, b.ID))
		})
		if at < maxRelated {
			out = slices.Insert(out, at, o)
			out = out[:min(len(out), maxRelated)]
		}
	}
	slices.SortStableFunc(out, func(a, b *found) int { return b.Last.Compare(a.Last) })
	return listOf(out)
}

// listed are the findings that f chooses, the most severe first, and how many they are.
func listed(s *snapshot, f func(*found) bool) ([]Finding, int) {
	var out []*found
	n := 0
	for _, one := range s.all {
		if f(one) {
			n++
			if len(out) < listedAtMost {
				out = append(out, one)
			}
		}
	}
	return listOf(out), n
}

// excessSteps makes steps of a map of seconds.
func excessSteps(of map[int64]int64) []tally.Step {
	out := make([]tally.Step, 0, len(of))
	for at, n := range of {
		out = append(out, tally.Step{At: time.Unix(at, 0).UTC(), Excess: n})
	}
	return out
}
