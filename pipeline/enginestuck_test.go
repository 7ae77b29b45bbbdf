package pipeline

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/pipeline/source"
)

// stuck starts an engine whose store hangs in each commit until release is closed, and gives it a batch. began tells of each commit, stored how the batch
// ended, and the engine's clock is later by as much as that says.
type stuck struct {
	e       *Engine
	stop    func()
	b       *source.Batch
	later   atomic.Int64
	release chan struct{}
	began   chan struct{}
	stored  chan error
}

func newStuck(t *testing.T) *stuck {
	t.Helper()
	s := &stuck{release: make(chan struct{}), began: make(chan struct{}, 100), stored: make(chan error, 1)}
	h := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
	h.opt = EngineOptions{
		Settle: time.Millisecond, CommitEvery: time.Millisecond,
		Now: func() time.Time { return time.Now().Add(time.Duration(s.later.Load())) },
	}
	h.store.fail = func() error {
		s.began <- struct{}{}
		<-s.release
		return nil
	}
	s.e, _, s.stop = h.start()
	if _, err := s.e.Open(t.Context(), "webhook:a", 0); err != nil {
		t.Fatal(err)
	}
	s.b = batchOf(capture(t)[:50])
	s.b.Lane = "webhook:a"
	if err := s.e.Take(t.Context(), s.b, func(err error) { s.stored <- err }); err != nil {
		t.Fatal(err)
	}
	return s
}

// until waits until the engine's figures are so.
func (s *stuck) until(t *testing.T, what string, is func(EngineStats) bool) {
	t.Helper()
	for !is(s.e.Stats()) {
		if t.Context().Err() != nil {
			t.Fatal(what)
		}
		time.Sleep(time.Millisecond)
	}
}

// A store that hangs counts as failing, though it returns no error, and what waits for it is seen.
func TestEngineStoreHangs(t *testing.T) {
	x := newStuck(t)
	defer x.stop()
	x.until(t, "what is not stored is seen", func(s EngineStats) bool { return s.Waiting == 0 && s.Oldest.Equal(x.b.Received) })
	if s := x.e.Stats(); !s.Failing.IsZero() {
		t.Errorf("it fails since %v, after so short a time", s.Failing)
	}
	x.later.Store(int64(time.Minute))
	x.until(t, "it fails", func(s EngineStats) bool { return !s.Failing.IsZero() })
	if s := x.e.Stats(); s.Failures != 0 || s.Failing.After(time.Now().Add(time.Second)) {
		t.Errorf("%d failures, failing since %v", s.Failures, s.Failing)
	}
	close(x.release)
	if err := <-x.stored; err != nil {
		t.Fatal(err)
	}
	x.until(t, "nothing waits, and nothing fails", func(s EngineStats) bool { return s.Failing.IsZero() && s.Oldest.IsZero() })
}

// An event of the far future tells nothing of how far the log is, also if it is the first one.
func TestEngineFarFuture(t *testing.T) {
	lines := capture(t)
	h := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
	h.opt = EngineOptions{Settle: time.Millisecond, CommitEvery: time.Millisecond}
	e, _, stop := h.start()
	defer stop()
	if _, err := e.Open(t.Context(), "webhook:a", 0); err != nil {
		t.Fatal(err)
	}
	far := batchOf(lines[:50])
	if len(far.Events) == 0 {
		t.Fatal("no event")
	}
	for i := range far.Events {
		far.Events[i].RequestReceived = time.Date(9980, 1, 1, 0, 0, 0, 0, time.UTC)
		far.Events[i].StageTime = far.Events[i].RequestReceived
	}
	for _, b := range []*source.Batch{far, batchOf(lines[50:100])} {
		stored := make(chan error, 1)
		b.Lane = "webhook:a"
		if err := e.Take(t.Context(), b, func(err error) { stored <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-stored; err != nil {
			t.Fatal(err)
		}
	}
	var came time.Time
	if err := e.Do(t.Context(), func() { came = e.parts.open["webhook:a"].came }); err != nil {
		t.Fatal(err)
	}
	if came.IsZero() || came.After(time.Now().Add(time.Hour)) {
		t.Errorf("the log is at %v", came)
	}
}

// What was stored as the engine stopped does not count as failing afterwards.
func TestEngineStopsDuringACommit(t *testing.T) {
	x := newStuck(t)
	<-x.began // a commit of a few milliseconds is running
	x.until(t, "it is published", func(s EngineStats) bool { return !s.Oldest.IsZero() })
	time.AfterFunc(20*time.Millisecond, func() { close(x.release) })
	x.stop()
	if err := <-x.stored; err != nil {
		t.Fatal(err)
	}
	x.later.Store(int64(time.Minute)) // the rest takes long to end
	if s := x.e.Stats(); !s.Failing.IsZero() {
		t.Errorf("all is stored, and the store has failed since %v", s.Failing)
	}
}
