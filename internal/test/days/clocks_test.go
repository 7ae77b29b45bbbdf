package days

import (
	"testing"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/rules"
)

// TestWrongClockIsNoTheft sets the clock of an API server of a clean day wrong by up to ten minutes. What passed is what the server's own Node authorizer and
// NodeRestriction let pass, or, where there is a binding, what that let pass while the Node authorizer did not know a pod yet: nothing of it is above low.
// What comes too late by a clock that is wrong is a gap.
func TestWrongClockIsNoTheft(t *testing.T) {
	changed := 0
	for seed := range effort.Of(uint64(40), 8) {
		d := clean(t, 60+seed%4, Options{Span: leastSpan, Servers: 2, Minor: 34 + int(seed%4), Features: Drains | Deployments | CronJobs, NoBinding: seed%3 == 0}).copyOf()
		a := &attack{mutator: &mutator{newRand(seed, 5), d}, theft: &Theft{}}
		a.clocks(&Event{Server: -1})
		r := analyze(t, d)
		if r.Agreement.Agree < r.Agreement.Compared {
			changed++
		}
		for i := range r.Findings {
			if f := &r.Findings[i]; f.Severity != rules.Low.String() && f.Rule != rules.CoverageGap {
				t.Errorf("seed %d, %v: %s %s: %s", seed, a.theft.Did, f.Severity, f.Rule, f.Message)
			}
		}
	}
	if changed == 0 {
		t.Error("no clock was so wrong that a verdict changed")
	}
}
