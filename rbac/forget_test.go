package rbac

import (
	"fmt"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// TestNothingIsLeft holds that objects that came and went leave nothing behind
// once they are forgotten, and can be made again.
func TestNothingIsLeft(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	s := NewStore()
	rules := []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/x"}}}
	bind := func(seconds int, name string, subjects ...rbacv1.Subject) {
		s.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{Kind: KindClusterRole, Name: name}}, at(seconds))
		s.SetRoleBinding(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{Kind: KindRole, Name: "missing"}}, at(seconds))
	}
	u, g := rbacv1.Subject{Kind: "User", Name: "u"}, rbacv1.Subject{Kind: "Group", Name: "g"}
	for i := range 100 {
		name := fmt.Sprint(i * 37 % 100)
		bind(i, name, u, rbacv1.Subject{Kind: "User", Name: name}, rbacv1.Subject{Kind: "ServiceAccount", Name: name})
		bind(i, name, g, u, rbacv1.Subject{Kind: "Robot", Name: name}) // instead
		bind(i+1, name, g, rbacv1.Subject{Kind: "User", Name: name})
		s.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, at(i))
		s.SetRole(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Rules: rules}, at(i))
		s.DeleteClusterRoleBinding(name, at(i+2))
		s.DeleteRoleBinding("ns", name, at(i+2))
		s.DeleteClusterRole(name, at(i+2))
		s.DeleteRole("ns", name, at(i+2))
	}
	s.Prune(at(50))
	if n := len(s.bindings); n != 102 {
		t.Errorf("%d bindings are kept in the middle", n)
	}
	s.Prune(at(200))
	for name, n := range map[string]int{
		"bindings": len(s.bindings), "roles": len(s.roles), "cluster roles": len(s.clusterRoles),
		"users": len(s.index.cluster.users), "groups": len(s.index.cluster.groups), "namespaces": len(s.index.namespaces),
	} {
		if n != 0 {
			t.Errorf("%d %s are left", n, name)
		}
	}

	bind(300, "5", u)
	s.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "5"}, Rules: rules}, at(300))
	a := &authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "u"}, Verb: "get", Path: "/x"}
	if d := s.Authorize(a, at(300)); !d.Allowed {
		t.Errorf("made again: %+v", d)
	}
}
