package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/wording"
)

// someRBAC has the legacy binding, one for monitoring users, and one for all authenticated users.
func someRBAC() *rbac.Store {
	s := rbac.NewStore()
	s.CoverFrom(at(-1000))
	role := func(name string, rules ...rbacv1.PolicyRule) {
		s.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, at(-1000))
	}
	bind := func(name, role, kind, subject string) {
		s.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: kind, Name: subject}},
		}, at(-1000))
	}
	core := []string{""}
	role("system:node", rbacv1.PolicyRule{APIGroups: core, Resources: []string{"secrets", "pods", "services"}, Verbs: []string{"get", "list", "delete"}})
	role("discovery", rbacv1.PolicyRule{NonResourceURLs: []string{"/version"}, Verbs: []string{"get"}})
	role("pods", rbacv1.PolicyRule{APIGroups: core, Resources: []string{"pods"}, Verbs: []string{"get"}})
	role("csr", rbacv1.PolicyRule{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests/selfnodeclient"}, Verbs: []string{"create"}})
	bind("legacy:system:node", "system:node", "Group", "system:nodes")
	bind("system:discovery", "discovery", "Group", "system:authenticated")
	bind("pods", "pods", "Group", "monitoring")
	bind("kubeadm:rotation", "csr", "Group", "system:nodes")
	return s
}

// asked gives the request its identity's attributes.
func asked(what string, changes ...change) *pipeline.Judgement {
	return judged(what, append(changes, func(r *rules.Request) {
		u := r.Event.Effective()
		r.Attrs.User = &user.DefaultInfo{Name: u.Username, Groups: u.Groups}
	})...)
}

// silent has no annotations.
func silent(r *rules.Request) { r.Observed = rules.Observed{} }

func TestWhatIfOf(t *testing.T) {
	store, empty := someRBAC(), rbac.NewStore()
	legacy := byRBAC("legacy:system:node")
	monitoring := func(r *rules.Request) { r.Event.User.Groups = append(r.Event.User.Groups, "monitoring") }
	unknown := func(r *rules.Request) { silent(r); r.Answer.Verdict = nodeauthz.Unknown }
	webhook := func(r *rules.Request) {
		denied(r)
		r.Allowed, r.Event.Code, r.Observed = true, 200, rules.Observed{Decision: "allow", Authorizer: rules.ByOther, Reason: "by the webhook"}
	}
	for _, c := range []struct {
		name, what string
		then       string
		changes    []change
		want       Outcome
		by         string
	}{
		{"Node allows it", "worker-1 get secrets shop/web", "", nil, AllowedByNode, ""},
		{"RBAC let it through, and Node would too", "worker-1 get secrets shop/web", "", []change{legacy, silent, ours(nodeauthz.Allow)}, AllowedByNode, ""},
		{"and Node is not asked then", "worker-1 get secrets shop/web", "RBAC", []change{legacy, silent, ours(nodeauthz.Allow)}, Breaks, ""},
		{"only the binding", "worker-1 get secrets shop/db", "", []change{legacy}, Breaks, ""},
		{"only the binding, without annotations", "worker-1 get secrets shop/db", "", []change{legacy, silent}, Breaks, ""},
		{"another binding", "worker-1 get pods shop/web-1", "", []change{legacy, monitoring}, AllowedByRBAC, "pods"},
		{"another binding, asked first", "worker-1 get pods shop/web-1", "RBAC,Node", []change{monitoring}, AllowedByRBAC, "pods"},
		{"the word of the log, which the state does not know", "worker-1 get secrets shop/db", "", []change{byRBAC("unseen"), notForNodes}, AllowedByRBAC, "unseen"},
		{"failed anyway", "worker-1 get pods shop/gone", "", []change{legacy, code(404)}, Fruitless, ""},
		{"a program takes 404 for an answer", "worker-1 get pods shop/gone", "", []change{legacy, code(404), agent("calico-node/v3.20.0")}, Breaks, ""},
		{"so does a kubelet that is no node", " get services shop/gone", "", []change{stranger("kubelet"), legacy, code(404)}, Breaks, ""},
		{"the owner's kubelet", "worker-1 get pods shop/gone", "", []change{legacy, code(404), agent("own-kubelet/v1")}, Fruitless, ""},
		{"a program that admission refused", "worker-1 delete pods shop/gone", "", []change{legacy, code(403), agent("calico-node/v3.20.0")}, Fruitless, ""},
		{"a quota that was used up", "worker-1 delete pods shop/gone", "", []change{legacy, code(403), quota}, Breaks, ""},
		{"the API server failed", "worker-1 get pods shop/web", "", []change{legacy, code(500)}, Breaks, ""},
		{"refused by admission", "worker-1 delete pods shop/gone", "", []change{legacy, code(403)}, Fruitless, ""},
		{"answered behind a proxy", "worker-1 get nodes/proxy worker-2", "", []change{legacy, code(404)}, Breaks, ""},
		{"a read that a backend refused", "worker-1 get pods shop/gone", "", []change{legacy, code(403)}, Breaks, ""},
		{"a race", "worker-1 get secrets shop/late", "", []change{legacy, race}, Race, ""},
		{"a race that Node allowed", "worker-1 get secrets shop/late", "", []change{race}, AllowedByNode, ""},
		{"a race that another binding covers", "worker-1 get pods shop/late", "", []change{legacy, race, monitoring}, AllowedByRBAC, "pods"},
		{"not known", "worker-1 get secrets shop/x", "", []change{legacy, unknown}, Undecided, ""},
		{"not known, and another binding", "worker-1 get pods shop/x", "", []change{legacy, unknown, monitoring}, AllowedByRBAC, "pods"},
		{"no answer was logged", "worker-1 get secrets shop/x", "", []change{legacy, silent, code(0), refused}, Undecided, ""},
		{"refused and refused again", "worker-1 delete secrets shop/x", "", []change{denied}, Refused, ""},
		{"refused by RBAC, and Node would allow it", "worker-1 patch nodes worker-1", "", []change{denied, ours(nodeauthz.Allow), theirs(nodeauthz.NotNode)}, Gained, ""},
		{"refused by nobody knows whom, and Node allows it", "worker-1 patch nodes worker-2", "", []change{denied, ours(nodeauthz.Allow), silent}, Refused, ""},
		{"a user that is no node", " list services shop/", "", []change{stranger("kubelet"), legacy}, Breaks, ""},
		{"another authorizer", "worker-1 get secrets shop/db", "", []change{webhook}, AllowedByOther, ""},
	} {
		then, ok := ParseThen(c.then)
		if !ok {
			t.Fatal(c.then)
		}
		kubelets := []string{"own-kubelet"}
		w := &WhatIf{RBAC: store, Change: store.Change(rbac.Grant.ForNodes, nil), Then: then, Kubelets: kubelets}
		j := asked(c.what, c.changes...)
		f := w.Of(j)
		if f.Outcome != c.want || f.Grant.Binding.Name != c.by || f.ByRBAC != (c.by != "") || f.Uncertain {
			t.Errorf("%s: %s by %q, uncertain %t; want %s by %q", c.name, f.Outcome, f.Grant.Binding.Name, f.Uncertain, c.want, c.by)
		}
		if !ConcernsNodes(j) {
			t.Errorf("%s: does not concern nodes", c.name)
		}
		// Without RBAC's state what breaks is still listed, but said to be uncertain.
		w = &WhatIf{RBAC: empty, Change: empty.Change(rbac.Grant.ForNodes, nil), Then: then, Kubelets: kubelets}
		if f := w.Of(j); (c.want == Breaks || c.want == Fruitless || c.want == Race) && (f.Outcome != c.want || !f.Uncertain) {
			t.Errorf("%s, without state: %s, uncertain %t", c.name, f.Outcome, f.Uncertain)
		}
	}
	// A 403 without the API server's word, and a binding that is added: it passes, unless RBAC let it through before.
	added := store.Change(rbac.Grant.ForNodes, &rbac.Objects{
		ClusterRoles: []rbacv1.ClusterRole{{
			ObjectMeta: metav1.ObjectMeta{Name: "new"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets", "endpoints"}, Verbs: []string{"get"}}},
		}},
		ClusterRoleBindings: []rbacv1.ClusterRoleBinding{{
			ObjectMeta: metav1.ObjectMeta{Name: "new"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "new"},
			Subjects: []rbacv1.Subject{{Kind: "Group", Name: "system:nodes"}},
		}},
	})
	for what, want := range map[string]Outcome{"worker-1 get endpoints shop/x": Gained, "worker-1 get secrets shop/x": Refused} {
		if f := (&WhatIf{RBAC: store, Change: added}).Of(asked(what, denied, silent)); f.Outcome != want || f.ByRBAC != (want == Gained) {
			t.Errorf("%s: %+v, want %s", what, f, want)
		}
	}
	if ConcernsNodes(asked("worker-1 get pods shop/x", stranger("admin"), func(r *rules.Request) { r.Event.User.Groups = nil })) {
		t.Error("admin is no node")
	}
	if _, ok := ParseThen("RBAC,Webhook"); ok {
		t.Error("RBAC,Webhook is taken")
	}
}

// notForNodes makes the grant that was observed one to another group.
func notForNodes(r *rules.Request) { r.Observed.Grant.Subject.Name = "monitoring" }

func refused(r *rules.Request) { r.Allowed = false }

func quota(r *rules.Request) { r.Event.StatusMessage = "exceeded quota: compute" }

// An API server that is too busy (429) asks no authorizer. The client asks again, for what it would have been allowed.
func TestWhatIfTooBusy(t *testing.T) {
	s := someRBAC()
	busy := func(r *rules.Request) { denied(r); silent(r); r.Event.Code = 429 }
	gone := func(r *rules.Request) { busy(r); r.JustGone = true }
	account := func(r *rules.Request) {
		busy(r)
		r.Event.User, r.Node, r.IsNode = audit.User{Username: "system:serviceaccount:kube-system:agent", Groups: []string{"agents"}}, "", false
	}
	s.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "agents"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "pods"}, Subjects: []rbacv1.Subject{{Kind: "Group", Name: "agents"}},
	}, at(-1000))
	w := &WhatIf{RBAC: s, Change: s.Change(func(g rbac.Grant) bool { return g.ForNodes() || g.Binding.Name == "agents" }, nil), Everybody: true}
	for _, c := range []struct {
		name, what string
		how        change
		want       Outcome
		concerns   bool
	}{
		{"only the binding", "worker-1 get pods shop/x", busy, Breaks, true},
		{"a kubelet, and what has just gone", "worker-1 get pods shop/x", gone, Fruitless, true},
		{"Node allows it", "worker-1 get pods shop/x", func(r *rules.Request) { busy(r); r.Answer.Verdict = nodeauthz.Allow }, AllowedByNode, true},
		{"nothing allows it", "worker-1 patch pods shop/x", busy, Refused, true},
		{"a race", "worker-1 get pods shop/x", func(r *rules.Request) { busy(r); race(r) }, Refused, true},
		{"an account", "worker-1 get pods shop/x", account, Breaks, true},
		{"an account that may not", "worker-1 get secrets shop/x", account, Refused, false},
	} {
		j := asked(c.what, c.how)
		if got := w.Of(j).Outcome; got != c.want || w.Concerns(j) != c.concerns {
			t.Errorf("%s: %s, concerns %t; want %s", c.name, got, w.Concerns(j), c.want)
		}
	}
}

// someWhatIf has something of everything.
func someWhatIf(t *testing.T) *WhatIfReport {
	t.Helper()
	s := someRBAC()
	b := NewWhatIfBuilder(&WhatIf{RBAC: s, Change: s.Change(rbac.Grant.ForNodes, nil)})
	n := 0
	add := func(what string, changes ...change) {
		j := asked(what, changes...)
		n++
		j.Event.AuditID, j.Time = fmt.Sprintf("audit-%d", n), at(100*n)
		b.Add(j)
	}
	legacy := byRBAC("legacy:system:node")
	add("worker-1 get secrets shop/web")
	for i := range 7 {
		add(fmt.Sprintf("worker-%d get secrets shop/db-%d", i%2+1, i), legacy, agent("calico-node/v3.20.0"))
	}
	add("worker-1 list pods shop/", legacy, agent("\x1b[2Jevil\u202e/1"))
	add(" get secrets shop/db", legacy, stranger("kubelet"))
	add("worker-1 get pods shop/gone", legacy, code(404))
	add("worker-1 get secrets shop/late", legacy, race)
	add("worker-1 get secrets shop/x", legacy, silent, ours(nodeauthz.Unknown))
	add("worker-1 patch nodes worker-1", denied, ours(nodeauthz.Allow), theirs(nodeauthz.NotNode))
	add("worker-2 delete pods shop/x", denied)
	r := b.Report(facts(16))
	r.Without = []string{"everything"}
	return r
}

func TestWhatIfGolden(t *testing.T) {
	r := someWhatIf(t)
	var b bytes.Buffer
	if err := (Text{}).WriteWhatIf(&b, r); err != nil {
		t.Fatal(err)
	}
	check(t, "whatif.txt", b.Bytes())
	b.Reset()
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	check(t, "whatif.json", b.Bytes())
	again := &WhatIfReport{}
	if err := json.Unmarshal(b.Bytes(), again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, again); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(r.Doubts, func(h Hole) bool {
		return h.Code == codes.ApprovesCertificate && h.Params.Text(codes.ParamBinding) == "kubeadm:rotation"
	}) {
		t.Errorf("nothing says that certificates could not be renewed: %q", r.Warnings)
	}
}

// TestWhatIfBounded: what a log repeats under ever new names does not grow without end, and is counted all the same.
func TestWhatIfBounded(t *testing.T) {
	s := someRBAC()
	legacy := byRBAC("legacy:system:node")
	const most, n = 1000, 1000 + 200 + 500
	f := func(want string, add func(i int) *pipeline.Judgement) {
		t.Helper()
		b := NewWhatIfBuilder(&WhatIf{RBAC: s, Change: s.Change(rbac.Grant.ForNodes, nil)})
		b.most = most
		for i := range n {
			b.Add(add(i))
		}
		r := b.Report(facts(n))
		var sum int64
		last := map[string]int64{}
		for i := range r.Groups {
			sum += r.Groups[i].Count
			last[r.Groups[i].Client+" "+r.Groups[i].Node] += r.Groups[i].Count
		}
		if sum != n || r.Requests.Breaks != n || len(r.Groups) > most+most/5+int(outcomes) || last[want] < 500 {
			t.Errorf("%d requests in %d groups, %d break, %d of %s", sum, len(r.Groups), r.Requests.Breaks, last[want], want)
		}
	}
	one := asked("worker-1 get secrets shop/db", legacy)
	f("kubelet (further nodes)", func(i int) *pipeline.Judgement {
		one.Node = fmt.Sprint("worker-", i)
		return one
	})
	f("(further clients) (further nodes)", func(i int) *pipeline.Judgement {
		one.Node = "worker-1"
		one.Event.UserAgent = fmt.Sprintf("client-%d/1", i)
		return one
	})
}

// TestSuggestBounded: neither clients nor what they do grow without end, and what is not looked at is said.
func TestSuggestBounded(t *testing.T) {
	legacy := byRBAC("legacy:system:node")
	s := newSuggester(SuggestOptions{})
	const uses = 1000
	s.most = uses
	one := asked("worker-1 get secrets shop/db", legacy)
	for i := range uses + maxClients {
		one.Event.UserAgent = fmt.Sprintf("client-%d/1", i)
		if i > maxClients {
			one.Event.UserAgent = "client-0/1"
			one.Attrs.Resource = fmt.Sprint("thing-", i)
		}
		s.Add(one)
	}
	out := s.Suggestion()
	if len(out.Clients) != maxClients || s.uses != uses || out.Dropped != maxClients {
		t.Errorf("%d clients, %d uses, %d dropped", len(out.Clients), s.uses, out.Dropped)
	}
	if text, _ := yamlOf(t, out); !strings.Contains(text, "not covered: more clients or kinds") {
		t.Error("it is not said that something is left out")
	}
}

func TestWhatIfEvidence(t *testing.T) {
	s := someRBAC()
	f := func(facts Facts, want string, what ...*pipeline.Judgement) {
		t.Helper()
		b := NewWhatIfBuilder(&WhatIf{RBAC: s, Change: s.Change(rbac.Grant.ForNodes, nil)})
		for _, j := range what {
			b.Add(j)
		}
		r := b.Report(facts)
		var text bytes.Buffer
		if err := (Text{}).WriteWhatIf(&text, r); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(text.String(), want) {
			t.Errorf("want %s:\n%s", want, text.String())
		}
	}
	torn := facts(1)
	torn.Events.Malformed = 1
	fine := asked("worker-1 get secrets shop/web")
	f(facts(1), "NOTHING BREAKS", fine)
	f(facts(0), "NOT ENOUGH EVIDENCE")
	f(torn, "NOT ENOUGH EVIDENCE", fine)
	f(facts(1), "NOT ENOUGH EVIDENCE", fine, asked("worker-1 get secrets shop/x", byRBAC("legacy:system:node"), silent, ours(nodeauthz.Unknown)))
	f(facts(1), "BREAKS", fine, asked("worker-1 get secrets shop/x", byRBAC("legacy:system:node")))
}

// What a node does as somebody else goes with the right to act so.
func TestWhatIfOfImpersonation(t *testing.T) {
	store, empty := someRBAC(), rbac.NewStore()
	store.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "system:node"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{"agent"}, Verbs: []string{"impersonate"},
	}}}, at(-500))
	acting := func(r *rules.Request) {
		r.Event.IsImpersonated, r.Event.Impersonated = true, audit.User{Username: "system:serviceaccount:ns:agent"}
		r.Impersonator, r.Node, r.IsNode, r.Answer.Verdict = r.Node, "", false, nodeauthz.NotNode
		r.Observed = rules.Observed{Decision: "allow", Authorizer: rules.ByRBAC}
	}
	grant := func(r *rules.Request) {
		r.Grant, r.HasGrant = rbac.Grant{Binding: rbac.BindingRef{Kind: "ClusterRoleBinding", Name: "legacy:system:node"}}, true
	}
	f := func(name string, s *rbac.Store, want Outcome, wantLost string, without func(rbac.Grant) bool, changes ...change) {
		t.Helper()
		w := &WhatIf{RBAC: s, Change: s.Change(without, nil)}
		j := asked("worker-1 get configmaps shop/x", append([]change{acting}, changes...)...)
		lost := ""
		w.lost(j, func(b rbac.BindingRef) { lost += b.Name })
		if got := w.Of(j); got.Outcome != want || lost != wantLost || !ConcernsNodes(j) {
			t.Errorf("%s: %s and %q is lost, want %s and %q", name, got.Outcome, lost, want, wantLost)
		}
	}
	none := func(rbac.Grant) bool { return false }
	f("by the binding that goes", store, Breaks, "legacy:system:node", rbac.Grant.ForNodes, grant)
	f("by one that stays", store, AllowedByRBAC, "", none, grant)
	own := func(r *rules.Request) {
		r.Observed.Grant, r.Observed.HasGrant = rbac.Grant{Binding: rbac.BindingRef{Kind: "ClusterRoleBinding", Name: "agent"}}, true
	}
	f("and what the user itself has goes", store, Breaks, "agent", func(g rbac.Grant) bool { return g.Binding.Name == "agent" }, grant, own)
	f("by one that nobody knows", empty, Undecided, "", rbac.Grant.ForNodes)
	f("refused", store, Refused, "legacy:system:node", rbac.Grant.ForNodes, func(r *rules.Request) { r.Allowed = false })
	f("it acts as another for the answer, whichever it is", store, Breaks, "legacy:system:node", rbac.Grant.ForNodes, grant, code(404))
	admission := func(r *rules.Request) { r.Attrs.Verb, r.Event.Code = "create", 403 }
	f("refused by admission", store, Fruitless, "legacy:system:node", rbac.Grant.ForNodes, grant, admission)
}

// What-if warns of the bindings of which bindings-inventoried says that no request shows what they give, over random roles and bindings.
func TestWhatIfWarnsAsTheInventory(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	goes, stays := 0, 0
	for range 1000 {
		s := someRBAC()
		for i := range 4 {
			name, kind, subject := fmt.Sprint("b", i), "Group", pick("system:nodes", "system:nodes", "system:bootstrappers", "system:authenticated")
			if r.IntN(4) == 0 {
				kind, subject = "User", pick("system:node:worker-1", "jane")
			}
			rule := rbacv1.PolicyRule{Verbs: []string{pick("get", "create", "update", "list", "*", "request-serviceaccounts-token-audience")}}
			if r.IntN(2) == 0 {
				rule.NonResourceURLs = []string{pick("/metrics", "/debug/*", "/*", "*", "/version")}
			} else {
				rule.APIGroups = []string{pick("", "", "*", "certificates.k8s.io")}
				rule.Resources = []string{pick("nodes/metrics", "nodes/*", "*/metrics", "pods", "pods/finalizers", "*", "nodes/status", "certificatesigningrequests/selfnodeclient",
					"registry.example", "example.com:mesh", "signers")}
				if rule.Verbs[0] == "request-serviceaccounts-token-audience" {
					rule.Resources = []string{"*"} // what gives named audiences stays
				}
				if r.IntN(4) == 0 {
					rule.ResourceNames = []string{"worker-1"}
				}
			}
			s.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}, at(-900))
			ref, subjects := rbacv1.RoleRef{Kind: "ClusterRole", Name: name}, []rbacv1.Subject{{Kind: kind, Name: subject}}
			if r.IntN(4) == 0 {
				s.SetRoleBinding(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, RoleRef: ref, Subjects: subjects}, at(-900))
			} else {
				s.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref, Subjects: subjects}, at(-900))
			}
		}
		in := &checks.Input{BindingsKnown: true, Bindings: slices.Collect(s.Bindings(at(0)))}
		want, got := map[string]bool{}, map[string]bool{}
		for _, c := range checks.Run(in) {
			for _, x := range c.Evidence {
				if x.Code == checks.CodeRightUnseen {
					want[x.Object] = true
				}
			}
		}
		b := NewWhatIfBuilder(&WhatIf{RBAC: s, Change: s.Change(func(g rbac.Grant) bool { return checks.OfNodes(g.Subject) }, nil)})
		b.Add(asked("worker-1 get secrets shop/web"))
		for _, d := range b.Report(facts(1)).Doubts {
			if d.Code == codes.ApprovesCertificate || d.Code == codes.RightUnseen {
				got[wording.Binding(d.Params)] = true
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-inventory +what-if):\n%s", in.Bindings, diff)
		}
		goes += len(want)
		stays += 5 - len(want)
	}
	if goes < 1000 || stays < 1000 {
		t.Errorf("%d bindings give what no request shows, %d do not", goes, stays)
	}
}

// A binding that a manifest puts in the place of the one that goes gives the same.
func TestWhatIfWarnsOfWhatIsLost(t *testing.T) {
	s := someRBAC()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "metrics"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes/metrics", "nodes/stats"}, Verbs: []string{"get"}}, {NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
	}}
	bind := rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "metrics"}, Subjects: []rbacv1.Subject{{Kind: "Group", Name: "system:nodes"}},
	}
	s.SetClusterRole(role, at(-900))
	s.SetClusterRoleBinding(&bind, at(-900))
	again := bind
	again.Name = "again"
	instead := func(b rbacv1.ClusterRoleBinding, roles ...rbacv1.ClusterRole) *rbac.Objects {
		return &rbac.Objects{ClusterRoleBindings: []rbacv1.ClusterRoleBinding{b}, ClusterRoles: roles}
	}
	const unseen = "ClusterRoleBinding metrics gives nodes what may be in use without a request that shows it: "
	for name, c := range map[string]struct {
		with *rbac.Objects
		want string
	}{
		"nothing instead":            {nil, unseen + "get nodes/metrics, get nodes/stats, get path /metrics"},
		"the same again":             {instead(bind), ""},
		"the same by another name":   {instead(again), ""},
		"the same, with other rules": {instead(again, rbacv1.ClusterRole{ObjectMeta: role.ObjectMeta, Rules: role.Rules[:1]}), unseen + "get path /metrics"},
	} {
		b := NewWhatIfBuilder(&WhatIf{RBAC: s, Change: s.Change(func(g rbac.Grant) bool { return g.Binding.Name == "metrics" }, c.with)})
		b.Add(asked("worker-1 get secrets shop/web"))
		if got := strings.Join(b.Report(facts(1)).Warnings, "\n"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
