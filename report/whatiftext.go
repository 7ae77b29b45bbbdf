package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/wording"
)

// WriteWhatIf writes a what-if report for a person: the answer, what it rests on, and the requests, those of all nodes together.
func (t Text) WriteWhatIf(w io.Writer, r *WhatIfReport) error {
	var b strings.Builder
	t.whatIfHead(&b, r)
	for _, x := range r.Warnings {
		fmt.Fprintf(&b, "  %s %s\n", t.paint(yellow, "!"), wording.Visible(x))
	}
	t.whatIfEvidence(&b, r)
	for _, s := range []struct{ outcome, title, say string }{
		{"breaks", "Breaks", "passed, and would be refused"},
		{"unknown", "Not known", "passed, and state is missing to tell"},
		{"fruitless", "Refused, but failed anyway", "admission refused them (403), or a kubelet asked for what was not there (404); they would be refused before"},
		{"race", "Races", "refused or not by how far the API server's graph is at that moment, as with any kubelet"},
		{"gained", "Newly allowed", "were refused and would pass"},
		{"rbac", "Still allowed by RBAC", "pass by a binding that stays or is added"},
	} {
		t.outcome(&b, r, s.outcome, s.title, s.say)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

func (t Text) whatIfHead(b *strings.Builder, r *WhatIfReport) {
	n := &r.Requests
	switch {
	case n.Breaks > 0:
		clients, nodes := map[string]bool{}, map[string]bool{}
		for i := range r.Groups {
			if g := &r.Groups[i]; g.Outcome == "breaks" {
				clients[g.Client], nodes[cmp.Or(g.Node, g.User)] = true, true
			}
		}
		fmt.Fprintf(b, "%s  %s of %s by %s would be refused\n", t.paint(bold+";"+red, "BREAKS"), plural(n.Breaks, "request"),
			plural(int64(len(clients)), "client"), plural(int64(len(nodes)), "identity"))
	case r.Evidence != "sufficient":
		fmt.Fprintf(b, "%s  nothing in this log would break, but the log or the state has gaps\n", t.paint(bold+";"+yellow, "NOT ENOUGH EVIDENCE"))
	default:
		fmt.Fprintf(b, "%s  of %s\n", t.paint(bold+";"+green, "NOTHING BREAKS"), plural(n.Total(), "request"))
	}
}

func (t Text) whatIfEvidence(b *strings.Builder, r *WhatIfReport) {
	fmt.Fprintf(b, "\n%s\n", t.paint(bold, "The change"))
	for _, x := range r.Without {
		fmt.Fprintf(b, "  without  %s\n", wording.Visible(x))
	}
	for _, x := range r.Removed {
		fmt.Fprintf(b, "           %s\n", wording.Visible(fmt.Sprintf("%s %s (%s): %s would not pass by it", x.Kind, joinName(x.Namespace, x.Name),
			cmp.Or(x.Role, "role not known"), plural(x.Requests, "request"))))
	}
	for _, x := range r.With {
		fmt.Fprintf(b, "  with     %s\n", wording.Visible(x))
	}
	now := cmp.Or(r.Authorization.Mode, "not known")
	fmt.Fprintf(b, "  authorizers today %s, in this preview %s\n", wording.Visible(now), wording.Visible(r.Then))
	if s := r.Authorization.Skew; s != nil {
		fmt.Fprintf(b, "  skew     %s\n", s.Words())
	}
	n := &r.Requests
	fmt.Fprintf(b, "  requests %d", n.Total())
	if r.Window.From != nil {
		fmt.Fprintf(b, " from %s to %s", stamp(*r.Window.From), stamp(*r.Window.To))
	}
	fmt.Fprintf(b, ":\n           %d allowed by Node anyway, %d still by RBAC, %d by another authorizer\n"+
		"           %d break, %d failed anyway, %d races, %d not known; %d were refused already, %d newly allowed\n",
		n.Node, n.RBAC, n.Other, n.Breaks, n.Fruitless, n.Race, n.Unknown, n.Refused, n.Gained)
}

// row is what a line of the text shows: groups of several nodes together.
type row struct {
	client, what, relation, binding string
	count                           int64
	nodes                           map[string]bool
	last                            *WhatIfGroup
}

// rows joins the groups of an outcome over nodes, by client, the most frequent first.
func rows(r *WhatIfReport, outcome string) []*row {
	type key struct{ client, what, relation, binding string }
	at := map[key]*row{}
	var out []*row
	for i := range r.Groups {
		g := &r.Groups[i]
		if g.Outcome != outcome {
			continue
		}
		k := key{client: g.Client, what: requestWords(g), relation: g.Relation}
		if g.User != "" {
			k.relation = "identity is no node's"
		}
		if g.Binding != nil {
			k.binding = g.Binding.Kind + " " + joinName(g.Binding.Namespace, g.Binding.Name)
		}
		x := at[k]
		if x == nil {
			x = &row{client: k.client, what: k.what, relation: k.relation, binding: k.binding, nodes: map[string]bool{}}
			at[k] = x
			out = append(out, x)
		}
		x.count += g.Count
		x.nodes[cmp.Or(g.Node, g.User)] = true
		if x.last == nil || g.Last.After(x.last.Last) {
			x.last = g
		}
	}
	slices.SortStableFunc(out, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(b.count, a.count), cmp.Compare(a.what, b.what))
	})
	return out
}

// requestWords names the kind of request of a group.
func requestWords(g *WhatIfGroup) string {
	if g.Resource == "" {
		return g.Verb + " " + g.Path
	}
	s := g.Verb + " " + g.Resource
	if g.APIGroup != "" {
		s += "." + g.APIGroup
	}
	if g.Subresource != "" {
		s += "/" + g.Subresource
	}
	return s
}

func (t Text) outcome(b *strings.Builder, r *WhatIfReport, outcome, title, say string) {
	all := rows(r, outcome)
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s %s\n", t.paint(bold, title), t.paint(dim, "("+say+")"))
	const most = 30 // of each client
	client, shown := "", 0
	for i, x := range all {
		if i == 0 || x.client != client {
			client, shown = x.client, 0
			fmt.Fprintf(b, "  %q\n", client)
		}
		if shown++; shown > most {
			if shown == most+1 {
				fmt.Fprintf(b, "    %s\n", t.paint(dim, "and more (-o json has all)"))
			}
			continue
		}
		line := x.what
		if x.relation != "" {
			line += " (" + x.relation + ")"
		}
		tail := fmt.Sprintf("x%d on %s, last %s", x.count, plural(int64(len(x.nodes)), "identity"), stamp(x.last.Last))
		if x.binding != "" {
			tail = "by " + x.binding + ", " + tail
		}
		if len(x.last.Objects) > 0 {
			tail += ", such as " + x.last.Objects[0]
		}
		if len(x.last.AuditIDs) > 0 {
			tail += ", auditID " + x.last.AuditIDs[0]
		}
		fmt.Fprintf(b, "    %s  %s\n", wording.Visible(line), t.paint(dim, wording.Visible(tail)))
	}
}
