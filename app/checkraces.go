package app

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
)

// raceBook counts the races of a log that the Node authorizer did not allow, by client and object.
type raceBook struct {
	kubelets []string
	of       map[raceKey]*checks.Races
	full     bool // something was dropped
}

type raceKey struct{ node, client, request, object string }

const (
	maxRaces  = 50_000
	maxRaceID = 5
)

func newRaceBook(kubelets []string) *raceBook {
	return &raceBook{kubelets: kubelets, of: map[raceKey]*checks.Races{}}
}

// add takes in a judgement.
func (b *raceBook) add(j *pipeline.Judgement, bound *bindingBook) {
	if !j.IsNode || !j.Answer.Race || j.Observed.NodeVerdict == nodeauthz.Allow || !j.Allowed && !j.Open || j.Spare {
		return
	}
	byRBAC := j.Observed.NodeVerdict == nodeauthz.Deny
	if byRBAC && (j.HasGrant && !j.Grant.ForNodes() && !bound.goes[j.Grant.Binding] || !j.HasGrant && j.Observed.Decision != "") {
		return // another binding, or another authorizer
	}
	a := j.Attrs
	path := a.Name
	if !a.ResourceRequest {
		path = a.Path
	}
	k := raceKey{j.Node, rules.Product(j.Event.UserAgent), requestKind(a.Verb, a.APIGroup, a.Resource, a.Subresource, path), objectOf(a.Namespace, a.Name)}
	r := b.of[k]
	if r == nil {
		if len(b.of) >= maxRaces {
			b.full = true
			return
		}
		k = raceKey{strings.Clone(k.node), strings.Clone(k.client), strings.Clone(k.request), strings.Clone(k.object)}
		r = &checks.Races{Node: k.node, Client: k.client, Request: k.request, Object: k.object, Kubelet: rules.IsKubelet(k.client, b.kubelets), First: j.Time}
		b.of[k] = r
	}
	if byRBAC {
		r.ByRBAC++
	} else {
		r.Undecided++
	}
	if j.Time.Before(r.First) {
		r.First = j.Time
	}
	if j.Time.After(r.Last) {
		r.Last = j.Time
	}
	if len(r.AuditIDs) < maxRaceID {
		r.AuditIDs = append(r.AuditIDs, strings.Clone(j.Event.AuditID))
	}
}

// list is all of them in a fixed order.
func (b *raceBook) list() []checks.Races {
	out := make([]checks.Races, 0, len(b.of))
	for _, r := range b.of {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(x, y checks.Races) int {
		return cmp.Or(strings.Compare(x.Node, y.Node), strings.Compare(x.Client, y.Client), strings.Compare(x.Request, y.Request), strings.Compare(x.Object, y.Object))
	})
	return out
}
