package rules

import "testing"

// What a signer of the cluster's owner gives, nodetrail does not know. Kubelets do not ask it.
func TestSignerOfTheOwner(t *testing.T) {
	m := NewMemory()
	m.Bootstrap.Trusted = []string{"ops"}
	f := expects(t, bootstrapImpersonation(), m)
	a := kubeletsAsk("worker-1")
	a.signer, a.cn, a.orgs = "example.com/vault", "alice", []string{"system:masters"}
	a.user, a.groups = "system:node:worker-1", []string{"system:nodes", "system:authenticated"}
	const what = `a certificate for CN="alice", O="system:masters", `
	f("asked", `medium: user "system:node:worker-1" asked for `+what+`which is not a kubelet's: signer example.com/vault`, signing(t, a, "", "csr-1"))
	f("approved", `high: user "ops" approved `+what+`for which worker-1 asked, and which is not a kubelet's: signer example.com/vault`, signing(t, a, "approval", "csr-1"),
		by("ops"))
	a.user, a.groups = "dev", nil
	f("asked by a developer", "", signing(t, a, "", "csr-1"))
}
