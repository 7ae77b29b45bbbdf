//go:build !k8s1_31

package conformance

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Kubernetes 1.32 and later.

// ListRoleBindings lists by name.
func (l bindingLists) ListRoleBindings(_ context.Context, namespace string) ([]*rbacv1.RoleBinding, error) {
	return l.lists.inNamespace(namespace), nil
}

// ListClusterRoleBindings lists by name.
func (l bindingLists) ListClusterRoleBindings(context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	return l.lists.all(), nil
}
