package pipeline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodetrail/nodetrail/pipeline/source"
)

// A batch whose source is asked to retry waits for room as long as it says, and makes nobody judge early.
func TestRoomIsWaitedFor(t *testing.T) {
	const cost = 100
	left := errors.New("left")
	for name, c := range map[string]struct {
		free, patience, leave time.Duration
		want                  error
		after                 time.Duration
	}{
		"room in time":  {time.Second, 2 * time.Second, time.Hour, nil, time.Second},
		"room too late": {3 * time.Second, 2 * time.Second, time.Hour, source.ErrBusy, 2 * time.Second},
		"no patience":   {time.Second, 0, time.Hour, source.ErrBusy, 0},
		"sender left":   {3 * time.Second, 2 * time.Second, time.Second, left, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRoom(2 * cost)
				held, err := r.admit(t.Context(), &source.Batch{Bytes: cost}, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(c.free, func() { r.giveBack(held) })
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(c.leave, func() { cancel(left) })
				began := time.Now()
				time.AfterFunc(c.after/2, func() {
					if r.blocked.Load() != 0 {
						t.Error("it counts as one that must have room")
					}
				})
				d, err := r.admit(ctx, &source.Batch{Bytes: cost, Patience: c.patience}, nil, nil)
				if errors.Is(err, context.Canceled) {
					err = context.Cause(ctx)
				}
				if !errors.Is(err, c.want) || time.Since(began) != c.after {
					t.Errorf("%v after %s", err, time.Since(began))
				}
				time.Sleep(2 * c.free)
				if d != nil {
					r.giveBack(d)
				}
				if n := r.held.Load(); n != 0 {
					t.Errorf("%d bytes stay behind", n)
				}
			})
		})
	}
}
