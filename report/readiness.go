package report

import (
	"fmt"
	"sort"
	"strings"

	"github.com/nodetrail/nodetrail/rules"
)

// readiness sums up whether the binding can go. What would break and who does not conform blocks; a hole in the evidence makes the
// answer "not enough evidence": absence of evidence is never "ready".
func readiness(r *Report, f Facts) Readiness {
	out := Readiness{Evidence: "sufficient", Blockers: blockers(r), Warnings: []string{}}
	lacking := func(format string, args ...any) {
		out.Evidence = "insufficient"
		out.Warnings = append(out.Warnings, fmt.Sprintf(format, args...))
	}
	v := r.Verdicts
	total := v.Allow + v.Deny + v.Unknown
	switch {
	case r.Events.Read == 0:
		lacking("the log holds no events")
	case total == 0:
		lacking("the log holds no requests of nodes: the audit policy or a filter may drop them")
	}
	if total > 0 && !f.HasState {
		lacking("no cluster state was given (--state): what the graph decides is unknown unless audit bodies tell it")
	}
	if v.Unknown > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d of %d requests (%s) could not be judged for lack of state",
			v.Unknown, total, percent(v.Unknown, total)))
		if v.Unknown*20 > total {
			out.Evidence = "insufficient"
		}
	}
	if n := len(r.Agreement.Disagree) + int(r.Agreement.DisagreeMore); n > 0 {
		lacking("nodetrail and the apiserver disagree on %d requests outside of races: the state, the version or the mode given may be wrong", n)
	}
	if r.Events.Malformed > 0 {
		lacking("%d lines of the log could not be read", r.Events.Malformed)
	}
	out.Warnings = append(out.Warnings, r.State.Warnings...)
	out.Ready = len(out.Blockers) == 0 && out.Evidence == "sufficient"
	return out
}

// blockers are what would break without the bindings, by binding and client, and the identities that do not conform.
func blockers(r *Report) []string {
	type group struct {
		binding, client string
	}
	counts, nodes, kinds := map[group]int64{}, map[group]map[string]bool{}, map[group]map[string]bool{}
	identities, clients := map[string]int64{}, map[string]map[string]bool{}
	for i := range r.Findings {
		f := &r.Findings[i]
		switch f.Rule {
		case "rbac-excess-access":
			g := group{"an RBAC binding that the log does not name", f.UserAgent}
			if f.Binding != nil {
				g.binding = f.Binding.Kind + " " + Visible(joinName(f.Binding.Namespace, f.Binding.Name))
			}
			counts[g] += f.Count
			add(nodes, g, f.Node)
			add(kinds, g, f.Verb+" "+f.Resource)
		case "node-identity":
			identities[f.Message] += f.Count
			add(clients, f.Message, f.UserAgent)
		}
	}
	groups := make([]group, 0, len(counts))
	for g := range counts {
		groups = append(groups, g)
	}
	sort.Slice(groups, func(i, j int) bool {
		a, b := groups[i], groups[j]
		if counts[a] != counts[b] {
			return counts[a] > counts[b]
		}
		return a.binding+"\x00"+a.client < b.binding+"\x00"+b.client
	})
	out := []string{}
	for _, g := range groups {
		out = append(out, fmt.Sprintf("%s of %q on %s would break without %s: %s", plural(counts[g], "request"), g.client,
			plural(int64(len(nodes[g])), "node"), g.binding, listed(kinds[g], 4)))
	}
	messages := make([]string, 0, len(identities))
	for m := range identities {
		messages = append(messages, m)
	}
	sort.Strings(messages)
	for _, m := range messages {
		out = append(out, fmt.Sprintf("%s (%s of %s)", Visible(m), plural(identities[m], "request"), listed(clients[m], 4)))
	}
	return out
}

func add[K comparable](m map[K]map[string]bool, k K, v string) {
	if m[k] == nil {
		m[k] = map[string]bool{}
	}
	m[k][v] = true
}

func joinName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func listed(set map[string]bool, most int) string {
	all := make([]string, 0, len(set))
	for s := range set {
		all = append(all, Visible(s))
	}
	sort.Strings(all)
	if len(all) > most {
		return strings.Join(all[:most], ", ") + fmt.Sprintf(" and %d more", len(all)-most)
	}
	return strings.Join(all, ", ")
}

func plural(n int64, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(what, "y"))
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func percent(n, of int64) string {
	if of == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}

// Worst returns the highest severity among the report's findings.
func (r *Report) Worst() rules.Severity {
	worst := rules.None
	for i := range r.Findings {
		if s, err := rules.ParseSeverity(r.Findings[i].Severity); err == nil {
			worst = max(worst, s)
		}
	}
	return worst
}
