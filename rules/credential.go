package rules

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// kubeletProducts are the user agents behind which a kubelet is: its own, kubemark's, and the distributions that compile it into
// one binary.
func kubeletProducts() []string {
	return []string{"kubelet", "hollow-kubelet", "k3s", "rke2", "kubelite", "k0s", "hyperkube"}
}

// Memory is what rules remember between requests: per node its addresses and certificates. Its size is bounded by the number of
// nodes, and that by MaxNodes. It is not safe for concurrent use.
type Memory struct {
	// Kubelets are further user-agent products that count as a kubelet's.
	Kubelets []string
	nodes    map[string]*nodeMemory
	certs    map[string]string // credential id -> the first node that used it
}

// MaxNodes bounds how many nodes (and certificates) a Memory remembers; names beyond it are not remembered.
const MaxNodes = 20_000

type nodeMemory struct {
	v4, v6     netip.Addr
	v4at, v6at time.Time
}

// NewMemory returns an empty memory.
func NewMemory() *Memory {
	return &Memory{nodes: map[string]*nodeMemory{}, certs: map[string]string{}}
}

func nodeCredentialMisuse() *Rule {
	return &Rule{
		Name:     "node-credential-misuse",
		Severity: High,
		Doc: `A node's credential is used by something that is not its kubelet

## What
One of these: a request with a node's identity whose user agent is no kubelet's; from a second address of the same family; or with a
client certificate that another node has used.

## Why
A kubelet's key lies on the node's disk. Programs on the node that borrow it ("riders") break when its rights shrink, and an attacker
who copied it uses it from elsewhere or with another tool.

## What to do
For a program of yours: give it a service account. For anything else: find out what runs at the address with that user agent, rotate
the kubelet's certificate, and treat what it read as disclosed.

## False positives
A user agent is the client's own claim: one that looks like a kubelet's proves nothing, and distributions with the kubelet compiled in
send their own name (k3s, rke2, kubelite, k0s are known). A node that was re-created under its name may have a new address: that is
not flagged. Behind a proxy or load balancer the address is the proxy's.

## How to silence it
Run with --kubelet-user-agent PRODUCT for a kubelet that calls itself otherwise, or with --disable node-credential-misuse.`,
		Check: checkCredential,
	}
}

func checkCredential(r *Request, s State, m *Memory) (Finding, bool) {
	if !r.IsNode || r.Node == "" {
		return Finding{}, false
	}
	f := Finding{Rule: "node-credential-misuse", Severity: High, Subject: r.Node, Allowed: r.Allowed}
	if id := r.Event.User.CredentialID; id != "" && !r.Event.IsImpersonated {
		first, seen := m.certs[id]
		switch {
		case seen && first != r.Node:
			f.Detail = "certificate"
			f.Message = fmt.Sprintf("node %s uses the client certificate that node %s has used", r.Node, first)
			return f, true
		case !seen && len(m.certs) < 4*MaxNodes:
			m.certs[strings.Clone(id)] = strings.Clone(r.Node)
		}
	}
	if product := Product(r.Event.UserAgent); !m.isKubelet(product) {
		f.Detail = "client"
		f.Message = fmt.Sprintf("the credential of node %s is used by %q, which is no kubelet", r.Node, product)
		return f, true
	}
	if before, now, is := m.secondAddress(r, s); is {
		f.Detail = "address " + now
		f.Message = fmt.Sprintf("the credential of node %s is used from %s, before that from %s", r.Node, now, before)
		return f, true
	}
	return Finding{}, false
}

func (m *Memory) isKubelet(product string) bool {
	for _, p := range kubeletProducts() {
		if p == product {
			return true
		}
	}
	for _, p := range m.Kubelets {
		if p == product {
			return true
		}
	}
	return false
}

// secondAddress compares the request's peer with the one of the same family that the node had first. The last source address is the
// connection's own; those before it are the client's claims.
func (m *Memory) secondAddress(r *Request, s State) (before, now string, is bool) {
	ips := r.Event.SourceIPs
	if len(ips) == 0 {
		return "", "", false
	}
	addr, err := netip.ParseAddr(ips[len(ips)-1])
	if err != nil {
		return "", "", false
	}
	addr = addr.Unmap()
	n := m.nodes[r.Node]
	if n == nil {
		if len(m.nodes) >= MaxNodes {
			return "", "", false
		}
		n = &nodeMemory{}
		m.nodes[strings.Clone(r.Node)] = n
	}
	known, at := &n.v4, &n.v4at
	if addr.Is6() {
		known, at = &n.v6, &n.v6at
	}
	switch {
	case !known.IsValid() || *known == addr:
		*known = addr
		if r.Time.After(*at) {
			*at = r.Time
		}
		return "", "", false
	case s != nil && s.NodeCreatedBetween(r.Node, *at, r.Time):
		*known, *at = addr, r.Time
		return "", "", false
	}
	return known.String(), addr.String(), true
}
