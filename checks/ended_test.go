package checks

import (
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/rbac"
)

// Of what ended, only what no request shows counts: of all else the log says whether somebody used it.
func TestEndedDuring(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	rule := func(verb, group, resource string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}}
	}
	cases := []struct {
		verb, group, resource, want string
	}{
		{"get", "", "nodes/proxy", "get nodes/proxy"}, {"*", "", "nodes/proxy", "get nodes/proxy"}, {"create", "", "nodes/*", ""}, {"get", "", "nodes/log", "get nodes/log"},
		{"get", "", "*/log", "get nodes/log"}, {"get", "", "pods/log", ""}, {"get", "", "nodes/metrics", ""}, {"get", "", "secrets", ""}, {"create", "", "pods/exec", ""},
		{"impersonate", "", "users", ""}, {"create", certificatesGroup, certificateRequests + "/nodeclient", Approval()}, {"create", certificatesGroup, certificateRequests + "/selfnodeclient", ""},
		{"sign", certificatesGroup, signers, "sign signers." + certificatesGroup}, {"*", "*", "*", Approval()},
		{verbAudience, "", "vault.corp", ""}, {verbAudience, "", "*", verbAudience + " *"}, {verbAudience, "", "https://kubernetes.default.svc", verbAudience + " https://kubernetes.default.svc"},
	}
	for _, c := range cases {
		given := clusterBinding("b", "r", rule(c.verb, c.group, c.resource), group("system:nodes"))
		got := ""
		for _, e := range EndedDuring([]rbac.Right{{BindingInfo: given, From: at, To: at.Add(time.Minute)}}, at.Add(time.Hour)) {
			got = e.Right
		}
		if got != c.want {
			t.Errorf("%s %s %s: %q, want %q", c.verb, c.group, c.resource, got, c.want)
		}
	}
	lasting := clusterBinding("b", "r", rule("get", "", "nodes/proxy"), group("system:nodes"))
	for _, to := range []time.Time{{}, at.Add(2 * time.Hour)} {
		if got := EndedDuring([]rbac.Right{{BindingInfo: lasting, From: at, To: to}}, at.Add(time.Hour)); len(got) > 0 {
			t.Errorf("one that lasts until %s: %+v", to, got)
		}
	}
	if local := rbac.KindRoleBinding; len(EndedDuring([]rbac.Right{{
		BindingInfo: rbac.BindingInfo{Binding: rbac.BindingRef{Kind: local, Namespace: "shop", Name: "b"}, RoleExists: true, Rules: rule("get", "", "nodes/proxy"), Subjects: slices.Clone(lasting.Subjects)}, To: at,
	}}, at)) > 0 {
		t.Error("a RoleBinding gives nothing of nodes")
	}
}
