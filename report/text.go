package report

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/wording"
)

// WriteJSON writes the report as indented JSON with a line end.
func (r *Report) WriteJSON(w io.Writer) error {
	short, lists := *r, []wording.List(nil)
	if len(r.Incidents) > 0 {
		short.Incidents, lists = nil, append(lists, wording.ListOf("incidents", r.Incidents))
	}
	if len(r.Findings) > 0 {
		short.Findings, lists = nil, append(lists, wording.ListOf("findings", r.Findings))
	}
	if err := wording.WriteJSON(w, &short, lists...); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// Text writes the report for a person: first a screen of 24 lines with both answers, what to do next, and the worst of what stands in the way, then further
// results. With All follow the checks, the evidence, the findings and the plan.
type Text struct {
	// All adds everything that the report has. Brief leaves all out but the two answers, and for which nodes they are if not for all.
	All, Brief bool
	// Columns is the width of the terminal, or 0 where there is none: then no text is cut, and lines have 100 columns. More than 100 means 100, and less
	// than 80 means 80. What only All writes has lines of any length.
	Columns int
	// Colour turns on terminal colours.
	Colour bool
}

const (
	bold   = "1"
	red    = "31"
	yellow = "33"
	green  = "32"
	dim    = "2"
)

func (t Text) paint(code, s string) string {
	if !t.Colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// Write writes the report.
func (t Text) Write(w io.Writer, r *Report) error {
	var b strings.Builder
	if t.Brief {
		s := r.Summary()
		t.answers(&b, s.Answers, true)
		if s.Answers[0].Only != "" {
			t.remark(&b, s.Remarks[0], layout{})
		}
	} else {
		t.summary(&b, r)
		t.baseline(&b, r)
		t.exceptions(&b, r)
	}
	if t.All && !t.Brief {
		t.incidents(&b, r)
		t.notes(&b, r)
		t.checks(&b, r)
		t.detail(&b, r)
		t.evidence(&b, r)
		t.restriction(&b, r)
		t.audiences(&b, r)
		t.findings(&b, r)
		t.nodes(&b, r)
		t.plan(&b, r)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// notes are all blockers and warnings in full.
func (t Text) notes(b *strings.Builder, r *Report) {
	if len(r.Readiness.Blockers)+len(r.Readiness.Warnings) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", t.paint(bold, "Blockers and notes in full"))
	for _, x := range r.Readiness.Blockers {
		fmt.Fprintf(b, "  %s %s\n", t.paint(red, "x"), wording.Visible(x))
	}
	for _, x := range r.Readiness.Warnings {
		fmt.Fprintf(b, "  %s %s\n", t.paint(yellow, "!"), wording.Visible(x))
	}
}

func (t Text) evidence(b *strings.Builder, r *Report) {
	fmt.Fprintf(b, "\n%s\n", t.paint(bold, "Evidence"))
	w := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	if r.Window.From != nil {
		row("requests", "%s to %s", stamp(*r.Window.From), stamp(*r.Window.To))
	}
	e := r.Events
	row("events", "%d read, %d of nodes, %d skipped, %d duplicates, %d malformed", e.Read, e.Node, e.Skipped, e.Duplicates, e.Malformed)
	for _, p := range e.MalformedAt {
		row("", "%s:%d: %s", wording.Visible(p.File), p.Line, wording.Visible(p.Cause))
	}
	if len(r.State.Objects) == 0 {
		row("state", "none")
	} else {
		row("state", "%s", objects(r.State.Objects))
		if r.State.From != nil {
			row("", "%s to %s", stamp(*r.State.From), stamp(*r.State.To))
		}
	}
	a := r.Authorization
	how := "given"
	if a.Inferred {
		how = "inferred from the log"
	}
	mode := a.Mode
	if mode == "" {
		mode, how = "unknown", "the log has no annotations that tell it"
	}
	row("authorizers", "%s (%s), Kubernetes %s%s", wording.Visible(mode), how, wording.Visible(a.KubernetesVersion), gates(a.FeatureGates))
	for i, line := range a.VersionLines() {
		row([]string{"version", ""}[min(i, 1)], "%s", wording.Visible(line))
	}
	if a.Skew != nil {
		row("skew", "%s", a.Skew.Words())
	}
	v := r.Verdicts
	row("verdicts", "%d allow, %d deny, %d unknown; races: %d allow, %d deny", v.Allow, v.Deny, v.Unknown, v.Races.Allow, v.Races.Deny)
	g := r.Agreement
	if g.Compared+g.Races.Compared == 0 {
		row("agreement", "the annotations say nothing about the Node authorizer: nothing to compare with")
	} else {
		row("agreement", "%d of %d with the API server (%s); in races %d of %d; reasons %d of %d", g.Agree, g.Compared,
			wording.Percent(g.Agree, g.Compared), g.Races.Agree, g.Races.Compared, g.Reasons.Equal, g.Reasons.Compared)
	}
	if n := ambient(r.Ambient); n > 0 {
		row("ambient", "%s of nodes by bindings for all authenticated users (not counted against them)", plural(n, "request"))
	}
	if d := r.ApiserverLog; d != nil {
		row("apiserver log", "%s", d.Words())
	}
	_ = w.Flush() // into memory
	t.unmatched(b, r.ApiserverLog)
	const most = 10
	for i, d := range g.Disagree {
		if i == most {
			fmt.Fprintf(b, "  %s\n", t.paint(dim, fmt.Sprintf("... and %d more disagreements", len(g.Disagree)-most+int(g.DisagreeMore))))
			break
		}
		fmt.Fprintf(b, "  %s %s %s %s %s by %s: nodetrail %s, API server %s (auditID %s)\n", t.paint(yellow, "!"), stamp(d.Time), wording.Visible(d.Verb),
			wording.Visible(d.Resource), wording.Visible(joinName(d.Namespace, d.Name)), wording.Visible(d.Node), d.Verdict, d.Observed, wording.Visible(d.AuditID))
	}
}

// findings lists the groups by rule, the worst rule first, and of each rule the worst and most frequent first.
func (t Text) findings(b *strings.Builder, r *Report) {
	fmt.Fprintf(b, "\n%s\n", t.paint(bold, "Findings"))
	listed := "none"
	if n := len(r.Findings); n > 0 {
		listed = plural(int64(n), "finding")
	}
	if r.FindingsHidden > 0 {
		listed = wording.FindingsHidden(listed, int64(r.FindingsHidden))
	}
	if len(r.Findings) == 0 || r.FindingsHidden > 0 {
		fmt.Fprintf(b, "  %s\n", listed)
	}
	var order []string
	byRule := map[string][]*Finding{}
	for i := range r.Findings {
		f := &r.Findings[i]
		if byRule[f.Rule] == nil {
			order = append(order, f.Rule)
		}
		byRule[f.Rule] = append(byRule[f.Rule], f)
	}
	for _, rule := range order {
		all := byRule[rule]
		var requests int64
		nodes := map[string]bool{}
		for _, f := range all {
			requests += f.Count
			nodes[f.Node] = true
		}
		worst := all[0].Severity
		of := fmt.Sprintf("%s of %s", plural(requests, "request"), plural(int64(len(nodes)), "identity"))
		if slices.Contains(overTime(), rule) {
			of = fmt.Sprintf("found %s in %s", plural(requests, "time"), plural(int64(len(all)), "group"))
		}
		fmt.Fprintf(b, "  %s %s: %s, see %s\n", t.paint(severityColour(worst), fmt.Sprintf("%-8s", worst)), t.paint(bold, rule), of, all[0].Runbook)
		for _, f := range all {
			client := fmt.Sprintf("client %q, ", f.UserAgent)
			if f.UserAgent == "" && slices.Contains(overTime(), rule) {
				client = ""
			}
			fmt.Fprintf(b, "           %s  %s\n", wording.Visible(f.Message), t.paint(dim, fmt.Sprintf("x%d, %slast %s", f.Count, client, stamp(f.Last))))
			for _, line := range f.Origin() {
				fmt.Fprintf(b, "             %s\n", t.paint(dim, line))
			}
		}
	}
}

// overTime are the rules whose findings are not of single requests.
func overTime() []string {
	return []string{"node-deny-spike", "persistent-node-deny", "secret-enumeration", rules.CoverageGap}
}

func severityColour(s string) string {
	switch s {
	case "critical", "high":
		return red
	case "medium":
		return yellow
	}
	return dim
}

func (t Text) nodes(b *strings.Builder, r *Report) {
	if len(r.Nodes) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", t.paint(bold, "Nodes"))
	w := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "  NODE\tREQUESTS\tDENY\tNEEDS RBAC\n")
	nodes := append([]Node{}, r.Nodes...)
	sort.SliceStable(nodes, func(i, j int) bool {
		if nodes[i].Excess != nodes[j].Excess {
			return nodes[i].Excess > nodes[j].Excess
		}
		return nodes[i].Deny > nodes[j].Deny
	})
	const most = 20
	for i, n := range nodes {
		if i == most {
			break
		}
		fmt.Fprintf(w, "  %s\t%d\t%d\t%d\n", wording.Visible(n.Name), n.Requests, n.Deny, n.Excess)
	}
	_ = w.Flush() // into memory
	if len(nodes) > most {
		fmt.Fprintf(b, "  %s\n", t.paint(dim, fmt.Sprintf("... and %s", plural(int64(len(nodes)-most), "more node"))))
	}
}

func ambient(all []Ambient) (n int64) {
	for i := range all {
		n += all[i].Count
	}
	return n
}

func stamp(t time.Time) string { return wording.Stamp(t) }

func objects(m map[string]int) string {
	kinds := make([]string, 0, len(m))
	for k := range m {
		kinds = append(kinds, k)
	}
	sort.Strings(kinds)
	for i, k := range kinds {
		kinds[i] = fmt.Sprintf("%s %d", wording.Visible(k), m[k])
	}
	return strings.Join(kinds, ", ")
}

func gates(m map[string]bool) string {
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	sort.Strings(names)
	s := ""
	for _, k := range names {
		s += fmt.Sprintf(", %s=%t", wording.Visible(k), m[k])
	}
	return s
}
