package explain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

// used is a request of a node that succeeded.
func used(node string, r *Request, seconds int, verdict nodeauthz.Verdict) *pipeline.Judgement {
	r.Node = node
	j := &pipeline.Judgement{Request: rules.Request{
		Attrs: r.Attributes(), Time: epoch.Add(time.Duration(seconds) * time.Second), Node: node, IsNode: true, Allowed: true,
		Answer: nodeauthz.Answer{Verdict: verdict},
		Event: &audit.Event{AuditID: fmt.Sprint("id-", seconds), Code: 200, UserAgent: "agent/1", SourceIPs: []string{"10.0.0.1"}, User: audit.User{
			Username: "system:node:" + node, Groups: []string{user.NodesGroup},
		}},
	}}
	return j
}

func grantTo(store *rbac.Store, binding, namespace string, rule rbacv1.PolicyRule, subjects ...rbacv1.Subject) {
	store.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "role-" + binding}, Rules: []rbacv1.PolicyRule{rule}}, epoch)
	ref := rbacv1.RoleRef{Kind: "ClusterRole", Name: "role-" + binding}
	if namespace == "" {
		store.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: binding}, RoleRef: ref, Subjects: subjects}, epoch)
		return
	}
	store.SetRoleBinding(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: binding}, RoleRef: ref, Subjects: subjects}, epoch)
}

// TestNodeRights holds who of the service accounts on a node has which rights, and what is to be rotated for them.
func TestNodeRights(t *testing.T) {
	x, g, store := bare(t)
	for i, account := range []string{"web", "db", ""} {
		g.SetPod(&nodeauthz.Pod{Namespace: "shop", Name: fmt.Sprint("pod", i), UID: fmt.Sprint(i), NodeName: "n1", ServiceAccountName: account}, seen(0))
	}
	g.SetPod(&nodeauthz.Pod{Namespace: "bank", Name: "pod", UID: "9", NodeName: "n2", ServiceAccountName: "teller", Secrets: []string{"vault"}}, seen(0))
	get := func(resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: names}
	}
	grantTo(store, "a-account", "", get("secrets"), rbacv1.Subject{Kind: "ServiceAccount", Namespace: "shop", Name: "web"})
	grantTo(store, "b-user", "bank", get("secrets", "vault"), rbacv1.Subject{Kind: "User", Name: "system:serviceaccount:shop:db"})
	grantTo(store, "c-namespace", "", get("nodes"), rbacv1.Subject{Kind: "Group", Name: "system:serviceaccounts:shop"})
	grantTo(store, "d-other", "", get("secrets"), rbacv1.Subject{Kind: "Group", Name: "system:serviceaccounts:bank"},
		rbacv1.Subject{Kind: "ServiceAccount", Namespace: "bank", Name: "web"}, rbacv1.Subject{Kind: "Group", Name: "system:authenticated"},
		rbacv1.Subject{Kind: "Group", Name: "system:serviceaccountsx"}, rbacv1.Subject{Kind: "User", Name: "system:serviceaccount:shop"})
	grantTo(store, "e-all", "shop", get("secrets"), rbacv1.Subject{Kind: "Group", Name: "system:serviceaccounts"})
	r := x.Node("n1", epoch.Add(time.Second), epoch.Add(time.Minute), nil)
	got := map[string][]string{}
	for _, a := range r.Accounts {
		for _, right := range a.Rights {
			got[a.Name] = append(got[a.Name], right.Binding.Name)
		}
	}
	want := map[string][]string{"web": {"a-account", "c-namespace", "e-all"}, "db": {"c-namespace", "b-user", "e-all"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
	var rotate []string
	for _, x := range r.Rotate {
		rotate = append(rotate, x.Kind+" "+x.Namespace+"/"+x.Name)
	}
	slices.Sort(rotate)
	if diff := cmp.Diff([]string{"credential /n1", "secret bank/vault", "secrets /", "secrets shop/", "tokens shop/db", "tokens shop/web"}, rotate); diff != "" {
		t.Errorf("to rotate (-want +got):\n%s", diff)
	}
	if !r.Known || !r.RightsKnown || len(r.Notes) > 0 {
		t.Errorf("%v", r.Notes)
	}
	store.Uncovered(epoch.Add(5*time.Second), epoch.Add(6*time.Second))
	if r = x.Node("n1", epoch.Add(time.Second), epoch.Add(time.Minute), nil); r.RightsKnown || len(r.Notes) != 1 {
		t.Errorf("nobody watched bindings for a second: %v", r.Notes)
	}
}

// TestNodeGates holds that what the version and its gates do not have is left out, and that what every node may read is said.
func TestNodeGates(t *testing.T) {
	_, g, store := bare(t)
	g.SetPod(&nodeauthz.Pod{Namespace: "shop", Name: "pod", UID: "1", NodeName: "n1", ServiceAccountName: "web"}, seen(0))
	g.SetPodCertificateRequest("shop", "pcr", "2", "n1", seen(0))
	for _, c := range []struct {
		version, gate string
		on            bool
		want          string
		notes         int
	}{
		{"1.36", "PodCertificateRequest", true, "service account shop/web [get create token], pod shop/pod [get], pod certificate request shop/pcr [get]", 0},
		{"1.36", "", false, "service account shop/web [get create token], pod shop/pod [get]", 0},
		{"1.33", "", false, "service account shop/web [create token], pod shop/pod [get]", 0},
		{"1.33", "AuthorizeNodeWithSelectors", false, "service account shop/web [create token], pod shop/pod [get]", 2},
	} {
		f, err := nodeauthz.FeaturesFor(c.version)
		if err != nil {
			t.Fatal(err)
		}
		if c.gate != "" {
			if err := f.Set(c.gate, c.on); err != nil {
				t.Fatal(err)
			}
		}
		x := New(Options{Node: nodeauthz.NewAuthorizer(g, f, time.Second), Graph: g, RBAC: store})
		r := x.Node("n1", epoch.Add(time.Minute), epoch.Add(time.Minute), nil)
		var got []string
		for _, o := range r.Objects {
			got = append(got, fmt.Sprint(o.Object, " ", o.Access))
		}
		if s := strings.Join(got, ", "); s != c.want || len(r.Notes) != c.notes {
			t.Errorf("%s %s=%t: %s with %v, want %s", c.version, c.gate, c.on, s, r.Notes, c.want)
		}
	}
}

// TestBeyond holds which requests count as beyond what is on the node.
func TestBeyond(t *testing.T) {
	secret := func(name string) *Request {
		return &Request{Verb: "get", Resource: "secrets", Namespace: "shop", Name: name}
	}
	for _, c := range []struct {
		what   string
		change func(*pipeline.Judgement)
		want   string
		races  int64
	}{
		{"denied by Node", func(*pipeline.Judgement) {}, "get secrets shop/db deny", 0},
		{"allowed by Node", func(j *pipeline.Judgement) { j.Answer.Verdict = nodeauthz.Allow }, "", 0},
		{"the API server's word that Node allowed", func(j *pipeline.Judgement) { j.Observed.NodeVerdict = nodeauthz.Allow }, "", 0},
		{"not known", func(j *pipeline.Judgement) { j.Answer.Verdict = nodeauthz.Unknown }, "get secrets shop/db unknown", 0},
		{"not known, but the API server's word", func(j *pipeline.Judgement) {
			j.Answer.Verdict, j.Observed.NodeVerdict = nodeauthz.Unknown, nodeauthz.Deny
		}, "get secrets shop/db deny", 0},
		{"race", func(j *pipeline.Judgement) { j.Answer.Race = true }, "", 1},
		{"lag", func(j *pipeline.Judgement) {
			j.Answer.Verdict, j.Observed.NodeVerdict = nodeauthz.Allow, nodeauthz.Deny
		}, "", 1},
		{"refused", func(j *pipeline.Judgement) { j.Allowed, j.Event.Code = false, 403 }, "", 0},
		{"not found", func(j *pipeline.Judgement) { j.Event.Code = 404 }, "", 0},
		{"another node's", func(j *pipeline.Judgement) { j.Node, j.Event.User.Username = "n2", "system:node:n2" }, "", 0},
		{"as a user", func(j *pipeline.Judgement) {
			j.IsNode, j.Node, j.Event.IsImpersonated, j.Event.Impersonated.Username = false, "", true, "jane"
		}, "get secrets shop/db deny as jane", 0},
		{"as another node", func(j *pipeline.Judgement) {
			j.Node, j.Event.IsImpersonated, j.Answer.Verdict = "n2", true, nodeauthz.Allow
			j.Event.Impersonated = audit.User{Username: "system:node:n2", Groups: []string{user.NodesGroup}}
		}, "get secrets shop/db deny as system:node:n2", 0},
		{"somebody as the node", func(j *pipeline.Judgement) {
			j.Event.IsImpersonated, j.Event.Impersonated = true, j.Event.User
			j.Event.User = audit.User{Username: "jane"}
		}, "", 0},
	} {
		b := NewBeyond("n1")
		j := used("n1", secret("db"), 1, nodeauthz.Deny)
		c.change(j)
		b.Add(j)
		b.Add(j)
		got := ""
		if len(b.Uses) > 0 {
			u := &b.Uses[0]
			if got = u.What() + " " + u.Verdict; u.As != "" {
				got += " as " + u.As
			}
			if u.Count != 2 || len(u.AuditIDs) != 1 {
				t.Errorf("%s: %+v", c.what, u)
			}
		}
		if got != c.want || b.Races != 2*c.races {
			t.Errorf("%s: %q and %d races, want %q", c.what, got, b.Races, c.want)
		}
	}
	b := NewBeyond("n1")
	for i := range MaxUses + 7 {
		b.Add(used("n1", secret(fmt.Sprint(i)), i, nodeauthz.Deny))
	}
	if len(b.Uses) != MaxUses || b.More != 7 || b.Requests != MaxUses+7 {
		t.Errorf("%d uses and %d more", len(b.Uses), b.More)
	}
}

// TestHostileNode has each string wherever a log or a state can put one.
func TestHostileNode(t *testing.T) {
	for _, s := range hostileStrings() {
		x, g, store := bare(t)
		name, node := "x"+s, "n"+s
		g.SetPod(&nodeauthz.Pod{Namespace: name, Name: "pod" + s, UID: "1", NodeName: node, Secrets: []string{name}, ServiceAccountName: "sa" + s,
			ConfigMaps: []string{name}, PersistentVolumeClaims: []string{"claim" + s}}, seen(0))
		g.SetPersistentVolume(&nodeauthz.PersistentVolume{Name: "pv" + s, UID: "v", Claim: &nodeauthz.NamespacedName{Namespace: name, Name: "claim" + s},
			Secrets: []nodeauthz.NamespacedName{{Namespace: name, Name: "key" + s}}}, seen(1))
		grantTo(store, "binding"+s, "", rbacv1.PolicyRule{
			Verbs: []string{s, "get"}, APIGroups: []string{s, ""}, Resources: []string{s, "secrets"}, ResourceNames: []string{s}, NonResourceURLs: []string{s},
		}, rbacv1.Subject{Kind: "ServiceAccount", Namespace: name, Name: "sa" + s})
		b := NewBeyond(node)
		for i, r := range []Request{
			{Verb: s, APIGroup: s, Resource: "r" + s, Subresource: s, Namespace: s, Name: s}, {Verb: s, Path: "/" + s},
			{Verb: "get", Resource: "secrets", Namespace: s, Name: s}, {Verb: "list", Resource: "secrets", Namespace: s},
			{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: s, Name: s},
		} {
			j := used(node, &r, i, nodeauthz.Deny)
			j.Event.UserAgent, j.Event.SourceIPs, j.Event.AuditID, j.HasGrant = s, []string{s, s + "2"}, s, true
			j.Grant = rbac.Grant{Binding: rbac.BindingRef{Kind: s, Namespace: s, Name: s}, Role: rbac.RoleRef{Kind: s, Name: s},
				Subject: rbac.SubjectRef{Kind: s, Namespace: s, Name: s}}
			b.Add(j)
			j.Event.IsImpersonated, j.Event.Impersonated.Username, j.IsNode = true, s, false
			b.Add(j)
		}
		for _, to := range []int{60, -7200} {
			r := x.Node(node, time.Time{}, epoch.Add(time.Duration(to)*time.Second), b)
			r.Notes = append(r.Notes, s)
			checkText(t, s, written(t, r.WriteText))
			checkDOT(t, s, written(t, r.WriteDOT))
			var back NodeReach
			if err := json.Unmarshal(written(t, r.WriteJSON), &back); err != nil {
				t.Errorf("%q: %v", s, err)
			}
			if to > 0 && (len(back.Objects) != 7 || len(back.Beyond.Uses) < 5 || len(back.Rotate) < 5) {
				t.Errorf("%q: %d objects, %d uses, %d to rotate", s, len(back.Objects), len(back.Beyond.Uses), len(back.Rotate))
			}
		}
	}
}
