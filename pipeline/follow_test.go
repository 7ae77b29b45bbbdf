package pipeline

import (
	"errors"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
)

// The response of a request comes while a commit stores its beginning, and its partition is lost before that has ended: nobody has its event then, and
// it waits for nothing.
func TestLostWhileSavedWaitsNoMore(t *testing.T) {
	s := &scheduler{follow: true, seen: newSeen(8), inFlight: map[uint64]*request{}}
	p := &partitions{open: map[string]*partition{}, sched: s}
	r := s.fresh()
	r.key, r.state, r.part, r.ev = 1, stateUnknown, &partition{}, &audit.Event{StageTime: time.Unix(1, 0)}
	for _, ev := range []event{eventBegan, eventGathered, eventResponded} {
		s.step(r, ev)
	}
	if r.state != stateWaitingSaving || s.floor().IsZero() {
		t.Fatalf("state %d", r.state)
	}
	r.part.gone = errors.New("taken by another process")
	s.step(r, eventCommitted)
	p.follow(r)
	if got := s.floor(); !got.IsZero() || s.waiting.n != 0 {
		t.Errorf("%d requests wait since %s", s.waiting.n, got)
	}
}
