package sinks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// QueueOptions bound a Queue; the zero value of each is its default.
type QueueOptions struct {
	// MaxFindings and MaxBytes bound what waits, the batch under way included: 10,000 and 16 MiB by default.
	MaxFindings int
	MaxBytes    int64
	// MaxBatch is how many findings one Send is given at most, 100 by default.
	MaxBatch int
	// Timeout bounds one Send, 30 s by default.
	Timeout time.Duration
	// Backoff is how long to wait after a first failure, 1 s by default; it doubles up to MaxBackoff, 1 min by default. A third of it is random.
	Backoff, MaxBackoff time.Duration
	// MaxRetryAfter bounds what the receiver may ask for, 10 min by default.
	MaxRetryAfter time.Duration
	Log           zerolog.Logger
}

func (o QueueOptions) withDefaults() QueueOptions {
	def := func(v *int, to int) {
		if *v <= 0 {
			*v = to
		}
	}
	wait := func(v *time.Duration, to time.Duration) {
		if *v <= 0 {
			*v = to
		}
	}
	def(&o.MaxFindings, 10_000)
	def(&o.MaxBatch, 100)
	if o.MaxBytes <= 0 {
		o.MaxBytes = 16 << 20
	}
	wait(&o.Timeout, 30*time.Second)
	wait(&o.Backoff, time.Second)
	wait(&o.MaxBackoff, time.Minute)
	wait(&o.MaxRetryAfter, 10*time.Minute)
	return o
}

// QueueStats is what a Queue has come to.
type QueueStats struct {
	// Length and Bytes are what waits, the batch under way included.
	Length int
	Bytes  int64
	// MaxLength bounds Length; when there would be more the oldest are dropped.
	MaxLength int
	// Sent counts the findings that the receiver has; Merged those that were added to one of the same group that waited already.
	Sent, Merged int64
	// Overflowed counts findings that were dropped because too much waited, Refused those that the receiver will never take, Abandoned
	// those that still waited when the queue was closed.
	Overflowed, Refused, Abandoned int64
	// Failures counts calls of Send that failed.
	Failures int64
	// LastSuccess is when Send succeeded last, zero if never.
	LastSuccess time.Time
	// FailingSince is when the batch under way failed first, zero if it did not.
	FailingSince time.Time
}

// Dropped counts the findings that did not reach the receiver, for whatever cause.
func (s QueueStats) Dropped() int64 { return s.Overflowed + s.Refused + s.Abandoned }

// Queue holds the findings of one sink until the sink has them. Of each group at most one waits next to the batch under way; what comes
// meanwhile is added to its counts. Findings of allowed requests go before those of refused ones, then the severe before the others, then the older.
// When it is full the oldest of the least of these is dropped: a flood of refused requests drops none of an allowed one. Safe for concurrent use.
type Queue struct {
	name string

	mu      sync.Mutex
	sender  Sender       // and o: only run changes them
	o       QueueOptions // both are given by next
	next    *exchange    // nil if there is none
	cancel  context.CancelFunc
	untried bool          // the sender is new
	waiting [weights]line // by weight
	byID    map[string]*queued
	flight  int // findings of the batch under way, and their bytes
	sending []Finding
	weight  int64
	stats   QueueStats
	closing bool

	wake    chan struct{} // has room for one
	renewed chan struct{} // says that there is a next; has room for one
	stop    context.CancelFunc
	closed  chan struct{}
	once    sync.Once
	end     error
}

type queued struct {
	f     Finding
	size  int64
	moved bool // to the line of another weight
}

// NewQueue returns a running Queue; Close ends it.
func NewQueue(s Sender, o QueueOptions) *Queue {
	ctx, stop := context.WithCancel(context.Background())
	q := &Queue{
		name: s.Name(), sender: s, o: o.withDefaults(), byID: map[string]*queued{}, wake: make(chan struct{}, 1), renewed: make(chan struct{}, 1),
		stop: stop, closed: make(chan struct{}),
	}
	q.o.Log = q.o.Log.With().Str("sink", q.name).Logger()
	go q.run(ctx)
	return q
}

// Name is the sink's.
func (q *Queue) Name() string { return q.name }

// Add puts findings at the end. It never waits for the sink. After Close the findings are dropped and counted.
func (q *Queue) Add(findings []Finding) {
	if len(findings) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closing {
		q.stats.Abandoned += int64(len(findings))
		return
	}
	for i := range findings {
		q.add(&findings[i])
	}
	q.bound()
	q.signal()
}

// bound drops what is too much.
func (q *Queue) bound() {
	for len(q.byID) > 0 && (len(q.byID)+q.flight > q.o.MaxFindings || q.stats.Bytes > q.o.MaxBytes) {
		q.stats.Overflowed++
		q.lightest()
	}
}

func (q *Queue) add(f *Finding) {
	if w := q.byID[f.ID]; w != nil {
		q.stats.Merged++
		was := w.f.weight()
		w.f.merge(f)
		q.stats.Bytes += w.f.size() - w.size
		w.size = w.f.size()
		if is := w.f.weight(); is != was {
			heavier := *w
			w.moved = true
			q.byID[f.ID] = &heavier
			q.waiting[is].push(&heavier)
		}
		return
	}
	w := &queued{f: *f, size: f.size()}
	q.byID[f.ID] = w
	q.waiting[f.weight()].push(w)
	q.stats.Bytes += w.size
}

// lightest takes out what is missed least, heaviest what is sent next. Something waits.
func (q *Queue) lightest() *queued {
	for i := range q.waiting {
		if w := q.waiting[i].pop(); w != nil {
			return q.taken(w)
		}
	}
	return nil
}

func (q *Queue) heaviest() *queued {
	for i := len(q.waiting) - 1; i >= 0; i-- {
		if w := q.waiting[i].pop(); w != nil {
			return q.taken(w)
		}
	}
	return nil
}

func (q *Queue) taken(w *queued) *queued {
	delete(q.byID, w.f.ID)
	q.stats.Bytes -= w.size
	return w
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Holds reports whether a finding of that ID waits or is being sent.
func (q *Queue) Holds(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.byID[id] != nil || slices.ContainsFunc(q.sending, func(f Finding) bool { return f.ID == id })
}

// Stats returns the figures of now.
func (q *Queue) Stats() QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Length, s.MaxLength = len(q.byID)+q.flight, q.o.MaxFindings
	return s
}

// Close takes in no more, waits until the sink has all or ctx ends, and closes the Sender. It returns an error if findings were left.
// Further calls wait for the first, and return the same.
func (q *Queue) Close(ctx context.Context) error {
	q.mu.Lock()
	q.closing = true
	q.signal()
	q.mu.Unlock()
	select {
	case <-q.closed:
	case <-ctx.Done():
		q.stop()
		<-q.closed
	}
	q.once.Do(q.finish)
	return q.end
}

func (q *Queue) finish() {
	q.stop()
	q.renew() // a sender that is not used any more is closed
	q.mu.Lock()
	left := len(q.byID) + q.flight
	q.stats.Abandoned += int64(left)
	q.stats.Bytes = 0
	q.waiting, q.flight, q.weight, q.sending = [weights]line{}, 0, 0, nil
	clear(q.byID)
	q.mu.Unlock()
	var errs []error
	if left > 0 {
		errs = append(errs, fmt.Errorf("sink %s: %d findings were not sent", q.Name(), left))
	}
	if c, ok := q.sender.(io.Closer); ok {
		if err := c.Close(); err != nil {
			errs = append(errs, fmt.Errorf("sink %s: closing: %w", q.Name(), err))
		}
	}
	q.end = errors.Join(errs...)
}

// run sends until the queue is closed and empty, or ctx ends.
func (q *Queue) run(ctx context.Context) {
	defer close(q.closed)
	for {
		q.renew()
		batch, more := q.take()
		if !more {
			return
		}
		if len(batch) == 0 {
			select {
			case <-q.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		if !q.deliver(ctx, batch) {
			return
		}
	}
}

// take begins a batch; more is false when there will never be another.
func (q *Queue) take() (batch []Finding, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.byID), q.o.MaxBatch)
	if n == 0 {
		return nil, !q.closing
	}
	batch = make([]Finding, 0, n)
	for range n {
		w := q.heaviest()
		q.weight += w.size
		q.stats.Bytes += w.size // until it is sent
		batch = append(batch, w.f)
	}
	q.flight, q.sending = n, batch
	return batch, true
}

// deliver tries until the batch is sent or refused, or a new sender is to have it; false says that ctx ended before.
func (q *Queue) deliver(ctx context.Context, batch []Finding) bool {
	wait := q.o.Backoff
	for !q.putBack() {
		err := q.attempt(ctx, batch)
		if err != nil && q.putBack() {
			return ctx.Err() == nil
		}
		if err == nil || IsPermanent(err) {
			q.done(len(batch), err)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		pause := wait - wait/3 + rand.N(wait/3+1)
		var later *RetryError
		if errors.As(err, &later) {
			pause = max(pause, min(later.After, q.o.MaxRetryAfter))
		}
		q.failed(err, pause)
		wait = min(2*wait, q.o.MaxBackoff)
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-q.renewed:
			t.Stop()
		case <-ctx.Done():
			t.Stop()
			return false
		}
	}
	return true
}

func (q *Queue) failed(err error, pause time.Duration) {
	q.mu.Lock()
	q.stats.Failures++
	first := q.stats.FailingSince.IsZero()
	if first {
		q.stats.FailingSince = time.Now()
	}
	first, q.untried = first || q.untried, false
	q.mu.Unlock()
	level := zerolog.DebugLevel // the first says it; metrics have the rest
	if first {
		level = zerolog.WarnLevel
	}
	q.o.Log.WithLevel(level).Err(err).Stringer("retryIn", pause).Msg("the sink does not take findings; they wait")
}

func (q *Queue) done(n int, refusal error) {
	q.mu.Lock()
	since := q.stats.FailingSince
	q.stats.FailingSince = time.Time{}
	q.stats.Bytes -= q.weight
	q.flight, q.weight, q.sending, q.untried = 0, 0, nil, false
	refused := 0
	if refusal != nil {
		q.stats.Failures++
		refused = n
		var p *PermanentError
		if errors.As(refusal, &p) && p.Refused > 0 {
			refused = min(p.Refused, n)
		}
	}
	q.stats.Refused += int64(refused)
	if sent := n - refused; sent > 0 {
		q.stats.Sent += int64(sent)
		q.stats.LastSuccess = time.Now()
	}
	q.mu.Unlock()
	switch {
	case refusal != nil:
		q.o.Log.Error().Err(refusal).Int("findings", refused).Msg("the sink refused findings for good; they are dropped")
	case !since.IsZero():
		q.o.Log.Info().Msg("the sink takes findings again")
	}
}
