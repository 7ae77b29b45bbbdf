package app

import (
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/nodeauthz"
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
	// A group has the reason of its latest request. Where all were harmless as far as it tells, the book tells how each ended.
	if refused, gone := p.lags.ended(k); rest.Low == rest.Count && !rest.Wide && refused+gone > 0 {
		for _, x := range []struct {
			outcome checks.Outcome
			n       int64
		}{{checks.OutcomeRefused, refused}, {checks.OutcomeNotFound, gone}} {
			if n := min(x.n, rest.Count); n > 0 {
				u := p.use(k, &rest)
				u.Outcome, u.JustGone, u.Count = x.outcome, x.outcome == checks.OutcomeNotFound, n
				out = append(out, u)
				rest.Count, rest.Low = rest.Count-n, rest.Low-n
			}
		}
		rest.Reason = rules.ObjectMissing
	}
	if rest.Count > 0 {
		out = append(out, p.use(k, &rest))
	}
	return out
}

// use is a group of requests that only a binding let through.
func (p *proof) use(k *tally.Key, g *tally.Group) checks.Use {
	u := checks.Use{
		Binding: k.Binding, User: nodeid.UserPrefix + k.Node, Node: k.Node, Client: k.Product, Kubelet: rules.IsKubelet(k.Product, p.kubelets),
		Request: requestKind(k.Verb, k.APIGroup, k.Resource, k.Subresource, k.Name), Object: objectOf(k.Namespace, k.Name),
		Proxy: k.Subresource == "proxy", Impersonation: g.Reason == rules.ImpersonationGiven,
		Count: g.Count, First: g.First, Last: g.Last, AuditIDs: g.AuditIDs, Outcome: checks.OutcomeOther,
	}
	switch {
	case g.Wide && g.Low == g.Count:
		u.Outcome = checks.OutcomeUnknown
	case g.Low < g.Count:
		u.Count -= g.Low
	case g.Reason == rules.ObjectMissing:
		u.Outcome, u.JustGone = checks.OutcomeNotFound, k.Apart == rules.JustGone
	case g.Reason == rules.AdmissionRefused && g.Count == 1:
		u.Outcome = checks.OutcomeRefused
	case g.Reason == rules.AdmissionRefused: // of the others one may have been answered with 404
		u.Outcome = checks.OutcomeUnknown
	}
	return u
}

// untilBefore is how long before a request its object may have been on the node to count as just gone.
const untilBefore = time.Minute

// justGone reports whether the Node authorizer allowed a request until just before all of the time from first to last.
func justGone(auth *nodeauthz.Authorizer, a authorizer.Attributes, first, last time.Time) bool {
	for at := last.Add(-untilBefore); !at.After(first); at = at.Add(time.Second) {
		if auth.Decide(a, at).Verdict == nodeauthz.Allow {
			return true
		}
	}
	return false
}
