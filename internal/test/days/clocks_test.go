package days

import (
	"testing"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/rules"
)

// TestWrongClockIsNoTheft sets the clock of an API server of a clean day wrong by up to ten minutes. No binding gives nodes anything, so that what passed is
// what the server's own Node authorizer and NodeRestriction let pass: nothing of it is critical. Pods that live for less than the clock is wrong would be: what
// the log says of their binding comes after their end then.
func TestWrongClockIsNoTheft(t *testing.T) {
	changed := 0
	for seed := range effort.Of(uint64(40), 8) {
		d := clean(t, 60+seed%4, Options{Span: leastSpan, Servers: 2, Minor: 34 + int(seed%4), Features: Drains, NoBinding: true}).copyOf()
		a := &attack{mutator: &mutator{newRand(seed, 5), d}, theft: &Theft{}}
		a.clocks(&Event{Server: -1})
		r := analyze(t, d)
		if r.Agreement.Agree < r.Agreement.Compared {
			changed++
		}
		for i := range r.Findings {
			if f := &r.Findings[i]; f.Severity == rules.Critical.String() {
				t.Errorf("seed %d, %v: %s %s: %s", seed, a.theft.Did, f.Severity, f.Rule, f.Message)
			}
		}
	}
	if changed == 0 {
		t.Error("no clock was so wrong that a verdict changed")
	}
}
