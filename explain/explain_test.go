package explain

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/test/scenario"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
)

// TestCorpus explains each request of the shared corpus: the verdict is that of analyze, the fate that of what-if, and every form can be read.
func TestCorpus(t *testing.T) {
	scenarios, err := scenario.Load(scenario.Corpus())
	if err != nil {
		t.Fatal(err)
	}
	n, paths, consequences := 0, 0, 0
	for i := range scenarios {
		s := &scenarios[i]
		t.Run(s.Name, func(t *testing.T) {
			for k, j := range play(t, s).all {
				n++
				if k > 50 { // of a storm all are alike
					break
				}
				id := j.Event.AuditID
				v := &j.verdict
				if diff := cmp.Diff([]any{v.Verdict, v.Race, v.Reason, v.Detail}, []any{j.Verdict, j.Race, j.Reason, j.Detail}); diff != "" {
					t.Errorf("%s (-analyze +explain):\n%s", id, diff)
				}
				if (j.Path != nil) != (j.Verdict == "allow" && j.Object != nil) {
					t.Errorf("%s: %s with path %v", id, j.Verdict, j.Path)
				}
				if j.Path != nil {
					paths++
				}
				if (len(j.Consequences) > 0) != j.hasFate {
					t.Errorf("%s: %d consequences", id, len(j.Consequences))
				}
				if j.hasFate && (j.Consequences[0].Outcome != j.fate.Outcome.String() || j.Consequences[0].Uncertain != j.fate.Uncertain) {
					t.Errorf("%s: %s, but what-if says %s", id, j.Consequences[0].Outcome, j.fate.Outcome)
				}
				consequences += len(j.Consequences)
				if len(j.Words) == 0 {
					t.Errorf("%s: no words", id)
				}
				checkForms(t, id, j.Explanation)
			}
		})
	}
	if n < 300 || paths < 50 || consequences < 300 {
		t.Errorf("only %d requests, %d with a path, %d consequences", n, paths, consequences)
	}
}

// checkForms reads every form of an explanation.
func checkForms(t *testing.T, id string, ex *Explanation) {
	t.Helper()
	b := written(t, ex.WriteJSON)
	if strings.Contains(string(b), ": null") {
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		checkLists(t, id, reflect.ValueOf(ex).Elem())
	}
	text := string(written(t, ex.WriteText))
	if !strings.HasSuffix(text, "\n") || strings.Contains(text, "%!") && !strings.Contains(id, "%!") {
		t.Errorf("%s: %s", id, text)
	}
	checkSVG(t, id, written(t, ex.WriteSVG))
	checkDOT(t, id, written(t, ex.WriteDOT))
}

// checkLists holds that no list is nil.
func checkLists(t *testing.T, where string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			checkLists(t, where, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				checkLists(t, where+"."+v.Type().Field(i).Name, v.Field(i))
			}
		}
	case reflect.Slice:
		if v.IsNil() {
			t.Errorf("%s is nil", where)
		}
		for i := range v.Len() {
			checkLists(t, where, v.Index(i))
		}
	}
}

func TestWords(t *testing.T) {
	p := shop(t)
	const noPath = "no relationship found between node '%s' and this object"
	for _, c := range []struct {
		ask, at, verdict, reason string
		words                    []string
	}{
		{"worker-1 get secrets shop/db", "06:00:30", "allow", "", []string{
			"Node worker-1 may: secret shop/db -> pod shop/web-1 -> node worker-1, from 2026-11-21T04:00:00Z to the state's end.",
		}},
		{"worker-1 get secrets storage/csi", "06:00:30", "allow", "", []string{
			"Node worker-1 may: secret storage/csi -> persistent volume pv-1 -> persistent volume claim shop/data -> pod shop/web-1 -> node worker-1, " +
				"from 2026-11-21T04:00:00Z to the state's end.",
		}},
		{"worker-2 get secrets shop/db", "06:11:00", "deny", fmt.Sprintf(noPath, "worker-2"), []string{
			"No path connected secret shop/db with node worker-2 then.",
			"Node worker-2 could last reach it by secret shop/db -> pod shop/web-2 -> node worker-2, from 2026-11-21T05:58:00Z until 2026-11-21T06:02:00Z.",
			"Node worker-2 could reach it later by secret shop/db -> pod shop/web-4 -> node worker-2, from 2026-11-21T06:20:00Z to the state's end.",
		}},
		{"worker-1 get secrets shop/debug-key", "06:01:00", "deny", fmt.Sprintf(noPath, "worker-1"), []string{
			"No path connected secret shop/debug-key with any node then.",
			"It is a race: secret shop/debug-key began to lead to worker-1 250ms later.",
			"Node worker-1 could reach it later by secret shop/debug-key -> pod shop/web-1 -> node worker-1, from 2026-11-21T06:01:00.25Z to the state's end.",
		}},
		{"worker-1 get secrets shop/nothing", "06:01:00", "deny", fmt.Sprintf(noPath, "worker-1"), []string{
			"No path connected secret shop/nothing with any node then.", "The state shows no time when node worker-1 could reach it.",
		}},
		{"worker-1 get secrets shop/nothing", "04:00:00", "unknown", "", []string{"It is not known: the state begins 1h0m0s later."}},
		{"worker-1 get nodes worker-1", "06:00:00", "allow", "", []string{"A static rule of the Node authorizer allows it, whatever the graph says."}},
		{"worker-1 get nodes worker-2", "06:00:00", "deny", "node 'worker-1' cannot read 'worker-2', only its own Node object", []string{
			"The Node authorizer refuses it whatever the graph says: node 'worker-1' cannot read 'worker-2', only its own Node object.",
		}},
		{"worker-1 get widgets.example.com shop/a", "06:00:00", "deny", "", []string{"No static rule for nodes allows it."}},
		{"worker-1 get /healthz", "06:00:00", "deny", "", []string{"No static rule for nodes allows it."}},
		{"worker-1 list pods / spec.nodeName=worker-1", "06:00:00", "allow", "", []string{"A static rule of the Node authorizer allows it, whatever the graph says."}},
	} {
		ex := p.ask(t, c.ask, c.at)
		if diff := cmp.Diff(c.words, ex.Words); diff != "" || ex.Verdict != c.verdict || ex.Reason != c.reason {
			t.Errorf("%s at %s: %s %q (-want +got):\n%s", c.ask, c.at, ex.Verdict, ex.Reason, diff)
		}
		checkForms(t, c.ask, ex)
	}
	list := p.ask(t, "worker-1 list pods / spec.nodeName=worker-1", "06:00:00")
	if list.Request.FieldSelector != "spec.nodeName=worker-1" || list.Request.User != "system:node:worker-1" {
		t.Errorf("%+v", list.Request)
	}
}

func TestEventIsTheApiservers(t *testing.T) {
	all := shop(t).all
	if len(all) != 3 {
		t.Fatalf("%d requests", len(all))
	}
	var got []string
	for _, j := range all {
		got = append(got, fmt.Sprintf("%s %s by %q of %q, node %q: %s", j.Event.AuditID, j.Event.Decision, j.Event.Authorizer, j.Verdict, j.Event.NodeVerdict,
			j.Consequences[0].Outcome))
	}
	want := []string{
		`e1 allow by "node" of "allow", node "allow": node`,
		`e2 allow by "rbac" of "deny", node "deny": breaks`,
		`e3 forbid by "" of "deny", node "deny": refused`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	named := all[1].RBAC.Grants
	if len(named) != 1 || !named[0].Named || named[0].From == nil {
		t.Errorf("the binding that the API server named: %+v", named)
	}
}

func TestEventNamesTheImpersonator(t *testing.T) {
	x, _, _ := bare(t)
	r := Request{Node: "n2", Verb: "list", Resource: "services"}
	j := &pipeline.Judgement{Request: rules.Request{Attrs: r.Attributes(), Time: epoch, Event: &audit.Event{
		User: audit.User{Username: "system:node:n3"}, IsImpersonated: true, Impersonated: audit.User{Username: "system:node:n2"},
	}}}
	j.Node, j.IsNode = nodeauthz.NodeIdentity(j.Attrs.User)
	const want = `User "system:node:n3" made the request, by impersonation of user "system:node:n2".`
	if got := x.Event(j); len(got.Notes) == 0 || got.Notes[0] != want || !strings.Contains(string(written(t, got.WriteText)), want) {
		t.Errorf("%q", got.Notes)
	}
}

func TestHistory(t *testing.T) {
	p := shop(t)
	ex := p.ask(t, "worker-2 get secrets shop/db", "06:11:00")
	var got []string
	for _, c := range ex.History.Changes {
		flags := ""
		for name, on := range map[string]bool{"own": c.Own, "outside": c.Outside} {
			if on {
				flags += " " + name
			}
		}
		if c.Own && c.Outside {
			flags = " own outside"
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s%s", c.Time.Format("15:04:05"), c.Source, c.Words, flags)+" "+c.Nearest))
	}
	want := []string{
		"06:02:00 watch pod shop/web-2 on worker-2 was deleted own",
		"06:04:19 watch pod shop/web-3 was bound to worker-3 before",
		"06:20:00 watch pod shop/web-4 was bound to worker-2 own after",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if h := &ex.History; !h.From.Equal(clockAt(t, "06:01:00")) || !h.To.Equal(clockAt(t, "06:21:00")) || h.Earlier+h.Later != 0 {
		t.Errorf("%+v", h)
	}
	ex = p.ask(t, "worker-1 get secrets storage/csi", "06:00:30")
	if w := ex.History.Changes[0].Words; w != "persistent volume claim shop/data got persistent volume pv-1" {
		t.Errorf("the first of %+v", ex.History.Changes)
	}
	ex = p.ask(t, "worker-1 get secrets shop/debug-key", "06:03:00")
	if w := ex.History.Changes[len(ex.History.Changes)-1]; w.Words != "pod shop/web-1 on worker-1 began to use secret shop/debug-key" || !w.Own {
		t.Errorf("the last of %+v", ex.History.Changes)
	}
}

func TestWhoElse(t *testing.T) {
	ex := shop(t).ask(t, "worker-2 get secrets shop/db", "06:05:00")
	var nodes, subjects []string
	for _, o := range ex.Others.Nodes {
		nodes = append(nodes, fmt.Sprintf("%s by %s", o.Node, &o.Path))
	}
	for i := range ex.Subjects.Grants {
		subjects = append(subjects, ex.Subjects.Grants[i].String())
	}
	if diff := cmp.Diff([]string{
		"worker-1 by secret shop/db -> pod shop/web-1 -> node worker-1", "worker-3 by secret shop/db -> pod shop/web-3 -> node worker-3",
	}, nodes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"ClusterRoleBinding cluster-admin of ClusterRole cluster-admin to Group system:masters",
		"ClusterRoleBinding legacy:system:node of ClusterRole system:node to Group system:nodes",
		"RoleBinding shop/reader of Role reader to Group ops", "RoleBinding shop/reader of Role reader to User jane",
	}, sortedCopy(subjects)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func sortedCopy(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// TestConsequences has what becomes of requests when bindings go, one by one and all.
func TestConsequences(t *testing.T) {
	const cluster = `-- cluster --
05:00:00 = node worker-1
05:00:00 = clusterrole system:node allow=get:secrets
05:00:00 = clusterrole wide allow=get:secrets
05:00:00 = clusterrolebinding legacy role=system:node group=system:nodes
05:00:00 = clusterrolebinding everyone role=wide group=system:authenticated
05:00:00 = rolebinding shop/own role=clusterrole/wide user=system:node:worker-1
05:00:00 = pod shop/web on=worker-1 secret=db
-- audit --
`
	f := func(flags, ask string, want ...string) {
		t.Helper()
		p := play(t, parse(t, flags+cluster))
		x := p.Explainer
		if flags != "" {
			x = New(Options{Node: x.o.Node, Graph: x.o.Graph, RBAC: x.o.RBAC, Authorizers: []string{"RBAC"}, Then: []string{"RBAC"}})
		}
		ex := (&played{Explainer: x}).ask(t, ask, "06:00:00")
		var got []string
		for _, c := range ex.Consequences {
			name := "all"
			if c.Binding != nil {
				name = c.Binding.Name
			}
			got = append(got, name+": "+c.Outcome+": "+c.Words)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", ask, diff)
		}
	}
	f("", "worker-1 get secrets shop/db", "all: node: Node allows it anyway", "everyone: node: Node allows it anyway", "legacy: node: Node allows it anyway",
		"own: node: Node allows it anyway")
	f("", "worker-1 get secrets shop/theirs", "all: rbac: still allowed by ClusterRoleBinding everyone", "everyone: rbac: still allowed by ClusterRoleBinding legacy",
		"legacy: rbac: still allowed by ClusterRoleBinding everyone", "own: rbac: still allowed by ClusterRoleBinding everyone")
	f("", "worker-1 get configmaps shop/theirs", "all: refused: refused with and without these rights")
	f("-- flags --\nauthorization-mode: RBAC\n", "worker-1 get configmaps shop/db", "all: refused: refused with and without these rights")
	f("-- flags --\nauthorization-mode: RBAC\n", "worker-1 get secrets shop/db", "all: rbac: still allowed by ClusterRoleBinding everyone",
		"everyone: rbac: still allowed by ClusterRoleBinding legacy", "legacy: rbac: still allowed by ClusterRoleBinding everyone", "own: rbac: still allowed by ClusterRoleBinding everyone")
	// What RBAC refuses, Node may allow.
	p := play(t, parse(t, cluster))
	x := New(Options{Node: p.o.Node, Graph: p.o.Graph, RBAC: p.o.RBAC, Authorizers: []string{"RBAC"}})
	ex := (&played{Explainer: x}).ask(t, "worker-1 get pods shop/web", "06:00:00")
	if c := ex.Consequences[0]; c.Outcome != "gained" || c.Words != "would pass" {
		t.Errorf("%+v", c)
	}
}

// TestWordsOfAStateThatLearnedBetter has verdicts that the state no longer bears out: an event is judged before all is known.
func TestWordsOfAStateThatLearnedBetter(t *testing.T) {
	p := shop(t)
	f := func(node, at string, answer nodeauthz.Answer, want ...string) {
		t.Helper()
		r := Request{Node: node, Verb: "get", Resource: "secrets", Namespace: "shop", Name: "db"}
		j := &pipeline.Judgement{Request: rules.Request{
			Attrs: r.Attributes(), Time: clockAt(t, at), Event: &audit.Event{Code: 200}, Node: node, IsNode: true, Answer: answer,
		}}
		ex := p.Event(j)
		if len(ex.Words) < len(want) || !slices.EqualFunc(want, ex.Words[:len(want)], func(a, b string) bool { return strings.HasPrefix(b, a) }) {
			t.Errorf("%s at %s, %s: %q, want %q", node, at, answer.Verdict, ex.Words, want)
		}
		checkForms(t, node, ex)
	}
	f("worker-1", "06:05:00", nodeauthz.Answer{Verdict: nodeauthz.Deny, Reason: "x"}, "As the state knows now, the object did lead to the node: secret shop/db -> ")
	f("worker-2", "06:05:00", nodeauthz.Answer{Verdict: nodeauthz.Allow}, "The path that allowed it is not known any more.", "Node worker-2 could last reach it by ")
	f("worker-1", "06:05:00", nodeauthz.Answer{Verdict: nodeauthz.Unknown}, "It was not known when the request was judged.", "As the state knows now, ")
}
