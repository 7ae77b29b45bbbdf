package pipeline

import (
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// secretReaders gives the group the right to read secrets, as of the tests' beginning of time.
func secretReaders(group string) *rbac.Store {
	s := rbac.NewStore()
	s.CoverFrom(at(-100_000))
	s.SetClusterRole(&rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}},
	}, at(-100_000))
	s.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"}, RoleRef: rbacv1.RoleRef{Kind: rbac.KindClusterRole, Name: "readers"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: group}},
	}, at(-100_000))
	return s
}

// What the log does not say of a request's end, the state must: a request that may have been let through is not one that was refused.
func TestEndOfARequest(t *testing.T) {
	f := func(name string, s *rbac.Store, allowed, open bool, change func(*audit.Event)) {
		t.Helper()
		stream, _ := newTestStream(t, "Node,RBAC", Options{}, func(*Judgement) error { return nil })
		stream.sched.judge.RBAC = s
		ev := get("a", audit.StageResponseComplete, 0, "", "")
		change(&ev)
		j := stream.sched.judge.Judge(&ev)
		if j.Answer.Verdict != nodeauthz.Deny {
			t.Fatalf("%s: the verdict is %s", name, j.Answer.Verdict)
		}
		if j.Allowed != allowed || j.Open != open {
			t.Errorf("%s: allowed %t, open %t", name, j.Allowed, j.Open)
		}
		excess := false
		for i := range j.Findings {
			excess = excess || j.Findings[i].Rule.Name == "rbac-excess-access"
		}
		if excess != allowed {
			t.Errorf("%s: needs RBAC %t", name, excess)
		}
	}
	received := func(ev *audit.Event) { ev.Stage, ev.Code = audit.StageRequestReceived, 0 }
	code := func(code int32) func(*audit.Event) { return func(ev *audit.Event) { ev.Code = code } }
	f("no answer, and RBAC lets it through", secretReaders("system:nodes"), true, false, received)
	f("no answer, and RBAC does not", secretReaders("others"), false, false, received)
	f("no answer, and RBAC is not known", rbac.NewStore(), false, true, received)
	f("no answer and no RBAC", nil, false, true, received)
	f("an answer without a code", rbac.NewStore(), false, true, code(0))
	f("answered", rbac.NewStore(), true, false, code(200))
	f("not found", nil, true, false, code(404))
	f("refused", nil, false, false, code(403))
	f("too many requests, before authorization", secretReaders("system:nodes"), false, false, code(429))
	f("authorization failed", secretReaders("system:nodes"), false, false, func(ev *audit.Event) { ev.Code, ev.Reason = 500, "internal error" })
	f("a decision without a code", nil, true, false, func(ev *audit.Event) {
		received(ev)
		ev.Stage, ev.Decision, ev.Reason = audit.StagePanic, "allow", rbacReason
	})
}

// A node that acts as somebody else does so through RBAC only, and it is that access which goes with the binding.
func TestImpersonationByNodes(t *testing.T) {
	f := func(name, want string, s *rbac.Store, change func(*audit.Event)) {
		t.Helper()
		stream, _ := newTestStream(t, "Node,RBAC", Options{}, func(*Judgement) error { return nil })
		stream.sched.judge.RBAC = s
		ev := get("a", audit.StageResponseComplete, 0, "allow", `RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to ServiceAccount "agent/ns"`)
		ev.IsImpersonated, ev.Impersonated = true, audit.User{Username: "system:serviceaccount:ns:agent", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"}}
		change(&ev)
		got := ""
		j := stream.sched.judge.Judge(&ev)
		for _, found := range j.Findings {
			if found.Rule.Name == "rbac-excess-access" {
				k := keyOf(j, &found)
				got += wording.English{}.Finding(&k, &tally.Group{Reason: found.Reason, Params: found.Params})
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	impersonators := func(group string) *rbac.Store {
		s := secretReaders(group)
		s.SetClusterRole(&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "readers"},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{"agent"}}},
		}, at(-50_000))
		return s
	}
	same := func(*audit.Event) {}
	const named = `to act as "system:serviceaccount:ns:agent" is allowed to node n1 by ClusterRoleBinding readers alone`
	const unnamed = `to act as "system:serviceaccount:ns:agent" is allowed to node n1 by an RBAC binding that the log does not name alone`
	f("by a binding for nodes", named, impersonators("system:nodes"), same)
	f("by one that nobody knows", unnamed, nil, same)
	f("by one that the state does not hold", unnamed, impersonators("others"), same)
	f("refused to whom it acts as", "", impersonators("system:nodes"), func(ev *audit.Event) { ev.Decision, ev.Reason, ev.Code = "forbid", "", 403 })
	f("by a group that it has besides", "", impersonators("agents"), func(ev *audit.Event) { ev.User.Groups = append(ev.User.Groups, "agents") })
	f("an administrator as a service account", "", impersonators("system:nodes"), func(ev *audit.Event) { ev.User = audit.User{Username: "admin"} })

	// Another node is somebody else, too, whatever that one may do itself.
	asNode := func(decision, reason string) func(*audit.Event) {
		return func(ev *audit.Event) {
			ev.Impersonated = audit.User{Username: "system:node:n2", Groups: []string{"system:nodes"}}
			ev.Decision, ev.Reason = decision, reason
		}
	}
	toActAsNode := func(group string) *rbac.Store {
		s := secretReaders(group)
		s.SetClusterRole(&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "readers"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"users", "groups"}}},
		}, at(-50_000))
		return s
	}
	const namedNode = `to act as "system:node:n2" is allowed to node n1 by ClusterRoleBinding readers alone`
	f("as another node, which may do it", namedNode, toActAsNode("system:nodes"), asNode("allow", ""))
	f("as another node, and nobody knows by which binding", strings.ReplaceAll(unnamed, "serviceaccount:ns:agent", "node:n2"), nil, asNode("allow", ""))
	f("as another node, by a group that it has besides", "", toActAsNode("agents"), func(ev *audit.Event) {
		asNode("allow", "")(ev)
		ev.User.Groups = append(ev.User.Groups, "agents")
	})
	f("and what that node does needs a binding", `get secrets shop/db is allowed to node n2 by ClusterRoleBinding b alone`, toActAsNode("agents"), func(ev *audit.Event) {
		asNode("allow", `RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "system:nodes"`)(ev)
		ev.User.Groups = append(ev.User.Groups, "agents")
	})
}

// An API server that knows a pod before the state does, or not any more, has another clock. One that does not know it yet lags.
func TestClockDistance(t *testing.T) {
	stream, g := newTestStream(t, "Node,RBAC", Options{}, func(*Judgement) error { return nil })
	stamp := func(ms int) nodeauthz.Stamp { return nodeauthz.Stamp{Time: at(ms), Source: nodeauthz.SourceAudit} }
	g.SetPod(&nodeauthz.Pod{Namespace: "shop", Name: "web", UID: "u", NodeName: "n1", Secrets: []string{"db"}}, stamp(10_000))
	g.DeletePod("shop", "web", "u", stamp(60_000))
	for _, c := range []struct {
		ms       int
		decision string
		want     time.Duration
		is       bool
	}{
		{8_000, "allow", 2 * time.Second, true},    // before the pod came
		{8_000, "forbid", 0, false},                // they agree
		{9_950, "allow", 0, false},                 // a race
		{13_000, "forbid", 3 * time.Second, false}, // lag
		{57_000, "forbid", 3 * time.Second, true},  // the pod is gone by that clock
		{57_000, "allow", 0, false},
		{64_000, "allow", 4 * time.Second, true}, // after it went
	} {
		reason := ""
		if c.decision == "forbid" {
			reason = "no"
		}
		ev := get("a", audit.StageResponseComplete, c.ms, c.decision, reason)
		j := stream.sched.judge.Judge(&ev)
		d, is := j.ClockDistance()
		if is != c.is || is && (d-c.want).Abs() > 10*time.Millisecond {
			t.Errorf("%d ms, %s: %s, %t; want %s, %t (%s)", c.ms, c.decision, d, is, c.want, c.is, j.Answer.Verdict)
		}
	}
}
