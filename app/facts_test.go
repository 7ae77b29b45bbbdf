package app

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
)

// storedBefore is what the program stored of the capture before there was a package app, and of a second analyzer, as the store has moved it: gaps in
// place of sentences.
var storedBefore = map[string]json.RawMessage{
	"vm": json.RawMessage(`{"at":"2026-11-22T11:19:40.696506401Z","cluster":"prod","version":"development","state":{"objects":{"Node":6,"Pod":127},` +
		`"from":"2026-11-21T06:04:10.991075502Z","to":"2026-11-21T06:05:03.278259091Z","warnings":null},` +
		`"authorization":{"mode":"Node,RBAC","inferred":true,"kubernetesVersion":"1.36","featureGates":{}},"hasState":true,"gaps":[{"kind":"","code":"state-begins-late","params":[{"key":"message","value":"the state begins late"}]}],` +
		`"disabled":["node-deny-spike"],"nodes":["worker-1","worker-2"],"bindings":[]}`),
	"other": json.RawMessage(`{"at":"2026-11-22T11:00:00Z","cluster":"stage","version":"development","state":{"objects":{},"from":null,"to":null,"warnings":null},` +
		`"authorization":{"mode":"","inferred":true,"kubernetesVersion":"1.33","featureGates":{"AuthorizeNodeWithSelectors":false}},"hasState":false,"gaps":[{"kind":"state","code":"b","params":null},{"kind":"","code":"a","params":null}],` +
		`"disabled":null,"nodes":null,"bindings":[{"kind":"ClusterRoleBinding","name":"b","role":"system:node"}]}`),
}

// What was stored by earlier versions is read: of what all analyzers should know alike the latest, and every doubt.
func TestStoredFactsOfBefore(t *testing.T) {
	from, to := time.Date(2026, 11, 21, 6, 4, 10, 991075502, time.UTC), time.Date(2026, 11, 21, 6, 5, 3, 278259091, time.UTC)
	want := report.Facts{
		Cluster: "prod", HasState: true, Disabled: []string{"node-deny-spike"}, Nodes: []string{"worker-1", "worker-2"}, Bindings: []report.NodeBinding{},
		State: report.State{
			Objects: map[string]int{"Node": 6, "Pod": 127}, From: &from, To: &to,
		},
		Authorization: report.Authorization{Mode: "Node,RBAC", Inferred: true, KubernetesVersion: "1.36", FeatureGates: map[string]bool{}},
		Gaps: []codes.Gap{
			{Kind: codes.State, Code: "b"}, {Code: "a"},
			{Code: "state-begins-late", Params: codes.Params{codes.Text(codes.ParamMessage, "the state begins late")}},
		},
	}
	for range 20 { // the order of a map differs
		got, err := fromStore(storedBefore)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
	}
	// What is stored now has the same keys, and says the same when it is read again.
	b, err := toStore(&want, to, "v1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var was, is map[string]any
	if err := errors.Join(json.Unmarshal(storedBefore["vm"], &was), json.Unmarshal(b, &is)); err != nil {
		t.Fatal(err)
	}
	for key := range was {
		if _, ok := is[key]; !ok || len(is) != len(was) {
			t.Errorf("the key %s is gone, or others came: %s", key, b)
		}
	}
	if again, err := fromStore(map[string]json.RawMessage{"vm": b}); err != nil || cmp.Diff(want, again) != "" {
		t.Errorf("%v (-want +got):\n%s", err, cmp.Diff(want, again))
	}
	if got, err := fromStore(map[string]json.RawMessage{"other": storedBefore["other"]}); err != nil || got.Bindings != nil { // which of these go was not stored
		t.Errorf("%v: bindings %v", err, got.Bindings)
	}
	if _, err := fromStore(map[string]json.RawMessage{"vm": json.RawMessage(`[]`)}); err == nil {
		t.Error("what is no facts was read")
	}
}

// State that could not be read is a gap: what it held may change a verdict. So the report is not ready.
func TestUnreadableStateIsAHole(t *testing.T) {
	const node = `{"observedAt":"2026-11-21T05:00:00Z","type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"worker-1","uid":"u1"}}}` + "\n"
	const damaged = `{"observedAt":"2026-11-21T05:00:01Z","type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":7}}}` + "\n"
	const event = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a1","stage":"ResponseComplete",` +
		`"requestURI":"/api/v1/nodes/worker-1","verb":"get","user":{"username":"system:node:worker-1","groups":["system:nodes"]},` +
		`"objectRef":{"resource":"nodes","name":"worker-1","apiVersion":"v1"},"responseStatus":{"code":200},` +
		`"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""},` +
		`"requestReceivedTimestamp":"2026-11-21T06:00:00.000000Z","stageTimestamp":"2026-11-21T06:00:00.001000Z"}` + "\n"
	analyze := func(journal string) *report.Report {
		t.Helper()
		state := startLoading(&Input{State: []string{"-"}, Stdin: strings.NewReader(journal)})
		loaded, err := state.wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a, err := Analyze(t.Context(), AnalyzeOptions{Input: Input{Logs: []string{"-"}, Stdin: strings.NewReader(event), Loaded: loaded}})
		if err != nil {
			t.Fatal(err)
		}
		return a.Report
	}
	whole, torn := analyze(node), analyze(node+damaged)
	place := torn.State.Warnings[len(torn.State.Warnings)-1]
	if !strings.Contains(place, ":2: decoding a Pod") || slices.Contains(whole.State.Warnings, place) {
		t.Errorf("warnings %q and %q", whole.State.Warnings, torn.State.Warnings)
	}
	for r, want := range map[*report.Report]bool{whole: false, torn: true} {
		if got := slices.ContainsFunc(r.Readiness.Holes, func(h report.Hole) bool { return h.Message == place }); got != want || r.Readiness.Ready {
			t.Errorf("ready %t, and among the holes is the place: %t, want %t: %+v", r.Readiness.Ready, got, want, r.Readiness.Holes)
		}
	}
}

// The plan and the answers take for bindings that go what the checks take for them: copies of system:node under any name, and bindings of it for others, too.
func TestBindingsThatGo(t *testing.T) {
	store, now := rbac.NewStore(), time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	if got := forNodes(store, nil, now); got != nil {
		t.Errorf("nothing is known, and there are %v", got)
	}
	group := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: name}
	}
	account := rbacv1.Subject{Kind: "ServiceAccount", Namespace: "kube-system", Name: "agent"}
	nodeRules := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets", "pods"}}}
	all := []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
	few := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}}
	for name, rules := range map[string][]rbacv1.PolicyRule{nodeRole: nodeRules, "copied": nodeRules, "everything": all, "few": few, "kubeadm:get-nodes": few} {
		store.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, now)
	}
	bind := func(name, role string, subjects ...rbacv1.Subject) {
		store.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: subjects,
		}, now)
	}
	bind("legacy", nodeRole, group("system:nodes"))
	bind("of-an-account", nodeRole, account)
	bind("copy", "copied", group("system:nodes"))
	bind("copy-of-an-account", "copied", account)
	bind("wider", "everything", group("system:nodes"))
	bind("copy-for-joining", "copied", group("system:bootstrappers"))
	bind("extra", "few", rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "system:node:a"})
	bind("canary", nodeRole, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "system:node:b"})
	bind(nodeRole, nodeRole)
	bind("kubeadm:get-nodes", "kubeadm:get-nodes", group("system:bootstrappers:kubeadm:default-node-token"))
	bind("no-role", "gone", group("system:nodes"))
	bind("unrelated", "few", account)
	var goes, stays []string
	for _, b := range forNodes(store, []rbac.BindingRef{{Kind: rbac.KindClusterRoleBinding, Name: "canary"}}, now.Add(time.Second)) {
		if b.Fate == "goes" {
			goes = append(goes, b.Name)
		} else {
			stays = append(stays, b.Name)
		}
	}
	slices.Sort(goes)
	if want := []string{"copy", "copy-for-joining", "copy-of-an-account", "extra", "legacy", "of-an-account", "wider"}; !slices.Equal(goes, want) {
		t.Errorf("%q go, want %q", goes, want)
	}
	if want := []string{"canary"}; !slices.Equal(stays, want) {
		t.Errorf("%q are for nodes and stay, want %q", stays, want)
	}
}

// The plan removes only the nodes from a binding that goes for them, and others keep what it gives; one of system:node goes for all.
func TestNodeSubjects(t *testing.T) {
	account, nodes := rbacv1.Subject{Kind: "ServiceAccount", Namespace: "kube-system", Name: "agent"}, rbacv1.Subject{Kind: "Group", Name: "system:nodes"}
	one, joins := rbacv1.Subject{Kind: "User", Name: "system:node:a"}, rbacv1.Subject{Kind: "Group", Name: "system:bootstrappers"}
	for _, c := range []struct {
		name, role string
		subjects   []rbacv1.Subject
		want       []report.NodeSubject
	}{
		{"mixed", "proxier", []rbacv1.Subject{account, nodes}, []report.NodeSubject{{Place: 1, Kind: "Group", Name: "system:nodes"}}},
		{"many", "proxier", []rbacv1.Subject{one, account, joins}, []report.NodeSubject{{Place: 0, Kind: "User", Name: "system:node:a"}, {Place: 2, Kind: "Group", Name: "system:bootstrappers"}}},
		{"nodes only", "proxier", []rbacv1.Subject{nodes, one}, nil},
		{"kept", "proxier", []rbacv1.Subject{account, nodes}, nil},
		{"the role itself", "system:node", []rbacv1.Subject{account, nodes}, nil},
		{"a copy", "copy", []rbacv1.Subject{account, nodes}, nil},
	} {
		s := rbac.NewStore()
		for _, name := range []string{"proxier", "system:node", "copy"} {
			verb := "get"
			if name == "proxier" {
				verb = "list"
			}
			s.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"nodes"}}}}, time.Unix(1, 0))
		}
		s.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: c.name}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: c.role}, Subjects: c.subjects}, time.Unix(1, 0))
		all := forNodes(s, []rbac.BindingRef{{Kind: "ClusterRoleBinding", Name: "kept"}}, time.Unix(2, 0))
		if len(all) != 1 {
			t.Fatalf("%s: %+v", c.name, all)
		}
		if diff := cmp.Diff(c.want, all[0].NodeSubjects); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
