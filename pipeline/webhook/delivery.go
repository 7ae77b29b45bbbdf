package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// RawEvent is one event as a gateway writes it on.
type RawEvent struct {
	// Key keeps together what has to stay in order: see audit.PartitionKey.
	Key string
	// Value is the event as it was sent, one JSON object.
	Value []byte
}

// RawIntake is what a gateway takes events in with.
type RawIntake interface {
	// TakeRaw takes events in. It returns once they are its own, or with an error, and then done is not called. done is called once, from
	// another goroutine or this one, with nil when all of them are safe; until then they may be read, and not after. source.ErrBusy says
	// that too much waits already.
	TakeRaw(ctx context.Context, events []RawEvent, done func(error)) error
}

// maxPart is how many events are handed on at once. A body of more is handed on part by part, each when the one before is stored, so
// that many tiny events do not take many times the body's memory.
const maxPart = 8192

// keptParts is how many parts wait to be used again.
const keptParts = 16

const (
	eventBytes    = int64(unsafe.Sizeof(audit.Event{}))
	rawEventBytes = int64(unsafe.Sizeof(RawEvent{}))
)

// part is a run of events of one body on its way.
type part struct {
	s        *Server
	body     *body
	lane     string
	received time.Time
	events   []audit.Event
	raw      []RawEvent
	counts   audit.Counts
	places   []source.Place
	done     func(error)
}

func (p *part) size() int64 { return int64(cap(p.events))*eventBytes + int64(cap(p.raw))*rawEventBytes }

// release gives the part's memory back, and with the last part the body's.
func (p *part) release() {
	s := p.s
	s.budget.giveBack(p.size())
	p.body.drop()
	clear(p.events)
	clear(p.raw)
	*p = part{s: s, events: p.events[:0], raw: p.raw[:0]}
	if p.size() > 1<<20 {
		return
	}
	select {
	case s.parts <- p:
	default:
	}
}

func (p *part) give(ctx context.Context, intake source.Intake) error {
	return intake.Take(ctx, &source.Batch{
		Lane: p.lane, Events: p.events, Release: p.release, Bytes: cap(p.body.buf), Received: p.received, Counts: p.counts, Places: p.places,
		Patience: roomWait,
	}, p.done)
}

func (p *part) giveRaw(ctx context.Context, intake RawIntake) error {
	done := p.done
	return intake.TakeRaw(ctx, p.raw, func(err error) {
		p.release()
		done(err)
	})
}

// delivery is one body being handed on.
type delivery struct {
	e        *endpoint
	body     *body
	received time.Time

	part *part
	// counts are of the whole body; the last part tells of them.
	counts  audit.Counts
	places  []source.Place
	letters []source.Letter
	many    bool // more malformed than letters
	waited  bool // while decoding
	last    bool // nothing of the body is needed but for the part on its way
	// out and err are why the rest is not handed on.
	out outcome
	err error
}

// maxLetters is how many malformed events of a body have a letter each; with more, the body is one letter.
const maxLetters = 32

// spoilt notes a body that is no use as a whole.
func (d *delivery) spoilt(l source.Letter) {
	d.counts.Malformed = 1
	d.malformed(l)
}

func (d *delivery) malformed(l source.Letter) {
	if len(d.letters) == maxLetters {
		d.many = true
		return
	}
	l.Time, l.Source = d.received, d.e.Lane()
	d.letters = append(d.letters, l)
	d.places = append(d.places, source.Place{Input: l.Source, Cause: l.Cause})
}

// split takes the body apart and hands on all parts but the last.
func (d *delivery) split(ctx context.Context) {
	var dec *audit.Decoder
	select {
	case dec = <-d.e.decoders:
	case <-ctx.Done():
		d.stop(ctx, fmt.Errorf("waiting for a processor: %w", ctx.Err()))
		return
	}
	var skipped int64
	counts := dec.Split(d.body.buf, func(ev *audit.Event, raw []byte) {
		if d.e.needed && !audit.Needed(ev, d.e.opt.Want) {
			skipped++
			return
		}
		if d.err == nil {
			d.add(ctx, ev, raw)
		}
	}, func(m audit.Malformed, raw []byte) {
		d.malformed(source.Letter{Cause: m.Cause, Data: raw})
	})
	if !d.waited {
		d.e.decoders <- dec
	}
	counts.Skipped = skipped
	d.counts = counts
	if d.many {
		d.letters = append(d.letters[:0], source.Letter{
			Time: d.received, Source: d.e.Lane(), Data: d.body.buf,
			Cause: fmt.Sprintf("%d events of it are malformed, the first: %s", counts.Malformed, d.letters[0].Cause),
		})
	}
}

// add puts an event into the current part.
func (d *delivery) add(ctx context.Context, ev *audit.Event, raw []byte) {
	if d.part != nil && len(d.part.events)+len(d.part.raw) == maxPart {
		if !d.waited { // others decode meanwhile
			d.waited = true
			d.e.decoders <- d.e.decoder()
		}
		d.flush(ctx)
	}
	if d.err == nil && d.part == nil {
		d.begin(ctx)
	}
	if d.err != nil {
		return
	}
	p := d.part
	if d.e.raw {
		if p.raw = grown(ctx, d, p.raw, rawEventBytes); d.err == nil {
			p.raw = append(p.raw, RawEvent{Key: audit.PartitionKey(ev), Value: raw})
		}
		return
	}
	if p.events = grown(ctx, d, p.events, eventBytes); d.err == nil {
		p.events = append(p.events, *ev)
	}
}

// begin makes a part that shares the body.
func (d *delivery) begin(ctx context.Context) {
	var p *part
	select {
	case p = <-d.e.parts:
		if !d.body.claim.reserve(p.size()) {
			d.stop(ctx, source.ErrBusy)
			return
		}
	default:
		p = &part{s: d.e.Server}
	}
	d.body.hold()
	p.body, p.lane, p.received = d.body, d.e.Lane(), d.received
	d.part = p
}

// grown makes room for one more element, out of the budget.
func grown[E any](ctx context.Context, d *delivery, list []E, size int64) []E {
	if len(list) < cap(list) {
		return list
	}
	n := min(max(128, 2*cap(list)), maxPart)
	if !d.body.claim.reserve(int64(n) * size) {
		d.stop(ctx, source.ErrBusy)
		return list
	}
	larger := append(make([]E, 0, n), list...)
	d.e.budget.giveBack(int64(cap(list)) * size)
	return larger
}

// stop notes why nothing more is handed on.
func (d *delivery) stop(ctx context.Context, err error) {
	d.err = err
	switch {
	case errors.Is(err, source.ErrBusy):
		d.out = busy
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		d.out = late
	case ctx.Err() != nil:
		d.out = gone
	default:
		d.out = failed
	}
}

// flush hands the current part on and waits until it is stored.
func (d *delivery) flush(ctx context.Context) {
	p, events := d.part, int64(len(d.part.events)+len(d.part.raw))
	d.part = nil
	ended := make(chan error, 1)
	p.done = func(err error) { ended <- err }
	if err := d.e.take(ctx, p); err != nil {
		p.release()
		d.stop(ctx, fmt.Errorf("handing it on: %w", err))
		return
	}
	if d.last { // others need the memory while this request waits
		d.body.end()
	}
	select {
	case err := <-ended:
		if err != nil {
			d.stop(ctx, fmt.Errorf("storing it: %w", err))
			return
		}
	case <-ctx.Done():
		// It may be stored yet; then it counts once when it comes again.
		d.stop(ctx, fmt.Errorf("waiting for it to be stored: %w", ctx.Err()))
		return
	}
	d.e.counters.batches.Add(1)
	d.e.counters.events.Add(events)
}

// finish hands the last part on, with what the body held, and then keeps the letters: if they came first, each attempt of a sender that has
// to wait would leave them again.
func (d *delivery) finish(ctx context.Context) (outcome, error) {
	if d.err == nil && d.part == nil && d.counts.Read+d.counts.Malformed > 0 && !d.e.raw {
		d.begin(ctx)
	}
	if d.err != nil {
		if d.part != nil {
			d.part.release()
		}
		return d.out, d.err
	}
	if d.part != nil {
		d.part.counts, d.part.places = d.counts, d.places
		d.last = len(d.letters) == 0
		if d.flush(ctx); d.err != nil {
			return d.out, d.err
		}
	}
	if len(d.letters) == 0 {
		return stored, nil
	}
	if err := d.e.opt.Letters.Put(d.letters...); err != nil {
		return failed, err
	}
	d.e.counters.letters.Add(int64(len(d.letters)))
	d.e.counters.malformed.Add(d.counts.Malformed)
	d.e.log.Warn().Str("partition", d.e.Lane()).Int64("malformed", d.counts.Malformed).Int64("read", d.counts.Read).Str("cause", d.letters[0].Cause).
		Msg("the webhook keeps as dead letters what is no audit event")
	if d.counts.Read == 0 {
		return deadLetter, nil
	}
	return stored, nil
}
