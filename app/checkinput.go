package app

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// proof is what is known when the checks are made. Its method input is the one place that makes checks.Input.
//
// What nobody gathers yet stays absent, so that the check that needs it is unproven:
//   - sources that tell servers apart: identity Leases and the number by configuration tell;
//   - lease durations: the default duration counts;
//   - when an event that could not be read was, and what it was about, if what is left does not show that it was nobody's: each such line counts;
//   - where only a store is read, requests of others than nodes that a binding lets through, and lag of the API server's graph: a binding
//     with such subjects is unproven, and each disagreement counts.
type proof struct {
	sorted    []tally.Key // of the groups, once they were asked for
	minWindow time.Duration
	kept      []rbac.BindingRef // that are to stay
	// apiservers is how many there are by configuration, 0 if nobody said.
	apiservers int
	only       onlyNodes
	ledger     *evidence.Ledger
	tally      *tally.Tally
	facts      *report.Facts
	policy     *coverage.Policy // nil where it is not known
	kubelets   []string         // further user agents, without version
	// state is what the state tells; nil where none was given.
	state *stateProof
	// races are those of the log, if racesKnown.
	races      []checks.Races
	racesKnown bool
	// uses are those that a running service has seen in place of bound, unjudgedUses counts what it could not judge.
	uses         []checks.Use
	unjudgedUses int64
	unreasoned   checks.Unreasoned // the latest request that a running service saw allowed without a reason
	// bound and lags are what of the log needs a closer look; nil where nobody looked.
	bound *bindingBook
	lags  *lagBook
	// lagged is what input found of that: how many requests of a group that is not harmless lag let through.
	lagged map[tally.Key]int64
	// restricted are NodeRestriction's refusals; nil where nobody looked for them.
	restricted *restrictionBook
	// births are the certificate requests that were read; nil where nobody looked for them.
	births *birthBook
	// nodeGroups are those that nodes have in addition to those of every node; nil where nobody looked.
	nodeGroups *groupBook
	// held is who used the nodes' credentials; nil where nobody looked.
	held *holderBook
	// missed are the requests that were not looked at together with others, missedOfNodes those of nodes.
	missed, missedOfNodes leftOut
	// written are events that the policy in force has written.
	written []*writtenEvent
	// statics are the authorizers that harmless asks, once it has.
	statics *statics
	// since is from when on requests were judged, zero for all of the log; to is when the log ends. begins is when it begins, zero if only its requests tell.
	since, begins, to time.Time
}

// input is what the checks conclude from.
func (p *proof) input() *checks.Input {
	in := &checks.Input{
		Options: checks.Options{MinWindow: p.span(), Keep: p.kept, Only: p.only}, Ledger: p.ledger,
		Log: checks.Log{Until: p.to, Requests: p.tally.Sums.Allow + p.tally.Sums.Deny + p.tally.Sums.Unknown},
	}
	if len(p.only) > 0 {
		in.Log.Requests = p.only.requests(p.tally)
	}
	for _, r := range rules.All() {
		in.Rules = append(in.Rules, checks.Rule{Name: r.Name, On: !slices.Contains(p.facts.Disabled, r.Name)})
	}
	// What the log shows for Node is looked at by hour and source. That RBAC allowed all that is in it proves nothing against Node, unless Node allows such
	// a request as well.
	if a := &p.facts.Authorization; in.Log.Requests > 0 && (!a.Inferred || a.Overruled) {
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
	p.gaps(in)
	p.state.tell(in)
	in.Servers.Configured, in.Limited = p.apiservers, p.limited(in)
	p.restriction(in)
	p.birthFindings(in)
	p.holders(in)
	p.hidden(in)
	in.Uses, in.NotInState = slices.Concat(in.Uses, p.bound.list(), p.uses), p.bound.notInState()
	for i := range in.Uses {
		in.Uses[i].Kubelet = rules.IsKubelet(in.Uses[i].Client, p.kubelets)
	}
	in.UnjudgedUses = p.unjudgedUses
	said := p.unreasoned
	if p.bound != nil {
		said = p.bound.unreasoned
		in.UnjudgedUses, in.OthersJudged = p.bound.unjudged, in.BindingsKnown && p.bound.covers(checks.Inventory(in.Bindings, in.SystemNode, in.Keep))
	}
	in.Silent = p.silent()
	if said.At.After(in.Unreasoned.At) {
		in.Unreasoned = said
	}
	in.Races, in.RacesKnown = p.races, p.racesKnown
	return in
}

// span is for how long before the log's end everything must be proven. If nothing is asked for, that is all that there is: not the time before the log
// in which a watch began that ended in it.
func (p *proof) span() time.Duration {
	if p.minWindow > 0 {
		return p.minWindow
	}
	return max(p.to.Sub(later(p.tally.From, p.begins)), time.Second)
}

// unjudged is what could not be read or decided.
func (p *proof) unjudged() (out []checks.Unjudged) {
	e := &p.facts.Events
	for _, at := range e.MalformedAt {
		out = append(out, checks.Unjudged{Code: checks.CodeUnreadable, Line: fmt.Sprintf("%s:%d", at.File, at.Line), OfNoNode: at.OfNoNode})
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
		if k.Rule != rules.CoverageGap || g.Severity == rules.Low || rules.GapOf(g.Reason) != codes.Log && g.Reason != rules.VerdictsMissing {
			continue
		}
		switch g.Reason {
		case rules.LogSilent, rules.Delayed: // the renewals of Leases tell what is missing
		case rules.AnswersMissing, rules.VerdictsMissing:
			out = append(out, checks.Unjudged{Code: checks.CodeNoVerdict, Node: k.Node, At: g.Last, Count: g.Count})
		default:
			out = append(out, checks.Unjudged{Code: checks.CodeUnreadable, Line: k.Name, At: g.Last, Count: g.Count})
		}
	}
	slices.SortStableFunc(out, func(a, b checks.Unjudged) int { return strings.Compare(a.Line+" "+a.Node, b.Line+" "+b.Node) })
	return out
}

func (p *proof) agreement(lag *lag) checks.Agreement {
	s := &p.tally.Sums
	decided := s.Compared + s.RacesCompared
	out := checks.Agreement{Decided: decided, Compared: s.Compared, Rests: s.Allow + s.Deny + s.Unknown - decided, More: s.DisagreeMore}
	whole := p.held != nil && s.Allow+s.Deny+s.Unknown >= leastWhole && p.held.wholeSeconds(p.tally.From)
	for i := range p.tally.Disagreements {
		d := &p.tally.Disagreements[i]
		id := lagged{d.AuditID, d.Time.UTC()}
		out.Disagreements = append(out.Disagreements, checks.Disagreement{
			Node: d.Node, Request: requestKind(d.Verb, d.APIGroup, d.Resource, d.Subresource, d.Name), Object: objectOf(d.Namespace, d.Name), AuditID: d.AuditID, At: d.Time,
			Lag: lag.requests[id] > 0, Unwatched: rules.ByGraph(d.APIGroup, d.Resource, d.Subresource) && !p.state.saw(d.Time),
			Unordered: whole && d.Unordered,
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

// groups are those of the tally, in the order of their keys.
func (p *proof) groups() iter.Seq2[tally.Key, *tally.Group] {
	return func(yield func(tally.Key, *tally.Group) bool) {
		if p.sorted == nil {
			p.sorted = slices.SortedFunc(maps.Keys(p.tally.Groups), func(a, b tally.Key) int { return a.Compare(&b) })
		}
		for _, k := range p.sorted {
			if !yield(k, p.tally.Groups[k]) {
				return
			}
		}
	}
}

// findings are uses of bindings, identities of kubelets that are wrong, and gaps of the policy and the state.
func (p *proof) findings(in *checks.Input, lag *lag) {
	p.lagged = map[tally.Key]int64{}
	for k, g := range p.groups() {
		switch k.Rule {
		case rules.ExcessAccess:
			of := lag.uses[k]
			if of.count > of.low {
				p.lagged[k] = of.count - of.low
			}
			in.Uses = append(in.Uses, p.usesOf(&k, g, of)...)
		case rules.OtherGrant:
			if g.Reason == rules.ByReasonless && g.Last.After(in.Unreasoned.At) {
				in.Unreasoned = checks.Unreasoned{At: g.Last, User: nodeid.UserPrefix + k.Node, Request: requestKind(k.Verb, k.APIGroup, k.Resource, k.Subresource, k.Name)}
				if len(g.AuditIDs) > 0 {
					in.Unreasoned.AuditID = g.AuditIDs[len(g.AuditIDs)-1]
				}
			}
		case rules.NodeIdentity, rules.CredentialMisuse:
			if k.Rule == rules.CredentialMisuse && g.Reason != rules.SharedCertificate || g.Reason == rules.Privileged {
				continue // it conforms, and depends on no binding
			}
			in.Identities = append(in.Identities, checks.Identity{
				User: k.Node, Reason: checks.Code(g.Reason), Harmless: g.Low == g.Count, Gone: g.Reason == rules.NodeGone || g.Reason == rules.NodeGoneRenewed, Count: g.Count, Last: g.Last, AuditIDs: g.AuditIDs,
			})
		case rules.CoverageGap:
			switch kind := rules.GapOf(g.Reason); {
			case g.Severity == rules.Low, kind == codes.Doubt, kind == codes.Log:
			case kind == codes.Node, g.Reason == rules.SecretReadsMissing: // the evidence tells by node and hour
			case kind == codes.Policy:
				in.Policy.Hidden = append(in.Policy.Hidden, checks.Hidden{
					Request: strings.Join(g.Params.All(codes.ParamRequest), ", "), Line: k.Name, Code: hiddenCode(codes.Code(g.Reason)),
				})
			case g.Reason != rules.VerdictsMissing:
				in.State.Gaps = append(in.State.Gaps, checks.Gap{Kind: string(kind), Code: string(g.Reason), Value: k.Name})
			}
		}
	}
}

// gaps are what is missing from the state, and whatever else the caller knows to be missing.
func (p *proof) gaps(in *checks.Input) {
	in.State.Given = p.facts.HasState
	for _, n := range p.facts.State.Objects {
		in.State.Objects += int64(n)
	}
	gaps := p.facts.Gaps // of all of the log
	if p.state != nil {
		gaps = p.state.Gaps
	}
	for i := range gaps {
		if gaps[i].Code == codes.RecorderBehind {
			in.Behind = max(in.Behind, gaps[i].Params.Duration(codes.ParamBy))
		}
	}
	for _, all := range [][]codes.Gap{gaps, p.facts.Lacks} {
		for i := range all {
			if g := &all[i]; g.Decides() && g.Code != codes.LogUnread { // that is an event that was not judged
				in.State.Gaps = append(in.State.Gaps, checks.Gap{Kind: string(g.Kind), Code: string(g.Code), Value: g.Params.Text(codes.ParamKind)})
			}
		}
	}
}
