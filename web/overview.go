package web

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// data fills views from the store and the live state.
type data struct {
	o     *Options
	cache *cache
}

func newData(o *Options) *data { return &data{o: o, cache: newCache(o)} }

// topNodes is how many nodes the overview has.
const topNodes = 20

func (d *data) snapshot(ctx context.Context, window string) (*snapshot, error) {
	length, err := parseWindow(window)
	if err != nil {
		return nil, err
	}
	return d.cache.get(ctx, length)
}

func (d *data) trend(s *snapshot, steps []tally.Step) Trend {
	return trendOf(steps, s.from, s.to, d.o.Step, d.o.Hourly)
}

func (d *data) overview(ctx context.Context, window string) (*Overview, error) {
	s, err := d.snapshot(ctx, window)
	if err != nil {
		return nil, err
	}
	r := s.report
	out := &Overview{
		Cluster: r.Cluster, Now: d.o.Now().UTC(), Window: r.Window, Asked: window, Readiness: r.Readiness, Confinement: r.Confinement, Authorization: r.Authorization,
		Events: r.Events, State: r.State, Verdicts: r.Verdicts, Agreement: r.Agreement, Trend: d.trend(s, s.steps), Incidents: openIncidents(r),
		Severities: s.facets.Severities, Rules: slices.Clone(s.facets.Rules), NodeCount: len(r.Nodes), Nodes: []report.Node{}, Sources: []Source{},
	}
	place := func(name string) int {
		return slices.IndexFunc(rules.All(), func(r *rules.Rule) bool { return r.Name == name })
	}
	slices.SortFunc(out.Rules, func(a, b Count) int {
		pa, pb := place(a.Name), place(b.Name)
		var sa, sb rules.Severity
		if pa >= 0 {
			sa = rules.All()[pa].Severity
		}
		if pb >= 0 {
			sb = rules.All()[pb].Severity
		}
		return cmp.Or(cmp.Compare(sb, sa), cmp.Compare(pa, pb), strings.Compare(a.Name, b.Name))
	})
	nodes := byTrouble(r.Nodes)
	out.Nodes = append(out.Nodes, nodes[:min(len(nodes), topNodes)]...)
	if d.o.Sources != nil {
		out.Sources = append(out.Sources, d.o.Sources()...)
	}
	return out, nil
}

// byTrouble puts nodes with most access that needs RBAC first, then denials, then requests.
func byTrouble(nodes []report.Node) []report.Node {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b report.Node) int { return compareNodes(&a, &b) })
	return nodes
}

func compareNodes(a, b *report.Node) int {
	return cmp.Or(cmp.Compare(b.Excess, a.Excess), cmp.Compare(b.Deny, a.Deny), cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Name, b.Name))
}

func (d *data) report(ctx context.Context, window string) (*report.Report, error) {
	s, err := d.snapshot(ctx, window)
	if err != nil {
		return nil, err
	}
	return s.report, nil
}

func (d *data) checks(ctx context.Context, window string) (*ChecksPage, error) {
	s, err := d.snapshot(ctx, window)
	if err != nil {
		return nil, err
	}
	r := s.report
	return &ChecksPage{Window: r.Window, Questions: r.Questions(), Waivers: r.Waivers, Exceptions: r.Exceptions, Paste: r.Paste}, nil
}

func (d *data) check(ctx context.Context, name, window string) (*CheckPage, error) {
	s, err := d.snapshot(ctx, window)
	if err != nil {
		return nil, err
	}
	all := checks.All()
	i := slices.IndexFunc(all, func(c checks.Check) bool { return c.Name == name })
	if i < 0 {
		return nil, errNotFound
	}
	for _, q := range s.report.Questions() {
		if j := slices.IndexFunc(q.Checks, func(c report.Check) bool { return c.Name == name }); j >= 0 {
			_, doc, _ := strings.Cut(checks.Page(&all[i]), "\n")
			return &CheckPage{Check: q.Checks[j], Title: all[i].Title(), Doc: doc, Window: s.report.Window}, nil
		}
	}
	return nil, errNotFound
}

func (d *data) rules(ctx context.Context, window string) ([]Rule, error) {
	s, err := d.snapshot(ctx, window)
	if err != nil {
		return nil, err
	}
	disabled := s.facts.Disabled
	if d.o.Disabled != nil {
		disabled = d.o.Disabled()
	}
	out := []Rule{}
	at := map[string]int{}
	for _, r := range append(rules.All(), d.own(s)...) {
		at[r.Name] = len(out)
		out = append(out, Rule{
			Name: r.Name, Severity: r.Severity.String(), Doc: pageOf(r), Todo: section(r.Doc, "What to do"), Runbook: r.Runbook(),
			Enabled: !slices.Contains(disabled, r.Name), title: r.Title(),
		})
	}
	for _, f := range s.all {
		if j, there := at[f.Rule]; there {
			out[j].Findings++
			out[j].Requests += f.Count
		}
	}
	return out, nil
}

// own are the rules that the user wrote, and those that only the findings tell of: the store is filled by another process, or the rule is gone.
func (d *data) own(s *snapshot) []*rules.Rule {
	var out []*rules.Rule
	had := map[string]bool{}
	if d.o.Own != nil {
		out = slices.Clone(d.o.Own())
	}
	for _, r := range out {
		had[r.Name] = true
	}
	for _, f := range s.all {
		if name := f.Rule; !rules.BuiltIn(name) && !had[name] {
			had[name] = true
			out = append(out, &rules.Rule{Name: name, Severity: f.severity, Reasons: rules.OwnReasons(), Doc: "A rule of this cluster's own"})
		}
	}
	return out
}

// hasRule reports whether there is a rule of the name; "" is any.
func (d *data) hasRule(s *snapshot, name string) bool {
	return name == "" || rules.BuiltIn(name) || slices.ContainsFunc(d.own(s), func(r *rules.Rule) bool { return r.Name == name })
}

// builtInPages are the pages of nodetrail's own rules, by name. They are the same for every request.
var builtInPages = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for _, r := range rules.All() {
		out[r.Name] = written(r)
	}
	return out
})

// pageOf is the rule's page as Markdown, without the note for who edits it.
func pageOf(r *rules.Rule) string {
	if rules.BuiltIn(r.Name) {
		return builtInPages()[r.Name]
	}
	return written(r)
}

func written(r *rules.Rule) string {
	_, text, _ := strings.Cut(rules.Page(r), "\n\n")
	return text
}

// section is the text under a heading of a rule's Doc.
func section(doc, heading string) string {
	_, after, found := strings.Cut(doc, "\n## "+heading+"\n")
	if !found {
		return ""
	}
	text, _, _ := strings.Cut(after, "\n## ")
	return strings.TrimSpace(text)
}

func (d *data) rule(ctx context.Context, name, window string) (*Rule, error) {
	all, err := d.rules(ctx, window)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(r Rule) bool { return r.Name == name })
	if i < 0 {
		return nil, errNotFound
	}
	return &all[i], nil
}

// optional is nil for the zero time.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
