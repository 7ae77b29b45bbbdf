package pipeline

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/version"
)

const rbacReason = `RBAC: allowed by ClusterRoleBinding "legacy:system:node" of ClusterRole "system:node" to Group "system:nodes"`

// status is a kubelet's write of its own status: any node may, by a static rule.
func status(id string, ms int, decision, reason string) audit.Event {
	ev := get(id, audit.StageResponseComplete, ms, decision, reason)
	ev.Verb, ev.RequestURI = "patch", "/api/v1/nodes/n1/status"
	ev.ObjectRef = audit.ObjectRef{Resource: "nodes", Subresource: "status", Name: "n1", APIVersion: "v1"}
	return ev
}

func TestModeIsInferred(t *testing.T) {
	f := func(want string, implied nodeauthz.Verdict, events ...audit.Event) {
		t.Helper()
		var last *Judgement
		var s *Stream
		s, _ = newTestStream(t, "auto", Options{}, func(j *Judgement) error {
			copied := *j
			last = &copied
			return nil
		})
		feed(t, s, 3, events...)
		if got := s.sched.judge.Mode.String(); got != want {
			t.Errorf("mode %q, want %q", got, want)
		}
		if last.Observed.NodeVerdict != implied {
			t.Errorf("in mode %q the last event implies %q, want %q", want, last.Observed.NodeVerdict, implied)
		}
	}
	f("Node,RBAC", nodeauthz.Deny, status("a", 0, "allow", ""), status("b", 1, "allow", ""),
		get("c", audit.StageResponseComplete, 2, "allow", rbacReason))
	f("Node,RBAC", nodeauthz.Allow, get("a", audit.StageResponseComplete, 0, "forbid", "no relationship found between node 'n1' and this object"),
		status("b", 1, "allow", ""))
	f("RBAC,Node", nodeauthz.NotNode, status("a", 0, "allow", rbacReason), status("b", 1, "allow", rbacReason),
		get("c", audit.StageResponseComplete, 2, "forbid", "no relationship found between node 'n1' and this object"),
		get("d", audit.StageResponseComplete, 3, "allow", rbacReason))
	// Since Kubernetes 1.37 reasons begin with the authorizer's name.
	f("RBAC,Node", nodeauthz.NotNode, status("a", 0, "allow", rbacReason), status("b", 1, "allow", rbacReason),
		get("c", audit.StageResponseComplete, 2, "forbid", "node: no relationship found between node 'n1' and this object"),
		get("d", audit.StageResponseComplete, 3, "allow", rbacReason))
	f("RBAC", nodeauthz.NotNode, status("a", 0, "allow", rbacReason), get("b", audit.StageResponseComplete, 1, "allow", rbacReason),
		get("c", audit.StageResponseComplete, 2, "forbid", `rbac: RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found`))
	f("RBAC", nodeauthz.NotNode, status("a", 0, "allow", rbacReason), get("b", audit.StageResponseComplete, 1, "allow", rbacReason),
		get("c", audit.StageResponseComplete, 2, "forbid", ""))
	f("", nodeauthz.NotNode, get("a", audit.StageResponseComplete, 0, "", ""))

	// Members of system:masters are allowed before any authorizer, with the same empty reason as Node's.
	masters := status("a", 0, "allow", "")
	masters.User.Groups = append(masters.User.Groups, "system:masters")
	f("", nodeauthz.NotNode, masters)
}

func TestParseMode(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		m, err := ParseMode(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.String(); got != want || m.Inferred() {
			t.Errorf("%q: %q, inferred %t", in, got, m.Inferred())
		}
	}
	f("Node,RBAC", "Node,RBAC")
	f("RBAC,Node", "RBAC,Node")
	f("Webhook,RBAC", "Webhook,RBAC")
	f("Node", "Node")
	f("Node,Webhook,RBAC", "Node,Webhook,RBAC")
	for _, bad := range []string{"node", "Node,", "Node RBAC", "RBAC,RBAC"} {
		if _, err := ParseMode(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// A cluster that has long had RBAC only gets the Node authorizer before it: that has to show within hours, whatever came before.
func TestModeFollowsAMigration(t *testing.T) {
	m := &Mode{}
	see := func(n int, by rules.Authorizer) {
		for i := range n {
			j := &Judgement{Request: rules.Request{Attrs: &authorizer.AttributesRecord{Resource: "nodes", Subresource: "status"}}}
			j.IsNode = true
			j.Observed.Decision, j.Observed.Authorizer = "allow", by
			j.Answer.Verdict, j.Answer.Static = nodeauthz.Allow, i%4 == 0
			m.Observe(j)
		}
	}
	f := func(want string) {
		t.Helper()
		if got := m.String(); got != want {
			t.Errorf("mode %q, want %q", got, want)
		}
	}
	see(100_000, rules.ByRBAC)
	f("RBAC")
	see(10, rules.ByNode)
	f("RBAC,Node") // so far
	see(600, rules.ByNode)
	f("Node,RBAC")
	see(100_000, rules.ByNode)
	for range 100 { // the API server lags a little
		j := &Judgement{}
		j.IsNode = true
		j.Observed.Decision, j.Observed.Authorizer, j.Answer.Verdict = "allow", rules.ByRBAC, nodeauthz.Allow
		m.Observe(j)
		see(20, rules.ByNode)
	}
	f("Node,RBAC")
	see(100, rules.ByRBAC)
	f("RBAC,Node")
}

// After an API server's restart its graph is empty for up to a minute, and RBAC lets through what Node would: that is no other order, as long
// as Node allows what needs no graph.
func TestModeThroughARestart(t *testing.T) {
	see := func(m *Mode, by rules.Authorizer, static bool) {
		j := &Judgement{Request: rules.Request{Attrs: &authorizer.AttributesRecord{Resource: "nodes", Subresource: "status"}}}
		j.IsNode = true
		j.Observed.Decision, j.Observed.Authorizer, j.Answer.Verdict, j.Answer.Static = "allow", by, nodeauthz.Allow, static
		m.Observe(j)
	}
	m := &Mode{}
	see(m, rules.ByNode, true)
	for range 1000 {
		see(m, rules.ByRBAC, false)
	}
	restored := &Mode{}
	restored.Restore(m.Save())
	for _, m := range []*Mode{m, restored} {
		if got := m.String(); got != "Node,RBAC" {
			t.Errorf("mode %q", got)
		}
	}
	without := &Mode{word: true}
	for range 1000 {
		see(without, rules.ByRBAC, false)
	}
	if got := without.String(); got != "RBAC,Node" {
		t.Errorf("mode %q of a log without requests that need no graph", got)
	}
}

// What shows the order of the authorizers must not depend on the version, which may be found later: every version has the same static rules there.
func TestModeRestsOnNoVersion(t *testing.T) {
	g := nodeauthz.NewGraph()
	g.CoverFrom(time.Unix(0, 0))
	var all []*nodeauthz.Authorizer
	for _, f := range version.Hypotheses() {
		all = append(all, nodeauthz.NewAuthorizer(g, f, 0))
	}
	allowed := map[string]bool{}
	node := &user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup}}
	for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
		for _, of := range []struct{ group, resources string }{
			{"", "nodes pods secrets configmaps services endpoints events serviceaccounts persistentvolumes persistentvolumeclaims"},
			{"storage.k8s.io", "csinodes csidrivers volumeattachments"}, {"coordination.k8s.io", "leases"}, {"node.k8s.io", "runtimeclasses"},
			{"resource.k8s.io", "resourceclaims resourceslices"}, {"events.k8s.io", "events"},
			{"certificates.k8s.io", "certificatesigningrequests podcertificaterequests clustertrustbundles"},
			{"authentication.k8s.io", "tokenreviews"}, {"authorization.k8s.io", "subjectaccessreviews localsubjectaccessreviews"},
		} {
			for _, resource := range strings.Fields(of.resources) {
				for _, sub := range []string{"", "status", "token", "eviction"} {
					for _, name := range []string{"", "n1", "other"} {
						a := &authorizer.AttributesRecord{
							User: node, Verb: verb, APIGroup: of.group, APIVersion: "v1", Resource: resource, Subresource: sub, Name: name, ResourceRequest: true,
							Namespace: "kube-node-lease",
						}
						if dependsOnVersion(a) {
							continue
						}
						first := all[0].Decide(a, time.Unix(1, 0))
						for _, x := range all {
							if ans := x.Decide(a, time.Unix(1, 0)); (first.Static && first.Verdict == nodeauthz.Allow) != (ans.Static && ans.Verdict == nodeauthz.Allow) {
								t.Errorf("%s %s/%s/%s %q: %s differs", verb, of.group, resource, sub, name, version.Name(x.Features()))
							}
						}
						if first.Static && first.Verdict == nodeauthz.Allow {
							allowed[resource+"/"+sub] = true
						}
					}
				}
			}
		}
	}
	for _, want := range []string{"nodes/status", "pods/status", "leases/", "services/", "csinodes/", "events/"} {
		if !allowed[want] {
			t.Errorf("%s tells nothing", want)
		}
	}
}
