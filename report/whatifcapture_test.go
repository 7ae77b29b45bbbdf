package report

import (
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodetrail/nodetrail/internal/test/captured"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

// hasBinding is whether the cluster role binding was there at t.
func hasBinding(s *rbac.Store, name string, t time.Time) bool {
	for b := range s.Bindings(t) {
		if b.Binding.Name == name {
			return true
		}
	}
	return false
}

// kindOf is the kind of a request: who, verb, resource and relation.
func kindOf(j *pipeline.Judgement) string {
	a := j.Attrs
	who, what := j.Event.Effective().Username, a.Path
	if a.ResourceRequest {
		what = a.APIGroup + "/" + a.Resource + "/" + a.Subresource
	}
	if !j.IsNode && strings.HasPrefix(who, "system:node:") {
		who += " without the group"
	}
	return strings.Clone(strings.Join([]string{who, a.Verb, what, j.Relation().String()}, " "))
}

// outcomesOf are the kinds of request of each outcome, with an auditID.
type outcomesOf [outcomes]map[string]string

func (o *outcomesOf) add(f Fate, kind, id string) {
	if o[f.Outcome] == nil {
		o[f.Outcome] = map[string]string{}
	}
	o[f.Outcome][kind] = id
}

func (o *outcomesOf) has(kind string, some ...Outcome) bool {
	for _, f := range some {
		if o[f][kind] != "" {
			return true
		}
	}
	return false
}

// TestWhatIfCameTrue holds the what-if of the time in which a real cluster had the binding against what its API server refused once the
// binding was gone, kind by kind; and the what-if of then, with the binding added again, against what passed while it was there.
func TestWhatIfCameTrue(t *testing.T) {
	const legacy = "legacy:system:node"
	binding := rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: legacy}, RoleRef: rbacv1.RoleRef{Kind: rbac.KindClusterRole, Name: "system:node"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "system:nodes"}},
	}
	var then, later outcomesOf // kinds while the binding was there, without it; kinds that were refused later, with it
	refused, passed := map[string]string{}, map[string]string{}
	gone, requests := false, 0
	c := captured.Open(t, "capture", "auto")
	store, mode := c.State.RBAC, c.Judge.Mode
	without := &WhatIf{RBAC: store, Mode: mode, Change: store.Change(func(g rbac.Grant) bool { return g.Binding.Name == legacy }, nil)}
	with := &WhatIf{RBAC: store, Mode: mode, Change: store.Change(nil, &rbac.Objects{ClusterRoleBindings: []rbacv1.ClusterRoleBinding{binding}})}
	c.Replay(func(j *pipeline.Judgement) {
		if !ConcernsNodes(j) {
			return
		}
		kind, id := kindOf(j), strings.Clone(j.Event.AuditID)
		switch {
		case hasBinding(without.RBAC, legacy, j.Time):
			gone = true
			requests++
			then.add(without.Of(j), kind, id)
		case !gone: // before there was a binding
		case j.IsNode && j.Answer.Race: // either answer is normal
		case j.Observed.Decision == "forbid": // the API server's own word
			refused[kind] = id
			later.add(with.Of(j), kind, id)
		case j.Observed.Authorizer == rules.ByNode || j.Observed.HasGrant && j.Observed.Grant.Ambient():
			passed[kind] = id
		}
	})
	asked := func(kind string) bool {
		return then.has(kind, AllowedByNode, AllowedByRBAC, AllowedByOther, Breaks, Fruitless, Race, Refused)
	}
	compared, races := 0, 0
	for kind, id := range refused {
		switch {
		case !asked(kind):
			if !later.has(kind, Gained, Refused) {
				t.Errorf("nor is it said what %s (%s) would have been with the binding", kind, id)
			}
			continue
		case then.has(kind, Breaks, Fruitless, Refused):
		case then.has(kind, Race): // listed among the races
			races++
		default:
			t.Errorf("refused later (%s) and not listed: %s", id, kind)
		}
		compared++
		// What the binding would have let through is what broke, and what it would not was refused with it too.
		if later.has(kind, Gained) != then.has(kind, Breaks, Fruitless) && !then.has(kind, Race) {
			t.Errorf("with the binding again (%s) allowed: %t, and listed as breaking: %t: %s", id, later.has(kind, Gained), then.has(kind, Breaks, Fruitless), kind)
		}
	}
	came, listed := 0, map[string]bool{}
	for _, o := range []Outcome{Breaks, Fruitless} {
		for kind, id := range then[o] {
			listed[kind] = true
			if passed[kind] != "" {
				t.Errorf("listed (%s) and allowed later (%s): %s", id, passed[kind], kind)
			}
		}
	}
	for kind := range listed {
		if refused[kind] != "" {
			came++
		}
	}
	if len(then[Undecided])+len(then[Gained]) > 0 {
		t.Errorf("not said: %v, gained: %v", then[Undecided], then[Gained])
	}
	t.Logf("%d requests while the binding was there, %d kinds of which would be refused without it; %d of those were asked for again, and all were refused",
		requests, len(listed), came)
	t.Logf("%d kinds were refused once it was gone, of which %d were asked for before: all listed (%d only among races) or refused before",
		len(refused), compared, races)
	if got, want := [...]int{requests, len(listed), came, compared, len(refused), races}, [...]int{542, 102, 76, 103, 216, 1}; got != want {
		t.Errorf("compared %v, want %v, as docs/what-if.md has them", got, want)
	}
}

// TestWhatIfRBACOnly: a cluster before its migration, that will run Node,RBAC without the binding; and what would be if it did not turn
// Node on.
func TestWhatIfRBACOnly(t *testing.T) {
	f := func(then []string, see func(*WhatIfReport)) {
		t.Helper()
		c := captured.Open(t, "capture-rbac-only", "auto")
		b := NewWhatIfBuilder(&WhatIf{RBAC: c.State.RBAC, Mode: c.Judge.Mode, Then: then, Change: c.State.RBAC.Change(rbac.Grant.ForNodes, nil)})
		c.Replay(func(j *pipeline.Judgement) { b.Add(j) })
		r := b.Report(Facts{})
		var sum int64
		for i := range r.Groups {
			g := &r.Groups[i]
			sum += g.Count
			lost := g.Outcome == "breaks" || g.Outcome == "fruitless" || g.Outcome == "race"
			if lost && (len(g.Lost) != 1 || g.Lost[0].Name != "legacy:system:node") || !lost && len(g.Lost) > 0 {
				t.Errorf("%+v loses %v", g, g.Lost)
			}
			if g.Count < 1 || g.First.After(g.Last) || len(g.AuditIDs) == 0 {
				t.Errorf("%+v", g)
			}
		}
		n := &r.Requests
		if sum != n.Total()-n.Node-n.Other-n.Refused {
			t.Errorf("%d requests in groups: %+v", sum, n)
		}
		see(r)
	}
	f(nil, func(r *WhatIfReport) {
		if r.Then != "Node,RBAC" || r.Requests.Breaks == 0 || r.Requests.Node == 0 || r.Requests.Unknown > 0 || r.Evidence != "sufficient" {
			t.Errorf("%s: %+v, %s", r.Then, r.Requests, r.Evidence)
		}
		if len(r.Removed) != 1 || r.Removed[0].Name != "legacy:system:node" || r.Removed[0].Role != "system:node" {
			t.Errorf("removed: %+v", r.Removed)
		}
		t.Logf("%+v", r.Requests)
		for i := range r.Groups {
			if g := &r.Groups[i]; g.Outcome == "breaks" && (g.Client == "hollow-kubelet" || g.Relation == "own" && g.Verb == "get" && g.Resource == "secrets") {
				t.Errorf("a kubelet's own request is listed as breaking: %+v", g)
			}
		}
	})
	f([]string{"RBAC"}, func(r *WhatIfReport) {
		if r.Then != "RBAC" || r.Requests.Node+r.Requests.Race > 0 || r.Requests.Breaks < 500 {
			t.Errorf("%s: %+v", r.Then, r.Requests)
		}
	})
	var nodeFirst WhatIfCounts
	f([]string{"Node", "RBAC"}, func(r *WhatIfReport) { nodeFirst = r.Requests })
	f([]string{"RBAC", "Node"}, func(r *WhatIfReport) {
		// What is refused does not depend on the order; only who allows the rest does.
		n := r.Requests
		if n.Node+n.RBAC != nodeFirst.Node+nodeFirst.RBAC || n.RBAC < nodeFirst.RBAC || n.Breaks != nodeFirst.Breaks || n.Race != nodeFirst.Race {
			t.Errorf("RBAC,Node %+v, Node,RBAC %+v", n, nodeFirst)
		}
	})
}
