package report

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

func TestCounts(t *testing.T) {
	l := newLog(t)
	l.many(3)
	l.add("worker-1 get pods shop/x", race)
	l.add("worker-1 get pods shop/x", denied, race)
	l.add("worker-1 get pods shop/x", race, ours(nodeauthz.Deny))
	l.add("worker-2 get pods shop/x", denied)
	l.add("worker-2 get pods shop/x", denied, ours(nodeauthz.Allow))
	l.add("worker-2 get pods shop/x", byRBAC("legacy"))
	l.add("worker-2 get pods shop/x", ours(nodeauthz.Unknown))
	l.add("worker-2 get pods shop/x", denied, theirs(nodeauthz.NotNode))
	l.add(" get pods shop/x", stranger("kubelet"), denied)
	r := l.b.Report(facts(12))
	if diff := cmp.Diff(Verdicts{Allow: 5, Deny: 5, Unknown: 1, Races: RaceCounts{Allow: 1, Deny: 2}}, r.Verdicts); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	want := Agreement{
		Compared: 6, Agree: 5, Races: RaceAgreement{Compared: 3, Agree: 2}, Reasons: ReasonAgreement{Compared: 2, Equal: 2},
		Disagree: []Disagreement{{
			AuditID: "audit-8", Time: at(800), Node: "worker-2", Verb: "get", Resource: "pods", Namespace: "shop", Name: "x",
			Verdict: "allow", Observed: "deny",
		}},
	}
	if diff := cmp.Diff(want, r.Agreement); diff != "" {
		t.Errorf("agreement (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Node{{"worker-1", 6, 2, 0}, {"worker-2", 5, 3, 1}}, r.Nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if !r.Window.From.Equal(at(100)) || !r.Window.To.Equal(at(1100)) {
		t.Errorf("window %v to %v", r.Window.From, r.Window.To)
	}
}

// Findings are grouped by the contract's keys: a change of any makes another group, a change of anything else does not.
func TestGroups(t *testing.T) {
	legacy := byRBAC("legacy")
	f := func(want int, what string, changes ...change) {
		t.Helper()
		l := newLog(t)
		l.add("worker-1 get services shop/x", legacy)
		l.add(what, append([]change{legacy}, changes...)...)
		n := 0
		for _, x := range l.b.Report(facts(2)).Findings {
			if x.Rule == "rbac-excess-access" {
				n++
			}
		}
		if n != want {
			t.Errorf("%s: %d groups, want %d", what, n, want)
		}
	}
	f(1, "worker-1 get services shop/x")
	f(1, "worker-1 get services shop/x", code(404))
	f(1, "worker-1 get services shop/x", agent("kubelet/v1.35 (other)"))
	f(1, "worker-1 get services shop/x", func(r *rules.Request) { r.Event.SourceIPs, r.Grant.Role.Name = []string{"10.0.0.2"}, "x" })
	f(2, "worker-2 get services shop/x")
	f(2, "worker-1 list services shop/x")
	f(2, "worker-1 get services.example.org shop/x")
	f(2, "worker-1 get pods shop/x")
	f(2, "worker-1 get services/status shop/x")
	f(2, "worker-1 get services web/x")
	f(2, "worker-1 get services shop/y")
	f(2, "worker-1 get services shop/x", agent("k3s/v1"))
	f(2, "worker-1 get services shop/x", byRBAC("other"))
	f(2, "worker-1 get services shop/x", func(r *rules.Request) { r.Attrs.ResourceRequest, r.Attrs.Path = false, "/x" })
}

func TestGroupGathers(t *testing.T) {
	l := newLog(t)
	for i := range 7 {
		l.add("worker-1 get secrets shop/db", byRBAC("legacy"), code([]int32{404, 404, 200, 404, 404, 404, 404}[i]))
	}
	for _, x := range l.b.Report(facts(7)).Findings {
		if x.Rule != "rbac-excess-access" {
			continue
		}
		want := Finding{
			Rule: "rbac-excess-access", Reason: rules.BindingNeeded, Params: codes.Params{}, Severity: "critical", Node: "worker-1", Count: 7, First: at(100), Last: at(700), Verb: "get",
			Resource: "secrets", Namespace: "shop", Name: "db", UserAgent: "kubelet", Binding: &Binding{"ClusterRoleBinding", "", "legacy"},
			Origins: tally.Origins{
				Users: []string{"system:node:worker-1"}, Groups: []string{"system:authenticated", "system:nodes"}, Impersonated: []string{}, Addresses: []tally.Address{{Address: "10.0.0.1"}},
				Answers: []int32{200, 404},
			},
			Allowed: true, Authorized: true, AuditIDs: []string{"audit-1", "audit-2", "audit-3", "audit-4", "audit-5"}, low: 6, days: []tally.Day{{Day: tally.DayOf(at(0)), Count: 1}},
			Message: "get secrets shop/db is allowed to node worker-1 by ClusterRoleBinding legacy alone", Runbook: "docs/rules/rbac-excess-access.md",
		}
		want.key = x.key
		if diff := cmp.Diff(want, x, cmp.AllowUnexported(Finding{})); diff != "" {
			t.Errorf("group (-want +got):\n%s", diff)
		}
	}
}

// The same judgements in any order of their kinds give the same report, text for text.
func TestOrderIsDeterministic(t *testing.T) {
	var kinds []func(*log)
	for _, node := range []string{"worker-1", "worker-2"} {
		for _, what := range []string{"get secrets shop/a", "get secrets web/a", "list secrets ", "get configmaps shop/a", "get secrets/status shop/a"} {
			for _, binding := range []string{"a", "b"} {
				for _, ua := range []string{"kubelet/1", "k3s/1"} {
					kinds = append(kinds, func(l *log) { l.n = 0; l.add(node+" "+what, byRBAC(binding), agent(ua)) })
				}
			}
		}
	}
	var first string
	for seed := range uint64(20) {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		l := newLog(t)
		for _, k := range kinds {
			k(l)
		}
		got := string(asJSON(t, l.b.Report(facts(1)))) + text(t, l.b.Report(facts(1)), Text{All: true})
		if first == "" {
			first = got
		}
		if diff := cmp.Diff(first, got); diff != "" {
			t.Fatalf("seed %d (-first +this):\n%s", seed, diff)
		}
	}
}

// A hostile client makes up names without end: memory stays bounded, and nothing is lost from the counts.
func TestGroupsAreBounded(t *testing.T) {
	l := newLog(t)
	l.b.t.Bound(10)
	const n = 500
	for i := range n {
		l.add(fmt.Sprintf("worker-%d get secrets shop/s%d", i%50, i), byRBAC("legacy"))
	}
	r := l.b.Report(facts(n))
	// Of each of two rules: groups of their own, one by rule and node, and one for the rule.
	if len(r.Findings) > 2*(10+2) || len(r.Nodes) > 10+1 {
		t.Errorf("%d groups, %d nodes", len(r.Findings), len(r.Nodes))
	}
	count, requests, excess, low := map[string]int64{}, int64(0), int64(0), int64(0)
	for _, f := range r.Findings {
		count[f.Rule] += f.Count
		low += f.low
		if len(f.AuditIDs) > tally.MaxAuditIDs {
			t.Errorf("%d auditIDs", len(f.AuditIDs))
		}
		if (f.Name == "") != strings.HasPrefix(f.Message, "further requests that were allowed") {
			t.Errorf("group %+v", f)
		}
	}
	for _, node := range r.Nodes {
		requests += node.Requests
		excess += node.Excess
	}
	if count["rbac-excess-access"] != n || count["out-of-scope-secret-read"] != n || requests != n || excess != n || low != 0 {
		t.Errorf("counts %v, %d requests, %d need RBAC, %d low", count, requests, excess, low)
	}
	if b := strings.Join(r.Readiness.Blockers, "\n"); !strings.Contains(b, "without some RBAC binding: various") {
		t.Errorf("blockers:\n%s", b)
	}
}

func TestLongNames(t *testing.T) {
	l := newLog(t)
	long := strings.Repeat("é", 1<<16)
	for range 2 {
		l.add("worker-1 get secrets "+long+"/"+long, byRBAC(long), agent(long), func(r *rules.Request) { r.Node = long })
	}
	l.add("worker-1 get secrets "+long+"/"+long, ours(nodeauthz.Deny), func(r *rules.Request) { r.Node = long })
	r := l.b.Report(facts(3))
	if out := asJSON(t, r); len(out)-len(asJSON(t, NewBuilder().Report(Facts{}))) > 28_000 { // a blocker has its parameters next to its sentence
		t.Errorf("the report has %d bytes", len(out))
	}
	if len(r.Nodes) != 1 || r.Nodes[0].Requests != 3 || r.Nodes[0].Excess != 2 || len(r.Findings) != 4 { // one for the length of the user agent
		t.Errorf("nodes %d, findings %d", len(r.Nodes), len(r.Findings))
	}
}

// Nothing that a Builder keeps may alias the event, whose memory is used again.
func TestBuilderOwnsItsStrings(t *testing.T) {
	name := []byte("somename")
	alias := unsafe.String(unsafe.SliceData(name), len(name))
	made := func() *pipeline.Judgement {
		j := judged("worker-1 get secrets shop/db", byRBAC("legacy"), ours(nodeauthz.Allow))
		j.Node, j.Event.AuditID, j.Event.UserAgent, j.Attrs.Name, j.Attrs.Namespace, j.Attrs.Verb = alias, alias, alias, alias, alias, alias
		j.Attrs.Resource, j.Attrs.APIGroup, j.Attrs.Subresource = alias, alias, alias
		j.Grant.Binding = rbac.BindingRef{Kind: alias, Namespace: alias, Name: alias}
		for _, r := range rules.All() {
			if r.Check == nil {
				continue
			}
			if f, found := r.Find(&j.Request, nil, rules.NewMemory()); found {
				j.Findings = append(j.Findings, pipeline.Finding{Finding: f, Rule: r})
			}
		}
		return j
	}
	b := NewBuilder()
	b.Add(made())
	before := string(asJSON(t, b.Report(facts(1))))
	if n := strings.Count(before, "somename"); n < 20 {
		t.Fatalf("the name is in the report %d times", n)
	}
	copy(name, "XXXXXXXX")
	if diff := cmp.Diff(before, string(asJSON(t, b.Report(facts(1))))); diff != "" {
		t.Errorf("the report changed with the event's memory:\n%s", diff)
	}
}

func TestRequestsWithoutTime(t *testing.T) {
	l := newLog(t)
	j := judged("worker-1 get secrets shop/db", byRBAC("legacy"))
	f, _ := rules.All()[0].Find(&j.Request, nil, l.memory)
	j.Findings = []pipeline.Finding{{Finding: f, Rule: rules.All()[0]}}
	for _, when := range []time.Time{{}, at(5), {}, at(3)} {
		j.Time = when
		l.b.Add(j)
	}
	r := l.b.Report(facts(4))
	if !r.Findings[0].First.Equal(at(3)) || !r.Findings[0].Last.Equal(at(5)) || !r.Window.From.Equal(at(3)) || !r.Window.To.Equal(at(5)) {
		t.Errorf("first %v, last %v, window %v to %v", r.Findings[0].First, r.Findings[0].Last, r.Window.From, r.Window.To)
	}
}

func TestReportCanBeTakenTwice(t *testing.T) {
	l := newLog(t)
	l.add("worker-1 get secrets shop/db", denied, ours(nodeauthz.Allow))
	first := l.b.Report(facts(1))
	l.add("worker-1 get secrets shop/other", denied, ours(nodeauthz.Allow))
	if n := len(first.Agreement.Disagree); n != 1 {
		t.Errorf("the first report has %d disagreements", n)
	}
	if diff := cmp.Diff(l.b.Report(facts(2)), l.b.Report(facts(2)), cmp.AllowUnexported(Report{}), cmpopts.IgnoreUnexported(Finding{})); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkAdd(b *testing.B) {
	run := func(name string, changes ...change) {
		b.Run(name, func(b *testing.B) {
			j := judged("worker-1 get secrets shop/db", changes...)
			memory := rules.NewMemory()
			for _, r := range rules.All() {
				if r.Check == nil {
					continue
				}
				if f, found := r.Find(&j.Request, nil, memory); found {
					j.Findings = append(j.Findings, pipeline.Finding{Finding: f, Rule: r})
				}
			}
			builder := NewBuilder()
			b.ReportAllocs()
			for b.Loop() {
				builder.Add(j)
			}
		})
	}
	run("allow")
	run("deny", denied, race)
	run("findings", byRBAC("legacy"), agent("calico-node/v3"))
}

// A request without findings costs nothing but counting.
func TestAddDoesNotAllocate(t *testing.T) {
	b := NewBuilder()
	j := judged("worker-1 get secrets shop/db")
	b.Add(j)
	if n := testing.AllocsPerRun(100, func() { b.Add(j) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
