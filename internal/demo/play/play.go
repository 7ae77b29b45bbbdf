package play

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nodetrail/nodetrail/audit"
)

// MaxBatch is how many events are sent at once at most, and MaxDelay how long the first of them waits for others; both as kube-apiserver has
// them for its webhook, but that it waits longer.
const (
	MaxBatch = 400
	MaxDelay = time.Second
)

// Event is an event that is due.
type Event struct {
	// Key is what keeps together the events that are judged together.
	Key string
	// JSON is the event, without a line's end. It may be kept.
	JSON []byte
}

// Sink is sent batches. Send returns when the events are taken, and tries again by itself what may succeed later; an error ends the play.
type Sink interface {
	Send(ctx context.Context, events []Event) error
}

// Clock is the time, and waiting.
type Clock interface {
	Now() time.Time
	// Sleep waits until t, or returns why ctx ended.
	Sleep(ctx context.Context, t time.Time) error
}

// Options of a Player. The zero value of a field means its default.
type Options struct {
	// Log is read once for each round, and once more for its first and, where there are several rounds, its last event.
	Log Opener
	// State is the journal that belongs to the log, if there is one.
	State *Journal
	// MaxEventBytes bounds an event, audit.DefaultMaxEventBytes by default.
	MaxEventBytes int
	// Start is the time of the log's first event, to the second. It is in the first second that begins then.
	Start time.Time
	// Speed is how many seconds of the log go by in one, 1 by default.
	Speed float64
	// Rounds is how often the log is played, 1 by default; Gap lies between, 10 s by default. Later rounds have new audit IDs and UIDs, and where
	// Renew is not empty the first has too.
	Rounds int
	Gap    time.Duration
	Renew  string
	// Clock is nil if nothing waits until it is due.
	Clock Clock
	// Keep says which events are played, with the times of the log; nil for all.
	Keep func(ev *audit.Event) bool
	// Progress is called with the bytes of the log that were sent.
	Progress func(bytes int)
}

// Player plays a log. Its methods may be called one after the other.
type Player struct {
	o      Options
	first  time.Time
	period time.Duration
}

// Result says what was played.
type Result struct {
	Events, Malformed int64
}

// New reads what must be known beforehand: where the log begins, and with several rounds where it and the journal end.
func New(o Options) (*Player, error) {
	if o.MaxEventBytes == 0 {
		o.MaxEventBytes = audit.DefaultMaxEventBytes
	}
	if o.Speed == 0 {
		o.Speed = 1
	}
	if o.Rounds == 0 {
		o.Rounds = 1
	}
	if o.Gap == 0 {
		o.Gap = 10 * time.Second
	}
	switch {
	case o.Speed < 0.001 || o.Speed > 1e6:
		return nil, fmt.Errorf("the speed %v is not between 0.001 and 1000000", o.Speed)
	case o.Rounds < 1 || o.Rounds > 100_000:
		return nil, fmt.Errorf("the number of rounds %d is not between 1 and 100000", o.Rounds)
	case o.Gap < 2*pauseAfterDeletion:
		return nil, fmt.Errorf("the gap %s is less than %s", o.Gap, 2*pauseAfterDeletion)
	}
	p := &Player{o: o}
	var err error
	if p.first, err = firstLogged(o.Log, o.MaxEventBytes); err != nil {
		return nil, err
	}
	if o.Rounds == 1 {
		return p, nil
	}
	end, err := lastLogged(o.Log, o.MaxEventBytes)
	if err != nil {
		return nil, err
	}
	if o.State != nil {
		last, known, err := o.State.last()
		switch {
		case err != nil:
			return nil, err
		case !known:
			return nil, fmt.Errorf("the journal %s has entries without observedAt: it cannot be played more than once", o.State.Name)
		case last.After(end):
			end = last
		}
	}
	length := time.Duration(float64(end.Sub(p.first)) / o.Speed)
	p.period = (length + o.Gap).Truncate(time.Second) + time.Second
	return p, nil
}

// round is what round n, from 0, is played with.
func (p *Player) round(n int) *round {
	// Whole seconds, so that at speed 1 each time stays exact.
	to := p.first.Add(ceil(p.o.Start.Sub(p.first))).Add(time.Duration(n) * p.period)
	r := &round{Shift: Shift{From: p.first, To: to, Speed: p.o.Speed, Renew: p.o.Renew}}
	if n > 0 {
		r.observedFrom = to.Add(-pauseAfterDeletion / 2) // the round before was not over yet
		r.Renew = fmt.Sprintf("%s\x00%d\x00%d", p.o.Renew, to.UnixNano(), n)
	}
	if n+1 < p.o.Rounds {
		r.ends = to.Add(p.period)
	}
	return r
}

// ceil rounds up to whole seconds.
func ceil(d time.Duration) time.Duration {
	t := d.Truncate(time.Second)
	if t < d {
		t += time.Second
	}
	return t
}

// Begins is the time of the first event of the first round.
func (p *Player) Begins() time.Time { return p.round(0).To }

// Period is how long after another a round begins; 0 if there is one only.
func (p *Player) Period() time.Duration { return p.period }

// WriteJournal writes the journal of all rounds.
func (p *Player) WriteJournal(w io.Writer) error {
	if p.o.State == nil {
		return errors.New("there is no journal to be moved")
	}
	buf := bufio.NewWriterSize(w, 256<<10)
	for n := range p.o.Rounds {
		if err := p.o.State.write(buf, p.round(n)); err != nil {
			return err
		}
	}
	if err := buf.Flush(); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return nil
}

// Play sends the events of all rounds when they are due, and returns what it sent. What is late is sent at once.
func (p *Player) Play(ctx context.Context, sink Sink) (Result, error) {
	var res Result
	for n := range p.o.Rounds {
		b := &batcher{sink: sink, clock: p.o.Clock, progress: p.o.Progress}
		r := p.round(n)
		stats, err := each(p.o.Log, p.o.MaxEventBytes, func(ev *audit.Event, raw []byte) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if p.o.Keep != nil && !p.o.Keep(ev) {
				return nil
			}
			ev.AuditID = r.ID(ev.AuditID)
			return b.add(ctx, Event{Key: audit.PartitionKey(ev), JSON: r.Append(make([]byte, 0, len(raw)+16), raw)}, r.Time(logged(ev)))
		})
		if err == nil {
			err = b.flush(ctx)
		}
		res.Events += b.sent
		res.Malformed += stats.Malformed
		if err != nil {
			return res, err
		}
	}
	return res, nil
}

// batcher gathers what is due at about the same time.
type batcher struct {
	sink     Sink
	clock    Clock
	progress func(int)
	events   []Event
	until    time.Time // when the batch must go
	sent     int64
}

func (b *batcher) add(ctx context.Context, ev Event, due time.Time) error {
	if b.clock != nil {
		if len(b.events) > 0 && due.After(b.until) {
			if err := b.clock.Sleep(ctx, b.until); err != nil {
				return err
			}
			if err := b.flush(ctx); err != nil {
				return err
			}
		}
		if due.After(b.clock.Now()) {
			if err := b.clock.Sleep(ctx, due); err != nil {
				return err
			}
		}
	}
	if len(b.events) == 0 {
		b.until = due.Add(MaxDelay)
	}
	b.events = append(b.events, ev)
	if len(b.events) == MaxBatch {
		return b.flush(ctx)
	}
	return nil
}

func (b *batcher) flush(ctx context.Context) error {
	if len(b.events) == 0 {
		return nil
	}
	if err := b.sink.Send(ctx, b.events); err != nil {
		return err
	}
	b.sent += int64(len(b.events))
	if b.progress != nil {
		n := 0
		for i := range b.events {
			n += len(b.events[i].JSON)
		}
		b.progress(n)
	}
	b.events = nil // sinks may keep them
	return nil
}

// WallClock is the machine's clock.
type WallClock struct{}

// Now implements Clock.
func (WallClock) Now() time.Time { return time.Now() }

// Sleep implements Clock.
func (WallClock) Sleep(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
