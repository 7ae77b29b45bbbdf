package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// proof is what is known when the checks are made. Its method input is the one place that makes checks.Input.
//
// What nobody gathers yet stays absent, so that the check that needs it is unproven:
//   - the state by its times, where only a store is read: nodes, servers, needs, bindings (issue 13, with the facts that run stores);
//   - the number of API servers by configuration, addresses of default/kubernetes, sources that tell servers apart (issue 13): identity Leases alone tell;
//   - lease durations (issue 18): the default duration counts;
//   - what an event that could not be read was about, and when (issue 13): each line counts, whoever's it is;
//   - where only a store is read, requests of others than nodes that a binding lets through, and lag of the API server's graph (issue 13): a binding
//     with such subjects is unproven, and each disagreement counts;
//   - groups of node identities, tokens, holders, births (issues 15 and 16);
//   - what exceptions cover (issue 17).
type proof struct {
	minWindow time.Duration
	ledger    *evidence.Ledger
	tally     *tally.Tally
	facts     *report.Facts
	policy    *coverage.Policy // nil where it is not known
	kubelets  []string         // further user-agent products
	// state and its judge; nil where only a store is read.
	setup *judging.Setup
	// races, bound and lags are what of the log needs a closer look; nil where nobody looked.
	races *raceBook
	bound *bindingBook
	lags  *lagBook
	// restricted are NodeRestriction's refusals; nil where nobody looked for them.
	restricted *restrictionBook
	// since is from when on requests were judged, zero for all of the log; to is when the log ends.
	since, to time.Time
}

// input is what the checks conclude from.
func (p *proof) input() *checks.Input {
	in := &checks.Input{
		Options: checks.Options{MinWindow: p.minWindow}, Ledger: p.ledger,
		Log: checks.Log{Until: p.to, Requests: p.tally.Sums.Allow + p.tally.Sums.Deny + p.tally.Sums.Unknown},
	}
	if in.MinWindow <= 0 { // nothing is asked for but what there is
		in.MinWindow = max(p.to.Sub(p.tally.From), time.Second)
	}
	for _, r := range rules.All() {
		in.Rules = append(in.Rules, checks.Rule{Name: r.Name, On: !slices.Contains(p.facts.Disabled, r.Name)})
	}
	if a := &p.facts.Authorization; !a.Inferred && a.Mode != "" {
		in.Modes = []checks.Mode{{Order: a.Mode}}
	}
	in.Unjudged = p.unjudged()
	if p.since.After(p.to.Add(-in.MinWindow)) {
		in.Unjudged = append(in.Unjudged, checks.Unjudged{Code: checks.CodeNoVerdict, At: p.since})
	}
	in.Versions = p.versions(in)
	lag := p.lags.lag(p.ledger)
	in.Agreement = p.agreement(&lag)
	p.findings(in, &lag)
	p.state(in)
	p.restriction(in)
	p.hidden(in)
	in.Uses, in.NotInState = append(in.Uses, p.bound.list()...), p.bound.notInState()
	if p.bound != nil {
		in.UnjudgedUses, in.OthersJudged = p.bound.unjudged, in.BindingsKnown && p.bound.covers(checks.Inventory(in.Bindings, in.SystemNode, in.Keep))
	}
	if p.races != nil {
		in.Races, in.RacesKnown = p.races.list(), !p.races.full
	}
	return in
}

// unjudged is what could not be read or decided.
func (p *proof) unjudged() (out []checks.Unjudged) {
	e := &p.facts.Events
	for _, at := range e.MalformedAt {
		out = append(out, checks.Unjudged{Code: checks.CodeUnreadable, Line: fmt.Sprintf("%s:%d", at.File, at.Line)})
	}
	if n := e.Malformed - int64(len(e.MalformedAt)); n > 0 {
		out = append(out, checks.Unjudged{Code: checks.CodeUnreadable, Count: n})
	}
	if n := p.tally.Sums.Undecided; n > 0 {
		out = append(out, checks.Unjudged{Code: checks.CodeNoVerdict, Count: n})
	}
	for i := range p.facts.Lacks {
		if g := &p.facts.Lacks[i]; g.Code == codes.LogUnread {
			out = append(out, checks.Unjudged{Code: checks.CodeUnreadable})
		}
	}
	for k, g := range p.tally.Groups {
		if k.Rule != rules.CoverageGap {
			continue
		}
		switch g.Reason { // silences are for the renewals of Leases to tell, and what the policy hides for the policy
		case rules.LogLost, rules.MessagesLost, rules.ApiserverDropped, rules.ApiserverUnaudited, "":
			out = append(out, checks.Unjudged{Code: checks.CodeUnreadable, Line: k.Name, At: g.Last, Count: g.Count})
		case rules.AnswersMissing, rules.VerdictsMissing:
			out = append(out, checks.Unjudged{Code: checks.CodeNoVerdict, Node: k.Node, At: g.Last, Count: g.Count})
		}
	}
	slices.SortStableFunc(out, func(a, b checks.Unjudged) int { return strings.Compare(a.Line+" "+a.Node, b.Line+" "+b.Node) })
	return out
}

func (p *proof) agreement(lag *lag) checks.Agreement {
	s := &p.tally.Sums
	decided := s.Compared + s.RacesCompared
	out := checks.Agreement{Decided: decided, Compared: s.Compared, Rests: s.Allow + s.Deny + s.Unknown - decided, More: s.DisagreeMore}
	for i := range p.tally.Disagreements {
		d := &p.tally.Disagreements[i]
		id := lagged{d.AuditID, d.Time.UTC()}
		out.Disagreements = append(out.Disagreements, checks.Disagreement{
			Node: d.Node, Request: requestKind(d.Verb, d.APIGroup, d.Resource, d.Subresource, d.Name), Object: objectOf(d.Namespace, d.Name), AuditID: d.AuditID, At: d.Time,
			Lag: lag.requests[id] > 0,
		})
		if lag.requests[id] > 0 {
			lag.requests[id]--
		}
	}
	for _, n := range lag.requests { // those that the tally only counted
		out.More -= n
	}
	return out
}

// requestKind is a kind of request, such as "get secrets" or "patch nodes/status"; a request for no resource has its path.
func requestKind(verb, group, resource, sub, path string) string {
	if resource == "" {
		return verb + " " + path
	}
	if group != "" {
		resource += "." + group
	}
	if sub != "" {
		resource += "/" + sub
	}
	return verb + " " + resource
}

func objectOf(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// findings are uses of bindings, and identities of kubelets that are wrong.
func (p *proof) findings(in *checks.Input, lag *lag) {
	groups := slices.Collect(maps.Keys(p.tally.Groups))
	slices.SortFunc(groups, func(a, b tally.Key) int { return slices.Compare(a.Strings(), b.Strings()) })
	for i := range groups {
		k := &groups[i]
		g := p.tally.Groups[*k]
		switch k.Rule {
		case rules.ExcessAccess:
			in.Uses = append(in.Uses, p.usesOf(k, g, lag.uses[*k])...)
		case rules.NodeIdentity:
			if g.Reason == rules.Privileged {
				continue // it conforms, and depends on no binding
			}
			in.Identities = append(in.Identities, checks.Identity{
				User: k.Node, Reason: checks.Code(g.Reason), Harmless: g.Low == g.Count, Count: g.Count, Last: g.Last, AuditIDs: g.AuditIDs,
			})
		}
	}
}

// state is what is known of the cluster by its times.
func (p *proof) state(in *checks.Input) {
	in.State.Given = p.facts.HasState
	for _, n := range p.facts.State.Objects {
		in.State.Objects += int64(n)
	}
	for i := range p.facts.Gaps {
		if g := &p.facts.Gaps[i]; g.Kind == codes.State {
			in.State.Gaps = append(in.State.Gaps, checks.Gap{Kind: string(g.Kind), Code: string(g.Code), Value: g.Params.Text(codes.ParamKind)})
		}
	}
	if p.setup == nil || !p.facts.HasState || p.to.IsZero() {
		return
	}
	s, from := p.setup.State, p.to.Add(-in.MinWindow)
	_, begins := s.Nodes.Known("", from)
	_, ends := s.Nodes.Known("", p.to)
	in.NodesKnown = begins && ends
	for _, l := range s.Nodes.Lives(from, p.to) {
		in.Nodes = withLife(in.Nodes, &l)
	}
	lives, covered := s.Servers.Lives(from, p.to)
	in.Servers.Known = covered
	for i := range lives {
		in.Servers.Live = append(in.Servers.Live, checks.Server{Name: lives[i].Name, Lives: []checks.Span{{From: lives[i].From, To: endOf(&lives[i])}}})
	}
	in.SystemNode, _ = s.RBAC.ClusterRoleRules(nodeRole, p.to)
	for b := range s.RBAC.Bindings(p.to) {
		in.Bindings = append(in.Bindings, b)
	}
	in.BindingsKnown = s.RBAC.Covers(p.to) && holdsBindings(s.RBAC, in.Bindings, p.to)
	p.needs(in, from)
}

// withLife adds a life of a Node object, which come in order of their names.
func withLife(all []checks.Node, l *cluster.NodeLife) []checks.Node {
	if n := len(all); n == 0 || all[n-1].Name != l.Name {
		all = append(all, checks.Node{Name: l.Name, Virtual: true})
	}
	n := &all[len(all)-1]
	n.Virtual = n.Virtual && l.Virtual
	n.Lives = append(n.Lives, checks.Span{From: l.From, To: l.To})
	for _, x := range l.NotReady {
		if x.To.IsZero() {
			x.To = l.To // another Node of the name is another's word
		}
		n.NotReady = append(n.NotReady, checks.Span{From: x.From, To: x.To})
	}
	return all
}

// endOf is when an API server ended at the latest: its Lease is deleted an hour or two later.
func endOf(l *cluster.ServerLife) time.Time {
	if l.To.IsZero() || l.Renewed.IsZero() {
		return l.To
	}
	if last := l.Renewed.Add(cluster.RenewalStep); last.Before(l.To) {
		return last
	}
	return l.To
}

// rootCA is the ConfigMap that is mounted with the token of a service account.
const rootCA = "kube-root-ca.crt"

// needs are the secrets and configmaps that nodes came to need in the window: when the first pod with one of them was bound.
func (p *proof) needs(in *checks.Input, from time.Time) {
	nodes := make([]string, 0, len(in.Nodes))
	for i := range in.Nodes {
		nodes = append(nodes, in.Nodes[i].Name)
	}
	missing := p.setup.Auth.EachReached(nodes, from, p.to, func(node string, reached []nodeauthz.Reached) {
		for j := range reached {
			r := &reached[j]
			kind := evidence.ReadSecrets
			switch r.Object.Kind {
			case nodeauthz.KindSecret:
			case nodeauthz.KindConfigMap:
				kind = evidence.ReadConfigMaps
			default:
				continue
			}
			first := r.Paths[0].From
			for k := range r.Paths {
				if r.Paths[k].From.Before(first) {
					first = r.Paths[k].From
				}
			}
			object := objectOf(r.Object.Namespace, r.Object.Name)
			in.Needs = append(in.Needs, checks.Need{Node: node, Kind: kind, Object: object, At: first})
			if kind == evidence.ReadConfigMaps && r.Object.Name == rootCA {
				steady := checks.Steady{Node: node, Kind: kind, Object: object}
				for k := range r.Paths {
					steady.Spans = append(steady.Spans, checks.Span{From: r.Paths[k].From, To: r.Paths[k].To})
				}
				in.Steady = append(in.Steady, steady)
			}
		}
	})
	in.NeedsKnown = in.NodesKnown && (missing == "" || len(nodes) == 0)
}
