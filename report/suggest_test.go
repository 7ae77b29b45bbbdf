package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/test/captured"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

// yamlOf is the suggestion as kubectl gets it, read back.
func yamlOf(t *testing.T, s *Suggestion) (string, *rbac.Objects) {
	t.Helper()
	var b bytes.Buffer
	if err := s.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	objects, others, err := ReadManifest(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	if others != len(s.Clients) {
		t.Errorf("%d objects that are no RBAC, want %d service accounts", others, len(s.Clients))
	}
	return b.String(), objects
}

// wellFormed holds the objects to what every suggestion must be: applicable, and without wildcards.
func wellFormed(t *testing.T, o *rbac.Objects) {
	t.Helper()
	meta := func(m metav1.ObjectMeta, namespaced bool) {
		t.Helper()
		if e := validation.IsDNS1123Label(m.Name); len(e) > 0 || !strings.HasPrefix(m.Name, accountPrefix) {
			t.Errorf("name %q: %v", m.Name, e)
		}
		if e := validation.IsDNS1123Label(m.Namespace); namespaced && len(e) > 0 || !namespaced && m.Namespace != "" {
			t.Errorf("namespace %q: %v", m.Namespace, e)
		}
	}
	check := func(list []rbacv1.PolicyRule) {
		t.Helper()
		for _, r := range list {
			for _, s := range slices.Concat(r.Verbs, r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs) {
				if strings.Contains(s, "*") {
					t.Errorf("a wildcard: %+v", r)
				}
			}
			if len(r.Verbs) == 0 || (len(r.Resources) == 0) == (len(r.NonResourceURLs) == 0) || (len(r.Resources) == 0) != (len(r.APIGroups) == 0) {
				t.Errorf("no rule that an API server takes: %+v", r)
			}
		}
	}
	for i := range o.ClusterRoles {
		meta(o.ClusterRoles[i].ObjectMeta, false)
		check(o.ClusterRoles[i].Rules)
	}
	for i := range o.Roles {
		meta(o.Roles[i].ObjectMeta, true)
		check(o.Roles[i].Rules)
	}
	subjects := func(list []rbacv1.Subject, ref rbacv1.RoleRef) {
		t.Helper()
		if len(list) != 1 || list[0].Kind != rbacv1.ServiceAccountKind || ref.APIGroup != rbacv1.GroupName {
			t.Errorf("binds %+v to %+v", ref, list)
		}
	}
	for i := range o.ClusterRoleBindings {
		meta(o.ClusterRoleBindings[i].ObjectMeta, false)
		subjects(o.ClusterRoleBindings[i].Subjects, o.ClusterRoleBindings[i].RoleRef)
	}
	for i := range o.RoleBindings {
		meta(o.RoleBindings[i].ObjectMeta, true)
		subjects(o.RoleBindings[i].Subjects, o.RoleBindings[i].RoleRef)
	}
}

// TestSuggestCaptures: on real clusters nothing breaks with the suggestion, and nothing is given that was not used, in verbs and
// resources; and a suggestion that lacks something, or gives more, does not pass for one.
func TestSuggestCaptures(t *testing.T) {
	for name, want := range map[string][3]int64{"capture": {2526, 285, 60}, "capture-rbac-only": {1323, 318, 59}} { // as docs/suggest.md has them
		withoutBindings := func(c *captured.Capture) *WhatIf {
			return &WhatIf{RBAC: c.State.RBAC, Mode: c.Judge.Mode, Change: c.State.RBAC.Change(rbac.Grant.ForNodes, nil)}
		}
		c := captured.Open(t, name, "auto")
		s := NewSuggester(withoutBindings(c), SuggestOptions{})
		c.Replay(s.Add)
		verify := func(of *Suggestion) *Verification {
			t.Helper()
			c := captured.Open(t, name, "auto")
			v, err := s.NewVerifier(withoutBindings(c), of, rbac.Grant.ForNodes, nil)
			if err != nil {
				t.Fatal(err)
			}
			c.Replay(v.Add)
			return v.Verification()
		}
		out := s.Suggestion()
		_, objects := yamlOf(t, out)
		wellFormed(t, objects)
		var clients []string
		for i := range out.Clients {
			clients = append(clients, out.Clients[i].Client)
			if len(out.Clients[i].Uncovered) > 0 {
				t.Errorf("%s: not covered: %q", name, out.Clients[i].Uncovered)
			}
		}
		slices.Sort(clients)
		if diff := cmp.Diff([]string{"calico-node", "curl", "kubelet"}, clients); diff != "" {
			t.Errorf("%s: clients (-want +got):\n%s", name, diff)
		}
		proof := verify(out)
		t.Logf("%s: %d objects; %d requests, %d moved, %d broken; %d rights, %d beyond, %d on any name", name, objects.Len()+len(out.Clients),
			proof.Requests, proof.Moved, proof.Broken, proof.Rights, len(proof.Beyond), len(proof.AnyName))
		if got := [3]int64{proof.Requests, proof.Moved, int64(proof.Rights)}; !proof.OK() || got != want || len(proof.AnyNamespace) > 0 {
			t.Errorf("%s: %+v, want %v", name, proof, want)
		}

		curl := slices.IndexFunc(out.Clients, func(c SuggestedClient) bool { return c.Client == "curl" })
		role := &out.Clients[curl].ClusterRoles[0]
		all := role.Rules
		role.Rules = all[1:]
		if proof := verify(out); proof.Broken == 0 || proof.OK() || len(proof.Examples) == 0 {
			t.Errorf("%s: a rule is missing, and the proof is %+v", name, proof)
		}
		role.Rules = append(slices.Clone(all), rbacv1.PolicyRule{Verbs: []string{"delete"}, APIGroups: []string{"apps"}, Resources: []string{"deployments"}})
		if diff := cmp.Diff([]string{`"curl" may delete deployments.apps`}, verify(out).Beyond); diff != "" {
			t.Errorf("%s: a right too many (-want +got):\n%s", name, diff)
		}
		role.Rules = all
		out.Clients = slices.Delete(out.Clients, curl, curl+1)
		if proof := verify(out); proof.Broken == 0 {
			t.Errorf("%s: a client is missing, and the proof is %+v", name, proof)
		}
	}
}

// suggester takes requests over RBAC with the legacy binding, the n-th at n seconds.
type suggester struct {
	*Suggester
	n int
}

func newSuggester(opt SuggestOptions) *suggester {
	s := someRBAC()
	return &suggester{Suggester: NewSuggester(&WhatIf{RBAC: s, Change: s.Change(rbac.Grant.ForNodes, nil)}, opt)}
}

func (s *suggester) add(what string, changes ...change) {
	j := asked(what, changes...)
	s.n++
	j.Event.AuditID, j.Time = fmt.Sprintf("audit-%d", s.n), at(1000*s.n)
	s.Add(j)
}

func TestSuggestGolden(t *testing.T) {
	s := newSuggester(SuggestOptions{Namespace: "agents", MaxNamespaces: 2})
	legacy, calico, logs := byRBAC("legacy:system:node"), agent("calico-node/v3.20.0"), agent("Log Shipper/1.0 (x)")
	path := func(r *rules.Request) {
		r.Attrs.ResourceRequest, r.Attrs.Path, r.Attrs.Resource = false, "/metrics", ""
	}
	for i := range 3 { // the same in both halves
		s.add("worker-1 get configmaps kube-system/calico-config", calico)
		s.add("worker-1 get configmaps kube-system/calico-typha", calico)
		s.add("worker-1 get nodes worker-1", calico)
		s.add("worker-1 list pods ", calico, legacy)
		s.add("worker-1 watch pods ", calico, legacy)
		s.add(fmt.Sprintf("worker-1 get pods shop/web-%d", i), calico, legacy)
		s.add(fmt.Sprintf("worker-2 get secrets ns-%d/token", i), logs, legacy)
		s.add("worker-2 get x ", logs, legacy, path)
	}
	s.add("worker-1 get secrets kube-system/cni", calico, legacy, code(404))
	s.add("worker-1 patch nodes worker-2", calico, legacy, code(403))           // by admission: not to be given
	s.add("worker-1 delete pods shop/web-0", calico, denied)                    // never had it
	s.add("worker-1 get secrets shop/web", legacy)                              // a kubelet's: only this breaks
	s.add("worker-1 get configmaps shop/web")                                   // and this is Node's
	s.add("worker-1 get pods shop/gone", legacy, code(404), agent("k3s/v1.36")) // nothing breaks
	out := s.Suggestion()
	text, objects := yamlOf(t, out)
	wellFormed(t, objects)
	check(t, "suggestion.yaml", []byte(text))
	var b bytes.Buffer
	if err := out.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	check(t, "suggestion.json", b.Bytes())

	s.Impersonates()
	out = s.Suggestion()
	text, objects = yamlOf(t, out)
	wellFormed(t, objects)
	check(t, "suggestion-impersonates.yaml", []byte(text))
}

// TestSuggestHostile: whatever a client calls itself and asks for, the names are labels of its own, no rule gives more than was asked
// for, and what cannot be said so is named.
func TestSuggestHostile(t *testing.T) {
	legacy := byRBAC("legacy:system:node")
	long := strings.Repeat("x", 300)
	agents := []string{
		"", "/", "calico-node/v1", "CALICO-NODE/v1", "calico_node", "-", "---\nkind: ClusterRole", "a: b #", "\x1b[2J", "\u202eevil", "é", "ﬀ", long, long + "y",
		`"'{{`, "*", "system:masters", "nodetrail-calico-node", "\xff\xfe", "calico-node-0123456789abcdef", "9", strings.Repeat("-", 64),
	}
	s := newSuggester(SuggestOptions{})
	products := map[string]bool{}
	for _, ua := range agents {
		products[rules.Product(ua)] = true
		s.add("worker-1 get secrets shop/db", legacy, agent(ua))
		raw := func(f func(r *rules.Request)) { s.add("worker-1 get pods shop/x", legacy, agent(ua), f) }
		raw(func(r *rules.Request) { r.Attrs.Verb = "*" })
		raw(func(r *rules.Request) { r.Attrs.Verb = "" })
		raw(func(r *rules.Request) { r.Attrs.Resource = "*" })
		raw(func(r *rules.Request) { r.Attrs.Resource = "pods/exec" })
		raw(func(r *rules.Request) { r.Attrs.APIGroup = "*" })
		raw(func(r *rules.Request) { r.Attrs.Subresource = "*" })
		raw(func(r *rules.Request) { r.Attrs.Namespace = "../kube-system" })
		raw(func(r *rules.Request) { r.Attrs.Namespace = "shop\n---" })
		raw(func(r *rules.Request) { r.Attrs.Resource, r.Attrs.Name = "services", "*" })
		raw(func(r *rules.Request) { r.Attrs.Resource, r.Attrs.Name = "services", "a\nb" })
		raw(func(r *rules.Request) { r.Attrs.ResourceRequest, r.Attrs.Path, r.Attrs.Resource = false, "/api/*", "" })
		raw(func(r *rules.Request) { r.Attrs.ResourceRequest, r.Attrs.Path, r.Attrs.Resource = false, "*", "" })
	}
	out := s.Suggestion()
	if len(out.Clients) != len(products) {
		t.Fatalf("%d clients for %d user agents", len(out.Clients), len(products))
	}
	text, objects := yamlOf(t, out)
	wellFormed(t, objects)
	names := map[string]string{}
	for i := range out.Clients {
		c := &out.Clients[i]
		if was, ok := names[c.ServiceAccount.Name]; ok {
			t.Errorf("%q and %q are both %s", was, c.Client, c.ServiceAccount.Name)
		}
		names[c.ServiceAccount.Name] = c.Client
		if len(c.Uncovered) != 10 {
			t.Errorf("%q: not covered: %q", c.Client, c.Uncovered)
		}
		if len(c.Roles) != 1 || len(c.Roles[0].Rules) > 2 || len(c.ClusterRoles) > 0 {
			t.Errorf("%q: %+v", c.Client, c.Roles)
		}
	}
	if strings.ContainsAny(text, "\x1b\u202e") {
		t.Error("control characters in the YAML")
	}
}

func TestAccountName(t *testing.T) {
	for product, want := range map[string]string{
		"calico-node": "nodetrail-calico-node", "fluent-bit": "nodetrail-fluent-bit", "9p": "nodetrail-9p",
	} {
		if got := accountName(product); got != want {
			t.Errorf("%q is %s, want %s", product, got, want)
		}
	}
	if a, b := accountName("Calico-Node"), accountName("calico-node"); a == b || !strings.HasPrefix(a, "nodetrail-calico-node-") {
		t.Errorf("%s and %s", a, b)
	}
	if taken := strings.TrimPrefix(accountName("Calico-Node"), accountPrefix); accountName(taken) == accountName("Calico-Node") {
		t.Errorf("%s can be taken", taken)
	}
}

// TestSuggestSaysWhomItLeaves: of identities that are no nodes, and of a node that acts as somebody else, what breaks is counted and breaks the proof.
func TestSuggestSaysWhomItLeaves(t *testing.T) {
	s := someRBAC()
	goes := func(g rbac.Grant) bool { return g.ForNodes() || g.Binding.Name == "pods" }
	w := &WhatIf{RBAC: s, Change: s.Change(goes, nil), Everybody: true}
	suggests := NewSuggester(w, SuggestOptions{})
	of := func(user string, groups ...string) change {
		return func(r *rules.Request) {
			r.Event.User, r.Node, r.IsNode = audit.User{Username: user, Groups: groups}, "", false
			r.Answer.Verdict, r.Observed, r.Grant, r.HasGrant = nodeauthz.NotNode, rules.Observed{}, rbac.Grant{}, false
		}
	}
	prometheus := []change{of("system:serviceaccount:mon:prometheus", "monitoring"), agent("Prometheus/2.0")}
	acting := func(r *rules.Request) {
		r.Impersonator, r.Node, r.IsNode, r.Answer.Verdict = r.Node, "", false, nodeauthz.NotNode
		r.Event.IsImpersonated, r.Event.Impersonated = true, audit.User{Username: "jane"}
	}
	all := []*pipeline.Judgement{
		asked("worker-1 get pods shop/web", prometheus...), asked("worker-1 get pods shop/gone", append(prometheus, code(404))...),
		asked("worker-1 get pods shop/web", of("jane", "monitoring", "system:masters")), // needs no binding
		asked("worker-1 get services shop/web", prometheus...),                          // nothing that goes allows it
		asked("worker-1 get pods shop/web", byRBAC("legacy:system:node"), acting),
		asked("worker-1 get secrets shop/db", byRBAC("legacy:system:node"), agent("calico-node/v1")),
	}
	for _, j := range all {
		suggests.Add(j)
	}
	out := suggests.Suggestion()
	want := []Unsuggested{{"Prometheus", "system:serviceaccount:mon:prometheus", 2}, {"kubelet", "system:node:worker-1", 1}}
	if diff := cmp.Diff(want, out.Unsuggested); diff != "" || len(out.Clients) != 1 {
		t.Errorf("%d clients; (-want +got):\n%s", len(out.Clients), diff)
	}
	v, err := suggests.NewVerifier(w, out, goes, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := NewWhatIfBuilder(w)
	for _, j := range all {
		v.Add(j)
		b.Add(j)
	}
	breaks := b.Counts().Breaks
	out.Verified = v.Verification()
	if n := out.Verified.Broken; n != 3 || n+out.Clients[0].Breaks != breaks || out.Verified.OK() {
		t.Errorf("%d break with the suggestion, %d of the client, and what-if says %d: %+v", n, out.Clients[0].Breaks, breaks, out.Verified)
	}
	text, _ := yamlOf(t, out)
	for _, line := range []string{
		"# WARNING: 3 requests would break, and nothing is suggested for them", `#   client "Prometheus" as "system:serviceaccount:mon:prometheus": 2 requests`,
		"# verified: 3 requests would break", "is made as system:serviceaccount:mon:prometheus, to which nothing is suggested",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	out.Clients = nil
	if text, _ := yamlOf(t, out); strings.Contains(text, "nothing breaks") || strings.Contains(text, "so nothing is suggested") {
		t.Errorf("%s", text)
	}
}

// TestSuggestNothing: what Node allows is not suggested to a kubelet, and an unknown verdict is not taken for a break.
func TestSuggestNothing(t *testing.T) {
	s := newSuggester(SuggestOptions{Kubelets: []string{"my-kubelet"}})
	s.add("worker-1 get secrets shop/db")
	s.add("worker-1 get secrets shop/db", agent("my-kubelet/1"))
	s.add("worker-1 get secrets shop/late", byRBAC("legacy:system:node"), race)
	s.add("worker-1 get secrets shop/x", byRBAC("legacy:system:node"), silent, ours(nodeauthz.Unknown))
	s.add("worker-1 get secrets shop/db", agent("agent/1")) // only what Node allows: nothing breaks
	out := s.Suggestion()
	if text, _ := yamlOf(t, out); len(out.Clients) != 0 || !strings.Contains(text, "nothing is known to break") || !strings.Contains(text, "whether 1 request would break") {
		t.Errorf("%s", text)
	}
}

func FuzzAccountName(f *testing.F) {
	for _, s := range []string{"", "calico-node", "---", "é", "a-0123456789abcdef"} {
		f.Add(s, s+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		name := accountName(a)
		if e := validation.IsDNS1123Label(name); len(e) > 0 {
			t.Errorf("%q is %q: %v", a, name, e)
		}
		if a != b && name == accountName(b) {
			t.Errorf("%q and %q are both %q", a, b, name)
		}
	})
}
