package checks

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/rbac"
)

// powers are the rights that lead from one service account to the credentials or the pods of others: those with which a node gets beyond itself, to read
// or write secrets, to make tokens, to say what runs where, to empty other nodes, to answer for API servers, and to give rights. A write is answered with
// the object, and a deletion with what it deletes or would delete, so that both read as well.
//
// Who may only create Secrets makes a bootstrap token, in kube-system (plugin/pkg/auth/authenticator/token/bootstrap). In any namespace he makes a token of
// an account of it (pkg/controller/serviceaccount): a node may read it if a pod on the node names a Secret that is not there, as optional ones and
// imagePullSecrets often are.
func powers() []atom {
	out := slices.DeleteFunc(dangers(), func(a atom) bool { return a == approval() })
	for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
		out = append(out, atom{verb: verb, resource: "secrets"})
	}
	for _, resource := range []string{"serviceaccounts/token", "bindings", "pods/binding", "pods/eviction"} {
		out = append(out, atom{verb: "create", resource: resource})
	}
	for _, resource := range []string{"pods", "nodes"} { // the pods of other nodes are made again, maybe here
		out = append(out, atom{verb: "delete", resource: resource}, atom{verb: "deletecollection", resource: resource})
	}
	const access = rbacv1.GroupName
	for _, verb := range []string{"create", "update", "patch"} {
		for _, of := range []struct{ group, resource string }{
			{"", "pods"}, {"", "pods/ephemeralcontainers"}, {"", "replicationcontrollers"}, {"", "nodes"}, {"", "nodes/status"}, {"", "persistentvolumes"},
			{"apps", "deployments"}, {"apps", "daemonsets"}, {"apps", "replicasets"}, {"apps", "statefulsets"}, {"batch", "jobs"}, {"batch", "cronjobs"},
			{access, "roles"}, {access, "rolebindings"}, {access, "clusterroles"}, {access, "clusterrolebindings"},
			{"admissionregistration.k8s.io", "mutatingwebhookconfigurations"}, {"admissionregistration.k8s.io", "validatingwebhookconfigurations"},
			{"admissionregistration.k8s.io", "mutatingadmissionpolicies"}, {"admissionregistration.k8s.io", "mutatingadmissionpolicybindings"},
			{"apiregistration.k8s.io", "apiservices"},
		} {
			out = append(out, atom{verb: verb, group: of.group, resource: of.resource})
		}
	}
	// More of the pods that there are already come here as well, and an account's imagePullSecrets are those of its next pods.
	for _, verb := range []string{"update", "patch"} {
		for _, of := range []struct{ group, resource string }{
			{"", "serviceaccounts"}, {"", "replicationcontrollers/scale"}, {"apps", "deployments/scale"}, {"apps", "replicasets/scale"}, {"apps", "statefulsets/scale"},
		} {
			out = append(out, atom{verb: verb, group: of.group, resource: of.resource})
		}
	}
	for _, verb := range []string{"create", "update", "patch"} {
		out = append(out, atom{verb: verb, group: "autoscaling", resource: "horizontalpodautoscalers"})
	}
	return out
}

// Powers are what a binding gives that reaches beyond a node. A right on some names only counts as well.
type Powers struct {
	// Right is the first that does so by itself, such as "get secrets"; "" if there is none.
	Right string
	// Requests and Approved do so together: the right to request certificates, and the one for which requests for a node's are approved.
	Requests, Approved bool
}

// PowersOf returns what a binding gives.
func PowersOf(b *rbac.BindingInfo) (p Powers) {
	given := atomsOf(b.Rules)
	inForce(b, given)
	if right, is := firstGiven(given, powers()); is {
		p.Right = right.String()
	}
	if b.Binding.Kind == rbac.KindClusterRoleBinding { // the requests are in no namespace
		_, p.Requests = firstGiven(given, []atom{{verb: "create", group: certificatesGroup, resource: certificateRequests}})
		_, p.Approved = firstGiven(given, []atom{approval()})
	}
	return p
}

// Approval names the right for which requests for the certificate of a node are approved.
func Approval() string { return approval().String() }

// String returns the right as requests are written.
func (a atom) String() string {
	switch {
	case a.url != "":
		return a.verb + " path " + a.url // which may be "*"
	case a.group == "":
		return a.verb + " " + a.resource
	}
	return a.verb + " " + a.resource + "." + a.group
}
