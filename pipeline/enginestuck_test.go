package pipeline

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/pipeline/source"
)

// A store that hangs counts as failing, though it returns no error, and what waits for it is seen.
func TestEngineStoreHangs(t *testing.T) {
	lines := capture(t)
	var later atomic.Int64
	release := make(chan struct{})
	h := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
	h.opt = EngineOptions{
		Settle: time.Millisecond, CommitEvery: time.Millisecond,
		Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) },
	}
	h.store.fail = func() error {
		<-release
		return nil
	}
	e, _, stop := h.start()
	defer stop()
	if _, err := e.Open(t.Context(), "webhook:a", 0); err != nil {
		t.Fatal(err)
	}
	stored := make(chan error, 1)
	b := batchOf(lines[:50])
	b.Lane = "webhook:a"
	if err := e.Take(t.Context(), b, func(err error) { stored <- err }); err != nil {
		t.Fatal(err)
	}
	until := func(what string, is func(EngineStats) bool) {
		t.Helper()
		for !is(e.Stats()) {
			if t.Context().Err() != nil {
				t.Fatal(what)
			}
			time.Sleep(time.Millisecond)
		}
	}
	until("what is not stored is seen", func(s EngineStats) bool { return s.Waiting == 0 && s.Oldest.Equal(b.Received) })
	if s := e.Stats(); !s.Failing.IsZero() {
		t.Errorf("it fails since %v, after so short a time", s.Failing)
	}
	later.Store(int64(time.Minute))
	until("it fails", func(s EngineStats) bool { return !s.Failing.IsZero() })
	if s := e.Stats(); s.Failures != 0 || s.Failing.After(time.Now().Add(time.Second)) {
		t.Errorf("%d failures, failing since %v", s.Failures, s.Failing)
	}
	close(release)
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	until("nothing waits, and nothing fails", func(s EngineStats) bool { return s.Failing.IsZero() && s.Oldest.IsZero() })
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
	lines := capture(t)
	var later atomic.Int64
	release, began := make(chan struct{}), make(chan struct{}, 100)
	h := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
	h.opt = EngineOptions{
		Settle: time.Millisecond, CommitEvery: time.Millisecond,
		Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) },
	}
	h.store.fail = func() error {
		began <- struct{}{}
		<-release
		return nil
	}
	e, _, stop := h.start()
	if _, err := e.Open(t.Context(), "webhook:a", 0); err != nil {
		t.Fatal(err)
	}
	stored := make(chan error, 1)
	b := batchOf(lines[:50])
	b.Lane = "webhook:a"
	if err := e.Take(t.Context(), b, func(err error) { stored <- err }); err != nil {
		t.Fatal(err)
	}
	<-began                         // a commit of a few milliseconds is running
	for e.Stats().Oldest.IsZero() { // until it is published
		time.Sleep(time.Millisecond)
	}
	time.AfterFunc(20*time.Millisecond, func() { close(release) })
	stop()
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	later.Store(int64(time.Minute)) // the rest takes long to end
	if s := e.Stats(); !s.Failing.IsZero() {
		t.Errorf("all is stored, and the store has failed since %v", s.Failing)
	}
}
