package rules

import (
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// secondCertificate is a client certificate, other than the kubelet's, that a program on each node asks for with the node's credential or with a bootstrap
// token, by its sources.
type secondCertificate struct {
	provider     string
	prefix       string // of the common name, before the name of the node
	organization string
	token        bool // it is asked for with a bootstrap token, and what follows the prefix is the name of a machine
	source       string
	// approvers are the users who approve it.
	approvers []string
}

const ovnIdentity, openShiftIdentity = "system:serviceaccount:ovn-kubernetes:ovnkube-identity", "system:serviceaccount:openshift-network-node-identity:network-node-identity"

// secondCertificates are those that are known. No other name, group or signer is one of them.
var secondCertificates = []secondCertificate{
	{
		provider: "OVN-Kubernetes", prefix: "system:ovn-node:", organization: "system:ovn-nodes", approvers: []string{ovnIdentity, openShiftIdentity},
		source: "github.com/ovn-kubernetes/ovn-kubernetes, go-controller/pkg/util/kube.go (StartNodeCertificateManager)",
	},
	{
		provider: "Multus", prefix: "system:multus:", organization: "system:multus", approvers: []string{ovnIdentity, openShiftIdentity},
		source: "github.com/k8snetworkplumbingwg/multus-cni, pkg/k8sclient/kubeconfig.go",
	},
	{
		provider: "Gardener", prefix: "gardener.cloud:node-agent:machine:", organization: "gardener.cloud:node-agents", token: true,
		approvers: []string{"system:serviceaccount:kube-system:gardener-resource-manager"},
		source:    "github.com/gardener/gardener, pkg/nodeagent/bootstrappers/kubeconfig.go",
	},
}

// secondOf is the known form of certificate that is asked for: nil if it is none, or for another node than the one that asks.
func secondOf(s *Signing) *secondCertificate {
	if s.Signer != signerClient || len(s.Organizations) != 1 || len(s.Names) > 0 {
		return nil
	}
	for i := range secondCertificates {
		c := &secondCertificates[i]
		name, is := strings.CutPrefix(s.CommonName, c.prefix)
		if !is || name == "" || s.Organizations[0] != c.organization {
			continue
		}
		if s.User == nodeid.UserPrefix+name || c.token && strings.HasPrefix(s.User, audit.BootstrapUserPrefix) {
			return c
		}
	}
	return nil
}

// approvedBy reports whether the user may be expected to approve such a request: who is trusted to, or who does so by the sources. That of a bootstrap token
// names a machine that nothing compares with the token: there only who is trusted counts.
func (c *secondCertificate) approvedBy(user string, s *Signing, trusted []string) bool {
	own := strings.HasPrefix(s.User, nodeid.UserPrefix)
	return slices.Contains(trusted, user) || own && (signs(user) || slices.Contains(c.approvers, user))
}

// secondsDoc lists the forms for the page of the rule.
func secondsDoc() string {
	var lines []string
	for i := range secondCertificates {
		c := &secondCertificates[i]
		line := "- " + c.provider + ": 'CN=" + c.prefix + "<nodeName>', 'O=" + c.organization + "'"
		if c.token {
			line = strings.Replace(line, "<nodeName>", "<machine>", 1) + ", with a bootstrap token"
		}
		lines = append(lines, line+", approved by\n  '"+strings.Join(c.approvers, "' or\n  '")+"':\n  "+c.source)
	}
	return strings.Join(lines, "\n")
}
