package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	kafkago "github.com/segmentio/kafka-go"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// lane reads one partition during one generation.
type lane struct {
	topicPartition
	s       *Source
	gen     *generation
	name    string
	log     zerolog.Logger
	decoder audit.Decoder
	born    time.Time
	fenced  bool // the lane was taken over after it had been opened

	mu                   sync.Mutex
	owned                bool
	readTo, stored, high int64
	last                 time.Time
	asked                time.Time // when the first of the requests was made that have no answer, zero if there is none
}

func laneName(tp topicPartition) string { return fmt.Sprintf("kafka:%s/%d", tp.topic, tp.partition) }

func newLane(s *Source, g *generation, tp topicPartition) *lane {
	return &lane{
		topicPartition: tp, s: s, gen: g, name: laneName(tp),
		log:     s.log.With().Str("topic", tp.topic).Int("partition", tp.partition).Int32("generation", g.id).Logger(),
		decoder: audit.Decoder{Want: s.opt.Want, MaxEventBytes: s.opt.MaxEventBytes},
		born:    time.Now(), readTo: -1, stored: -1, high: -1,
	}
}

func (l *lane) stats(now time.Time) PartitionStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := PartitionStats{
		Topic: l.topic, Partition: l.partition, Owned: l.owned, Read: l.readTo, Stored: l.stored, HighWatermark: l.high, LastMessage: l.last,
		Up: l.s.opt.recent(l.asked),
	}
	if l.high >= 0 && l.stored >= 0 {
		st.Lag = max(0, l.high-l.stored)
	}
	if st.Lag > 0 || l.high < 0 {
		since := l.last
		if since.IsZero() {
			since = l.born
		}
		st.LagSeconds = max(0, now.Sub(since).Seconds())
	}
	return st
}

// run reads until the generation ends.
func (l *lane) run(ctx context.Context, in source.Intake) {
	pause := time.Duration(0)
	for {
		began := time.Now()
		err := l.own(ctx, in)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > l.s.opt.Patience {
			pause = 0
		}
		most := 5 * time.Second
		if errors.Is(err, source.ErrFenced) {
			l.s.count(func(st *Stats) { st.Fenced++ })
			most = 30 * time.Second
			l.log.Warn().Err(err).Msg("kafka: another process has taken the partition over; if this continues two groups share one store")
		} else {
			l.log.Warn().Err(err).Msg("kafka: reading the partition stopped and begins again")
		}
		pause = min(max(2*pause, 200*time.Millisecond), most)
		if !wait(ctx, pause) {
			return
		}
	}
}

// own opens the lane, reads, and closes it.
func (l *lane) own(ctx context.Context, in source.Intake) error {
	stored, err := l.open(ctx, in)
	if err != nil {
		return err
	}
	t := newTenure(l)
	defer func() {
		l.setOwned(false)
		t.drain(l.s.opt.Drain)
		in.Close(l.name)
		t.end()
	}()
	l.setOwned(true)
	var at position
	if stored != "" {
		if at, err = parsePosition(stored); err != nil {
			return err
		}
		t.moved(at.Offset)
	} else {
		l.ask()
		if at.Offset, err = l.start(ctx); err != nil {
			return err
		}
		l.seen(at.Offset, -1)
		// Stored at once: "latest" must not mean a later time after a crash.
		if err := l.hand(ctx, in, t, &source.Batch{Position: at.String(), Received: time.Now()}, item{next: at.Offset}); err != nil {
			return err
		}
	}
	l.log.Debug().Int64("offset", at.Offset).Bool("stored", stored != "").Msg("kafka: reading a partition")
	err = l.follow(ctx, in, t, at)
	l.fenced = errors.Is(err, source.ErrFenced)
	return err
}

func (l *lane) setOwned(owned bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owned = owned
}

// open takes the lane over and returns the stored position. See the package comment on fences.
func (l *lane) open(ctx context.Context, in source.Intake) (string, error) {
	epoch := l.s.epoch(l.name)
	if l.fenced {
		// That was found out after Open: the same fence would be refused again.
		if err := l.s.alive(ctx, l.gen); err != nil {
			return "", fmt.Errorf("%w, and perhaps rightly: %w", source.ErrFenced, err)
		}
		epoch = min(epoch+1, maxEpoch)
	}
	for step := int64(1); ; step *= 2 {
		stored, err := in.Open(ctx, l.name, fence(epoch, l.gen))
		if err == nil {
			l.s.setEpoch(l.name, epoch)
			l.fenced = false
			return stored, nil
		}
		err = fmt.Errorf("opening partition %s: %w", l.name, err)
		if !errors.Is(err, source.ErrFenced) || epoch == maxEpoch {
			return "", err
		}
		if alive := l.s.alive(ctx, l.gen); alive != nil {
			return "", fmt.Errorf("%w; %w", err, alive)
		}
		epoch = min(epoch+step, maxEpoch)
	}
}

// start returns where to begin if the store does not know.
func (l *lane) start(ctx context.Context) (int64, error) {
	committed, err := l.s.committed(ctx, l.topic, l.partition)
	if err != nil {
		return 0, err
	}
	if committed >= 0 {
		return committed, nil
	}
	first, last, err := l.s.bounds(ctx, l.topic, l.partition)
	if err != nil {
		return 0, err
	}
	if l.s.opt.StartOffset == Latest {
		return last, nil
	}
	return first, nil
}

// idleFetchBytes is asked for where no message is known to wait, without reserving it.
const idleFetchBytes = 64 << 10

// endEvery is how often the source says that a partition is at its end while nothing comes.
const endEvery = time.Second

// pace is the least time between two requests where no message is known to wait, so that a batch is more than one message.
const pace = 100 * time.Millisecond

// follow reads from a position on until the lane is lost or ctx ends.
func (l *lane) follow(ctx context.Context, in source.Intake, t *tenure, at position) error {
	behind, told := false, false // the latter is the Behind that was handed on last
	most, full := l.s.opt.FetchBytes, l.s.opt.decompressed()
	var sure time.Time  // when the log was still the one that was read: a topic can be deleted and created again
	var ended time.Time // when it last said that the partition is at its end
	var trouble trouble
	for {
		if err := t.lost(); err != nil {
			return err
		}
		reserve, ask := int64(0), idleFetchBytes
		if behind {
			reserve, ask = full, most
		}
		if err := l.s.budget.reserve(ctx, reserve); err != nil {
			return err
		}
		began := time.Now()
		l.ask()
		buf := l.buffer()
		f, err := l.s.fetch(ctx, l.topic, l.partition, at.Offset, ask, full, buf)
		if err == nil && (sure.IsZero() || f.next > at.Offset && time.Since(sure) > at.filled()) {
			err = l.recognize(ctx, &at)
		}
		if err != nil {
			l.recycle(buf, nil)
			l.s.budget.add(-reserve, 0)
			sure = time.Time{}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			switch {
			case errors.Is(err, kafkago.OffsetOutOfRange):
				err = l.outOfRange(ctx, &at, &trouble)
			case errors.Is(err, errAnew):
				err = l.anew(ctx, &at)
			}
			if err != nil && !l.troubled(ctx, err, &trouble) {
				return ctx.Err()
			}
			continue
		}
		l.recovered(&trouble)
		if most = min(2*most, l.s.opt.FetchBytes); f.cut { // the rest would come again
			most = min(max(f.used, idleFetchBytes), most)
		}
		l.s.budget.add(f.bytes-reserve, int64(len(f.messages)))
		moved := f.next > at.Offset
		if moved || sure.IsZero() {
			sure = began
		}
		// Where nothing came there is nothing to be had, whatever the end is said to be: markers, or what compaction left.
		behind = moved && f.end > f.next
		l.seen(f.next, f.high)
		end := time.Time{}
		if f.next >= f.high { // nothing is left of what was there when the request began
			end = began
		}
		switch {
		case moved || behind != told:
			at = at.after(f)
			if err := l.take(ctx, in, t, f, at, behind, end); err != nil {
				return err
			}
			told, ended = behind, end
		case end.Sub(ended) >= endEvery:
			ended = end
			if err := in.Take(ctx, &source.Batch{Lane: l.name, Ended: end, Wait: true}, t.refused); err != nil {
				return err
			}
			fallthrough
		default:
			l.recycle(f.buf, nil)
		}
		if !behind && !wait(ctx, pace-time.Since(began)) {
			return ctx.Err()
		}
	}
}

// ask notes that the partition's broker is asked.
func (l *lane) ask() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked.IsZero() {
		l.asked = time.Now()
	}
}

// seen notes its answer.
func (l *lane) seen(next, high int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readTo, l.high, l.asked = next, high, time.Time{}
}

// trouble is a time without answers.
type trouble struct {
	since  time.Time
	pause  time.Duration
	warned bool
	beyond time.Time // since when the offset has lain beyond the log's end
}

// troubled counts a failed request and waits; false if ctx has ended. Brokers that move and restart are nothing to wake anybody for.
func (l *lane) troubled(ctx context.Context, err error, t *trouble) bool {
	l.s.count(func(st *Stats) { st.FetchErrors++ })
	if t.since.IsZero() {
		t.since = time.Now()
	}
	lasted := time.Since(t.since)
	if lasted > l.s.opt.Patience/2 && !t.warned {
		t.warned = true
		l.log.Warn().Err(err).Stringer("lasted", lasted).Msg("kafka: no answer for a partition")
	} else {
		l.log.Debug().Err(err).Msg("kafka: no answer for a partition")
	}
	if lasted > l.s.opt.Patience {
		l.s.renew()
	}
	t.pause = min(max(2*t.pause, 100*time.Millisecond), 2*time.Second)
	return wait(ctx, t.pause)
}

func (l *lane) recovered(t *trouble) {
	if t.warned {
		l.log.Info().Stringer("lasted", time.Since(t.since)).Msg("kafka: the partition answers again")
	}
	*t = trouble{}
}

// outOfRange moves a position that the log does not have to where to continue.
func (l *lane) outOfRange(ctx context.Context, at *position, t *trouble) error {
	first, last, err := l.s.bounds(ctx, l.topic, l.partition)
	switch {
	case err != nil:
		return err
	case at.Offset < first:
		l.resume(at, first)
		return nil
	case at.Offset <= last:
		return fmt.Errorf("offset %d: %w, but the log goes from %d to %d", at.Offset, kafkago.OffsetOutOfRange, first, last)
	}
	// A leader of late may not know yet how far the log goes.
	if t.beyond.IsZero() {
		t.beyond = time.Now()
	}
	if time.Since(t.beyond) < l.s.opt.Patience {
		return fmt.Errorf("offset %d: %w, the log ends at %d", at.Offset, kafkago.OffsetOutOfRange, last)
	}
	l.resume(at, first)
	return nil
}

// anew moves the position to the beginning of a log that is not the one that was read.
func (l *lane) anew(ctx context.Context, at *position) error {
	first, _, err := l.s.bounds(ctx, l.topic, l.partition)
	if err == nil {
		l.resume(at, first)
	}
	return err
}

// resume moves the position to the first message that there is, and reports a gap.
func (l *lane) resume(at *position, first int64) {
	l.gap(Gap{Topic: l.topic, Partition: l.partition, From: at.Offset, To: first})
	*at = position{Offset: first}
}

func (l *lane) gap(g Gap) {
	l.s.count(func(st *Stats) { st.Gaps++ })
	l.log.Error().Int64("from", g.From).Int64("to", g.To).Msg("kafka: " + g.String())
	if l.s.opt.OnGap != nil {
		l.s.opt.OnGap(g)
	}
}
