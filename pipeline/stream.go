package pipeline

import (
	"time"

	"github.com/nodetrail/nodetrail/audit"
)

// Batch is a run of events in the order of the log. Its events may alias its memory; the stream calls Release once no event of it
// is needed any more.
type Batch struct {
	Events  []audit.Event
	Release func()
	pending int
	closed  bool
}

// Counts are the stream's own counts of requests and events.
type Counts struct {
	// Node counts events of node identities, of all stages.
	Node int64
	// Judged counts requests of node identities that were given a verdict.
	Judged int64
	// Duplicates counts events that came again: the same request and stage.
	Duplicates int64
	// OutOfWindow counts events of requests outside of the window.
	OutOfWindow int64
}

// Window is the time whose requests are judged, from Since on and before Until; a zero end is open.
type Window struct{ Since, Until time.Time }

func (w Window) holds(t time.Time) bool {
	return (w.Since.IsZero() || !t.Before(w.Since)) && (w.Until.IsZero() || t.Before(w.Until))
}

// Stream puts requests in the order in which they can be judged. It is fed by one goroutine.
type Stream struct {
	judge *Judge
	state StateSink
	out   func(*Judgement) error
	opt   Options

	counts  Counts
	seen    *seen
	queue   []waiting // in the order of the log, from head on
	head    int
	batches int // not released
	latest  time.Time
	open    map[uint64]*opened // requests of which only the beginning was logged
	opening []uint64           // in their order
}

// StateSink is fed the events that change the cluster's state.
type StateSink interface {
	// ApplyAudit takes in an event that tells of a change. It must not keep the event's memory.
	ApplyAudit(ev *audit.Event)
}

// Options of a stream. The zero value of each means its default.
type Options struct {
	// Window limits which requests are judged; state is taken from all events.
	Window Window
	// Skew is how far around a request's time changes count.
	Skew time.Duration
	// Slack is how much later in the log than its time a change may stand. Default 2s.
	Slack time.Duration
	// MaxWaiting bounds the requests that wait. Default 65,536.
	MaxWaiting int
	// MaxBatches bounds the batches whose memory waiting requests hold. Default 64.
	MaxBatches int
	// MaxRequests is how many requests are remembered to tell duplicates and further stages. Default a million.
	MaxRequests int
	// MaxOpen bounds the requests of which only the first stage has come. Default 20,000.
	MaxOpen int
	// OpenFor is how long, in the log's time, such a request waits for its response. Default two minutes.
	OpenFor time.Duration
}

type waiting struct {
	ev    *audit.Event
	batch *Batch // nil for an event that is its own
	due   time.Time
}

type opened struct {
	ev    *audit.Event
	until time.Time
}

// NewStream returns a stream that feeds state (which may be nil) and gives each judgement to out, whose error ends the stream.
func NewStream(j *Judge, state StateSink, opt Options, out func(*Judgement) error) *Stream {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&opt.MaxWaiting, 1<<16)
	def(&opt.MaxBatches, 64)
	def(&opt.MaxRequests, 1<<20)
	def(&opt.MaxOpen, 20_000)
	if opt.Slack == 0 {
		opt.Slack = 2 * time.Second
	}
	if opt.OpenFor == 0 {
		opt.OpenFor = 2 * time.Minute
	}
	return &Stream{
		judge: j, state: state, out: out, opt: opt,
		seen: newSeen(opt.MaxRequests / 2), open: map[uint64]*opened{},
	}
}

// Counts returns what was counted so far.
func (s *Stream) Counts() Counts { return s.counts }

// Batch takes in the next events of the log.
func (s *Stream) Batch(b *Batch) error {
	s.batches++
	for i := range b.Events {
		ev := &b.Events[i]
		if s.state != nil && audit.ChangesState(ev) {
			s.state.ApplyAudit(ev)
		}
		if audit.Needed(ev, audit.Want{}) {
			s.take(ev, b)
		}
		if t := timeOf(ev); t.After(s.latest) {
			s.latest = t
		}
		if err := s.drain(false); err != nil {
			return err
		}
	}
	b.closed = true
	s.release(b)
	return s.drain(false)
}

// take queues a request unless it was judged already, or waits for its response.
func (s *Stream) take(ev *audit.Event, b *Batch) {
	if !s.opt.Window.holds(ev.RequestReceived) {
		s.counts.OutOfWindow++
		return
	}
	u := ev.Effective()
	if _, isNode := audit.NodeIdentity(u.Username, u.Groups); isNode {
		s.counts.Node++
	}
	if ev.AuditID != "" && !s.first(ev) {
		return
	}
	b.pending++
	s.queue = append(s.queue, waiting{ev: ev, batch: b, due: timeOf(ev).Add(s.opt.Skew + s.opt.Slack)})
}

// first reports whether this event is the one by which its request is to be judged.
func (s *Stream) first(ev *audit.Event) bool {
	h := s.seen.hash(ev)
	bits := s.seen.get(h)
	if bits&stageBit(ev.Stage) != 0 {
		s.counts.Duplicates++
		return false
	}
	was := bits
	bits |= stageBit(ev.Stage)
	if was&judgedBit == 0 && ev.Stage == audit.StageRequestReceived {
		s.seen.set(h, bits)
		s.hold(h, ev)
		return false
	}
	s.seen.set(h, bits|judgedBit)
	delete(s.open, h)
	return was&judgedBit == 0
}

// timeOf is where in the log's time an event stands.
func timeOf(ev *audit.Event) time.Time {
	if ev.StageTime.IsZero() {
		return ev.RequestReceived
	}
	return ev.StageTime
}

// hold keeps a request's first stage until its response comes, which has the apiserver's word.
func (s *Stream) hold(h uint64, ev *audit.Event) {
	if len(s.open) >= s.opt.MaxOpen {
		s.expireOne()
	}
	s.open[h] = &opened{ev: ev.Clone(), until: timeOf(ev).Add(s.opt.OpenFor)}
	s.opening = append(s.opening, h)
}

// expireOne queues the oldest request whose response has not come.
func (s *Stream) expireOne() {
	for len(s.opening) > 0 {
		h := s.opening[0]
		s.opening = s.opening[1:]
		if o := s.open[h]; o != nil {
			delete(s.open, h)
			s.seen.set(h, s.seen.get(h)|judgedBit)
			s.queue = append(s.queue, waiting{ev: o.ev})
			return
		}
	}
}

// drain judges what is due: the log has gone on far enough, or too much waits.
func (s *Stream) drain(all bool) error {
	for len(s.opening) > 0 {
		o := s.open[s.opening[0]]
		if o == nil {
			s.opening = s.opening[1:]
			continue
		}
		if !all && o.until.After(s.latest) {
			break
		}
		s.expireOne()
	}
	undecided := !s.judge.Mode.Decided()
	for s.head < len(s.queue) {
		n := len(s.queue) - s.head
		full := n > s.opt.MaxWaiting || s.batches > s.opt.MaxBatches
		w := &s.queue[s.head]
		if !all && !full && w.due.After(s.latest) {
			break
		}
		if undecided {
			if !all && !full && n < decideAfter {
				break
			}
			s.decide()
			undecided = false
		}
		if err := s.one(w); err != nil {
			return err
		}
	}
	if s.head > 4096 && s.head*2 > len(s.queue) {
		n := copy(s.queue, s.queue[s.head:])
		clear(s.queue[n:])
		s.queue, s.head = s.queue[:n], 0
	}
	return nil
}

// decide lets the mode see everything that waits before the first judgement depends on it.
func (s *Stream) decide() {
	silent := *s.judge
	silent.Rules = nil
	for i := s.head; i < len(s.queue) && !s.judge.Mode.Decided(); i++ {
		silent.Judge(s.queue[i].ev)
	}
	s.judge.Mode.settle()
}

func (s *Stream) one(w *waiting) error {
	j := s.judge.Judge(w.ev)
	if j.IsNode {
		s.counts.Judged++
	}
	err := s.out(j)
	if w.batch != nil {
		w.batch.pending--
		s.release(w.batch)
	}
	*w = waiting{}
	s.head++
	return err
}

func (s *Stream) release(b *Batch) {
	if !b.closed || b.pending > 0 {
		return
	}
	s.batches--
	if b.Release != nil {
		b.Release()
	}
}

// Flush judges all that still waits: the log has ended.
func (s *Stream) Flush() error { return s.drain(true) }
