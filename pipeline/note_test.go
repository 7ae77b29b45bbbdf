package pipeline

import (
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// A finding that no request shows is stored, and once a minute.
func TestNote(t *testing.T) {
	h := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
	h.opt = EngineOptions{CommitEvery: time.Millisecond}
	e, _, stop := h.start()
	for range 2 {
		for _, minute := range []int{0, 1} {
			for _, second := range []int{0, 59} {
				f := tally.Finding{Key: tally.Key{Rule: rules.CoverageGap, Reason: rules.LogLost}, Reason: rules.LogLost, Severity: rules.Medium}
				if err := e.Note(t.Context(), time.Date(2026, 11, 21, 6, minute, second, 0, time.UTC), f); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	stop()
	if len(h.store.sum.Groups) != 1 || h.store.sum.Sums != (tally.Sums{}) || len(h.store.sum.Nodes) != 0 {
		t.Errorf("%+v", h.store.sum)
	}
	for _, g := range h.store.sum.Groups {
		if g.Count != 2 || g.Severity != rules.Medium || g.Reason != rules.LogLost {
			t.Errorf("%+v", g)
		}
	}
}

// What is noted has no requests, and so holds nothing back that several requests show.
func TestNotesHoldNothingBack(t *testing.T) {
	now := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	o := &overTime{e: &Engine{opt: EngineOptions{Now: func() time.Time { return now }}}, lanes: rules.NewLanes(newDetectors())}
	for _, lanes := range [][]rules.KnownLane{{{Name: noteLane, Touched: 1}}, {{Name: "a"}, {Name: noteLane, Touched: 2}}} {
		want := lanes[0].Name
		if want == noteLane {
			want = ""
		}
		if !o.take(&tally.Observed{Lanes: lanes}) {
			t.Fatal("another process judges")
		}
		if name, _ := o.lanes.Behind(now, time.Minute); name != want {
			t.Errorf("%q holds time back, want %q", name, want)
		}
	}
}
