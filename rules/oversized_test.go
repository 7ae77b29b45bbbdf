package rules

import (
	"fmt"
	"testing"
)

// A request whose event is too long is no kubelet's. If only the response made it too long, as a list of thousands of Services does, the request is judged by its fields as any other.
func TestEventTooLong(t *testing.T) {
	const long = "high: node worker-1 sent a request whose audit event has 5500000 bytes, longer than the bound: it was judged from its fields"
	reduced := func(response int64) with {
		return func(r *Request) { r.Event.ReducedFrom, r.Event.ResponseBytes = 5_500_000, response }
	}
	f := expects(t, oversizedRequest(), NewMemory())
	f("a list with a long response", "", does("list services"), code(200), reduced(5_490_000))
	f("a write with a long response", "", does("deletecollection resourceslices.resource.k8s.io"), code(200), reduced(5_490_000))
	f("a list that is long itself", long, does("list services"), code(200), reduced(0))
	f("a write that is long itself", long, does("patch nodes worker-1"), byRBAC(200), reduced(0))
	f("many addresses, and a long response", "high: node worker-1 sent a request with 40 forwarding addresses: kubelets do not do that", does("list services"), code(200), reduced(5_490_000),
		func(r *Request) { r.Event.SourceIPs = make([]string, 40) })
}

// Whoever asks for a certificate chooses how long the request is. If the log has no body of it for that, the certificate may be for any node. A log that has no bodies is nobody's doing.
func TestRequestCut(t *testing.T) {
	m := NewMemory()
	m.Bootstrap.Trusted = []string{"ops"}
	f := expects(t, oversizedRequest(), m)
	const long = "high: user %q asked for a certificate in a request that was too long for the log, which does not have its body: it may be for any node"
	cutOff := func(r *Request) { r.Event.RequestObject, r.Event.Cut = nil, true }
	bare := func(r *Request) { r.Event.RequestObject = nil }
	reduced := func(r *Request) { r.Event.RequestObject, r.Event.ReducedFrom = nil, 5_500_000 }
	dry := func(r *Request) { r.Event.RequestURI = "/apis/x?dryRun=All" }
	ask := kubeletsAsk("worker-2")
	for _, by := range []string{ask.user, "system:node:worker-1", "jane"} {
		a := ask
		if a.user = by; by == "system:node:worker-1" {
			a.groups = []string{"system:nodes", "system:authenticated"}
		}
		f(by, "", signing(t, a, "", "csr-1"), code(201))
		f(by+", cut", fmt.Sprintf(long, by), signing(t, a, "", "csr-1"), code(201), cutOff)
		f(by+", cut and refused", "", signing(t, a, "", "csr-1"), code(403), cutOff, func(r *Request) { r.Allowed = false })
		f(by+", cut, a dry run", "", signing(t, a, "", "csr-1"), code(201), cutOff, dry)
		f(by+", a log without bodies", "", signing(t, a, "", "csr-1"), code(201), bare)
		for _, sub := range []string{"approval", "status"} { // the one who asked made it too long
			f(by+", "+sub+" cut", "", signing(t, a, sub, "csr-1"), cutOff)
		}
	}
	trusts := ask
	trusts.user = "ops"
	f("trusted", "", signing(t, trusts, "", "csr-1"), code(201), cutOff)
	trusts.user = "jane"
	f("over the bound", fmt.Sprintf(long, "jane"), signing(t, trusts, "", "csr-1"), code(201), reduced)
	f("who acts as a bootstrap token", fmt.Sprintf(long, "admin"), signing(t, ask, "", "csr-1"), code(201), cutOff, impersonated)
}
