package checks

import (
	rbacv1 "k8s.io/api/rbac/v1"
)

// powers are the rights that lead from one service account to the credentials or the pods of others: those with which a node gets beyond itself, to read
// secrets, to make tokens, to say what runs where, and to give rights.
func powers() []atom {
	out := dangers()
	for _, verb := range []string{"get", "list", "watch"} {
		out = append(out, atom{verb: verb, resource: "secrets"})
	}
	out = append(out, atom{verb: "create", resource: "serviceaccounts/token"})
	const access = rbacv1.GroupName
	for _, verb := range []string{"create", "update", "patch"} {
		for _, of := range []struct{ group, resource string }{
			{"", "pods"}, {"", "pods/ephemeralcontainers"}, {"", "replicationcontrollers"}, {"", "nodes"}, {"", "nodes/status"}, {"", "persistentvolumes"},
			{"apps", "deployments"}, {"apps", "daemonsets"}, {"apps", "replicasets"}, {"apps", "statefulsets"}, {"batch", "jobs"}, {"batch", "cronjobs"},
			{access, "roles"}, {access, "rolebindings"}, {access, "clusterroles"}, {access, "clusterrolebindings"},
			{"admissionregistration.k8s.io", "mutatingwebhookconfigurations"}, {"admissionregistration.k8s.io", "validatingwebhookconfigurations"},
			{"admissionregistration.k8s.io", "mutatingadmissionpolicies"},
		} {
			out = append(out, atom{verb: verb, group: of.group, resource: of.resource})
		}
	}
	return out
}

// Power names the first right in rules that reaches beyond a node, such as "get secrets"; "" if there is none. A right on some names only counts as well.
func Power(rules []rbacv1.PolicyRule) string {
	given := atomsOf(rules)
	for _, p := range powers() {
		for x := range given {
			if x.name = ""; x.gives(p) {
				return p.String()
			}
		}
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
