package rules

import (
	"strings"
	"testing"
)

// A second certificate of a known form is no finding above low, and none at all when it is approved by who is expected to. Whatever is asked for otherwise stays
// as severe as it is, whoever approves it: for another node, for an administrator, for a node by the signer of any client, with one group more.
//
// Seen to fail where the name, the group, the signer or the alternative names are not compared, and where who is trusted may approve anything.
func TestSecondCertificates(t *testing.T) {
	rule, m := bootstrapImpersonation(), NewMemory()
	m.Bootstrap.Trusted = []string{"ops"}
	const token = "system:bootstrap:abcdef"
	ovn := asking{
		cn: "system:ovn-node:worker-1", orgs: []string{"system:ovn-nodes"}, signer: signerClient, user: "system:node:worker-1",
		groups: []string{"system:nodes", "system:authenticated"},
	}
	multus, gardener := ovn, ovn
	multus.cn, multus.orgs = "system:multus:worker-1", []string{"system:multus"}
	gardener.cn, gardener.orgs = "gardener.cloud:node-agent:machine:worker-1", []string{"gardener.cloud:node-agents"}
	machine := gardener
	machine.user, machine.groups, machine.cn = token, []string{"system:bootstrappers"}, "gardener.cloud:node-agent:machine:shoot-z1"
	approves := func(a asking, who string) string {
		t.Helper()
		return check(t, rule, nil, m, request(signing(t, a, "approval", "csr-1"), by(who)))
	}
	for provider, a := range map[string]asking{"OVN-Kubernetes": ovn, "Multus": multus, "Gardener": gardener, "a machine of Gardener": machine} {
		got := check(t, rule, nil, m, request(signing(t, a, "", "csr-1")))
		if !strings.HasPrefix(got, "low: user ") || !strings.Contains(got, `CN="`+a.cn+`", O="`+a.orgs[0]+`", as `) {
			t.Errorf("%s, asked: %q", provider, got)
		}
		expected := []string{"ops"}
		if a.user != token {
			expected = append(expected, "system:kube-controller-manager")
		}
		if provider == "OVN-Kubernetes" || provider == "Multus" {
			expected = append(expected, ovnIdentity, openShiftIdentity)
		}
		for _, who := range expected {
			if got := approves(a, who); got != "" {
				t.Errorf("%s, approved by %s: %q", provider, who, got)
			}
		}
		for _, who := range []string{"jane", "system:serviceaccount:ovn-kubernetes2:ovnkube-identity"} {
			if got := approves(a, who); !strings.HasPrefix(got, "low: user ") || !strings.Contains(got, "--bootstrap-trusted") {
				t.Errorf("%s, approved by %s: %q", provider, who, got)
			}
		}
		if got := approves(a, "system:node:worker-1"); !strings.HasPrefix(got, "critical: ") {
			t.Errorf("%s, approved by a node: %q", provider, got)
		}
	}

	but := func(f func(a *asking)) asking {
		a := ovn
		f(&a)
		return a
	}
	for name, a := range map[string]asking{
		"another node":                 but(func(a *asking) { a.cn = "system:ovn-node:worker-2" }),
		"no node":                      but(func(a *asking) { a.cn = "system:ovn-node:" }),
		"a longer name":                but(func(a *asking) { a.cn = "system:ovn-node:worker-10" }),
		"another prefix":               but(func(a *asking) { a.cn = "system:ovn-nodes:worker-1" }),
		"administrators":               but(func(a *asking) { a.orgs = []string{"system:masters"} }),
		"administrators of kubeadm":    but(func(a *asking) { a.orgs = []string{"kubeadm:cluster-admins"} }),
		"one group more":               but(func(a *asking) { a.orgs = []string{"system:masters", "system:ovn-nodes"} }),
		"no group":                     but(func(a *asking) { a.orgs = nil }),
		"another provider's group":     but(func(a *asking) { a.orgs = []string{"system:multus"} }),
		"names":                        but(func(a *asking) { a.names = []string{"api.example.com"} }),
		"an administrator":             but(func(a *asking) { a.cn, a.orgs = "kubernetes-admin", []string{"system:masters"} }),
		"an administrator, no group":   but(func(a *asking) { a.cn, a.orgs = "kubernetes-admin", nil }),
		"another node itself":          but(func(a *asking) { a.cn, a.orgs = "system:node:worker-2", []string{"system:nodes"} }),
		"the node, any client":         but(func(a *asking) { a.cn, a.orgs = "system:node:worker-1", []string{"system:nodes"} }),
		"another node, with its group": but(func(a *asking) { a.cn = "system:node:worker-2" }),
		"a bootstrap token for OVN":    but(func(a *asking) { a.user, a.groups = token, []string{"system:bootstrappers"} }),
		"the kubelet's signer":         but(func(a *asking) { a.signer = signerKubelet }),
		"a token for an administrator": but(func(a *asking) { a.user, a.cn, a.orgs = token, "kubernetes-admin", []string{"system:masters"} }),
		"a token, another group": but(func(a *asking) {
			a.user, a.cn, a.orgs = token, "gardener.cloud:node-agent:machine:x", []string{"system:masters"}
		}),
	} {
		if got := check(t, rule, nil, m, request(signing(t, a, "", "csr-1"))); !strings.HasPrefix(got, "high: ") && !strings.HasPrefix(got, "critical: ") {
			t.Errorf("%s, asked: %q", name, got)
		}
		for _, who := range []string{"ops", "jane", ovnIdentity, "system:kube-controller-manager"} {
			if got := approves(a, who); !strings.HasPrefix(got, "critical: ") {
				t.Errorf("%s, approved by %s: %q", name, who, got)
			}
		}
	}
}

// The finding on a request is about the node that asked, whatever the object is called, and so is the one on its approval: an exception for it holds.
func TestSecondCertificateIsOfItsNode(t *testing.T) {
	rule, m := bootstrapImpersonation(), NewMemory()
	a := asking{cn: "admin", orgs: []string{"admins"}, signer: signerClient, user: "system:node:worker-1", groups: []string{"system:nodes"}}
	for _, name := range []string{"csr-1", "worker-2", ""} {
		for _, sub := range []string{"", "approval"} {
			f, found := rule.Find(request(signing(t, a, sub, name)), nil, m)
			if !found || f.Subject != "worker-1" {
				t.Errorf("%s of %q: %t, %q", sub, name, found, f.Subject)
			}
		}
	}
}
