package report

import (
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/wording"
)

// readiness gathers what speaks against deleting the bindings, and what the evidence lacks. It answers nothing: Report.prove does. Findings of
// low severity do not block: their requests failed anyway, or their identity is nobody's. undecided counts the requests whose verdict
// neither the state nor the API server tells. What it returns next is for the plan: whether the Node authorizer is off, and whether nothing shows that
// NodeRestriction is.
func readiness(r *Report, f Facts, undecided int64) (x Readiness, nodeOff, restricted bool) {
	out := verdict{words: f.Words, Readiness: Readiness{
		Blockers: []string{}, Warnings: []string{}, Blocking: []Hole{}, Doubts: []Hole{}, Holes: []Hole{}, Clients: clients(r),
		Identities: identities(r, f.Words), Denials: denials(r), Unseen: unseen(r, f.Nodes), Plan: []Step{},
	}}
	for i := range f.Lacks {
		out.warn(f.Lacks[i])
	}
	for _, name := range checks.DecidingRules() {
		if slices.Contains(f.Disabled, name) {
			out.gap(codes.Rule, codes.RuleDisabled, codes.Text(codes.ParamRule, name))
		}
	}
	total := r.Verdicts.all()
	out.ofLog(r, &f, total)
	nodeOff = out.ofMode(r, total)
	out.blockers(r)
	out.ofVerdicts(r, &f, total, undecided)
	if n := len(out.Unseen); n > 0 && total > 0 {
		out.gap(codes.Node, codes.NodesUnseen,
			append(codes.Params{codes.Int(codes.ParamCount, n)}, codes.List(codes.ParamNode, out.Unseen[:min(n, unseenNamed)])...)...)
	}
	restricted = !slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Rule == rules.RestrictionBypass || f.Rule == rules.ForeignWrite && f.Severity == rules.Critical.String()
	})
	if !restricted {
		out.gap(codes.Doubt, codes.NodeRestrictionOff)
	}
	for i := range f.Gaps {
		if g := &f.Gaps[i]; !slices.ContainsFunc(out.Doubts, func(h Hole) bool { return h.Code == g.Code && h.Params.Equal(g.Params) }) {
			out.warn(*g)
		}
	}
	out.fruitless(r)
	return out.Readiness, nodeOff, restricted
}

// verdict is a Readiness whose evidence is being gathered.
type verdict struct {
	Readiness
	words wording.Words
}

// unseenNamed bounds the nodes that a gap names.
const unseenNamed = 5

// warn adds a gap or a doubt.
func (x *verdict) warn(g codes.Gap) { x.warnSaying(g, x.words.Say(g.Code, g.Params)) }

func (x *verdict) warnSaying(g codes.Gap, say string) {
	g.Params = paramsOf(g.Params)
	h := Hole{g, say}
	if g.Decides() {
		x.Holes = append(x.Holes, h)
	}
	x.Doubts = append(x.Doubts, h)
	x.Warnings = append(x.Warnings, say)
}

func (x *verdict) gap(kind codes.Kind, code codes.Code, p ...codes.Param) {
	x.warn(codes.Gap{Kind: kind, Code: code, Params: p})
}

// block adds a blocker.
func (x *verdict) block(code codes.Code, p codes.Params, say string) {
	x.Blocking = append(x.Blocking, Hole{codes.Gap{Code: code, Params: paramsOf(p)}, say})
	x.Blockers = append(x.Blockers, say)
}

func unless(enough bool, kind codes.Kind) codes.Kind {
	if enough {
		return codes.Doubt
	}
	return kind
}

// windowEmpty reports whether the facts say that the window has no request of a node, and the log has some.
func windowEmpty(f *Facts) bool {
	return slices.ContainsFunc(f.Gaps, func(g codes.Gap) bool { return g.Code == codes.WindowEmpty })
}

// ofLog warns of a log that has nothing to say, or too little. total counts the requests of nodes.
func (x *verdict) ofLog(r *Report, f *Facts, total int64) {
	switch {
	case r.Events.Read == 0:
		x.gap(codes.Log, codes.LogEmpty)
	case total == 0 && !windowEmpty(f):
		x.gap(codes.Log, codes.LogWithoutNodes)
	}
	if w := &r.Window; total > 0 && w.From != nil && w.To.Sub(*w.From) < f.MinWindow { // where no event has a time, there is no window
		x.gap(codes.Log, codes.WindowShort, codes.Duration(codes.ParamHave, w.To.Sub(*w.From)), codes.Duration(codes.ParamWant, f.MinWindow))
	}
}

// ofMode reports whether the Node authorizer is off, which blocks.
func (x *verdict) ofMode(r *Report, total int64) (nodeOff bool) {
	switch mode := r.Authorization.Mode; {
	case total == 0:
	case r.Authorization.Inferred && mode == "RBAC,Node":
		// One API server of several without Node, or all of them since a rollback, leave the same trace: Node's word in the log, and RBAC's
		// on what Node would have been first to allow.
		x.gap(codes.Mode, codes.ModeAmbiguous)
	case strings.Contains(mode, "Node"):
	case mode != "" || !r.Authorization.Inferred:
		nodeOff = true
		p := codes.Params{codes.Text(codes.ParamMode, mode)}
		x.block(codes.NodeAuthorizerOff, p, x.words.Say(codes.NodeAuthorizerOff, p))
	default:
		x.gap(codes.Mode, codes.ModeUnknown)
	}
	return nodeOff
}

// ofVerdicts warns of requests that are not in the log, or that were not judged or not as the API server did.
func (x *verdict) ofVerdicts(r *Report, f *Facts, total, undecided int64) {
	few := undecided*20 <= total
	if total > 0 && !f.HasState {
		var p codes.Params
		if few {
			p = codes.Params{codes.Text(codes.ParamDecided, "true")}
		}
		x.gap(codes.State, codes.StateNotGiven, p...)
	}
	if undecided > 0 {
		x.gap(unless(few, codes.State), codes.RequestsUndecided, codes.Int(codes.ParamCount, undecided), codes.Int(codes.ParamTotal, total))
	}
	a := &r.Agreement
	if n := int64(len(a.Disagree)) + a.DisagreeMore; n > 0 {
		x.gap(unless(n*100 <= a.Compared, codes.Agreement), codes.Disagreements, codes.Int(codes.ParamCount, n))
	}
	if n := r.Events.Malformed; n > 0 {
		x.gap(unless(n*1000 <= r.Events.Read, codes.Log), codes.LinesUnreadable, codes.Int(codes.ParamCount, n))
	}
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Rule == rules.CoverageGap {
			x.ofGap(r, f)
		}
	}
}

// ofGap warns of a gap that was found in the log or with it.
func (x *verdict) ofGap(r *Report, f *Finding) {
	g := codes.Gap{Kind: holeOf(r, f), Code: codes.Code(f.Reason), Params: slices.Clone(f.Params)}
	if f.wide {
		g.Code = codes.ManyGaps
	}
	if f.Node != "" && !g.Params.Has(codes.ParamNode) {
		g.Params = append(g.Params, codes.Text(codes.ParamNode, f.Node))
	}
	if f.Name != "" && !g.Params.Has(codes.ParamWhere) {
		g.Params = append(g.Params, codes.Text(codes.ParamWhere, f.Name))
	}
	say := wording.Visible(f.Message)
	if g.Kind != codes.State {
		say = x.words.Say(codes.PartMissing, nil) + " " + say
	}
	x.warnSaying(g, say)
}

// what names the kind of request that a finding is about, "" for various ones.
func what(f *Finding) string {
	switch {
	case f.wide:
		return ""
	case f.Resource == "":
		return f.Verb + " " + f.Name
	case f.Subresource != "":
		return f.Verb + " " + f.Resource + "/" + f.Subresource
	}
	return f.Verb + " " + f.Resource
}

// blockers are what would break without the bindings, by binding and client, and the identities with a wrong user or group.
func (x *verdict) blockers(r *Report) {
	for _, n := range needs(r, breaking) {
		p := n.params()
		x.block(codes.ClientBreaks, p, x.words.Say(codes.ClientBreaks, p))
	}
	for i := range x.Identities {
		d := &x.Identities[i]
		p := codes.Params{
			codes.Text(codes.ParamReason, string(d.Code)), codes.Text(codes.ParamIdentity, d.Identity), codes.Int(codes.ParamCount, d.Requests),
			codes.Int(codes.ParamTotal, len(d.Clients)),
		}
		p = append(p, codes.List(codes.ParamClient, d.Clients[:min(len(d.Clients), listedKinds)])...)
		x.block(codes.IdentityUnserved, p, wording.Visible(d.Message)+" "+x.words.Say(codes.IdentityUnserved, p))
	}
}

// fruitless warns of requests that only RBAC let through and that do not block: those by bindings that stay, and those that failed
// anyway.
func (x *verdict) fruitless(r *Report) {
	for _, code := range []codes.Code{codes.AllowedInVain, codes.AllowedByKubeadm, codes.AllowedByProfiles} {
		for _, n := range needs(r, func(f *Finding) int64 {
			if f.fruitless() != code {
				return 0
			}
			return f.low
		}) {
			x.gap(codes.Doubt, code, n.params()...)
		}
	}
}

func (b *Binding) ref() *rbac.BindingRef {
	return &rbac.BindingRef{Kind: b.Kind, Namespace: b.Namespace, Name: b.Name}
}

// fruitless is the code of what such requests of the finding are.
func (f *Finding) fruitless() codes.Code {
	switch {
	case f.Binding == nil || !rules.Stays(f.Binding.ref()):
		return codes.AllowedInVain
	case rules.OfK0s(f.Binding.ref()):
		return codes.AllowedByProfiles
	}
	return codes.AllowedByKubeadm
}

func joinName(namespace, name string) string { return wording.Qualified(namespace, name) }

func plural(n int64, what string) string { return wording.Plural(n, what) }

// Breaking is how many requests would break without the bindings.
func (x *Readiness) Breaking() (n int64) {
	for i := range x.Clients {
		n += x.Clients[i].Requests
	}
	return n
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
