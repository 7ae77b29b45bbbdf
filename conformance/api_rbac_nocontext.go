//go:build k8s1_31

package conformance

import rbacv1 "k8s.io/api/rbac/v1"

// Kubernetes 1.31 and older: listers take no context.

// ListRoleBindings lists by name.
func (l bindingLists) ListRoleBindings(namespace string) ([]*rbacv1.RoleBinding, error) {
	return l.lists.inNamespace(namespace), nil
}

// ListClusterRoleBindings lists by name.
func (l bindingLists) ListClusterRoleBindings() ([]*rbacv1.ClusterRoleBinding, error) {
	return l.lists.all(), nil
}
