package rules

import (
	"fmt"
	"strings"
	"testing"
)

// The approvers of providers are known by their whole names, and approve certificates of kubelets alone. Their names do not excuse who impersonates them.
//
// Seen to fail without the approvers, where a part of the name is enough, and where they may approve any certificate.
func TestApproversOfProviders(t *testing.T) {
	f := expects(t, bootstrapImpersonation(), NewMemory())
	node := kubeletsAsk("worker-1")
	odd := node
	odd.orgs = []string{"system:masters"}
	const approved = `high: user %q approved a certificate for CN="system:node:worker-1", O="system:nodes" in place of the controller`
	for _, name := range []string{"system:serviceaccount:openshift-cluster-machine-approver:machine-approver-sa", "system:gcp-controller-manager"} {
		f(name, "", signing(t, node, "approval", "csr-1"), by(name))
		f(name+", without a body", "", signing(t, node, "approval", "csr-1"), by(name), func(r *Request) { r.Event.RequestObject = nil })
		for _, like := range []string{name + "2", name[1:], name[:len(name)-1], strings.ToUpper(name), " " + name, strings.Replace(name, "machine-approver:", "machine-approver2:", 1)} {
			if like != name {
				f("one like "+name, fmt.Sprintf(approved, like), signing(t, node, "approval", "csr-1"), by(like))
			}
		}
		f("who acts as "+name, fmt.Sprintf(approved, "admin"), signing(t, node, "approval", "csr-1"), by(name), impersonated)
		f("an administrator's", fmt.Sprintf(`critical: user %q approved a certificate for CN="system:node:worker-1", O="system:masters", for which %s asked, `, name, node.user)+
			"and which is not a kubelet's: groups other than system:nodes", signing(t, odd, "approval", "csr-1"), by(name))
	}
	for _, a := range approvers {
		if !strings.Contains(bootstrapImpersonation().Doc, a.user) {
			t.Errorf("the page of the rule does not name %s", a.user)
		}
	}
}
