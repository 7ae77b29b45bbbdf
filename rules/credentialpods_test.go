package rules

import (
	"testing"

	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// A kubelet asks for its own pods alone. Whoever asks for all of them, as a kubelet, and is let through without a binding, is found.
func TestPodsOfAllNodes(t *testing.T) {
	byNode := func(r *Request) {
		r.Allowed, r.Event.Code, r.Observed.NodeVerdict, r.Event.RequestURI = true, 200, nodeauthz.Allow, "/api/v1/pods"
	}
	f := func(name string, want bool, changes ...with) {
		t.Helper()
		found, is := nodeCredentialMisuse().Find(request(changes...), nil, NewMemory())
		if is != want || want && (found.Reason != PodsOfAll || found.Severity != Medium) {
			t.Errorf("%s: %t %+v", name, is, found)
		}
	}
	f("list", true, does("list pods"), byNode)
	f("watch", true, does("watch pods"), byNode)
	f("of another node", true, does("list pods"), byNode, selecting("spec.nodeName", "worker-2"))
	f("that run", true, does("list pods"), byNode, selecting("status.phase", "Running"))
	f("its own", false, does("list pods"), byNode, selecting("spec.nodeName", "worker-1"))
	f("one", false, does("watch pods shop/web"), byNode)
	f("those of a name, in all namespaces", true, does("list pods /web"), byNode)
	f("by a binding", false, does("list pods"), byRBAC(200))
	f("refused", false, does("list pods"))
	f("a log without paths", false, does("list pods"), byNode, func(r *Request) { r.Event.RequestURI = "" })
	f("services", false, does("list services"), byNode)
}

// What the API server cut off a write's event is not known: NodeRestriction may have been asked about anything.
func TestBodyCut(t *testing.T) {
	const cut = "medium: node worker-1 sent a write whose audit event was too long for the API server, which cut its body off: what NodeRestriction says of it is not known"
	unknown := func(r *Request) {
		r.Event.Cut, r.Admission = true, Admission{Answer: nodeadmission.Answer{Verdict: nodeadmission.Unknown, Missing: nodeadmission.MissingBody}}
	}
	f := expects(t, oversizedRequest(), NewMemory())
	f("a write", cut, does("patch nodes worker-1"), byRBAC(200), unknown)
	f("not cut", "", does("patch nodes worker-1"), byRBAC(200), unknown, func(r *Request) { r.Event.Cut = false })
	f("in vain", "", does("patch nodes worker-1"), byRBAC(403), unknown)
	f("what the body does not matter for", "", does("patch nodes worker-1"), byRBAC(200), unknown, func(r *Request) { r.Admission.Verdict = nodeadmission.Allow })
	f("a read", "", does("list nodes"), byRBAC(200), func(r *Request) { r.Event.Cut = true })
	f("a dry run", "", does("patch nodes worker-1"), byRBAC(200), unknown, func(r *Request) { r.Event.RequestURI = "/api/v1/nodes/worker-1?dryRun=All" })
	f("a token for a dry run, which is a token", cut, does("create serviceaccounts/token shop/web"), byRBAC(201), unknown,
		func(r *Request) { r.Event.RequestURI = "/api/v1/namespaces/shop/serviceaccounts/web/token?dryRun=All" })
}
