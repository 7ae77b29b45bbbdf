package app

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Of those that take a turn one has it at a time. Who has it can take it again, and who waits can give up.
func TestTurns(t *testing.T) {
	turn := newTurns()
	var having, most atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			held, end, err := turn.take(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			defer end()
			if n := having.Add(1); n > most.Load() {
				most.Store(n)
			}
			_, again, err := turn.take(context.WithoutCancel(held))
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Millisecond)
			again()
			having.Add(-1)
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d had their turn at a time", most.Load())
	}
	_, end, err := turn.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := turn.take(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
