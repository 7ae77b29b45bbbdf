package rules

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// kubeletProducts are the user agents behind which a kubelet is: its own, kubemark's, and the distributions that compile it into
// one binary.
func kubeletProducts() []string {
	return []string{"kubelet", "hollow-kubelet", "k3s", "rke2", "kubelite", "k0s", "hyperkube"}
}

func nodeCredentialMisuse() *Rule {
	return &Rule{
		Name:     "node-credential-misuse",
		Severity: High,
		Doc: `A node's credential is used by something that is not its kubelet

## What
A request with a node's identity for which one of these holds:

- the client certificate is one that another node has used before;
- its user agent is not a kubelet's;
- it comes from another address of the same family (IPv4 or IPv6) than the node's first request;
- somebody else impersonates the node.

The first that holds is named.

## Why
A kubelet's key lies on the node's disk. Programs on the node that borrow it break when its rights shrink. An attacker who copied it
uses it from elsewhere or with another tool.

## What to do
If it is a program of yours, give it a service account. Otherwise find out what runs at that address with that user agent, rotate the
kubelet's certificate, and treat what it read as disclosed. One certificate on several nodes comes from an image or an installer that
copies it: issue one for each node. Where somebody impersonates nodes, look at who may: the verb 'impersonate' in RBAC.

## False positives
A node whose address changed, because it was restarted with a new one or has several, is flagged from then on. One that was deleted and
created anew under its name may have a new address; that is not flagged if the state has its Node object. Behind a proxy or a load
balancer the address is the proxy's. Distributions that compile the kubelet into one program send a name of their own: k3s, rke2,
kubelite, k0s and hyperkube are known.

The user agent is the client's own claim, so this rule finds programs that do not hide. One that calls itself a kubelet and runs on the
node is not found by it.

## How to silence it
Run with '--kubelet-user-agent PRODUCT' for a kubelet that calls itself otherwise, or with '--disable node-credential-misuse'.`,
		Check: checkCredential,
	}
}

func checkCredential(r *Request, s State, m *Memory) (Finding, bool) {
	if !r.IsNode || r.Node == "" {
		return Finding{}, false
	}
	product := Product(r.Event.UserAgent)
	found := func(detail, format string, args ...any) (Finding, bool) {
		return Finding{
			Rule: "node-credential-misuse", Severity: High, Subject: r.Node, Detail: detail, Message: fmt.Sprintf(format, args...),
			Allowed: r.Allowed,
		}, true
	}
	if r.Event.IsImpersonated {
		// The credential and the address are another user's, and nothing to remember of the node.
		return found("impersonation", "user %q impersonates node %s with client %q", r.Event.User.Username, r.Node, product)
	}
	if first, shared := m.sharedCertificate(r); shared {
		return found("certificate", "node %s uses the client certificate that node %s has used", r.Node, first)
	}
	if !m.isKubelet(product) {
		return found("client", "the credential of node %s is used by %q, which is no kubelet", r.Node, product)
	}
	if before, now, is := m.secondAddress(r, s); is {
		return found("address "+now, "the credential of node %s is used from %s, before that from %s", r.Node, now, before)
	}
	return Finding{}, false
}

func (m *Memory) isKubelet(product string) bool {
	return slices.Contains(kubeletProducts(), product) || slices.Contains(m.Kubelets, product)
}

// sharedCertificate returns the other node that used the request's certificate first.
func (m *Memory) sharedCertificate(r *Request) (first string, shared bool) {
	id := r.Event.User.CredentialID
	if id == "" {
		return "", false
	}
	if owner := m.certs.get(id); owner != nil {
		return *owner, *owner != r.Node
	}
	if len(r.Node) <= maxRemembered {
		owner := strings.Clone(r.Node)
		m.certs.add(id, &owner)
		m.journal.cert(id)
	}
	return "", false
}

// secondAddress compares the request's peer with the one of the same family that the node had first. The last source address is the
// connection's own; those before it are the client's claims (k8s.io/apimachinery/pkg/util/net.SourceIPs).
func (m *Memory) secondAddress(r *Request, s State) (before, now string, is bool) {
	ips := r.Event.SourceIPs
	if len(ips) == 0 {
		return "", "", false
	}
	addr, err := netip.ParseAddr(ips[len(ips)-1])
	if err != nil {
		return "", "", false
	}
	addr = addr.Unmap().WithZone("") // a zone may be any text
	n := m.nodes.get(r.Node)
	if n == nil {
		n = &nodeMemory{}
		m.nodes.add(r.Node, n)
	}
	known, at := &n.v4, &n.v4at
	if addr.Is6() {
		known, at = &n.v6, &n.v6at
	}
	later := r.Time.After(*at)
	defer m.journal.node(r.Node, n)
	switch {
	case !known.IsValid() || *known == addr:
		*known = addr
		if later {
			*at = r.Time
		}
		return "", "", false
	case s == nil:
	case later && s.NodeCreatedBetween(r.Node, *at, r.Time):
		*known, *at = addr, r.Time
		return "", "", false
	case !later && s.NodeCreatedBetween(r.Node, r.Time, *at):
		return "", "", false // a request from before that the log has late
	}
	return known.String(), addr.String(), true
}
