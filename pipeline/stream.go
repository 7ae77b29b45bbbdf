package pipeline

import (
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// Batch is a run of events in the order of the log. Its events may alias its memory; the stream calls Release once no event of it
// is needed any more.
type Batch struct {
	Events  []audit.Event
	Release func()
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
	state   StateSink
	witness witness
	opt     Options
	counts  Counts
	sched   scheduler
	batches int       // not released
	latest  time.Time // of any event
	ended   bool
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
	// Ledger is shown every event, those outside of the window, too; nil for none.
	Ledger *evidence.Ledger
	// All has requests of everybody judged, not only those of nodes and of what may be one.
	All bool
	// Others has the requests of these users and groups judged, too.
	Others *audit.Subjects
	// See is shown every event, which it must not keep; nil for nobody.
	See func(*audit.Event)
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
	s := &Stream{state: state, opt: opt, witness: witness{ledger: opt.Ledger, judge: j}}
	s.sched = scheduler{
		judge: j, lag: opt.Skew + opt.Slack, openFor: opt.OpenFor, maxPending: opt.MaxOpen, inLogOrder: true,
		seen: newSeen(opt.MaxRequests / 2), inFlight: map[uint64]*request{},
		judged: func(_ *request, j *Judgement) (bool, error) {
			if j.IsNode {
				s.counts.Judged++
			}
			return false, out(j)
		},
	}
	return s
}

// Counts returns what was counted so far.
func (s *Stream) Counts() Counts { return s.counts }

// Batch takes in the next events of the log.
func (s *Stream) Batch(b *Batch) error {
	s.batches++
	in := &memory{release: func() {
		s.batches--
		if b.Release != nil {
			b.Release()
		}
	}}
	for i := range b.Events {
		ev := &b.Events[i]
		if s.state != nil && audit.ChangesState(ev) {
			s.state.ApplyAudit(ev)
		}
		s.witness.see(ev)
		if s.opt.See != nil {
			s.opt.See(ev)
		}
		if audit.Needed(ev, audit.Want{All: s.opt.All, Others: s.opt.Others}) {
			s.take(ev, in)
		}
		if t := timeOf(ev); t.After(s.latest) {
			s.latest = t
		}
		if err := s.drain(); err != nil {
			return err
		}
	}
	in.closed = true
	in.giveBack()
	return s.drain()
}

// take takes in an event of a request.
func (s *Stream) take(ev *audit.Event, in *memory) {
	if !s.opt.Window.holds(ev.RequestReceived) {
		s.counts.OutOfWindow++
		return
	}
	u := ev.Effective()
	if _, isNode := nodeid.Of(u.Username, u.Groups); isNode {
		s.counts.Node++
	}
	a := arrival{ev: ev, in: in}
	if ev.AuditID != "" {
		a.key = s.sched.seen.hash(ev)
	}
	if _, _, again := s.sched.arrive(&a); again {
		s.counts.Duplicates++
	}
}

func (s *Stream) drain() error {
	_, err := s.sched.drain((*logPace)(s))
	return err
}

// Flush judges all that still waits: the log has ended.
func (s *Stream) Flush() error {
	s.ended = true
	return s.drain()
}

// logPace is the pace of a finished log: its own time counts, and bounds on what waits.
type logPace Stream

func (p *logPace) crowded() bool {
	return p.sched.waiting.n > p.opt.MaxWaiting || p.batches > p.opt.MaxBatches
}

func (p *logPace) expired(r *request) (bool, time.Time) {
	return p.ended || !r.until.After(p.latest), time.Time{}
}

func (p *logPace) ready(r *request) (ready, early bool, again time.Time) {
	return p.ended || !r.due.After(p.latest) || p.crowded(), false, time.Time{}
}

func (p *logPace) settled() (bool, time.Time) { return p.ended || p.crowded(), time.Time{} }
