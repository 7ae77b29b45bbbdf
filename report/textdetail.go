package report

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/nodetrail/nodetrail/wording"
)

// trendDays is how many of the latest days of a trend are written out.
const trendDays = 14

// detail lists who would break, who has a wrong user or group and which denials persist.
func (t Text) detail(b *strings.Builder, r *Report) {
	x := &r.Readiness
	const most, needs = 10, 3
	more := func(n int, what string) {
		if n > 0 {
			fmt.Fprintf(b, "  %s\n", t.paint(dim, fmt.Sprintf("... and %s (-o json has them)", plural(int64(n), what))))
		}
	}
	if len(x.Clients) > 0 {
		fmt.Fprintf(b, "\n%s\n", t.paint(bold, "Who would break"))
	}
	for i := range x.Clients[:min(most, len(x.Clients))] {
		c := &x.Clients[i]
		fmt.Fprintf(b, "  %q by %s: %s on %s, last %s; by day: %s\n", c.UserAgent, wording.Visible(c.Binding), plural(c.Requests, "request"),
			plural(int64(c.Nodes), "node"), stamp(c.Last), perDay(c.Days))
		for j := range c.Needs[:min(needs, len(c.Needs))] {
			n := &c.Needs[j]
			fmt.Fprintf(b, "    %s on %s  %s\n", needWords(n), wording.Visible(n.Node), t.paint(dim, fmt.Sprintf("x%d, last %s", n.Count, stamp(n.Last))))
		}
		if n := len(c.Needs) - needs + c.More; n > 0 {
			fmt.Fprintf(b, "    %s\n", t.paint(dim, fmt.Sprintf("... and %s", plural(int64(n), "more kind"))))
		}
	}
	more(len(x.Clients)-most, "more client")
	if len(x.Identities) > 0 {
		fmt.Fprintf(b, "\n%s\n", t.paint(bold, "Kubelets with a wrong user or group"))
		w := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
		fmt.Fprintf(w, "  IDENTITY\tREASON\tREQUESTS\tLAST\tCLIENTS\n")
		for i := range x.Identities[:min(most, len(x.Identities))] {
			d := &x.Identities[i]
			fmt.Fprintf(w, "  %s\t%s\t%d\t%s\t%s\n", wording.Visible(d.Identity), d.Reason, d.Requests, stamp(d.Last), someOf(quoted(d.Clients), 4))
		}
		_ = w.Flush() // into memory
		more(len(x.Identities)-most, "more identity")
	}
	if len(x.Denials) > 0 {
		fmt.Fprintf(b, "\n%s\n", t.paint(bold, "Denials that persist"))
		for i := range x.Denials[:min(most, len(x.Denials))] {
			fmt.Fprintf(b, "  %s  %s\n", wording.Visible(x.Denials[i].Message), t.paint(dim, "last "+stamp(x.Denials[i].Last)))
		}
		more(len(x.Denials)-most, "more denial")
	}
}

// plan writes the steps, the last thing in the report.
func (t Text) plan(b *strings.Builder, r *Report) {
	if len(r.Readiness.Plan) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", t.paint(bold, "Plan"))
	for i, s := range r.Readiness.Plan {
		fmt.Fprintf(b, "  %d. %s.\n", i+1, s.What)
		for _, c := range s.Commands {
			fmt.Fprintf(b, "       %s\n", c)
		}
	}
}

// perDay writes the latest days of a trend.
func perDay(days []Day) string {
	var all []string
	for _, d := range days[max(0, len(days)-trendDays):] {
		all = append(all, fmt.Sprintf("%s %d", d.Day[len("2006-"):], d.Count))
	}
	if len(all) == 0 {
		return "not known"
	}
	return strings.Join(all, ", ")
}

// needWords is the request, such as "get secrets shop/db".
func needWords(n *Need) string {
	s := n.Resource
	if n.APIGroup != "" {
		s += "." + n.APIGroup
	}
	if n.Subresource != "" {
		s += "/" + n.Subresource
	}
	name := joinName(n.Namespace, n.Name)
	if n.Name == "" && n.Namespace != "" {
		name = "in " + n.Namespace
	}
	words := strings.Fields(wording.Visible(n.Verb) + " " + wording.Visible(s) + " " + wording.Visible(name))
	if len(words) == 0 {
		return "various"
	}
	return strings.Join(words, " ")
}

func quoted(all []string) []string {
	out := make([]string, 0, len(all))
	for _, s := range all {
		out = append(out, strconv.Quote(s))
	}
	return out
}
