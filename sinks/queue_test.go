package sinks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sender is a sink in memory.
type sender struct {
	mu     sync.Mutex
	err    error
	got    []Finding
	calls  []time.Duration // when, since start
	start  time.Time
	closed int
	block  bool
}

func (s *sender) Name() string { return "memory" }

func (s *sender) Send(ctx context.Context, f []Finding) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, time.Since(s.start))
	if s.block {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return ctx.Err()
	}
	if s.err != nil {
		return s.err
	}
	s.got = append(s.got, f...)
	return nil
}

func (s *sender) Close() error { s.closed++; return nil }

func (s *sender) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func finding(id string, n int64) Finding {
	return Finding{ID: id, Count: n, Severity: "low", AuditIDs: []string{id}, First: time.Unix(n, 0).UTC(), Last: time.Unix(n, 0).UTC()}
}

func closeNow(t *testing.T, q *Queue, want bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if err := q.Close(ctx); (err == nil) != want {
		t.Errorf("closing: %v", err)
	}
}

func TestQueueMergesAndDropsTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sender{err: errors.New("down"), start: time.Now()}
		q := NewQueue(s, QueueOptions{MaxFindings: 4, MaxBatch: 1})
		q.Add([]Finding{finding("0", 1)})
		synctest.Wait() // it is under way
		for i := range 6 {
			q.Add([]Finding{finding(fmt.Sprint(i), 10), finding(fmt.Sprint(i), 20)})
		}
		st := q.Stats()
		if st.Length != 4 || st.Overflowed != 3 || st.Merged != 6 || st.FailingSince != s.start {
			t.Errorf("figures: %+v", st)
		}
		s.set(nil)
		closeNow(t, q, true)
		var got []string
		for _, f := range s.got {
			got = append(got, fmt.Sprint(f.ID, ":", f.Count, len(f.AuditIDs), f.First.Unix(), f.Last.Unix()))
		}
		if diff := cmp.Diff([]string{"0:1 1 1 1", "3:30 2 10 20", "4:30 2 10 20", "5:30 2 10 20"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if s.closed != 1 {
			t.Errorf("closed %d times", s.closed)
		}
	})
}

func TestQueueBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sender{err: errors.New("down"), start: time.Now()}
		q := NewQueue(s, QueueOptions{Backoff: time.Second, MaxBackoff: 8 * time.Second})
		q.Add([]Finding{finding("a", 1)})
		time.Sleep(time.Minute)
		s.mu.Lock()
		calls := s.calls
		s.mu.Unlock()
		for i, most := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 8 * time.Second} {
			pause := calls[i+1] - calls[i]
			if pause > most || pause < most-most/3-1 {
				t.Errorf("pause %d is %s, want at most %s", i, pause, most)
			}
		}
		s.set(&RetryError{Err: errors.New("later"), After: 100 * time.Second})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		s.mu.Lock()
		before := len(s.calls)
		s.mu.Unlock()
		time.Sleep(85 * time.Second)
		synctest.Wait()
		s.mu.Lock()
		if len(s.calls) != before {
			t.Error("it came again before it was asked to")
		}
		s.mu.Unlock()
		s.set(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		if st := q.Stats(); st.Sent != 1 || !st.FailingSince.IsZero() || st.LastSuccess.IsZero() {
			t.Errorf("figures: %+v", st)
		}
		closeNow(t, q, true)
	})
}

func TestQueueTimesOutAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sender{block: true, start: time.Now()}
		q := NewQueue(s, QueueOptions{Timeout: time.Second, Backoff: time.Second})
		q.Add([]Finding{finding("a", 1), finding("b", 1)})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if st := q.Stats(); st.Failures < 3 || st.Length != 2 {
			t.Errorf("figures: %+v", st)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err := q.Close(ctx)
		if err == nil || q.Close(ctx).Error() != err.Error() {
			t.Errorf("closing: %v", err)
		}
		q.Add([]Finding{finding("c", 1)})
		if st := q.Stats(); st.Abandoned != 3 || st.Length != 0 || st.Bytes != 0 {
			t.Errorf("figures: %+v", st)
		}
	})
}

func TestQueueBoundsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sender{err: errors.New("down"), start: time.Now()}
		q := NewQueue(s, QueueOptions{MaxBytes: 100_000, MaxBatch: 1})
		big := string(make([]byte, 20_000))
		for i := range 5000 {
			f := finding(fmt.Sprint(i), 1)
			f.Message = big
			q.Add([]Finding{f})
			if st := q.Stats(); st.Bytes > 100_000 {
				t.Fatalf("%d bytes wait", st.Bytes)
			}
		}
		s.set(nil)
		closeNow(t, q, true)
		if st := q.Stats(); st.Sent+st.Overflowed != 5000 || st.Sent < 3 || st.Bytes != 0 {
			t.Errorf("figures: %+v", st)
		}
		if got := s.got[len(s.got)-1].ID; got != "4999" {
			t.Errorf("the last is %s", got)
		}
	})
}

func TestQueueRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sender{err: &PermanentError{Err: errors.New("no"), Refused: 2}, start: time.Now()}
		q := NewQueue(s, QueueOptions{})
		q.Add([]Finding{finding("a", 1), finding("b", 1), finding("c", 1)})
		synctest.Wait()
		s.set(fmt.Errorf("wrapped: %w", Permanent(errors.New("no"))))
		q.Add([]Finding{finding("d", 1)})
		closeNow(t, q, true)
		if st := q.Stats(); st.Refused != 3 || st.Sent != 1 || st.Dropped() != 3 || st.Failures != 2 {
			t.Errorf("figures: %+v", st)
		}
	})
}

func BenchmarkQueueOverflow(b *testing.B) {
	s := &sender{err: errors.New("down"), start: time.Now()}
	q := NewQueue(s, QueueOptions{})
	f := make([]Finding, 1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		f[0] = finding(fmt.Sprint(i), 1)
		q.Add(f)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = q.Close(ctx)
}

// A sink that is slow or away loses refused requests, whatever their number, before it loses an allowed one; and the allowed ones are sent first.
func TestAttack02QueueKeepsWhatWasAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sender{err: errors.New("down"), start: time.Now()}
		q := NewQueue(s, QueueOptions{MaxFindings: 10, MaxBatch: 2})
		for i := range 20_000 {
			f := finding(fmt.Sprint(i), 1)
			f.Severity = []string{"low", "medium", "high", "critical"}[i%4]
			f.Authorized = i == 77 || i == 12_345 || i == 19_998
			if f.Allowed = f.Authorized; f.Allowed {
				f.Severity = "medium"
			}
			q.Add([]Finding{f})
			if i == 0 { // one batch is under way while the others come
				synctest.Wait()
			}
			if i == 100 { // what waited as refused has been allowed since, and is worth more
				f.ID, f.Allowed, f.Authorized, f.Severity = "95", true, true, "high"
				q.Add([]Finding{f})
			}
		}
		s.set(nil)
		closeNow(t, q, true)
		var allowed []string
		for i, f := range s.got {
			if f.Allowed {
				allowed = append(allowed, f.ID)
			} else if i > 1 && len(allowed) < 4 {
				t.Errorf("refused %s is sent before allowed ones", f.ID)
			}
		}
		if diff := cmp.Diff([]string{"95", "77", "12345", "19998"}, allowed); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if st := q.Stats(); st.Sent+st.Overflowed+st.Merged != 20_001 || st.Bytes != 0 {
			t.Errorf("figures: %+v", st)
		}
	})
}
