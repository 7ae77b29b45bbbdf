package checks

import (
	rbacv1 "k8s.io/api/rbac/v1"
)

// powers are the rights that lead from one service account to the credentials or the pods of others: those with which a node gets beyond itself, to read
// secrets, to make tokens, to say what runs where, to answer for API servers, and to give rights. A write is answered with the object, and a
// deletion with what it deletes or would delete, so that both read as well.
func powers() []atom {
	out := dangers()
	for _, verb := range []string{"get", "list", "watch", "update", "patch", "delete", "deletecollection"} {
		out = append(out, atom{verb: verb, resource: "secrets"})
	}
	for _, resource := range []string{"serviceaccounts/token", "bindings", "pods/binding"} {
		out = append(out, atom{verb: "create", resource: resource})
	}
	const access = rbacv1.GroupName
	for _, verb := range []string{"create", "update", "patch"} {
		for _, of := range []struct{ group, resource string }{
			{"", "pods"}, {"", "pods/ephemeralcontainers"}, {"", "replicationcontrollers"}, {"", "nodes"}, {"", "nodes/status"}, {"", "persistentvolumes"},
			{"apps", "deployments"}, {"apps", "daemonsets"}, {"apps", "replicasets"}, {"apps", "statefulsets"}, {"batch", "jobs"}, {"batch", "cronjobs"},
			{access, "roles"}, {access, "rolebindings"}, {access, "clusterroles"}, {access, "clusterrolebindings"},
			{"admissionregistration.k8s.io", "mutatingwebhookconfigurations"}, {"admissionregistration.k8s.io", "validatingwebhookconfigurations"},
			{"admissionregistration.k8s.io", "mutatingadmissionpolicies"}, {"apiregistration.k8s.io", "apiservices"},
		} {
			out = append(out, atom{verb: verb, group: of.group, resource: of.resource})
		}
	}
	return out
}

// Power names the first right in rules that reaches beyond a node, such as "get secrets"; "" if there is none. A right on some names only counts as well.
func Power(rules []rbacv1.PolicyRule) string {
	if p, is := firstGiven(atomsOf(rules), powers()); is {
		return p.String()
	}
	return ""
}

// String returns the right as requests are written.
func (a atom) String() string {
	if a.group == "" {
		return a.verb + " " + a.resource
	}
	return a.verb + " " + a.resource + "." + a.group
}
