package rbac_test

import (
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/rbac"
)

// The binding of system:node was there for an hour. Who allowed a request, and what would be left without what is given to nodes?
func Example() {
	six := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	store := rbac.NewStore()
	store.CoverFrom(six.Add(-time.Hour)) // from then on, what was not seen was not there
	store.SetClusterRole(&rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "system:node"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}},
	}, six)
	store.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "nodes"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node"},
		Subjects:   []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:nodes"}},
	}, six)
	store.DeleteClusterRoleBinding("nodes", six.Add(time.Hour))

	request := &authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "system:node:worker-1", Groups: []string{user.NodesGroup}},
		Verb: "get", Resource: "secrets", APIVersion: "v1", Namespace: "shop", Name: "db", ResourceRequest: true,
	}
	decision := store.Authorize(request, six.Add(time.Minute))
	fmt.Println(decision.Allowed, decision.Reason())
	without := store.AuthorizeWithout(request, six.Add(time.Minute), rbac.Grant.ForNodes)
	fmt.Println(without.Allowed)
	later := store.Authorize(request, six.Add(2*time.Hour))
	fmt.Println(later.Allowed)
	// Output:
	// true RBAC: allowed by ClusterRoleBinding "nodes" of ClusterRole "system:node" to Group "system:nodes"
	// false
	// false
}
