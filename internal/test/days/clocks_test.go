package days

import (
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// TestWrongClockIsNoTheft sets the clock of an API server of a clean day wrong by up to ten minutes, or by some seconds, when pods are made again elsewhere meanwhile. No binding gives nodes anything, so that what passed is
// what the server's own Node authorizer and NodeRestriction let pass: nothing of it is critical. Pods that live for less than the clock is wrong would be: what
// the log says of their binding comes after their end then.
func TestWrongClockIsNoTheft(t *testing.T) {
	changed := 0
	for seed := range effort.Of(uint64(40), 8) {
		number, most := 60+seed%4, 10*minute
		opts := Options{Span: leastSpan, Servers: 2, Minor: 34 + int(seed%4), Features: Drains, NoBinding: true}
		if seed%2 == 1 {
			number, most = 60+seed%12, 3*second
			opts = Options{Span: 4 * time.Hour, Servers: 3, Minor: 36, Features: Drains | Deployments, NoBinding: true}
		}
		d := clean(t, number, opts).copyOf()
		a := &attack{mutator: &mutator{newRand(seed, 5), d}, theft: &Theft{}}
		a.clocks(nil, most)
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

// TestWrongRecorderFindsNothing sets the clock of the recorder of the state of a clean day wrong by up to an hour. Whether bindings give nodes anything or not,
// no finding is above low; where the clock is behind by more than seconds and objects were made under the watch, the report says so.
func TestWrongRecorderFindsNothing(t *testing.T) {
	told := 0
	for seed := range effort.Of(uint64(40), 8) {
		opts := Options{Span: time.Hour, Servers: 2, Minor: 31 + int(seed%6), NoBinding: seed%2 == 0, Features: everything}
		if seed%4 > 1 {
			opts.Features = Deployments | Drains
		}
		d := clean(t, 160+seed%8, opts).copyOf()
		a := &attack{mutator: &mutator{newRand(seed, 6), d}, theft: &Theft{}}
		a.recorder(time.Hour)
		out := analysis(t, d)
		r := out.Report
		if slices.ContainsFunc(out.Facts.Gaps, func(g codes.Gap) bool { return g.Code == codes.RecorderBehind }) {
			told++
		}
		for i := range r.Findings {
			if f := &r.Findings[i]; f.Severity != rules.Low.String() {
				t.Errorf("seed %d, %v: %s %s: %s", seed, a.theft.Did, f.Severity, f.Rule, f.Message)
			}
		}
	}
	if told == 0 {
		t.Error("no report says that the clock of the recorder was behind")
	}
}

// TestTheftByWrongClock has somebody take what a pod on the node uses, from another address and as a kubelet, so that the address alone tells, by way of API
// servers of which one has a wrong clock. The events stay in the order in which they were written.
func TestTheftByWrongClock(t *testing.T) {
	for seed := range effort.Of(uint64(60), 12) {
		d := clean(t, 31+seed%3, Options{Span: leastSpan, Servers: 2, Features: DualStack | Deployments}).copyOf()
		m := &mutator{newRand(seed, 7), d}
		a := &attack{mutator: m, theft: &Theft{Node: m.node(), At: m.From.Add(12 * minute), Address: thiefAddress}}
		a.like = m.like(a.theft.Node, a.theft.At)
		theft := a.ofPod(seed%2 == 0)
		if theft == nil {
			t.Fatalf("seed %d: no pod has secrets", seed)
		}
		theft.UserAgent = a.like.UserAgent
		m.add(theft)
		a.clocks(theft, time.Hour)
		if !slices.ContainsFunc(analyze(t, d).Findings, func(f report.Finding) bool {
			return f.Severity == rules.Critical.String() && f.Node == a.theft.Node && f.Namespace == a.theft.Namespace && f.Name == a.theft.Secret &&
				f.Params.Text(rules.ParamAddress) == thiefAddress
		}) {
			t.Errorf("seed %d: no critical finding names %+v", seed, *a.theft)
		}
	}
}
