package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/nodetrail/nodetrail/wording"
)

// WriteMarkdown writes the summary and the plan as GitHub-flavoured Markdown, for an issue or a change request; with all also the checks, what would
// break, and the evidence. Names from logs are text: nothing in them is markup.
func (r *Report) WriteMarkdown(w io.Writer, all bool) error {
	var b strings.Builder
	x := &r.Readiness
	of := ""
	if r.Cluster != "" {
		of = " in " + mark(r.Cluster)
	}
	both := r.Questions()
	fmt.Fprintf(&b, "# %s\n\nCan I delete the RBAC bindings for nodes%s? %s.", both[0].Head(), of, capital(both[0].Means()))
	if r.Window.From != nil {
		fmt.Fprintf(&b, " Requests from %s to %s.", stamp(*r.Window.From), stamp(*r.Window.To))
	}
	fmt.Fprintf(&b, "\n\nIs a stolen kubelet credential confined to its node? **%s**: %s.\n", both[1].Head(), both[1].Means())
	r.markSummary(&b)
	if all {
		r.markAll(&b)
	}
	if len(x.Plan) > 0 {
		b.WriteString("\n## Plan\n")
	}
	for i, s := range x.Plan {
		fmt.Fprintf(&b, "\n%d. %s.\n", i+1, mark(s.What))
		if len(s.Commands) > 0 {
			// A command begins with a word, so that none can end the fence.
			fmt.Fprintf(&b, "\n   ```sh\n   %s\n   ```\n", strings.Join(s.Commands, "\n   "))
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// markSummary writes what stands in the way and what to do next.
func (r *Report) markSummary(b *strings.Builder) {
	s := r.Summary()
	for _, remark := range s.Remarks {
		fmt.Fprintf(b, "\n%s\n", mark(remark))
	}
	points := func(title, one string, all []Point, before int) {
		if len(all) == 0 {
			return
		}
		fmt.Fprintf(b, "\n## %s\n\n", title)
		for i := range all[:min(topOf, len(all))] {
			p := &all[i]
			fmt.Fprintf(b, "%d. **%s**", before+i+1, mark(p.What))
			if p.Count != "" {
				fmt.Fprintf(b, " (%s, last %s)", p.Count, stamp(p.Last))
			}
			if p.Detail != "" {
				fmt.Fprintf(b, ": %s", mark(p.Detail))
			}
			fmt.Fprintf(b, ". Next: %s\n", mark(p.Next))
		}
		if n := len(all) - topOf; n > 0 {
			fmt.Fprintf(b, "\nAnd %s (`--all`).\n", plural(int64(n), "more "+one))
		}
	}
	points("Blockers", "blocker", s.Blockers, 0)
	points("Gaps", "gap", s.Gaps, len(s.Blockers))
	b.WriteString("\n## Results\n\n")
	for _, line := range s.Lines {
		fmt.Fprintf(b, "- %s: %s\n", line.Name, mark(line.Text))
	}
	if len(r.Exceptions) > 0 {
		fmt.Fprintf(b, "- Exceptions: %s\n", r.ExceptedCounts())
		for i := range r.Exceptions[:min(topOf, len(r.Exceptions))] {
			fmt.Fprintf(b, "  - %s\n", mark(r.Exceptions[i].Say()))
		}
		if n := len(r.Exceptions) - topOf; n > 0 {
			fmt.Fprintf(b, "  - and %s (`-o json`)\n", plural(int64(n), "more exception"))
		}
	}
	if s.Notes > 0 {
		fmt.Fprintf(b, "- Notes: %s (`--all`)\n", plural(int64(s.Notes), "harmless note"))
	}
	fmt.Fprintf(b, "- %s\n", wording.Pages)
}

// topOf is how many of many things Markdown and HTML list unless everything is asked for.
const topOf = 20

// markFindings is how many findings Markdown lists of all: a change request has room for so much.
const markFindings = 50

// markAll writes the checks, what would break, and the evidence.
func (r *Report) markAll(b *strings.Builder) {
	x := &r.Readiness
	list := func(title string, items []string) {
		if len(items) == 0 {
			return
		}
		fmt.Fprintf(b, "\n## %s\n\n", title)
		for _, s := range items {
			fmt.Fprintf(b, "- %s\n", mark(s))
		}
	}
	table := func(title string, head ...string) func(...any) {
		fmt.Fprintf(b, "\n## %s\n\n| %s |\n|%s\n", title, strings.Join(head, " | "), strings.Repeat("---|", len(head)))
		return func(cells ...any) {
			b.WriteString("|")
			for _, c := range cells {
				fmt.Fprintf(b, " %s |", mark(fmt.Sprint(c)))
			}
			b.WriteString("\n")
		}
	}
	for _, q := range r.Questions() {
		row := table(q.Title, "Check", "State", "Expected", "Seen", "What is wrong", "Next step")
		for i := range q.Checks {
			c := &q.Checks[i]
			row(c.Name, c.State, c.Expected, c.Seen, c.wrong(), c.Next)
		}
	}
	var waived []string
	for i := range r.Waivers {
		waived = append(waived, r.Waivers[i].Check+" "+r.Waivers[i].say())
	}
	list("Waivers", waived)
	if r.Paste != "" {
		fmt.Fprintf(b, "\n## Waivers for what is unproven\n\n    %s\n", strings.ReplaceAll(strings.TrimSpace(wording.VisibleLines(r.Paste)), "\n", "\n    "))
	}
	list("Blockers in full", x.Blockers)
	var holes []string
	for _, h := range x.Holes {
		holes = append(holes, h.Message)
	}
	list("Gaps in the evidence", holes)
	list("Further warnings", x.OtherWarnings())
	if len(x.Clients) > 0 {
		row := table("Who would break", "Client", "Binding", "Requests", "Nodes", "Last seen", "By day")
		for i := range x.Clients {
			c := &x.Clients[i]
			row(c.UserAgent, c.Binding, c.Requests, c.Nodes, stamp(c.Last), perDay(c.Days))
		}
		row = table("What they need", "Client", "Node", "Request", "Count", "Last seen")
		for i := range x.Clients {
			c := &x.Clients[i]
			for j := range c.Needs[:min(planNames, len(c.Needs))] {
				n := &c.Needs[j]
				row(c.UserAgent, n.Node, needWords(n), n.Count, stamp(n.Last))
			}
			if n := len(c.Needs) - planNames + c.More; n > 0 {
				row(c.UserAgent, "", "and "+plural(int64(n), "more kind"), "", "")
			}
		}
	}
	if len(x.Identities) > 0 {
		row := table("Kubelets with a wrong user or group", "Identity", "Reason", "Requests", "Last seen", "Clients", "What is wrong")
		for i := range x.Identities {
			d := &x.Identities[i]
			row(d.Identity, d.Reason, d.Requests, stamp(d.Last), someOf(d.Clients, planNames), d.Message)
		}
	}
	if len(x.Denials) > 0 {
		row := table("Denials that persist", "Node", "Client", "What", "First", "Last")
		for i := range x.Denials {
			d := &x.Denials[i]
			row(d.Node, d.UserAgent, d.Message, stamp(d.First), stamp(d.Last))
		}
	}
	r.markEvidence(table("Evidence", "", ""))
	if len(r.Findings) > 0 {
		row := table("Findings", "Severity", "Rule", "What", "Count", "Who", "From", "Answer", "Audit IDs", "Last seen")
		for i := range r.Findings[:min(markFindings, len(r.Findings))] {
			f := &r.Findings[i]
			cells := f.originCells()
			row(f.Severity, f.Rule, f.Message, f.Count, cells[0], cells[1], cells[2], cells[3], stamp(f.Last))
		}
		if n := len(r.Findings) - markFindings; n > 0 {
			fmt.Fprintf(b, "\nAnd %s (`-o json`).\n", plural(int64(n), "more finding"))
		}
	}
	if n := &r.NodeRestriction; len(n.Writes) > 0 {
		row := table("NodeRestriction", "Writes of nodes", "Count", "")
		row("all", "", n.Sum())
		for i := range n.Writes {
			row(n.Writes[i].Kind(), n.Writes[i].Count, n.Writes[i].Why())
		}
	}
	list("Audiences of service account tokens", r.TokenAudiences.Lines())
}

func (r *Report) markEvidence(row func(...any)) {
	e, v, g := &r.Events, &r.Verdicts, &r.Agreement
	row("events", fmt.Sprintf("%d read, %d of nodes, %d skipped, %d duplicates, %d malformed", e.Read, e.Node, e.Skipped, e.Duplicates, e.Malformed))
	held := objects(r.State.Objects)
	if held == "" {
		held = "none"
	}
	row("state", held)
	mode := r.Authorization.Mode
	if mode == "" {
		mode = "unknown"
	}
	row("authorizers", fmt.Sprintf("%s, Kubernetes %s", mode, r.Authorization.KubernetesVersion))
	for _, line := range r.Authorization.VersionLines() {
		row("version", line)
	}
	if s := r.Authorization.Skew; s != nil {
		row("skew", s.Words())
	}
	row("verdicts", fmt.Sprintf("%d allow, %d deny, %d unknown; races: %d allow, %d deny", v.Allow, v.Deny, v.Unknown, v.Races.Allow, v.Races.Deny))
	row("agreement with the API server", fmt.Sprintf("%d of %d; in races %d of %d", g.Agree, g.Compared, g.Races.Agree, g.Races.Compared))
	row("nodes seen", len(r.Nodes))
	if n := len(r.Readiness.Unseen); n > 0 {
		row("nodes not seen", someOf(r.Readiness.Unseen, planNames))
	}
}

// capital begins a sentence.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// OtherWarnings are the warnings that are no gaps, in words.
func (x *Readiness) OtherWarnings() []string {
	var out []string
	for i := range x.Doubts {
		if !x.Doubts[i].Decides() {
			out = append(out, x.Doubts[i].Message)
		}
	}
	return out
}

// mark makes text of anything: what Markdown or HTML would take as markup is escaped, and an address is not made a link.
func mark(s string) string {
	var b strings.Builder
	for _, r := range wording.Visible(s) {
		switch {
		case r == '<':
			b.WriteString("&lt;")
			continue
		case r == '&':
			b.WriteString("&amp;")
			continue
		case r == '@':
			b.WriteString("&#64;") // nobody is to be notified
			continue
		case strings.ContainsRune("\\`*_{}[]>#|~!$", r):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return strings.NewReplacer("://", ":&#47;&#47;", "www.", "www&#46;").Replace(b.String())
}
