package rules

import (
	"testing"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// A request with a node's client certificate that names further addresses is somebody else's than a kubelet's, whatever the addresses are and however they are
// ordered. What a front proxy or another API server forwards is not.
func TestForwarded(t *testing.T) {
	const own, own6, else1, server = "10.0.1.10", "2001:db8::10", "203.0.113.66", "10.0.0.2"
	w := &world{
		nodes: []string{"worker-1", "worker-2"}, pods: map[string]string{"shop/own": "worker-1", "shop/other": "worker-2"},
		addresses: map[string][]string{"worker-1": {"worker-1", own, own6}, "worker-2": {"10.0.1.11"}},
	}
	x509 := certificate("X509SHA256=2b02cca88da1b051bea58198d7830c64229c0b7fd8124b34dfd07091630c9258")
	f := func(name string, want Reason, changes ...with) {
		t.Helper()
		for _, what := range []string{"get secrets shop/db", "update leases.coordination.k8s.io kube-node-lease/worker-1", "watch nodes worker-1"} {
			misused(t, w, name, want, what, append([]with{code(200), annotated("allow", nodeauthz.Allow), x509}, changes...)...)
		}
	}
	f("a kubelet", "", from(own))
	f("without an address", "", from())
	f("from elsewhere, which several requests show", "", from(else1))
	f("for elsewhere", Forwarded, from(else1, own))
	f("for several", Forwarded, from(else1, "198.51.100.1", own))
	f("for itself", Forwarded, from(own, own))
	f("for its other address", Forwarded, from(own6, own))
	f("for itself and elsewhere, by elsewhere", Forwarded, from(own, else1, server))
	f("for elsewhere, by elsewhere", Forwarded, from(else1, server))
	f("for another node, by elsewhere", Forwarded, from("10.0.1.11", else1))
	f("for what is no address", Forwarded, from("a load balancer", own))
	misused(t, w, "and refused", ForeignReadRefused, "list secrets shop/", x509, from(else1, own), annotated("forbid", nodeauthz.Deny))
	misused(t, w, "and stopped by admission", Forwarded, "create events shop/e", x509, from(else1, own), code(403), annotated("allow", nodeauthz.Allow))
	f("by another API server", "", from(own, server))
	f("by another API server, IPv4 in IPv6", "", from("::ffff:"+own, server))
	f("by a front proxy", "", from(own, server, "10.0.0.3"), certificate(""))
	f("by a front proxy for elsewhere", "", from(else1, server), certificate(""))
	f("with a token", "", from(else1, own), certificate("JTI=0a1b"))
	found, _ := nodeCredentialMisuse().Find(request(does("get secrets shop/db"), annotated("allow", nodeauthz.Allow), x509, from(else1, own)), nil, NewMemory())
	if found.Reason != Forwarded || found.Severity != Medium || !found.Allowed || found.Subject != "worker-1" || ActOf(found.Rule, found.Reason, found.Severity, true, true) != OddUse {
		t.Errorf("without state: %+v", found)
	}
}
