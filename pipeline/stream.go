package pipeline

import (
	"runtime"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// Batch is a run of events in the order of the log. Its events may alias its memory; the stream calls Release once no event of it
// is needed any more.
type Batch struct {
	Events []audit.Event
	// Looks are what [Stream.Look] returned for the events; nil has the stream look at them itself.
	Looks   []source.Look
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
	// Later counts those of node identities that come behind the window's end, of all stages.
	Later int64
}

// Window is the time whose requests are judged, from Since on and before Until; a zero end is open.
type Window struct{ Since, Until time.Time }

func (w Window) holds(t time.Time) bool {
	return (w.Since.IsZero() || !t.Before(w.Since)) && !w.endsBefore(t)
}

func (w Window) endsBefore(t time.Time) bool { return !w.Until.IsZero() && !t.Before(w.Until) }

// Stream puts requests in the order in which they can be judged. It is fed by one goroutine.
type Stream struct {
	state   StateSink
	witness witness
	opt     Options
	counts  Counts
	sched   scheduler
	batches int           // not released
	latest  time.Time     // of any event that was taken in
	ahead   time.Time     // of any event
	runs    []run         // that were not taken in
	fresh   int           // their events
	looks   []source.Look // at those of batches that had none
	ended   bool
	outs    []func(*Judgement) error
	slice   []*Judgement // judged, and not handed out
	errs    []error      // of outs
	team    team
}

// StateSink is fed the events that change the cluster's state.
type StateSink interface {
	// ReadAudit reads what ApplyRead will need of an event that tells of a change. It may be called concurrently, and changes nothing.
	ReadAudit(ev *audit.Event) *cluster.Read
	// ApplyRead takes in an event that tells of a change, with what ReadAudit returned or nil. It must not keep the event's memory.
	ApplyRead(ev *audit.Event, read *cluster.Read)
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
	// Sliced is called after each slice of judgements, when all who are given them have returned; nil for nothing.
	Sliced func()
	// Skew is how far around a request's time changes count.
	Skew time.Duration
	// Slack is how much later in the log than its time a change may stand. Default 2s.
	Slack time.Duration
	// MaxWaiting bounds the requests that wait. Default 65,536.
	MaxWaiting int
	// MaxBatches bounds the batches whose memory waiting requests hold. Default 28.
	MaxBatches int
	// MaxRequests is how many requests are remembered to tell duplicates and further stages. Default a million.
	MaxRequests int
	// MaxOpen bounds the requests of which only the first stage has come. Default 20,000.
	MaxOpen int
	// OpenFor is how long, in the log's time, such a request waits for its response. Default two minutes.
	OpenFor time.Duration
}

// NewStream returns a stream that feeds state (which may be nil) and gives each judgement to each of outs, in order; an error of one ends the stream.
// Several outs are called in parallel, from several goroutines, and so must have nothing in common that one of them changes. A judgement, and
// what it says of the state, lives until all have returned.
func NewStream(j *Judge, state StateSink, opt Options, outs ...func(*Judgement) error) *Stream {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&opt.MaxWaiting, 1<<16)
	def(&opt.MaxBatches, 28)
	def(&opt.MaxRequests, 1<<20)
	def(&opt.MaxOpen, 20_000)
	if opt.Slack == 0 {
		opt.Slack = 2 * time.Second
	}
	if opt.OpenFor == 0 {
		opt.OpenFor = 2 * time.Minute
	}
	s := &Stream{state: state, opt: opt, witness: witness{ledger: opt.Ledger, judge: j}, outs: outs, errs: make([]error, len(outs))}
	s.sched = scheduler{
		judge: j, lag: opt.Skew + opt.Slack, openFor: opt.OpenFor, maxPending: opt.MaxOpen, inLogOrder: true,
		seen: newSeen(opt.MaxRequests / 2), inFlight: map[uint64]*request{},
		judged: func(_ *request, j *Judgement) (bool, error) {
			if j.IsNode {
				s.counts.Judged++
			}
			s.slice = append(s.slice, j)
			return false, nil
		},
		sliced: s.handOut,
	}
	s.team.linger = lingerFor
	s.sched.bench.team = &s.team
	return s
}

// Counts returns what was counted so far.
func (s *Stream) Counts() Counts { return s.counts }

// Batch takes the next events of the log. They are taken in a slice at a time: nobody may have seen the latest of them before Flush.
func (s *Stream) Batch(b *Batch) error {
	s.batches++
	in := &memory{left: func() { s.batches-- }, release: b.Release}
	from := 0
	for i := range b.Events {
		if t := timeOf(&b.Events[i]); t.After(s.ahead) {
			s.ahead = t
		}
		if s.fresh++; s.fresh >= sliceEvents || s.ahead.Sub(s.latest) >= sliceSpan {
			s.runs = append(s.runs, run{events: b.Events[from : i+1], looks: b.looks(from, i+1), in: in})
			from = i + 1
			if err := s.drain(); err != nil {
				return err
			}
		}
	}
	if s.runs = append(s.runs, run{b.Events[from:], b.looks(from, len(b.Events)), in, true}); len(s.runs) >= sliceBatches {
		return s.drain()
	}
	return nil
}

// lingerFor is how often helpers give way, and look for further work: for some tenths of a millisecond if nothing else can run.
const lingerFor = 300

const (
	// sliceEvents is how many events change the state before requests are judged: enough for all cores to have some.
	sliceEvents = 4096
	// sliceSpan is the log's time after which they are judged in any case.
	sliceSpan = time.Second
	// sliceBatches bounds the batches that wait for that. Most of their events may have been of no use to anybody.
	sliceBatches = 4
)

// looks are those of some of the events.
func (b *Batch) looks(from, to int) []source.Look {
	if b.Looks == nil {
		return nil
	}
	return b.Looks[from:to]
}

// run is a part of a batch, in the order of the log.
type run struct {
	events []audit.Event
	looks  []source.Look // nil until they are looked at
	in     *memory
	last   bool // of its batch
}

// Look appends what each of the events tells by itself. It may be called concurrently with everything else.
func (s *Stream) Look(looks []source.Look, events []audit.Event) []source.Look {
	for i := range events {
		looks = append(looks, s.look(&events[i]))
	}
	return looks
}

func (s *Stream) look(ev *audit.Event) (look source.Look) {
	if s.state != nil && audit.ChangesState(ev) {
		if read := s.state.ReadAudit(ev); read != nil {
			look.Body = read
		}
	}
	if look.Needed = audit.Needed(ev, audit.Want{All: s.opt.All, Others: s.opt.Others}); !look.Needed {
		return look
	}
	u := ev.Effective()
	if _, look.Node = nodeid.Of(u.Username, u.Groups); ev.AuditID != "" {
		look.Key, look.Mark = s.sched.seen.hash(ev), s.sched.seen.markOf(ev)
	}
	return look
}

// intakes are those who take events in, in order. The state, the ledger and the requests that wait have nothing in common, so that they do it in parallel.
type intakes Stream

func (s *intakes) do(_, which int) {
	for i := range s.runs {
		switch r := &s.runs[i]; which {
		case 0:
			(*Stream)(s).apply(r)
		case 1:
			(*Stream)(s).see(r)
		case 2:
			(*Stream)(s).takeRun(r)
		}
	}
}

// apply feeds the state.
func (s *Stream) apply(r *run) {
	for i := range r.events {
		if ev := &r.events[i]; s.state != nil && audit.ChangesState(ev) {
			read, _ := r.looks[i].Body.(*cluster.Read)
			r.looks[i].Body = nil // the batch may live for long
			s.state.ApplyRead(ev, read)
		}
	}
}

// see shows the events to those who only look.
func (s *Stream) see(r *run) {
	for i := range r.events {
		s.witness.see(&r.events[i])
		if s.opt.See != nil {
			s.opt.See(&r.events[i])
		}
	}
}

// takeRun takes in the events of requests.
func (s *Stream) takeRun(r *run) {
	for i := range r.events {
		if i%share == 0 {
			s.sched.seen.fetch(r.looks[i:min(i+share, len(r.looks))])
		}
		if r.looks[i].Needed {
			s.take(&r.events[i], &r.looks[i], r.in)
		}
	}
}

// drain takes in what is fresh, and has judged what is due.
func (s *Stream) drain() error {
	procs := runtime.GOMAXPROCS(0)
	for i := range s.runs {
		if r := &s.runs[i]; r.looks == nil {
			n := len(s.looks)
			s.looks = s.Look(s.looks, r.events)
			r.looks = s.looks[n:]
		}
	}
	if s.fresh < 2*share {
		procs = 1
	}
	s.team.run(procs, 3, 1, (*intakes)(s))
	for _, r := range s.runs {
		if r.last {
			r.in.closed = true
			r.in.giveBack()
		}
	}
	clear(s.runs)
	s.runs, s.looks, s.fresh, s.latest = s.runs[:0], s.looks[:0], 0, s.ahead
	_, err := s.sched.drain((*logPace)(s))
	return err
}

// take takes in an event of a request.
func (s *Stream) take(ev *audit.Event, look *source.Look, in *memory) {
	if !s.opt.Window.holds(ev.RequestReceived) {
		s.counts.OutOfWindow++
		if look.Node && s.opt.Window.endsBefore(ev.RequestReceived) {
			s.counts.Later++
		}
		return
	}
	if look.Node {
		s.counts.Node++
	}
	a := arrival{key: look.Key, was: s.sched.find(look.Key), mark: look.Mark, ev: ev, in: in}
	if a.was.isOther(a.mark) {
		a.key = s.sched.seen.other(ev)
		a.was = s.sched.find(a.key)
	}
	if _, _, again := s.sched.arrive(&a); again {
		s.counts.Duplicates++
	}
}

// handOut gives the slice to all outs.
func (s *Stream) handOut() error {
	procs := runtime.GOMAXPROCS(0)
	if len(s.slice) < 2*share {
		procs = 1
	}
	s.team.run(procs, len(s.outs), 1, (*handing)(s))
	if s.slice = s.slice[:0]; s.opt.Sliced != nil {
		s.opt.Sliced()
	}
	for _, err := range s.errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// handing hands a slice out.
type handing Stream

func (s *handing) do(_, i int) {
	for _, j := range s.slice {
		if s.errs[i] = s.outs[i](j); s.errs[i] != nil {
			return
		}
	}
}

// Flush takes in and judges all that still waits: the log has ended.
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
