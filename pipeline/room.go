package pipeline

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/nodetrail/nodetrail/pipeline/source"
)

// room bounds the memory that the batches keep which were taken in and not stored. What waits is bounded apart for sources that wait and
// those that are asked to retry: neither starves the other. It is safe for concurrent use.
type room struct {
	most            int64
	patient, urgent *semaphore.Weighted
	held            atomic.Int64
	blocked         atomic.Int64 // calls that wait for room
}

func newRoom(most int64) *room {
	return &room{most: most, patient: semaphore.NewWeighted(most / 2), urgent: semaphore.NewWeighted(most / 2)}
}

// delivery is a batch with the room that it takes.
type delivery struct {
	b    *source.Batch
	done func(error)
	cost int64
	sem  *semaphore.Weighted
}

// admit finds room for a batch. Before it waits for some it calls wake: what could make room may be asleep.
func (r *room) admit(ctx context.Context, b *source.Batch, done func(error), wake func() error) (*delivery, error) {
	d := &delivery{b: b, done: done, sem: r.urgent, cost: min(max(int64(b.Bytes), int64(1024*len(b.Events)), 1), r.most/2)}
	if b.Wait {
		d.sem = r.patient
	}
	if !d.sem.TryAcquire(d.cost) {
		var err error
		if b.Wait {
			err = r.wait(ctx, d, wake)
		} else {
			err = r.hurry(ctx, d)
		}
		if err != nil {
			return nil, err
		}
	}
	r.held.Add(d.cost)
	return d, nil
}

// hurry waits for the batch's patience at most. Nothing is judged early for its sake.
func (r *room) hurry(ctx context.Context, d *delivery) error {
	if d.b.Patience <= 0 {
		return source.ErrBusy
	}
	short, cancel := context.WithTimeout(ctx, d.b.Patience)
	defer cancel()
	if d.sem.Acquire(short, d.cost) == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return source.ErrBusy
}

func (r *room) wait(ctx context.Context, d *delivery, wake func() error) error {
	r.blocked.Add(1)
	defer r.blocked.Add(-1)
	if err := wake(); err != nil {
		return err
	}
	return d.sem.Acquire(ctx, d.cost)
}

func (r *room) giveBack(d *delivery) {
	r.held.Add(-d.cost)
	d.sem.Release(d.cost)
}

// lighten gives back what the batch was counted for beyond its requests: most events of a log are not a node's.
func (r *room) lighten(b *batch) {
	const fixed = 1024
	if less := b.d.cost - fixed - b.keeps; less > 0 {
		b.d.cost -= less
		r.held.Add(-less)
		b.d.sem.Release(less)
	}
}
