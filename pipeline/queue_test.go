package pipeline

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// Whatever the order in which requests are added and removed, the first is the one that is due first, and of those that are due at the same
// time the one that came first.
func TestQueueOrder(t *testing.T) {
	for seed := range effort.Of(uint64(50), 10) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		var q queue
		var want []*request
		for i := range 20_000 {
			switch op := rnd.IntN(10); {
			case op < 6 || len(want) == 0 && q.first() == nil:
				r := &request{state: stateWaiting, seq: uint64(i), due: epoch.Add(time.Duration(i/4+rnd.IntN(1+int(seed))) * time.Millisecond)}
				q.push(r)
				at, _ := slices.BinarySearchFunc(want, r, func(a, b *request) int {
					if before(a, b) {
						return -1
					}
					return 1
				})
				want = slices.Insert(want, at, r)
			case op < 7 && i%100 == 0:
				for _, r := range want {
					if rnd.IntN(10) == 0 {
						r.state = stateUnknown
					}
				}
				want = slices.DeleteFunc(want, func(r *request) bool { return r.state == stateUnknown })
				q.sweep()
			default:
				q.pop()
				want = want[1:]
			}
			var first *request
			if len(want) > 0 {
				first = want[0]
			}
			if q.first() != first || len(q.run)-q.head+len(q.late) != len(want) {
				t.Fatalf("seed %d, step %d: the queue has %d requests, want %d, or another first", seed, i, len(q.run)-q.head+len(q.late), len(want))
			}
		}
	}
}

// A request of a finished log costs no allocation in addition to what is made of its batch.
func TestStreamDoesNotAllocate(t *testing.T) {
	s, _ := newTestStream(t, "Node,RBAC", Options{MaxRequests: 1 << 12}, func(*Judgement) error { return nil })
	s.sched.judge.Rules = nil
	if err := s.Batch(&Batch{Events: []audit.Event{binding(-1000)}}); err != nil { // a denial makes its reason
		t.Fatal(err)
	}
	n := 0
	events := make([]Batch, 400)
	for i := range events {
		for range 100 {
			n++
			ev := get("", audit.StageResponseComplete, n*10, "allow", "")
			ev.AuditID = time.Duration(n).String()
			events[i].Events = append(events[i].Events, ev)
		}
	}
	feedOne := func() {
		if err := s.Batch(&events[0]); err != nil {
			t.Fatal(err)
		}
		events = events[1:]
	}
	for range 150 {
		feedOne() // what is remembered grows to its bound
	}
	if got := testing.AllocsPerRun(200, feedOne); got > 10 {
		t.Errorf("%.0f allocations for a batch of 100 requests", got)
	}
}

// Beyond the bound the oldest pending request is judged without its response, and the response counts no second time.
func TestPendingIsBounded(t *testing.T) {
	var got []seenJudgement
	s, _ := newTestStream(t, "Node,RBAC", Options{MaxOpen: 2}, collect(&got))
	begin := func(id string, ms int) audit.Event { return get(id, audit.StageRequestReceived, ms, "", "") }
	b := &Batch{Events: []audit.Event{begin("a", 0), begin("b", 1), begin("c", 2), get("d", audit.StageResponseComplete, 5000, "forbid", "")}}
	if err := s.Batch(b); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].ID != "a" || s.sched.pending.n != 2 {
		t.Errorf("%v are judged, %d are pending", got, s.sched.pending.n)
	}
	last := get("a", audit.StageResponseComplete, 0, "forbid", "")
	if err := s.Batch(&Batch{Events: []audit.Event{last}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if len(got) != 4 || s.Counts() != (Counts{Node: 5, Judged: 4}) || s.sched.pending.n != 0 || len(s.sched.inFlight) != 0 {
		t.Errorf("%v are judged, %+v, %d are pending", got, s.Counts(), s.sched.pending.n)
	}
}
