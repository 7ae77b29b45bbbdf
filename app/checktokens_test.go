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
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
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

// reaches are the requests that lead beyond a node, but for those in pairs.
func reaches() (out []authorizer.AttributesRecord) {
	for _, x := range []struct{ verbs, group, resource string }{
		{"get list watch create update patch delete deletecollection", "", "secrets"}, {"create", "", "serviceaccounts/token"},
		{"create update patch delete deletecollection", "", "pods"}, {"create", "", "pods/eviction"}, {"get create", "", "pods/exec"}, {"update patch", "", "pods/status"},
		{"get create update patch delete", "", "pods/proxy"}, {"get create update patch delete", "", "services/proxy"}, {"create update patch delete deletecollection", "", "nodes"},
		{"create update patch delete deletecollection", "apps", "deployments"}, {"delete deletecollection", "apps", "replicasets"}, {"create update patch", "", "configmaps"}, {"create update patch", rbacv1.GroupName, "clusterrolebindings"},
	} {
		for verb := range strings.FieldsSeq(x.verbs) {
			q := authorizer.AttributesRecord{Verb: verb, APIGroup: x.group, ResourceRequest: true, APIVersion: "v1", Name: "x", Namespace: "any"}
			q.Resource, q.Subresource, _ = strings.Cut(x.resource, "/")
			if q.Resource == "configmaps" {
				q.Namespace, q.Name = "kube-system", "aws-auth"
			}
			out = append(out, q)
		}
	}
	return out
}

// A right of an account counts exactly if RBAC lets the account use it, and two that count together exactly if it lets the account use both: over random roles
// and subjects.
func TestTokensAreRBACs(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	r := rand.New(rand.NewPCG(1, 1))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	const group, requests, client = "certificates.k8s.io", "certificatesigningrequests", "certificatesigningrequests/nodeclient"
	account := &user.DefaultInfo{Name: "system:serviceaccount:shop:web", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"}}
	powerful, together := 0, 0
	for i := range 1200 {
		s := loaded(t, at)
		var said []string
		for k := range 1 + i%3 {
			role := ruleOf(pick("get", "*", "list", "create", "patch", "delete", "deletecollection", "update"), pick("", "", "*", "apps", rbacv1.GroupName),
				pick("secrets", "*", "configmaps", "pods", "pods/exec", "*/exec", "pods/proxy", "*/proxy", "pods/eviction", "pods/status", "nodes", "deployments", "deployments/status", "clusterrolebindings", "serviceaccounts/token"), "")
			if i%3 > 0 {
				role = ruleOf("create", pick(group, group, "*"), pick(requests, client, client, "*/nodeclient", "certificatesigningrequests/selfnodeclient"), "")
			}
			subject := rbacv1.Subject{Kind: pick("ServiceAccount", "User", "Group"), Name: pick("web", "unbound", "system:serviceaccount:shop:web", "system:serviceaccounts", "system:serviceaccounts:shop", "system:serviceaccounts:other", "jane")}
			if subject.Kind == "ServiceAccount" {
				subject.Namespace = pick("shop", "other")
			}
			switch r.IntN(4) {
			case 0, 1:
				subject = rbacv1.Subject{Kind: "ServiceAccount", Namespace: "shop", Name: "web"}
			case 2:
				if i%3 > 0 && role.Resources[0] == requests {
					subject = rbacv1.Subject{Kind: "Group", Name: pick("system:authenticated", "system:unauthenticated")}
				}
			}
			name := fmt.Sprint("b", k)
			s.RBAC.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{role}}, at.Add(-time.Hour))
			ref, subjects := rbacv1.RoleRef{Kind: "ClusterRole", Name: name}, []rbacv1.Subject{subject}
			if i%3 > 0 && r.IntN(6) == 0 { // requests for certificates are in no namespace
				s.RBAC.SetRoleBinding(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "any", Name: name}, Subjects: subjects, RoleRef: ref}, at.Add(-time.Hour))
				name = "any/" + name
			} else {
				s.RBAC.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects, RoleRef: ref}, at.Add(-time.Hour))
			}
			said = append(said, fmt.Sprintf("%s: %+v to %+v", name, role, subject))
		}
		allowed := func(q authorizer.AttributesRecord) bool {
			q.User = account
			return s.RBAC.Authorize(q, at).Allowed
		}
		certificate := authorizer.AttributesRecord{Verb: "create", APIGroup: group, APIVersion: "v1", Resource: requests, ResourceRequest: true}
		approval := certificate
		approval.Subresource = "nodeclient"
		pair := allowed(certificate) && allowed(approval)
		want := pair || slices.ContainsFunc(reaches(), allowed)
		f := tokensAt(t, s, at)
		if got := slices.ContainsFunc(f.Wrong, func(i checks.Item) bool { return i.Object == "shop/web" }); got != want {
			t.Errorf("%q: %+v, RBAC says %t", said, f, want)
		}
		if pair {
			together++
		} else if want {
			powerful++
		}
	}
	if powerful < 50 || powerful > 300 || together < 50 || together > 500 {
		t.Errorf("%d of 400 roles reach beyond a node, %d of 800 times several together", powerful, together)
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
	// A certificate request waits for its approval until the right is there.
	grant := func(name string, rule rbacv1.PolicyRule, since time.Duration) {
		s.RBAC.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}, at.Add(since))
		s.RBAC.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "shop", Name: "web"}},
		}, at.Add(since))
	}
	grant("asks", ruleOf("create", "certificates.k8s.io", "certificatesigningrequests", ""), 3*time.Minute)
	s.RBAC.DeleteClusterRoleBinding("asks", at.Add(5*time.Minute))
	grant("approved", ruleOf("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient", ""), 10*time.Minute)
	want = []checks.Item{{
		Code: checks.CodeAccountPower, Node: "w1", Request: "create certificatesigningrequests/nodeclient.certificates.k8s.io", Object: "shop/web", Value: "ClusterRoleBinding approved", Count: 2,
	}}
	if diff := cmp.Diff(want, tokensAt(t, s, at.Add(2*time.Minute)).Wrong); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := tokensAt(t, s, at.Add(6*time.Minute)); len(got.Wrong) != 0 {
		t.Errorf("without the right to ask: %+v", got)
	}
	if got := tokensAt(t, s, at.Add(-2*time.Hour)); len(got.NotKnown) == 0 {
		t.Errorf("before anything was known: %+v", got)
	}
}

// What everybody had counts if it ended in the window. What everybody still has is a matter of no-excess-rights.
func TestEverybodyReached(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	role := func(rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Rules: rules}
	}
	reads, approves := ruleOf("get", "", "secrets", ""), ruleOf("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient", "")
	for _, c := range []struct {
		name    string
		subject rbacv1.Subject
		rule    rbacv1.PolicyRule
		ends    func(s *rbac.Store, at time.Time)
		want    string
	}{
		{"deleted", rbacv1.Subject{Kind: "Group", Name: "system:authenticated"}, reads, func(s *rbac.Store, at time.Time) { s.DeleteClusterRoleBinding("all", at) }, "get secrets"},
		{"cut back", rbacv1.Subject{Kind: "User", Name: "system:anonymous"}, reads, func(s *rbac.Store, at time.Time) { s.SetClusterRole(role(ruleOf("get", "", "services", "")), at) }, "get secrets"},
		{"approved", rbacv1.Subject{Kind: "Group", Name: "system:unauthenticated"}, approves, func(s *rbac.Store, at time.Time) { s.DeleteClusterRole("all", at) }, checks.Approval()},
		{"still there", rbacv1.Subject{Kind: "Group", Name: "system:authenticated"}, reads, func(*rbac.Store, time.Time) {}, ""},
		{"harmless", rbacv1.Subject{Kind: "Group", Name: "system:authenticated"}, ruleOf("get", "", "services", ""), func(s *rbac.Store, at time.Time) { s.DeleteClusterRoleBinding("all", at) }, ""},
		{"of others", rbacv1.Subject{Kind: "Group", Name: "administrators"}, reads, func(s *rbac.Store, at time.Time) { s.DeleteClusterRoleBinding("all", at) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := loaded(t, at)
			s.RBAC.CoverFrom(at.Add(-time.Hour))
			s.RBAC.SetClusterRole(role(c.rule), at.Add(-time.Hour))
			s.RBAC.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "all"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "all"}, Subjects: []rbacv1.Subject{c.subject},
			}, at.Add(-time.Hour))
			end := at.Add(10 * time.Minute)
			c.ends(s.RBAC, end)
			var want []checks.Item
			if c.want != "" {
				want = []checks.Item{{Code: checks.CodeEverybodyPower, Request: c.want, Object: c.subject.Name, Value: "ClusterRoleBinding all", From: at, To: end}}
			}
			if diff := cmp.Diff(want, tokensAt(t, s, at).Wrong); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got := tokensAt(t, s, end.Add(time.Minute)).Wrong; len(got) > 0 {
				t.Errorf("of a time afterwards: %+v", got)
			}
		})
	}
}

// A binding that stays may have been one that goes while its role gave more. What an API server has not learnt yet counts, too.
func TestStayingBindingMayHaveGone(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	s := rbac.NewStore()
	const name, namespace = "kubeadm:nodes-kubeadm-config", "kube-system"
	grow := func(at time.Time, rules ...rbacv1.PolicyRule) {
		s.SetRole(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules}, at)
	}
	documented := ruleOf("get", "", "configmaps", "kubeadm-config")
	grow(at.Add(-time.Hour), documented)
	s.SetRoleBinding(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: name}, Subjects: []rbacv1.Subject{{Kind: "Group", Name: "system:nodes"}},
	}, at.Add(-time.Hour))
	grow(at, documented, ruleOf("patch", "", "configmaps", ""))
	grow(at.Add(10*time.Minute), documented)
	end := at.Add(time.Hour)
	p := &stateProof{}
	p.Staying, _ = gaveMore(s, slices.Collect(s.Bindings(end)), nil, nil, end)
	ref := rbac.BindingRef{Kind: rbac.KindRoleBinding, Namespace: namespace, Name: name}
	for _, c := range []struct {
		first, last time.Duration
		want        bool
	}{
		{-20 * time.Minute, -10 * time.Minute, false}, {-20 * time.Minute, time.Minute, true}, {time.Minute, 2 * time.Minute, true}, {10*time.Minute + 2*time.Second, 30 * time.Minute, true},
		{-20 * time.Minute, 30 * time.Minute, true}, {15 * time.Minute, 30 * time.Minute, false},
	} {
		if got := p.mayHaveGone(ref, at.Add(c.first), at.Add(c.last)); got != c.want {
			t.Errorf("from %s to %s: %t", c.first, c.last, got)
		}
	}
	ref.Name = "another"
	if !p.mayHaveGone(ref, end, end) || !(*stateProof)(nil).mayHaveGone(ref, end, end) {
		t.Error("a binding that does not stay, or of which nothing is known, counts as one that did not go")
	}
}

// A kept binding may have given too much while its role was larger. Until the end, no-excess-rights says so.
func TestKeptBindingGaveTooMuch(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	s := rbac.NewStore()
	give := func(at time.Time, rules ...rbacv1.PolicyRule) {
		s.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "agents"}, Rules: rules}, at)
	}
	give(at, ruleOf("patch", "", "configmaps", ""))
	s.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "agents"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "agents"}, Subjects: []rbacv1.Subject{{Kind: "Group", Name: "system:nodes"}},
	}, at)
	give(at.Add(10*time.Minute), ruleOf("list", "", "services", ""))
	give(at.Add(30*time.Minute), ruleOf("get", "", "secrets", ""))
	ref := rbac.BindingRef{Kind: rbac.KindClusterRoleBinding, Name: "agents"}
	p := &stateProof{}
	_, p.Beyond = gaveMore(s, nil, nil, []rbac.BindingRef{ref}, at.Add(time.Hour))
	for after, want := range map[time.Duration]bool{time.Minute: true, 10*time.Minute + time.Second: true, 20 * time.Minute: false, 40 * time.Minute: false} {
		if got := p.gaveTooMuch(ref, at.Add(after), at.Add(after)); got != want {
			t.Errorf("after %s: %t", after, got)
		}
	}
	if _, got := gaveMore(s, nil, nil, nil, at.Add(time.Hour)); len(got) > 0 {
		t.Errorf("a binding that is not kept: %+v", got)
	}
}

// Who might act as a node for a part of the window counts: what the policy hides of him may have been done with a node's rights.
func TestImpersonatorsOfTheWindow(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	s := loaded(t, at)
	s.RBAC.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "acts"}, Rules: []rbacv1.PolicyRule{ruleOf("impersonate", "", "groups", ""), ruleOf("impersonate", "", "users", "")}}, at)
	s.RBAC.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "acts"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "acts"}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "shop", Name: "jane"}},
	}, at)
	s.RBAC.DeleteClusterRoleBinding("acts", at.Add(10*time.Minute))
	named := func(from, to time.Time) (out []string) {
		for _, who := range impersonatorsOf(s, slices.Collect(s.RBAC.Bindings(to)), slices.Collect(s.RBAC.RightsDuring(from, to)), to) {
			out = append(out, who.Name)
		}
		return out
	}
	if got := named(at, at.Add(time.Hour)); !slices.Contains(got, "system:serviceaccount:shop:jane") {
		t.Errorf("of the window: %q", got)
	}
	if got := named(at.Add(20*time.Minute), at.Add(time.Hour)); slices.Contains(got, "system:serviceaccount:shop:jane") {
		t.Errorf("of a window that begins later: %q", got)
	}
}

// What accounts or everybody may do beyond a node is seen whichever right it is, and no reason against the deletion of the bindings.
func TestRightsBeyondNodesAreSeen(t *testing.T) {
	clean := threeHours(t, 47, days.Options{Minor: 36, NoBinding: true})
	for _, check := range []string{"tokens-on-node", "no-excess-rights"} {
		if s, codes := codesOf(provenDay(t, clean), check); s != checks.Passed {
			t.Fatalf("a clean day: %s %s, %q", check, s, codes)
		}
	}
	for seed := range effort.Of[uint64](20, 4) {
		for _, m := range days.Mutations(seed) {
			if !slices.Contains([]string{"account-reaches", "everybody-reaches", "everybody-reached"}, m.Name) {
				continue
			}
			bad, _ := m.Apply(clean)
			results := provenDay(t, bad)
			if s, codes := codesOf(results, m.Confined[0]); s != checks.Failed {
				t.Errorf("%s (%s): %s is %s, %q", m.Name, bad.Applied[0].What, m.Confined[0], s, codes)
			}
			if a := checks.Conclude(checks.Ready, results, nil).Answer; a != checks.AnswerReady {
				t.Errorf("%s (%s): %s", m.Name, bad.Applied[0].What, a)
			}
		}
	}
}
