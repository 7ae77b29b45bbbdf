package app

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

func onlyAnswer(t *testing.T, d *days.Day, only []string) (checks.Answer, *Analysis) {
	t.Helper()
	a := analyzedDay(t, d, func(o *AnalyzeOptions) { o.Nodes = only })
	return checks.Conclude(checks.Ready, a.Facts.Checks, nil).Answer, a
}

// askers are the nodes of a day for which, or by which, the events ask that a mutation added; others says that somebody else asks, too. An event of which
// the API server's reason alone is another asks for nothing else than before.
func askers(clean, bad *days.Day, nodes []string) (out []string, others bool) {
	type same struct{ id, stage, verb, uri, user string }
	of := func(e *days.Event) same { return same{e.AuditID, e.Stage, e.Verb, e.URI, e.User.Username} }
	before, reasons := map[*days.Event]bool{}, map[same]string{}
	for _, e := range clean.Events {
		before[e], reasons[of(e)] = true, e.DecisionReason
	}
	for _, e := range bad.Events {
		if was, is := reasons[of(e)]; before[e] || is && was != e.DecisionReason {
			continue
		}
		user := e.User
		if e.Impersonated != nil {
			user = e.Impersonated
		}
		name, ok := nodeid.Of(user.Username, user.Groups)
		if !ok || !slices.Contains(nodes, name) {
			others = true
			continue
		}
		out = append(out, name)
	}
	return out, others
}

// Of a day that is ready but for what some nodes ask, the answer is READY for the others alone, and for nobody if somebody else asks.
func TestOnlyNodes(t *testing.T) {
	ready, not := 0, 0
	for seed := range uint64(effort.Of(2, 1)) {
		clean := threeHours(t, 31+seed, days.Options{Nodes: 3, Servers: 1 + int(seed%2), Features: days.Deployments | days.Join})
		answer, a := onlyAnswer(t, clean, nil)
		nodes := a.Facts.Nodes
		if answer != checks.AnswerReady || len(nodes) < 4 {
			t.Fatalf("seed %d: %s with %v", seed, answer, nodes)
		}
		for i, m := range days.Mutations(seed) {
			if m.Effect != days.Breaks || (i+int(seed))%effort.Of(2, 24) != 0 {
				continue
			}
			bad, ok := m.Apply(clean)
			if !ok {
				continue
			}
			ask, others := askers(clean, bad, nodes)
			for _, without := range nodes {
				only := slices.DeleteFunc(slices.Clone(nodes), func(s string) bool { return s == without })
				answer, a := onlyAnswer(t, bad, only)
				needed := others || slices.ContainsFunc(ask, func(s string) bool { return s != without })
				good := answer == checks.AnswerReady
				if good && (needed || len(ask) == 0) {
					t.Errorf("seed %d, %s by %v: ready for %v", seed, m.Name, ask, only)
				}
				if !good && !needed && m.Name == "plant-request" {
					t.Errorf("seed %d, %s by %v: %s for %v: %v", seed, m.Name, ask, answer, only, open(a.Facts.Checks))
				}
				if good {
					ready++
				} else {
					not++
				}
				if good != a.Report.Readiness.Ready || good && len(a.Report.Readiness.Blockers) > 0 || !slices.Equal(a.Report.Readiness.OnlyNodes, only) ||
					len(a.Report.Readiness.Plan) > 0 || !strings.Contains(a.Report.Readiness.Means(), only[0]) {
					t.Errorf("seed %d, %s: the report says %+v", seed, m.Name, a.Report.Readiness)
				}
			}
		}
	}
	if ready == 0 || not == 0 {
		t.Errorf("%d are ready and %d are not", ready, not)
	}
}

// A name that nothing knows is an error that has those that are known.
func TestOnlyUnknownNodes(t *testing.T) {
	clean := threeHours(t, 31, days.Options{})
	o := dayOptions(t, clean)
	o.Nodes = []string{"worker-l"}
	var unknown *UnknownError
	if _, err := Analyze(t.Context(), o); !errors.As(err, &unknown) || unknown.Name != "worker-l" || len(unknown.Known) == 0 {
		t.Errorf("%v", err)
	}
}

// Whatever nodes the answers are about, the findings of every rule about every node stay in the report. Only the blockers are about those nodes.
func TestOnlyNodesHidesNoFinding(t *testing.T) {
	state := &stateProof{Nodes: []checks.Node{{Name: "w1"}, {Name: "w2"}}}
	all := tally.New()
	for _, rule := range rules.All() {
		for _, node := range []string{"w1", "w2"} {
			k := tally.Key{Rule: rule.Name, Node: node, Verb: "get", Resource: "secrets", Namespace: "shop", Name: "db", Product: "kubelet"}
			all.Groups[k] = &tally.Group{Count: 1, Severity: rule.Severity, Allowed: true, Succeeded: true, Reason: rule.Reasons[0].Reason}
		}
	}
	for node, clients := range map[string]int{"w1": 1, "w2": 1} {
		r := report.Make(all, report.Facts{Only: []string{node}, Aside: onlyNodes{node}.aside(state, all)})
		if len(r.Findings) != 2*len(rules.All()) {
			t.Errorf("%s: %d findings", node, len(r.Findings))
		}
		if c := r.Readiness.Clients; len(c) != clients || c[0].Nodes != 1 || c[0].Needs[0].Node != node {
			t.Errorf("%s: %+v", node, c)
		}
	}
}
