package days

import (
	"slices"
	"testing"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// A log from which something cut the user agents shows no other client: an ordinary day has no finding above low. Who takes a secret from another address is
// found by that. In a log that has user agents, a client that sends none is no kubelet.
func TestLogWithoutUserAgents(t *testing.T) {
	for seed := range effort.Of(uint64(24), 6) {
		base := clean(t, 180+seed%4, Options{Span: leastSpan, Servers: 2, Minor: 33 + int(seed%4), Features: everything, NoBinding: seed%2 == 0})
		cut := func(m *mutator) { m.change(func(*Event) bool { return true }, func(e *Event) { e.UserAgent = "" }) }
		m := &mutator{newRand(seed, 8), base.copyOf()}
		cut(m)
		r := analyze(t, m.Day)
		for i := range r.Findings {
			if f := &r.Findings[i]; f.Severity != rules.Low.String() {
				t.Errorf("seed %d, without user agents: %s %s: %s", seed, f.Severity, f.Rule, f.Message)
			}
		}
		for _, elsewhere := range []bool{false, true} {
			m := &mutator{newRand(seed, 9), base.copyOf()}
			a := &attack{mutator: m, theft: &Theft{Node: m.node(), At: m.From.Add(12 * minute)}}
			a.like = m.like(a.theft.Node, a.theft.At)
			if a.theft.Address = a.like.SourceIPs[0]; elsewhere {
				a.theft.Address = thiefAddress
			}
			theft := a.ofPod(seed%2 == 0)
			if theft == nil {
				t.Fatalf("seed %d: no pod has secrets", seed)
			}
			theft.UserAgent = ""
			if m.add(theft); elsewhere {
				cut(m)
			}
			if !slices.ContainsFunc(analyze(t, m.Day).Findings, func(f report.Finding) bool {
				return f.Severity == rules.Critical.String() && f.Node == a.theft.Node && f.Namespace == a.theft.Namespace && f.Name == a.theft.Secret &&
					f.Params.Text(rules.ParamAddress) == a.theft.Address
			}) {
				t.Errorf("seed %d, no user agents in all of the log: %t: no critical finding names %+v", seed, elsewhere, *a.theft)
			}
		}
	}
}
