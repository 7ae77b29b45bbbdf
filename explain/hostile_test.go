package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

var epoch = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)

func seen(seconds int) nodeauthz.Stamp {
	return nodeauthz.Stamp{Time: epoch.Add(time.Duration(seconds) * time.Second), Source: nodeauthz.SourceWatch}
}

// bare is an explainer over a state that is complete from before the epoch on.
func bare(t *testing.T) (*Explainer, *nodeauthz.Graph, *rbac.Store) {
	t.Helper()
	f, err := nodeauthz.FeaturesFor("1.36")
	if err != nil {
		t.Fatal(err)
	}
	g, store := nodeauthz.NewGraph(), rbac.NewStore()
	g.CoverFrom(epoch.Add(-time.Hour))
	store.CoverFrom(epoch.Add(-time.Hour))
	return New(Options{Node: nodeauthz.NewAuthorizer(g, f, time.Second), Graph: g, RBAC: store}), g, store
}

func hostileStrings() []string {
	return []string{
		"\x00", "\x1b[2J\x1b[31mALLOW", "a\nALLOW  b\r\nc", "\u202eevil\u2066", "\xff\xfe", "%s%d%!(EXTRA", "</text></svg><script>alert(1)</script>",
		"javascript:alert(1)", `"onload="x`, "\u2028\u0085", "`'", "\t\t|", "\u009b31m", "<!--", "]]>", "&lt;&amp;", "\v\f", "{{.}}", "\ufeff",
		`\n\l\G"];`, `\`, "<b>x</b>", strings.Repeat("x", 253), strings.Repeat("世", 253), strings.Repeat("a.", 3_000), "-> node evil", "",
	}
}

// TestHostileNames has each string wherever a log or a state can put one.
func TestHostileNames(t *testing.T) {
	for i, s := range hostileStrings() {
		if i%effort.Of(1, 4) != 0 {
			continue
		}
		x, g, store := bare(t)
		name, node := "x"+s, "n"+s
		for i, n := range []string{node, "other" + s, "third" + s} {
			g.SetPod(&nodeauthz.Pod{Namespace: name, Name: fmt.Sprint("pod", i, s), UID: fmt.Sprint(i), NodeName: n, Secrets: []string{name},
				PersistentVolumeClaims: []string{"claim" + s}}, seen(i))
		}
		g.SetPersistentVolume(&nodeauthz.PersistentVolume{Name: "pv" + s, UID: "v", Claim: &nodeauthz.NamespacedName{Namespace: name, Name: "claim" + s},
			Secrets: []nodeauthz.NamespacedName{{Namespace: name, Name: "key" + s}}}, seen(1))
		g.DeletePod(name, "pod0"+s, "0", seen(60))
		role := rbacv1.RoleRef{Kind: "ClusterRole", Name: "role" + s}
		store.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}, {Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
		}}, epoch)
		store.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "binding" + s}, RoleRef: role, Subjects: []rbacv1.Subject{
			{Kind: "Group", Name: "system:nodes"}, {Kind: "User", Name: "user" + s}, {Kind: "ServiceAccount", Name: name, Namespace: name},
		}}, epoch)
		for _, r := range []Request{
			{Node: node, Verb: "get", Resource: "secrets", Namespace: name, Name: name},
			{Node: node, Verb: "get", Resource: "secrets", Namespace: name, Name: "key" + s},
			{Node: "stranger" + s, Verb: "get", Resource: "secrets", Namespace: name, Name: name},
			{Node: node, Verb: "verb" + s, Resource: "res" + s, APIGroup: s, Subresource: s, Namespace: s, Name: s, FieldSelector: "a=" + s},
			{Node: node, Verb: "get", Path: "/" + s},
			{User: "user" + s, Groups: []string{s}, Verb: "get", Resource: "secrets", Namespace: name, Name: name},
		} {
			for _, at := range effort.Of([]int{30, 90, -7200}, []int{90}) {
				checkHostile(t, s, x.Request(r.Attributes(), epoch.Add(time.Duration(at)*time.Second)))
			}
			j := &pipeline.Judgement{Request: rules.Request{Attrs: r.Attributes(), Time: epoch.Add(time.Minute), Event: &audit.Event{
				AuditID: s, UserAgent: s, SourceIPs: []string{s, s}, Decision: s, Reason: s, Code: 200,
				User: audit.User{Username: "user" + s}, IsImpersonated: true, Impersonated: audit.User{Username: "other" + s},
			}}}
			j.Node, j.IsNode = nodeauthz.NodeIdentity(j.Attrs.User)
			j.Observed = rules.Observed{Decision: s, Reason: s, HasGrant: true, Grant: rbac.Grant{Binding: rbac.BindingRef{Kind: s, Namespace: s, Name: s},
				Role: rbac.RoleRef{Kind: s, Name: s}, Subject: rbac.SubjectRef{Kind: s, Namespace: s, Name: s}}}
			checkHostile(t, s, x.Event(j))
		}
		reach := x.Object(ObjectRef{Resource: "secrets", Namespace: name, Name: name}, epoch, epoch.Add(time.Hour))
		checkSVG(t, s, written(t, reach.WriteSVG))
		checkDOT(t, s, written(t, reach.WriteDOT))
		checkText(t, s, written(t, reach.WriteText))
		if reach.Nodes != 3 {
			t.Errorf("%q: %d nodes", s, reach.Nodes)
		}
		reach = x.Object(ObjectRef{APIGroup: s, Resource: s, Namespace: s, Name: s}, time.Time{}, time.Time{})
		checkSVG(t, s, written(t, reach.WriteSVG))
		checkDOT(t, s, written(t, reach.WriteDOT))
		checkText(t, s, written(t, reach.WriteText))
	}
}

func checkHostile(t *testing.T, s string, ex *Explanation) {
	t.Helper()
	checkForms(t, s, ex)
	checkText(t, s, written(t, ex.WriteText))
	var back Explanation
	if err := json.Unmarshal(written(t, ex.WriteJSON), &back); err != nil {
		t.Errorf("%q: %v", s, err)
	}
}

// checkText holds that a terminal is shown nothing but what can be seen, and no line that a name made.
func checkText(t *testing.T, s string, b []byte) {
	t.Helper()
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if i := strings.IndexFunc(line, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }); i >= 0 {
			t.Errorf("%q: %q", s, line)
		}
		if strings.HasPrefix(line, "ALLOW  b") {
			t.Errorf("%q made a line: %q", s, line)
		}
	}
}

// TestManyNodes has a config map that 5,000 nodes reach by 20,000 pods: what comes out is bounded, and says how much is left out.
func TestManyNodes(t *testing.T) {
	const nodes, pods = 5000, 20_000
	x, g, store := bare(t)
	for i := range pods {
		g.SetPod(&nodeauthz.Pod{Namespace: "shop", Name: fmt.Sprintf("pod-%05d", i), UID: fmt.Sprint(i), NodeName: fmt.Sprintf("node-%04d", i%nodes),
			ConfigMaps: []string{"kube-root-ca.crt"}}, seen(i/100))
	}
	store.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}},
	}}, epoch)
	for i := range 1000 {
		store.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("binding-%04d", i)},
			RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"}, Subjects: []rbacv1.Subject{{Kind: "Group", Name: "system:nodes"}}}, epoch)
	}
	r := Request{Node: "node-0042", Verb: "get", Resource: "configmaps", Namespace: "shop", Name: "kube-root-ca.crt"}
	ex := x.Request(r.Attributes(), epoch.Add(5*time.Minute))
	h := &ex.History
	for what, got := range map[string][2]int{
		"nodes": {len(ex.Others.Nodes), MaxNodes}, "nodes left out": {ex.Others.More, nodes - 1 - MaxNodes}, "grants": {len(ex.RBAC.Grants), MaxGrants},
		"grants left out": {ex.RBAC.More, 1000 - MaxGrants}, "subjects": {len(ex.Subjects.Grants), MaxGrants}, "subjects left out": {ex.Subjects.More, 1000 - MaxGrants},
		"consequences": {len(ex.Consequences), MaxConsequences}, "changes": {len(h.Changes) + h.Earlier + h.Later, pods},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, want %d", what, got[0], got[1])
		}
	}
	if len(h.Changes) > MaxChanges+4 || ex.Path == nil {
		t.Errorf("%d changes, path %v", len(h.Changes), ex.Path)
	}
	checkForms(t, "many", ex)
	for form, b := range map[string][]byte{"json": written(t, ex.WriteJSON), "text": written(t, ex.WriteText), "svg": written(t, ex.WriteSVG), "dot": written(t, ex.WriteDOT)} {
		if len(b) > 500_000 {
			t.Errorf("%s: %d bytes", form, len(b))
		}
	}
	if s := string(written(t, ex.WriteText)); !strings.Contains(s, "and 4989 nodes more") && !strings.Contains(s, "and 4989 node") {
		t.Errorf("the text does not count the nodes left out:\n%s", s)
	}
	reach := x.Object(ObjectRef{Resource: "configmaps", Namespace: "shop", Name: "kube-root-ca.crt"}, epoch, epoch.Add(time.Hour))
	if len(reach.Rows) != MaxNodes || reach.More != pods-MaxNodes || reach.Nodes != nodes || !reach.Known {
		t.Errorf("%d rows, %d more, %d nodes", len(reach.Rows), reach.More, reach.Nodes)
	}
	if b := written(t, reach.WriteSVG); !bytes.Contains(b, []byte("and 19988 paths more")) {
		t.Errorf("the drawing does not count the paths left out")
	}
}

func TestObject(t *testing.T) {
	p := shop(t)
	f := func(ref ObjectRef, kind string, rows int, words string) {
		t.Helper()
		r := p.Object(ref, clockAt(t, "06:01:00"), clockAt(t, "06:05:00"))
		checkLists(t, ref.Resource, reflect.ValueOf(r))
		if r.Kind != kind || len(r.Rows) != rows || strings.Join(r.Words, " ") != words {
			t.Errorf("%+v: kind %q, %d rows, %q", ref, r.Kind, len(r.Rows), r.Words)
		}
		checkSVG(t, ref.Resource, written(t, r.WriteSVG))
		checkDOT(t, ref.Resource, written(t, r.WriteDOT))
	}
	f(ObjectRef{Resource: "secrets", Namespace: "shop", Name: "db"}, "secret", 3, "")
	f(ObjectRef{Resource: "secrets", Namespace: "shop", Name: "nothing"}, "secret", 0, "")
	f(ObjectRef{Resource: "persistentvolumes", Name: "pv-1"}, "persistent volume", 1, "")
	f(ObjectRef{Resource: "nodes", Name: "worker-1"}, "", 0, "The Node authorizer lets node worker-1 alone get it: it is named after the node.")
	f(ObjectRef{Resource: "services", Namespace: "shop", Name: "web"}, "", 0, "The Node authorizer lets every node get it, by a static rule.")
	f(ObjectRef{APIGroup: "apps", Resource: "deployments", Namespace: "shop", Name: "web"}, "", 0, "The Node authorizer lets no node get it.")
	r := p.Object(ObjectRef{Resource: "secrets", Namespace: "shop", Name: "db"}, time.Time{}, time.Time{})
	now := 0
	for _, row := range r.Rows {
		if row.Now {
			now++
		}
	}
	if len(r.Rows) != 4 || now != 3 || r.Known || len(r.Words) != 1 {
		t.Errorf("%d rows, %d of now: %q", len(r.Rows), now, r.Words)
	}
}

// TestWhileTheStateChanges is for the race detector.
func TestWhileTheStateChanges(t *testing.T) {
	x, g, store := bare(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			name := fmt.Sprint("pod-", i%50)
			g.SetPod(&nodeauthz.Pod{Namespace: "shop", Name: name, UID: fmt.Sprint(i), NodeName: fmt.Sprint("n", i%7), Secrets: []string{"db"}}, seen(i))
			if i%3 == 0 {
				g.DeletePod("shop", name, fmt.Sprint(i), seen(i+1))
			}
			at := epoch.Add(time.Duration(i) * time.Second)
			store.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}, Rules: []rbacv1.PolicyRule{
				{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}},
			}}, at)
			store.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("b", i%5)},
				RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"}, Subjects: []rbacv1.Subject{{Kind: "Group", Name: "system:nodes"}}}, at)
			if i%2 == 0 {
				store.DeleteClusterRoleBinding(fmt.Sprint("b", i%5), at.Add(time.Second))
			}
			if i%100 == 0 {
				g.Prune(at.Add(-10 * time.Minute))
				store.Prune(at.Add(-10 * time.Minute))
			}
		}
	})
	wg.Go(func() {
		for i := range 100 {
			x.Object(ObjectRef{Resource: "secrets", Namespace: "shop", Name: "db"}, epoch, epoch.Add(time.Duration(i)*10*time.Second))
		}
	})
	r := Request{Node: "n1", Verb: "get", Resource: "secrets", Namespace: "shop", Name: "db"}
	for i := range 100 {
		ex := x.Request(r.Attributes(), epoch.Add(time.Duration(i)*10*time.Second))
		if ex.Verdict == "allow" && ex.Path == nil {
			t.Errorf("allowed by no path: %v", ex.Words)
		}
		checkForms(t, "racing", ex)
	}
	close(stop)
	wg.Wait()
}
