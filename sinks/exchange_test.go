package sinks

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func ids(all []Finding) []string {
	out := []string{}
	for _, f := range all {
		out = append(out, fmt.Sprint(f.ID, ":", f.Count))
	}
	return out
}

// A new sender gets what waits for the one before, the batch under way first, in the same order and merged, and the counts continue.
func TestExchangeHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down, up := &sender{err: errors.New("down"), start: time.Now()}, &sender{start: time.Now()}
		q := NewQueue(down, QueueOptions{MaxBatch: 2})
		q.Add([]Finding{finding("a", 1), finding("b", 1)})
		synctest.Wait() // a and b are under way
		q.Add([]Finding{finding("c", 1), finding("a", 10)})
		q.Add([]Finding{finding("d", 1), finding("c", 10)})
		time.Sleep(10 * time.Second)
		before := q.Stats()
		q.Exchange(&sender{err: errors.New("never used")}, QueueOptions{}, nil)
		q.Exchange(up, QueueOptions{MaxBatch: 3}, nil)
		synctest.Wait() // no pause ends meanwhile
		if diff := cmp.Diff([]string{"a:11", "b:1", "c:11", "d:1"}, ids(up.got)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		st := q.Stats()
		if before.Failures == 0 || st.Failures != before.Failures || st.Merged != 2 || st.Sent != 4 || st.Dropped() != 0 || st.Length != 0 || st.Bytes != 0 {
			t.Errorf("figures: %+v, before %+v", st, before)
		}
		if down.closed != 1 || up.closed != 0 || len(down.got) != 0 {
			t.Errorf("closed %d and %d times", down.closed, up.closed)
		}
		closeNow(t, q, true)
		if up.closed != 1 {
			t.Errorf("closed %d times", up.closed)
		}
	})
}

// A Send that is under way may end first: what it delivered is not sent again. One that hangs, or that is refused, is for the new sender.
func TestExchangeDuringSend(t *testing.T) {
	for name, x := range map[string]struct {
		err   error
		lasts time.Duration
		want  []string
	}{
		"it takes the batch":    {nil, time.Second, []string{"c:1"}},
		"it fails":              {errors.New("down"), time.Second, []string{"a:1", "b:1", "c:1"}},
		"it refuses the token":  {Permanent(errors.New("401")), time.Second, []string{"a:1", "b:1", "c:1"}},
		"it hangs for too long": {nil, 10 * time.Minute, []string{"a:1", "b:1", "c:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow, up := &slowSender{err: x.err, lasts: x.lasts}, &sender{start: time.Now()}
				q := NewQueue(slow, QueueOptions{MaxBatch: 2, Timeout: time.Hour})
				q.Add([]Finding{finding("a", 1), finding("b", 1), finding("c", 1)})
				synctest.Wait()
				q.Exchange(up, QueueOptions{MaxBatch: 2}, nil)
				time.Sleep(lastSend + time.Second)
				synctest.Wait()
				if diff := cmp.Diff(x.want, ids(up.got)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if st := q.Stats(); st.Sent != 3 || st.Dropped() != 0 || st.Length != 0 || st.Bytes != 0 {
					t.Errorf("figures: %+v", st)
				}
				closeNow(t, q, true)
			})
		})
	}
}

// What the new sender has no form for is dropped and counted, and what is beyond new bounds too.
func TestExchangeDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down, up := &sender{err: errors.New("down"), start: time.Now()}, &sender{start: time.Now()}
		q := NewQueue(down, QueueOptions{MaxBatch: 1})
		event := finding("event", 1)
		event.Incident = &IncidentEvent{}
		q.Add([]Finding{event})
		synctest.Wait() // it is under way
		q.Add([]Finding{finding("a", 1), finding("b", 1), finding("c", 1)})
		q.Exchange(up, QueueOptions{MaxFindings: 2}, func(f *Finding) bool { return f.Incident == nil })
		synctest.Wait()
		if diff := cmp.Diff([]string{"b:1", "c:1"}, ids(up.got)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if st := q.Stats(); st.Abandoned != 1 || st.Overflowed != 1 || st.Bytes != 0 || st.MaxLength != 2 {
			t.Errorf("figures: %+v", st)
		}
		closeNow(t, q, true)
	})
}

// A new sender that fails is tried again with pauses of its own, and a queue that is closed at once closes each sender.
func TestExchangeAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down, worse := &sender{err: errors.New("down"), start: time.Now()}, &sender{err: errors.New("down, too"), start: time.Now()}
		q := NewQueue(down, QueueOptions{MaxBackoff: time.Hour})
		q.Add([]Finding{finding("a", 1)})
		time.Sleep(time.Hour)
		q.Exchange(worse, QueueOptions{MaxBackoff: time.Hour}, nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(worse.calls); n < 3 || n > 6 {
			t.Errorf("%d calls", n)
		}
		last := &sender{block: true, start: time.Now()}
		q.Exchange(last, QueueOptions{}, nil)
		q.Add([]Finding{finding("b", 1)})
		closeNow(t, q, false)
		if st := q.Stats(); st.Abandoned != 2 || down.closed != 1 || worse.closed != 1 || last.closed != 1 {
			t.Errorf("%+v, closed %d, %d and %d times", st, down.closed, worse.closed, last.closed)
		}
	})
}

// slowSender takes a while for each batch, unless it is called off.
type slowSender struct {
	sender
	err   error
	lasts time.Duration
}

func (s *slowSender) Send(ctx context.Context, f []Finding) error {
	select {
	case <-time.After(s.lasts):
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.err == nil {
		s.got = append(s.got, f...)
	}
	return s.err
}
