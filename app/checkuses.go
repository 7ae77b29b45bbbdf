package app

import (
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// usesOf are the uses of a binding in a group of requests that only it let through. What lag let through is one of its own.
func (p *proof) usesOf(k *tally.Key, g *tally.Group, lag lagUses) (out []checks.Use) {
	rest := *g
	if lag.count > 0 {
		u := p.use(k, &rest)
		u.Lag, u.Count = true, lag.count
		out = append(out, u)
		rest.Count, rest.Low = rest.Count-lag.count, rest.Low-lag.low
	}
	if rest.Count > 0 {
		out = append(out, p.use(k, &rest))
	}
	return out
}

// use is a group of requests that only a binding let through.
func (p *proof) use(k *tally.Key, g *tally.Group) checks.Use {
	u := checks.Use{
		Binding: k.Binding, Went: g.Reason != rules.BindingOfKubeadm && g.Reason != rules.BindingOfProfiles && p.state.mayHaveGone(k.Binding, g.First, g.Last),
		TooMuch: p.state.gaveTooMuch(k.Binding, g.First, g.Last), User: nodeid.UserPrefix + k.Node, Node: k.Node, Client: k.Product, Kubelet: rules.IsKubelet(k.Product, p.kubelets),
		Request: requestKind(k.Verb, k.APIGroup, k.Resource, k.Subresource, k.Name), Object: objectOf(k.Namespace, k.Name),
		Proxy: k.Subresource == "proxy", Impersonation: g.Reason == rules.ImpersonationGiven,
		Count: g.Count, First: g.First, Last: g.Last, AuditIDs: g.AuditIDs, Outcome: checks.OutcomeOther,
	}
	switch {
	case g.Wide && g.Low == g.Count:
		u.Outcome = checks.OutcomeUnknown
	case k.Apart == rules.Untold:
		u.Outcome, u.Unseen = checks.OutcomeSucceeded, true
	case g.Reason == rules.BindingDuringLag && u.Kubelet && !p.state.saw(g.First): // nothing tells that it was the API server who lagged
		u.Outcome, u.Unseen = checks.OutcomeSucceeded, true
	case g.Low < g.Count:
		u.Count -= g.Low
	case g.Reason == rules.ObjectMissing:
		u.Outcome, u.JustGone = checks.OutcomeNotFound, k.Apart == rules.JustGone
		u.Unseen = u.Kubelet && !u.JustGone && rules.ByGraph(k.APIGroup, k.Resource, k.Subresource) && !p.state.saw(g.First.Add(-pipeline.UntilBefore))
	case g.Reason == rules.OwnUntilBefore:
		u.Outcome, u.JustGone = checks.OutcomeSucceeded, k.Apart == rules.JustGone
	case g.Reason == rules.RefusalTolerated:
		u.Outcome, u.Tolerated = checks.OutcomeSucceeded, true
	case g.Reason == rules.NameImpossible:
		u.Outcome, u.Tolerated = checks.OutcomeSucceeded, k.Apart == rules.Tolerated
	case g.Reason == rules.AdmissionRefused && (g.Count == 1 || k.Apart == rules.RefusedLater):
		u.Outcome = checks.OutcomeRefused
	case g.Reason == rules.AdmissionRefused: // a store of before groups had it in their keys: one of the others may have been answered with 404
		u.Outcome = checks.OutcomeUnknown
	}
	return u
}
