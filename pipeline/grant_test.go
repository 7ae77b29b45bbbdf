package pipeline

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

// RBAC names the ClusterRoleBinding that goes, where a binding of kubeadm or k0s that stays gives the same: it is the one that counts, and only for what it is made for.
func TestGrantThatStays(t *testing.T) {
	store := rbac.NewStore()
	before := epoch.Add(-time.Hour)
	anything := []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}
	nodes := []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:nodes"}}
	store.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "legacy"}, Rules: anything}, before)
	store.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "legacy"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "legacy"}, Subjects: nodes,
	}, before)
	const kubeadm, k0s = "kubeadm:nodes-kubeadm-config", "system:bootstrappers:worker-config-1.36"
	for _, name := range []string{kubeadm, k0s} {
		store.SetRole(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Rules: anything}, before)
		store.SetRoleBinding(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: nodes,
		}, before)
	}
	for _, c := range []struct{ verb, name, want string }{
		{"get", "kubeadm-config", kubeadm},
		{"get", "worker-config-default-1.36", k0s},
		{"watch", "worker-config-default-1.36", k0s},
		{"patch", "worker-config-default-1.36", "legacy"},
		{"get", "coredns", "legacy"},
	} {
		ev := get("a", audit.StageResponseComplete, 200, "allow", "")
		a := &authorizer.AttributesRecord{User: new(audit.Attributes).Of(&ev, true).User, Verb: c.verb, Resource: "configmaps", Namespace: "kube-system", Name: c.name, ResourceRequest: true}
		out := &Judgement{Request: rules.Request{Event: &ev, Time: epoch, Attrs: a, IsNode: true, Allowed: true, Answer: nodeauthz.Answer{Verdict: nodeauthz.Deny}}}
		(&Judge{RBAC: store}).grant(out)
		if got := out.Grant.Binding.Name; got != c.want {
			t.Errorf("%s %s: the grant is that of %q, want %q", c.verb, c.name, got, c.want)
		}
	}
}
