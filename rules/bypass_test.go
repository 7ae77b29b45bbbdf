package rules

import (
	"testing"

	"github.com/nodetrail/nodetrail/nodeadmission"
)

// admission is what the plugin says of the request, and what its API server said.
func admission(v nodeadmission.Verdict, observed nodeadmission.Observed) with {
	return func(r *Request) {
		r.Admission = Admission{Answer: nodeadmission.Answer{Verdict: v, Code: 403, Message: "nodes \"worker-1\" is forbidden: no"}, Observed: observed}
	}
}

func TestBypass(t *testing.T) {
	rule, foreign := restrictionBypass(), foreignNodeWrite()
	w := &world{pods: map[string]string{"shop/mine": "worker-1", "shop/yours": "worker-2"}}
	f := func(name, want string, changes ...with) {
		t.Helper()
		r := request(changes...)
		if got := check(t, rule, w, nil, r); got != want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
		if want != "" && check(t, foreign, w, nil, r) != "" {
			t.Errorf("%s: both rules flag it", name)
		}
	}
	const refuses = ` although NodeRestriction refuses it: nodes "worker-1" is forbidden: no`
	deny, allow, unknown := nodeadmission.Deny, nodeadmission.Allow, nodeadmission.Unknown
	passed := nodeadmission.ObservedAllow
	f("its own Node, which the plugin refuses", "critical: patch nodes worker-1 by node worker-1 succeeded"+refuses,
		does("patch nodes worker-1"), byRBAC(200), admission(deny, passed))
	f("storage refused it later", "high: patch nodes worker-1 by node worker-1 passed admission and failed with code 422"+refuses,
		does("patch nodes worker-1"), byRBAC(422), admission(deny, passed))
	f("a token", "critical: create serviceaccounts/token shop/app by node worker-1 succeeded"+refuses,
		does("create serviceaccounts/token shop/app"), byRBAC(201), admission(deny, passed))
	f("the plugin allows it", "", does("patch nodes worker-1"), byRBAC(200), admission(allow, passed))
	f("nobody knows", "", does("patch nodes worker-1"), byRBAC(200), admission(unknown, passed))
	f("the plugin refused it", "", does("patch nodes worker-1"), byRBAC(403), admission(deny, nodeadmission.ObservedDeny))
	f("another plugin refused it", "", does("patch nodes worker-1"), byRBAC(403), admission(deny, nodeadmission.ObservedOther))
	f("nothing tells how it ended", "", does("patch nodes worker-1"), byRBAC(0), admission(deny, nodeadmission.ObservedNone))
	f("the API server failed", "high: patch nodes worker-1 by node worker-1 may have been carried out: the API server failed with code 504"+refuses,
		does("patch nodes worker-1"), byRBAC(504), admission(deny, nodeadmission.ObservedOther))
	f("the API server failed on what the plugin allows", "", does("patch nodes worker-1"), byRBAC(504), admission(allow, nodeadmission.ObservedOther))
	f("the API server failed, and nobody knows", "", does("patch nodes worker-1"), byRBAC(504), admission(unknown, nodeadmission.ObservedOther))
	f("the plugin itself failed", "", does("patch nodes worker-1"), byRBAC(500), admission(deny, nodeadmission.ObservedDeny))
	f("the API server failed in a race", "", does("patch nodes worker-1"), byRBAC(504), admission(deny, nodeadmission.ObservedOther), func(r *Request) { r.Admission.Race = true })
	f("what a kubelet is refused", "", does("create pods shop/web-worker-1"), byRBAC(504), admission(deny, nodeadmission.ObservedOther),
		func(r *Request) {
			r.Admission.Message = `pods "web-worker-1" is forbidden: node "worker-1" can not create pods that reference configmaps`
		})
	f("a race", "", does("patch nodes worker-1"), byRBAC(200), admission(deny, passed), func(r *Request) { r.Admission.Race = true })
	f("of a race of the authorizer", "critical: patch nodes worker-1 by node worker-1 succeeded"+refuses,
		does("patch nodes worker-1"), byRBAC(200), admission(deny, passed), race)

	// What is about another node's object is the other rule's, and only that one's.
	for _, what := range []string{"patch nodes worker-2", "delete pods shop/yours", "update leases.coordination.k8s.io kube-node-lease/worker-2"} {
		r := request(does(what), byRBAC(200), admission(deny, passed))
		if got := check(t, rule, w, nil, r); got != "" || check(t, foreign, w, nil, r) == "" {
			t.Errorf("%s: %q, and by the other rule %q", what, got, check(t, foreign, w, nil, r))
		}
	}
	failed := request(does("patch nodes worker-2"), byRBAC(504), admission(deny, nodeadmission.ObservedOther))
	if got := check(t, foreign, w, nil, failed); got != "high: patch nodes worker-2 by node worker-1 passed authorization, and the API server failed with code 504: it may have carried it out" {
		t.Errorf("the API server failed: %s", got)
	}
	r := request(does("create leases.coordination.k8s.io kube-node-lease/worker-2"), byRBAC(409), admission(deny, passed))
	if got := check(t, foreign, w, nil, r); got != "critical: create leases.coordination.k8s.io kube-node-lease/worker-2 by node worker-1 went through: NodeRestriction is not in force" {
		t.Errorf("passed admission: %s", got)
	}
}
