package checks

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/rbac"
)

// clusterScoped are the resources of Kubernetes that are in no namespace, by API group, with those that are no objects but who somebody acts as. Namespaces are
// none of them: about a namespace the API server asks with this namespace. Neither are PodSecurityPolicies, whose use it asks about with that of the pod.
func clusterScoped(group string) string {
	const webhooks = "mutatingwebhookconfigurations validatingwebhookconfigurations "
	switch group {
	case "":
		return "nodes persistentvolumes componentstatuses users groups"
	case "admissionregistration.k8s.io":
		return webhooks + "mutatingadmissionpolicies mutatingadmissionpolicybindings validatingadmissionpolicies validatingadmissionpolicybindings"
	case "apiextensions.k8s.io":
		return "customresourcedefinitions"
	case "apiregistration.k8s.io":
		return "apiservices"
	case "authentication.k8s.io":
		return "tokenreviews selfsubjectreviews users groups uids userextras nodes"
	case "authorization.k8s.io":
		return "subjectaccessreviews selfsubjectaccessreviews selfsubjectrulesreviews"
	case certificatesGroup:
		return certificateRequests + " clustertrustbundles " + signers
	case "flowcontrol.apiserver.k8s.io":
		return "flowschemas prioritylevelconfigurations"
	case "internal.apiserver.k8s.io":
		return "storageversions"
	case "networking.k8s.io":
		return "ingressclasses ipaddresses servicecidrs"
	case "node.k8s.io":
		return "runtimeclasses"
	case rbacv1.GroupName:
		return "clusterroles clusterrolebindings"
	case "resource.k8s.io":
		return "deviceclasses resourceslices devicetaintrules"
	case "scheduling.k8s.io":
		return "priorityclasses"
	case "storage.k8s.io":
		return "storageclasses volumeattachments csidrivers csinodes volumeattributesclasses"
	case "storagemigration.k8s.io":
		return "storageversionmigrations"
	}
	return ""
}

// cluster reports whether the right is only to what is in no namespace. A right to any resource or to those of any group is not, but for those of askedWithout.
// The right to bind a ClusterRole is asked about in the namespace of the RoleBinding, and the one to an audience of tokens in that of the account.
func (a atom) cluster() bool {
	resource, _, _ := strings.Cut(a.resource, "/")
	switch {
	case a.askedWithout():
		return true
	case a.url != "", a.verb == verbAudience, resource == "clusterroles" && (a.verb == "bind" || a.verb == "*"):
		return false
	}
	return slices.Contains(strings.Fields(clusterScoped(a.group)), resource)
}

// askedWithout reports whether the right is to something of nodes, certificate requests or signers, about which Kubernetes itself asks without a namespace.
func (a atom) askedWithout() bool {
	resource, _, _ := strings.Cut(a.resource, "/")
	return resource == "nodes" || resource == certificateRequests || a.resource == signers && a.group == certificatesGroup
}

// possible leaves of the rights, which it changes, those that a binding can give: in a namespace it gives no path, and nothing of what is in none.
func possible(b *rbac.BindingInfo, rights []atom) []atom {
	if b.Binding.Kind == rbac.KindClusterRoleBinding {
		return rights
	}
	return slices.DeleteFunc(rights, func(a atom) bool { return a.url != "" || a.cluster() })
}
