package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// maxPlaces bounds the places of one batch.
const maxPlaces = 20

// What is kept to be used again: so many buffers and lists of events, unless they are longer than this.
const (
	kept       = 8
	keptBytes  = 4 << 20
	keptEvents = 4096
)

// buffer returns memory for an answer.
func (l *lane) buffer() []byte {
	select {
	case b := <-l.s.bufs:
		return b
	default:
		return make([]byte, 0, l.s.opt.FetchBytes)
	}
}

// recycle keeps the memory of an answer for another one.
func (l *lane) recycle(buf []byte, events []audit.Event) {
	source.Overwrite(buf)
	if cap(buf) <= keptBytes {
		select {
		case l.s.bufs <- buf[:0]:
		default:
		}
	}
	if n := cap(events); n > 0 && n <= keptEvents {
		clear(events)
		select {
		case l.s.events <- events[:0]:
		default:
		}
	}
}

// take decodes what was fetched, keeps what is no audit event, and hands the rest on. after is the position after it. end is when that was all there was, zero if there is more.
func (l *lane) take(ctx context.Context, in source.Intake, t *tenure, f *fetched, after position, behind bool, end time.Time) error {
	it := item{next: f.next, bytes: f.bytes, messages: int64(len(f.messages))}
	b := &source.Batch{Position: after.String(), Received: time.Now(), Behind: behind, Ended: end}
	select {
	case b.Events = <-l.s.events:
	default:
	}
	letters, tombstones := l.decode(f, b)
	if n := len(f.messages); n > 0 {
		it.last = f.messages[n-1].at
	}
	if err := l.keep(ctx, letters); err != nil {
		l.s.budget.add(-it.bytes, -it.messages)
		return err
	}
	if events := b.Events; len(events) > 0 {
		b.Release = func() { l.recycle(f.buf, events) }
	}
	l.s.count(func(st *Stats) {
		st.Messages += it.messages
		st.Bytes += it.bytes
		st.Tombstones += tombstones
		st.DeadLetters += int64(len(letters))
	})
	events := b.Events
	if err := l.hand(ctx, in, t, b, it); err != nil {
		return err
	}
	if len(events) == 0 {
		l.recycle(f.buf, events)
	}
	return nil
}

// letter is a message that holds what is no audit event.
type letter struct {
	source.Letter
	key []byte
}

// decode fills the batch.
func (l *lane) decode(f *fetched, b *source.Batch) (letters []letter, tombstones int64) {
	for i := range f.messages {
		m := &f.messages[i]
		value := f.buf[m.from:m.to:m.to]
		if len(value) == 0 {
			tombstones++
			continue
		}
		cause := ""
		counts := l.decoder.Message(value, func(ev *audit.Event) { b.Events = append(b.Events, *ev) }, func(at audit.Malformed) {
			if cause == "" {
				cause = at.Cause
			}
		})
		b.Counts.Add(counts)
		if counts.Malformed == 0 {
			continue
		}
		if len(b.Places) < maxPlaces {
			b.Places = append(b.Places, source.Place{Input: fmt.Sprintf("%s/%d", l.topic, l.partition), Line: m.offset, Cause: cause})
		}
		letters = append(letters, letter{key: m.key, Letter: source.Letter{
			Time: b.Received, Source: fmt.Sprintf("%s@%d", l.name, m.offset), Cause: cause, Data: value,
		}})
	}
	return letters, tombstones
}

// keep returns when the letters are safe. It tries until they are: what is neither counted nor kept would be lost.
func (l *lane) keep(ctx context.Context, letters []letter) error {
	if len(letters) == 0 || l.s.opt.DeadLetters == nil && l.s.letters == nil {
		return nil
	}
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		err := l.put(ctx, letters)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.s.count(func(st *Stats) { st.LetterErrors++ })
		l.log.Error().Err(err).Int("letters", len(letters)).Msg("kafka: messages that are no audit events cannot be kept; the partition waits")
		if !wait(ctx, pause) {
			return ctx.Err()
		}
	}
}

func (l *lane) put(ctx context.Context, letters []letter) error {
	if l.s.opt.DeadLetters != nil {
		plain := make([]source.Letter, len(letters))
		for i := range letters {
			plain[i] = letters[i].Letter
		}
		if err := l.s.opt.DeadLetters.Put(plain...); err != nil {
			return err
		}
	}
	if l.s.letters == nil {
		return nil
	}
	records := make([]Record, len(letters))
	for i := range letters {
		records[i] = Record{Key: letters[i].key, Value: letters[i].Data, Headers: []Header{
			{"nodetrail-source", letters[i].Source}, {"nodetrail-cause", letters[i].Cause},
		}}
	}
	err := l.s.letters.Produce(ctx, records...)
	// Of what the topic does not take whole, the beginning has to stand for it. Its own bound may be below ours.
	for most := l.s.letters.opt.MaxMessageBytes / 2; errors.Is(err, ErrTooLarge) && most > 256; most /= 2 {
		for i := range records {
			if size := len(letters[i].Data); size > most {
				records[i].Key, records[i].Value = nil, letters[i].Data[:most]
				records[i].Headers = append(records[i].Headers[:2], Header{"nodetrail-size", fmt.Sprint(size)})
			}
		}
		err = l.s.letters.Produce(ctx, records...)
	}
	return err
}

// hand gives a batch to the intake; the item is the tenure's until it is done.
func (l *lane) hand(ctx context.Context, in source.Intake, t *tenure, b *source.Batch, it item) error {
	b.Lane, b.Wait = l.name, true
	done := t.add(it)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := in.Take(ctx, b, done)
		if err == nil {
			return nil
		}
		if errors.Is(err, source.ErrBusy) && wait(ctx, pause) {
			continue
		}
		done(err)
		return fmt.Errorf("handing on the messages before offset %d: %w", it.next, err)
	}
}

// tenure is the time for which a lane is open: what was handed on and is not stored yet.
type tenure struct {
	l *lane

	mu      sync.Mutex
	pending []*item
	err     error
	ended   bool
	idle    chan struct{} // closed when nothing is pending; nil if nobody waits
}

// item is one batch.
type item struct {
	next            int64
	bytes, messages int64
	last            time.Time
	done            bool
}

func newTenure(l *lane) *tenure { return &tenure{l: l} }

// add returns the batch's done function.
func (t *tenure) add(it item) func(error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &it
	t.pending = append(t.pending, p)
	return func(err error) { t.done(p, err) }
}

// done is called from the pipeline's goroutines. What is stored is reported to the group in order, and only while the lane is open.
func (t *tenure) done(p *item, err error) {
	t.l.s.budget.add(-p.bytes, -p.messages)
	t.mu.Lock()
	defer t.mu.Unlock()
	p.done = true
	if err != nil {
		if t.err == nil {
			t.err = err
		}
	}
	for len(t.pending) > 0 && t.pending[0].done {
		first := t.pending[0]
		t.pending[0] = nil
		t.pending = t.pending[1:]
		if t.err == nil && !t.ended {
			t.moved(first.next)
			t.l.gen.mark(t.l.topicPartition, first.next)
			if !first.last.IsZero() {
				t.l.setLast(first.last)
			}
		}
	}
	if t.idle != nil && (len(t.pending) == 0 || t.err != nil) {
		close(t.idle)
		t.idle = nil
	}
}

// refused takes the result of a batch that says only that the partition is at its end. After an error the partition is opened again.
func (t *tenure) refused(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
}

func (t *tenure) moved(offset int64) {
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	t.l.stored = offset
}

func (l *lane) setLast(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = at
}

// lost returns the error that a batch was done with.
func (t *tenure) lost() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return fmt.Errorf("storing messages: %w", t.err)
	}
	return nil
}

// drain waits until all is stored, for some time: what is stored need not be read again by the next owner.
func (t *tenure) drain(d time.Duration) {
	t.mu.Lock()
	if len(t.pending) == 0 || t.err != nil {
		t.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	t.idle = idle
	t.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// end makes sure that nothing is committed from now on.
func (t *tenure) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.idle = nil
}
