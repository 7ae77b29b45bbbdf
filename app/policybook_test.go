package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/pipeline"
)

// What the API server's own evaluator says of each event decides whether a policy that is given can have been in force: of a policy that would have written
// all of them nothing is said, a request that is named has an event that it would not have written, and one of which it would have written none is named.
func TestPolicyNotInForce(t *testing.T) {
	contradictions := 0
	f := func(name, text string, o AnalyzeOptions) (named []string) {
		p, err := coverage.ParsePolicy([]byte(text))
		if err != nil {
			t.Fatal(name, err)
		}
		loader, err := policy.LoadPolicyFromBytes([]byte(text))
		if err != nil {
			t.Fatal(name, err)
		}
		upstream := policy.NewPolicyRuleEvaluator(loader)
		type kind struct{ wrong, all int }
		kinds, wrong := map[string]*kind{}, map[string]bool{}
		o.Policy = p
		o.Each = func(j *pipeline.Judgement) error {
			if ev := j.Event; j.IsNode && !ev.IsImpersonated && ev.Code < 400 {
				asked := *j.Attrs
				asked.User = &user.DefaultInfo{Name: ev.User.Username, Groups: ev.User.Groups}
				said := upstream.EvaluatePolicyRule(&asked)
				request := requestKind(asked.Verb, asked.APIGroup, asked.Resource, asked.Subresource, asked.Path)
				k := kinds[request]
				if k == nil {
					k = &kind{}
					kinds[strings.Clone(request)] = k
				}
				k.all++
				if said.Level == auditinternal.LevelNone || slices.Contains(said.OmitStages, auditinternal.Stage(ev.Stage.String())) {
					k.wrong++
					wrong[strings.Clone(ev.AuditID)] = true
				}
			}
			return nil
		}
		a, err := Analyze(t.Context(), o)
		if err != nil {
			t.Fatal(name, err)
		}
		i := slices.IndexFunc(a.Facts.Checks, func(r checks.Result) bool { return r.Check == "policy-known" })
		for _, item := range a.Facts.Checks[i].Evidence {
			if item.Code != checks.CodePolicyOther {
				continue
			}
			contradictions++
			named = append(named, item.Request)
			if !wrong[item.AuditIDs[0]] {
				t.Errorf("%s: %s is named by %v, which the policy writes", name, item.Request, item.AuditIDs)
			}
		}
		for request, k := range kinds {
			if k.wrong == k.all && !slices.Contains(named, request) {
				t.Errorf("%s: the policy writes none of %d events of %s, which is not named", name, k.all, request)
			}
		}
		return named
	}
	capture := func() AnalyzeOptions { return captureOptions("capture") }
	const everything = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n%s- level: Metadata\n"
	for rule, want := range map[string]int{
		"": 0,
		"- {level: None, users: [system:apiserver]}\n":                                                                           0,
		"- {level: None, userGroups: [system:nodes], verbs: [watch], resources: [{group: \"\", resources: [nodes]}]}\n":          1,
		"- {level: Metadata, omitStages: [ResponseComplete], verbs: [get], resources: [{group: \"\", resources: [secrets]}]}\n":  1,
		"- {level: None, userGroups: [system:masters], verbs: [watch], resources: [{group: \"\", resources: [nodes]}]}\n":        0,
		"- {level: RequestResponse, userGroups: [system:nodes], resources: [{group: \"\", resources: [nodes, nodes/status]}]}\n": 0, // the log may have been reduced
	} {
		if got := f(rule, fmt.Sprintf(everything, rule), capture()); len(got) != want {
			t.Errorf("%q: %q, want %d", rule, got, want)
		}
	}
	for seed := range effort.Of(uint64(40), 4) {
		f(fmt.Sprint("random policy ", seed), days.RandomPolicy(seed), capture())
	}
	if contradictions < effort.Of(100, 5) {
		t.Errorf("only %d contradictions", contradictions)
	}
}

// Events from which nothing follows about the policy, and kinds without bound.
func TestWrittenBook(t *testing.T) {
	nodes := []string{user.NodesGroup, user.AllAuthenticated}
	f := func(name string, want int, change func(*audit.Event)) {
		b := newWrittenBook()
		ev := &audit.Event{AuditID: "a", Stage: audit.StageResponseComplete, Verb: "get", RequestURI: "/api/v1/nodes/n", HasObjectRef: true, Code: 200}
		ev.ObjectRef.Resource, ev.ObjectRef.Name = "nodes", "n"
		ev.User.Username, ev.User.Groups = "system:node:n", nodes
		change(ev)
		var of audit.Attributes
		j := &pipeline.Judgement{}
		j.Event, j.Attrs, j.IsNode = ev, of.Of(ev, true), true
		for range 2 {
			b.add(j)
		}
		if len(b.of) != want {
			t.Errorf("%s: %d", name, len(b.of))
		}
	}
	f("a read", 1, func(*audit.Event) {})
	f("refused", 0, func(ev *audit.Event) { ev.Code = 403 })
	f("without an answer", 0, func(ev *audit.Event) { ev.Code = 0 })
	f("as somebody else", 0, func(ev *audit.Event) { ev.IsImpersonated, ev.Impersonated = true, ev.User })
	f("of another log", 0, func(ev *audit.Event) { ev.Derived = true })
	f("reduced", 0, func(ev *audit.Event) { ev.ReducedFrom = 1 << 20 })
	f("groups left out", 0, func(ev *audit.Event) { ev.User.Groups = nodes[:1] })
	f("long", 0, func(ev *audit.Event) { ev.AuditID = strings.Repeat("x", maxWrittenText+1) })

	b := newWrittenBook()
	for i := range 3 * maxWritten {
		ev := &audit.Event{Stage: audit.StageResponseComplete, Verb: "get", RequestURI: fmt.Sprint("/made/up/", i), Code: 200}
		ev.User.Username, ev.User.Groups = "system:node:n", nodes
		var of audit.Attributes
		j := &pipeline.Judgement{}
		j.Event, j.Attrs, j.IsNode = ev, of.Of(ev, true), true
		b.add(j)
	}
	if len(b.of) != maxWritten {
		t.Errorf("%d kinds", len(b.of))
	}
}
