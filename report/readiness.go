package report

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

// readiness sums up whether the bindings can go. What would break and who does not conform blocks; a hole in the evidence makes the
// answer "not enough evidence": absence of evidence is never "ready". Findings of low severity do not block: their requests reached
// nothing, or their identity is nobody's. undecided counts the requests whose verdict neither the state nor the apiserver tells.
func readiness(r *Report, f Facts, undecided int64) Readiness {
	out := Readiness{
		Evidence: "sufficient", Warnings: []string{}, Holes: []Hole{}, Clients: clients(r), Identities: identities(r), Denials: denials(r),
		Unseen: unseen(r, f.Nodes), Plan: []Step{},
	}
	out.Blockers = blockers(r, out.Identities)
	for _, h := range f.Lacks {
		out.warn(h.Kind, "%s", h.Message)
	}
	for _, name := range deciding() {
		if slices.Contains(f.Disabled, name) {
			out.warn(HoleRule, "the rule %s was not checked", name)
		}
	}
	total := r.Verdicts.Allow + r.Verdicts.Deny + r.Verdicts.Unknown
	out.ofLog(r, &f, total)
	nodeOff := out.ofMode(r, total)
	out.ofVerdicts(r, &f, total, undecided)
	if n := len(out.Unseen); n > 0 && total > 0 {
		out.warn(HoleNode, "%s of the cluster made no request that was logged: %s", plural(int64(n), "node"), someOf(out.Unseen, 5))
	}
	restricted := !slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Rule == "foreign-node-write" && f.Severity == rules.Critical.String()
	})
	if !restricted {
		out.warn("", "the admission plugin NodeRestriction is not in force: a node wrote another's object")
	}
	for _, w := range r.State.Warnings {
		if !slices.Contains(out.Warnings, w) {
			out.warn(unless(!slices.Contains(f.Holes, w), HoleState), "%s", w)
		}
	}
	out.Warnings = append(out.Warnings, fruitless(r)...)
	out.conclude()
	out.Plan = plan(r, &out, f.Bindings, nodeOff, restricted)
	return out
}

// warn adds a warning; hole is the kind of hole that it is, "" for none.
func (x *Readiness) warn(hole, format string, args ...any) {
	say := fmt.Sprintf(format, args...)
	if hole != "" {
		x.Evidence = "insufficient"
		x.Holes = append(x.Holes, Hole{hole, say})
	}
	x.Warnings = append(x.Warnings, say)
}

func unless(enough bool, hole string) string {
	if enough {
		return ""
	}
	return hole
}

// ofLog warns of a log that has nothing to say, or too little. total counts the requests of nodes.
func (x *Readiness) ofLog(r *Report, f *Facts, total int64) {
	switch {
	case r.Events.Read == 0:
		x.warn(HoleLog, "the log holds no events")
	case total == 0:
		x.warn(HoleLog, "the log holds no requests of nodes: the audit policy or a filter may drop them")
	}
	if w := &r.Window; total > 0 && w.To.Sub(*w.From) < f.MinWindow {
		x.warn(HoleLog, "the log spans %s, and what comes less often is not in it: at least %s are asked for (--min-window)",
			spell(w.To.Sub(*w.From)), spell(f.MinWindow))
	}
}

// ofMode reports whether the Node authorizer is off, which blocks.
func (x *Readiness) ofMode(r *Report, total int64) (nodeOff bool) {
	switch mode := r.Authorization.Mode; {
	case total == 0:
	case r.Authorization.Inferred && mode == "RBAC,Node":
		// One apiserver of several without Node, or all of them since a rollback, leave the same trace: Node's word in the log, and RBAC's
		// on what Node would have been first to allow.
		x.warn(HoleMode, "RBAC allows what the Node authorizer gives every node: it is asked first, or Node is not in force on every apiserver any more; "+
			"look at the flags of each and give --authorization-mode")
	case strings.Contains(mode, "Node"):
	case mode != "" || !r.Authorization.Inferred:
		nodeOff = true
		x.Blockers = slices.Insert(x.Blockers, 0, fmt.Sprintf(
			"the Node authorizer is not in force (authorization mode %s): put Node before RBAC first, for without the bindings nodes have no access at all",
			cmp.Or(mode, "without Node")))
	default:
		x.warn(HoleMode, "the log does not tell whether the Node authorizer is in force: give --authorization-mode")
	}
	return nodeOff
}

// ofVerdicts warns of requests that are not in the log, or that were not judged or not as the apiserver did.
func (x *Readiness) ofVerdicts(r *Report, f *Facts, total, undecided int64) {
	few := undecided*20 <= total
	if total > 0 && !f.HasState {
		say := "no cluster state was given (--state): what the graph decides is unknown unless audit bodies tell it"
		if few {
			say = "no cluster state was given (--state): this rests on the apiserver's own decisions in the log, and which nodes there are is not known"
		}
		x.warn(HoleState, "%s", say)
	}
	if undecided > 0 {
		x.warn(unless(few, HoleState), "%d of %s (%s) could not be judged for lack of state", undecided, plural(total, "request"), Percent(undecided, total))
	}
	a := &r.Agreement
	if n := int64(len(a.Disagree)) + a.DisagreeMore; n > 0 {
		x.warn(unless(n*100 <= a.Compared, HoleAgreement),
			"nodetrail and the apiserver disagree on %s outside of races: the state, the version or the mode given may be wrong", plural(n, "request"))
	}
	if n := r.Events.Malformed; n > 0 {
		x.warn(unless(n*1000 <= r.Events.Read, HoleLog), "%s of the log could not be read", plural(n, "line"))
	}
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Rule == rules.CoverageGap {
			say, hole := "part of the log may be missing: ", holeOf(r, f)
			if hole == HoleState {
				say = ""
			}
			x.warn(hole, "%s%s", say, Visible(f.Message))
		}
	}
}

// deciding are the rules without which nothing is ready: they find what would break, who does not conform, and what the log lacks.
func deciding() []string { return []string{rules.ExcessAccess, "node-identity", rules.CoverageGap} }

// conclude draws the verdict.
func (x *Readiness) conclude() {
	x.Ready = len(x.Blockers) == 0 && x.Evidence == "sufficient"
	switch {
	case len(x.Blockers) > 0:
		x.Verdict = VerdictNotReady
	case x.Ready:
		x.Verdict = VerdictReady
	default:
		x.Verdict = VerdictUnknown
	}
}

// what names the kind of request that a finding is about.
func what(f *Finding) string {
	switch {
	case f.wide:
		return "various"
	case f.Resource == "":
		return f.Verb + " " + f.Name
	case f.Subresource != "":
		return f.Verb + " " + f.Resource + "/" + f.Subresource
	}
	return f.Verb + " " + f.Resource
}

// blockers are what would break without the bindings, by binding and client, and the identities that do not conform.
func blockers(r *Report, identities []Identity) []string {
	out := []string{}
	for _, n := range needs(r, breaking) {
		nodes, kinds := n.across()
		out = append(out, fmt.Sprintf("%s of %q on %s would break without %s: %s", plural(n.requests, "request"), n.product,
			plural(nodes, "node"), Visible(n.binding), listed(kinds, 4)))
	}
	for _, x := range identities {
		clients := map[string]bool{}
		for _, c := range x.Clients {
			clients[c] = true
		}
		out = append(out, fmt.Sprintf("%s (%s of %s)", Visible(x.Message), plural(x.Requests, "request"), listed(clients, 4)))
	}
	return out
}

// fruitless are the warnings of requests that RBAC alone let through and that do not block: those by bindings that stay, and those that reached
// nothing.
func fruitless(r *Report) []string {
	var out []string
	say := func(stay bool, why string) {
		for _, n := range needs(r, func(f *Finding) int64 {
			if f.stays() != stay {
				return 0
			}
			return f.low
		}) {
			nodes, kinds := n.across()
			out = append(out, fmt.Sprintf("%s of %q on %s passed only by %s%s: %s",
				plural(n.requests, "request"), n.product, plural(nodes, "node"), Visible(n.binding), why, listed(kinds, 4)))
		}
	}
	say(false, " and reached nothing (404 or 403), which does not block")
	say(true, ", which is kubeadm's, stays, and does not block")
	return out
}

func (f *Finding) stays() bool {
	return f.Binding != nil && rules.Stays(&rbac.BindingRef{Kind: f.Binding.Kind, Namespace: f.Binding.Namespace, Name: f.Binding.Name})
}

func joinName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// listed names what is in the set, in order, at most so many.
func listed(set map[string]bool, most int) string {
	all := make([]string, 0, len(set))
	for s := range set {
		if s = Visible(s); s == "" {
			s = `""`
		}
		all = append(all, s)
	}
	sort.Strings(all)
	if len(all) > most {
		return strings.Join(all[:most], ", ") + fmt.Sprintf(" and %d more", len(all)-most)
	}
	return strings.Join(all, ", ")
}

// plural counts things. It knows the plurals of the words that the report uses.
func plural(n int64, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "ity"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(what, "y"))
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// spell writes a duration as people do: 24h, 1h30m, 17s.
func spell(d time.Duration) string {
	if d = d.Round(time.Second); d == 0 {
		return "less than a second"
	}
	s := d.String()
	if rest, is := strings.CutSuffix(s, "m0s"); is {
		s = rest + "m"
	}
	if rest, is := strings.CutSuffix(s, "h0m"); is {
		s = rest + "h"
	}
	return s
}

// Percent rounds towards the middle, to a tenth: what is not all is never "100.0 %", and what is something never "0.0 %".
func Percent(n, of int64) string {
	if of == 0 {
		return "0 %"
	}
	p := 100 * float64(n) / float64(of)
	switch {
	case n < of && p > 99.9:
		p = 99.9
	case n > 0 && p < 0.1:
		p = 0.1
	}
	return fmt.Sprintf("%.1f %%", p)
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
