package app

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
)

// tokensAt asks the state of two hours for the accounts of pods that reach beyond their nodes.
func tokensAt(t *testing.T, s *cluster.State, at time.Time) *checks.Findings {
	t.Helper()
	features, err := nodeauthz.FeaturesFor("1.36")
	if err != nil {
		t.Fatal(err)
	}
	mode, err := pipeline.ParseMode("Node,RBAC")
	if err != nil {
		t.Fatal(err)
	}
	return newStateProof(judging.New(s, judging.Options{Features: features, Mode: mode}), at, at.Add(time.Hour)).Tokens
}

// loaded is a state of Nodes and pods with service accounts, of which everything is known.
func loaded(t *testing.T, at time.Time) *cluster.State {
	t.Helper()
	s := cluster.NewState()
	var journal strings.Builder
	for _, o := range []string{
		`{"apiVersion":"v1","kind":"Node","metadata":{"name":"w1","uid":"n1"}}`,
		`{"apiVersion":"v1","kind":"Node","metadata":{"name":"w2","uid":"n2"}}`,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"a","uid":"a"},"spec":{"nodeName":"w1","serviceAccountName":"web","containers":[]}}`,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"b","uid":"b"},"spec":{"nodeName":"w2","serviceAccountName":"web","containers":[]}}`,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"c","uid":"c"},"spec":{"serviceAccountName":"unbound","containers":[]}}`,
	} {
		fmt.Fprintf(&journal, `{"observedAt":%q,"type":"ADDED","object":%s}`+"\n", at.Add(-time.Hour).Format(time.RFC3339), o)
	}
	if err := s.Load([]string{"-"}, strings.NewReader(journal.String())); err != nil {
		t.Fatal(err)
	}
	return s
}

// A right of an account counts exactly if RBAC lets the account use it: over random roles and subjects.
func TestTokensAreRBACs(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	r := rand.New(rand.NewPCG(1, 1))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	powerful := 0
	for range 400 {
		s := loaded(t, at)
		role := rbacv1.PolicyRule{
			Verbs: []string{pick("get", "*", "list", "create", "patch", "delete")}, APIGroups: []string{pick("", "*", "apps", "rbac.authorization.k8s.io")},
			Resources: []string{pick("secrets", "*", "configmaps", "pods", "pods/exec", "*/exec", "deployments", "deployments/status", "clusterrolebindings", "serviceaccounts/token")},
		}
		subject := rbacv1.Subject{Kind: pick("ServiceAccount", "User", "Group"), Name: pick("web", "unbound", "system:serviceaccount:shop:web", "system:serviceaccounts", "system:serviceaccounts:shop", "system:serviceaccounts:other", "jane")}
		if subject.Kind == "ServiceAccount" {
			subject.Namespace = pick("shop", "other")
		}
		if r.IntN(2) == 0 {
			subject = rbacv1.Subject{Kind: "ServiceAccount", Namespace: "shop", Name: "web"}
		}
		s.RBAC.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{role}}, at.Add(-time.Hour))
		s.RBAC.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "b"}, Subjects: []rbacv1.Subject{subject}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"},
		}, at.Add(-time.Hour))
		want := false
		for _, q := range []authorizer.AttributesRecord{
			{Verb: "get", Resource: "secrets"}, {Verb: "list", Resource: "secrets"}, {Verb: "patch", Resource: "secrets"}, {Verb: "delete", Resource: "secrets"}, {Verb: "create", Resource: "serviceaccounts", Subresource: "token"},
			{Verb: "create", Resource: "pods"}, {Verb: "patch", Resource: "pods"}, {Verb: "get", Resource: "pods", Subresource: "exec"}, {Verb: "create", Resource: "pods", Subresource: "exec"},
			{Verb: "create", APIGroup: "apps", Resource: "deployments"}, {Verb: "patch", APIGroup: "apps", Resource: "deployments"},
			{Verb: "create", APIGroup: rbacv1.GroupName, Resource: "clusterrolebindings"}, {Verb: "patch", APIGroup: rbacv1.GroupName, Resource: "clusterrolebindings"},
		} {
			q.User = &user.DefaultInfo{Name: "system:serviceaccount:shop:web", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"}}
			q.ResourceRequest, q.APIVersion, q.Name, q.Namespace = true, "v1", "x", "any"
			want = want || s.RBAC.Authorize(q, at).Allowed
		}
		f := tokensAt(t, s, at)
		got := slices.ContainsFunc(f.Wrong, func(i checks.Item) bool { return i.Object == "shop/web" })
		if got != want || len(f.Wrong) > 1 {
			t.Errorf("%+v to %+v: %+v, RBAC says %t", role, subject, f, want)
		}
		if want {
			powerful++
		}
	}
	if powerful < 40 || powerful > 300 {
		t.Errorf("%d of 400 roles reach beyond a node", powerful)
	}
}

func TestTokensOnNodes(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	s := loaded(t, at)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "r"}, Rules: []rbacv1.PolicyRule{ruleOf("get", "", "secrets", "one")}}
	s.RBAC.SetRole(role, at.Add(-time.Hour))
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "b"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "shop", Name: "web"}, {Kind: "Group", Name: "system:serviceaccounts"}},
	}
	s.RBAC.SetRoleBinding(binding, at.Add(-time.Hour))
	s.RBAC.CoverFrom(at.Add(-time.Hour))
	want := []checks.Item{{Code: checks.CodeAccountPower, Node: "w1", Request: "get secrets", Object: "shop/web", Value: rbac.KindRoleBinding + " vault/b", Count: 2}}
	if diff := cmp.Diff(want, tokensAt(t, s, at).Wrong); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	s.RBAC.DeleteRoleBinding("vault", "b", at.Add(time.Minute))
	if got := tokensAt(t, s, at.Add(2*time.Minute)); len(got.Wrong) != 0 || got.Looked == 0 {
		t.Errorf("after the binding was deleted: %+v", got)
	}
	if got := tokensAt(t, s, at.Add(-2*time.Hour)); len(got.NotKnown) == 0 {
		t.Errorf("before anything was known: %+v", got)
	}
}
