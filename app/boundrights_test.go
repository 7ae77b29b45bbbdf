package app

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodetrail/nodetrail/rbac"
)

// A service that has just started knows no binding yet. What those give that it learns of counts as what somebody may give away.
func TestRightsOfBindingsAfterTheStart(t *testing.T) {
	store, now := rbac.NewStore(), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	b := newBoundBook("x", store, nil)
	if len(b.rights) != 0 {
		t.Fatalf("rights of nothing: %v", b.rights)
	}
	store.SetClusterRole(&rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: nodeRole}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}},
	}, now)
	store.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: nodeRole}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: nodeRole},
		Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:nodes"}},
	}, now)
	b.look(now.Add(time.Minute))
	ref := rbac.BindingRef{Kind: rbac.KindClusterRoleBinding, Name: "canary"}
	store.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ref.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: nodeRole},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "system:node:a"}},
	}, now)
	b.look(now.Add(2 * time.Minute))
	for _, kept := range [][]rbac.BindingRef{nil, {ref}, nil} { // as a configuration changes
		if b.keep(kept); b.last[ref] != (kept == nil) || !b.goes[ref] {
			t.Errorf("kept %v: it goes in the end: %t, without that: %t", kept, b.last[ref], b.goes[ref])
		}
	}
	if len(b.rights) != 1 || b.rights[0].Resource != "secrets" || b.rights[0].Verb != "get" {
		t.Errorf("rights of the binding: %+v", b.rights)
	}
}
