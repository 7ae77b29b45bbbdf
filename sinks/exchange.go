package sinks

import (
	"context"
	"io"
	"time"

	"github.com/rs/zerolog"
)

// exchange is the sender and the bounds that a Queue is to have next.
type exchange struct {
	sender Sender
	o      QueueOptions
	takes  func(*Finding) bool
}

// lastSend is how long a Send that is under way may last after a new sender was given.
const lastSend = 5 * time.Second

// Exchange gives the queue a new sender of the same name, and new bounds. What waits stays where it is, with the counts. A batch that the sender before
// does not take goes back to the front, so that the order stays. The queue closes the sender before. Findings that the new sender does not take are dropped
// and counted as those of a queue that was closed; takes may be nil. It does not wait for the sinks.
func (q *Queue) Exchange(s Sender, o QueueOptions, takes func(*Finding) bool) {
	q.mu.Lock()
	unused := q.next
	q.next = &exchange{sender: s, o: o.withDefaults(), takes: takes}
	q.next.o.Log = q.next.o.Log.With().Str("sink", q.name).Logger()
	if q.cancel != nil {
		time.AfterFunc(lastSend, q.cancel)
	}
	select {
	case q.renewed <- struct{}{}:
	default:
	}
	q.signal()
	log := q.o.Log
	q.mu.Unlock()
	if unused != nil {
		release(unused.sender, log)
	}
}

// renew takes the new sender, if there is one.
func (q *Queue) renew() {
	q.mu.Lock()
	next := q.next
	if next == nil {
		q.mu.Unlock()
		return
	}
	old := q.sender
	q.sender, q.o, q.next, q.untried = next.sender, next.o, nil, true
	if next.takes != nil {
		q.giveUp(next.takes)
	}
	q.bound()
	select {
	case <-q.renewed:
	default:
	}
	q.mu.Unlock()
	release(old, q.o.Log)
}

// giveUp drops what waits and is not taken.
func (q *Queue) giveUp(takes func(*Finding) bool) {
	for id, w := range q.byID {
		if !takes(&w.f) {
			w.moved = true
			delete(q.byID, id)
			q.stats.Bytes -= w.size
			q.stats.Abandoned++
		}
	}
}

// putBack puts the batch under way before what waits, if there is a new sender, and reports whether it did.
func (q *Queue) putBack() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next == nil {
		return false
	}
	q.stats.Bytes -= q.weight
	for i := len(q.sending) - 1; i >= 0; i-- {
		f := q.sending[i]
		if later := q.byID[f.ID]; later != nil {
			f.merge(&later.f)
			later.moved = true
			q.stats.Bytes -= later.size
			q.stats.Merged++
		}
		w := &queued{f: f, size: f.size()}
		q.byID[f.ID] = w
		q.waiting[f.weight()].unshift(w)
		q.stats.Bytes += w.size
	}
	q.flight, q.weight, q.sending = 0, 0, nil
	return true
}

// attempt sends the batch; a new sender ends it a while later.
func (q *Queue) attempt(ctx context.Context, batch []Finding) error {
	ctx, cancel := context.WithTimeout(ctx, q.o.Timeout)
	defer cancel()
	q.mu.Lock()
	q.cancel = cancel
	if q.next != nil {
		time.AfterFunc(lastSend, cancel)
	}
	q.mu.Unlock()
	err := q.sender.Send(ctx, batch)
	q.mu.Lock()
	q.cancel = nil
	q.mu.Unlock()
	return err
}

func release(s Sender, log zerolog.Logger) {
	if c, ok := s.(io.Closer); ok {
		if err := c.Close(); err != nil {
			log.Debug().Err(err).Msg("closing a sink that was replaced")
		}
	}
}
