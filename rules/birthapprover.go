package rules

import (
	"slices"
	"strings"
)

// approver is a user who approves first certificates of nodes by a provider's default, in place of kube-controller-manager.
type approver struct{ user, provider, source string }

// approvers are those that are known, each by its whole name. Who can act as one of them can have a certificate of any node, whatever nodetrail says.
var approvers = []approver{
	{
		user: "system:serviceaccount:openshift-cluster-machine-approver:machine-approver-sa", provider: "OpenShift",
		source: "github.com/openshift/cluster-machine-approver, manifests/01-rbac.yaml and 'pkg/controller/csr_check.go'",
	},
	{
		// The name is that of its user and of its ClusterRole, which GKE makes; its source was published until October 2024.
		user: "system:gcp-controller-manager", provider: "GKE",
		source: "github.com/kubernetes/cloud-provider-gcp, 'cmd/gcp-controller-manager/node_csr_approver.go' of ccm/v30.0.0",
	},
}

// approvesNodes reports whether the user approves first certificates of nodes by the default of Kubernetes or of a provider.
func approvesNodes(user string) bool {
	return signs(user) || slices.ContainsFunc(approvers, func(a approver) bool { return a.user == user })
}

// approversDoc lists them for the page of the rule.
func approversDoc() string {
	var lines []string
	for _, a := range approvers {
		lines = append(lines, "- "+a.provider+": '"+a.user+"':\n  "+a.source)
	}
	return strings.Join(lines, "\n")
}
