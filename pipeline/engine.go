package pipeline

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// Engine judges what sources give it, stores what that adds up to, and only then lets the sources acknowledge. It is the stream of the
// command run, as [Stream] is that of analyze.
//
// One goroutine (Run) takes in events, judges and keeps account; another one commits. Engine implements [source.Intake], whose methods
// may be called from any goroutine while Run runs.
//
// # What counts once
//
// A request is known by its auditID, what it asked for, and when. It is in flight from its first event until what was judged of it is
// stored; the batches of all its events, and of events that come again meanwhile, are complete only then. The store remembers what it
// counted. So whatever is delivered again, and in whatever order, counts once, and what was acknowledged was counted.
//
// # When a request is judged
//
// News of the state, from the audit log itself or from a watch, may come a little after the request. A source that is behind has the
// next seconds of the log at hand: then a request waits until the log has gone on by the skew and a slack. Otherwise it waits for a
// moment of the clock. And where the state is live, it waits until that has caught up, up to a bound, after which it is judged and counted
// as judged early.
type Engine struct {
	opt     EngineOptions
	in      chan *delivery
	ops     chan func()
	results chan error
	stopped chan struct{}
	// What waits is bounded apart for sources that wait and those that are told to come again: neither starves the other.
	patient, urgent *semaphore.Weighted
	held, blocked   atomic.Int64
	opens           atomic.Int64
	// commits is the commits' context: what was judged is still stored when the engine is asked to stop, for a while.
	commits context.Context

	// The rest is the loop's.
	lanes    map[string]*lane
	inflight map[tally.ID]*request
	seen     *seen
	queue    requestHeap
	byAge    []*request // in the order of arrival, with those that were judged
	opened   []*request // in the order of arrival, with those whose response came
	waiting  int64      // bytes that the requests in queue keep
	seq      uint64
	first    time.Time // when the first of those that wait for the mode came
	entries  Entries
	mode     string // as it was stored
	stopping bool
	observed time.Time // when a request was shown to the detectors last
	// lastFacts says that the engine stops and the facts are to be stored once more.
	lastFacts bool

	commit     *commit // under way, or to be tried again
	committing bool
	retryAt    time.Time
	retries    int
	nextCommit time.Time
	nextFacts  time.Time
	closing    []closing

	noting sync.Mutex
	notes  bool // noteLane is open

	told  time.Time
	mu    sync.Mutex
	stats EngineStats
}

// EngineOptions are what an Engine works with. Judge and Store are needed; the zero value of the others means the default.
type EngineOptions struct {
	Judge *Judge
	Store tally.Store
	// Detectors are given what is judged; nil for none. What they find of a rule that is not among the Judge's is dropped.
	Detectors *rules.Detectors
	// State is fed the events that change it; nil if the audit log is not to tell.
	State StateSink
	// CaughtUp reports whether the state knows everything up to t; nil if it always does.
	CaughtUp func(t time.Time) bool
	// Stored is told of each commit, from the goroutine that commits, which waits for it.
	Stored func(*Stored)
	// Line makes the verdict line of a judgement, appended to b; nil for none.
	Line func(j *Judgement, b []byte) []byte
	// Facts makes what a report needs to know beside the counts, as JSON; called every five seconds, from the loop.
	Facts    func() []byte
	Instance string

	// Skew is how far around a request's time changes count.
	Skew time.Duration
	// Slack is how much later in the log than its time a change may stand. Default 2s.
	Slack time.Duration
	// Settle is how long after a request, and after its coming in, news of the state may still come. Default 500ms.
	Settle time.Duration
	// WaitAtMost bounds how long a request waits for the state. Default 30s.
	WaitAtMost time.Duration
	// OpenFor is how long a request whose beginning alone was logged waits for its response. Default two minutes.
	OpenFor time.Duration
	// CommitEvery is how long at least goes by between commits. Default 100ms.
	CommitEvery time.Duration
	// MaxBytes bounds about how much memory the events keep that were taken in and not stored. Default 128 MiB.
	MaxBytes int64
	// MaxRequests is how many stored requests are remembered to tell duplicates without asking the store. Default a million.
	MaxRequests int
	// Now is the clock, time.Now if nil.
	Now func() time.Time
	Log zerolog.Logger
}

// Stored is a commit that was stored.
type Stored struct {
	// Entries are what was judged, those with Duplicate set included, which were stored before.
	Entries []tally.Entry
	// Received are the times at which the entries' requests came in.
	Received []time.Time
	// Lines are the verdict lines of the entries.
	Lines [][]byte
	// Lanes tells of each lane what its completed batches held.
	Lanes []StoredLane
	// At is when the commit was done, Took how long it took.
	At   time.Time
	Took time.Duration
}

// StoredLane is a lane's part of a commit.
type StoredLane struct {
	Lane   string
	Counts audit.Counts
	Events tally.Events
	Latest time.Time
}

// EngineStats are an engine's figures at a moment.
type EngineStats struct {
	// Waiting counts the requests that wait to be judged, Open those whose response has not come, Held the bytes of all that is not stored.
	Waiting, Open int
	Held          int64
	// Early counts requests that were judged although the state had not caught up.
	Early int64
	// Late counts requests that came too late for the detectors.
	Late int64
	// Failures counts commits that failed, Failing says since when they do; zero if they do not.
	Failures int64
	Failing  time.Time
	// Oldest is the time of coming in of the oldest request that waits, zero if none does.
	Oldest time.Time
	Lanes  []LaneStats
}

// LaneStats are one lane's.
type LaneStats struct {
	Lane   string
	Latest time.Time
	Behind bool
	// Batches counts those that are not stored.
	Batches int
}

type delivery struct {
	b    *source.Batch
	done func(error)
	cost int64
	sem  *semaphore.Weighted
}

type closing struct {
	lane *lane
	done chan struct{}
}

const (
	// behindBy is how far behind the clock the events of a source must be for the log's time to count instead of it.
	behindBy = 10 * time.Second
	// stalledAfter is after how long without a batch a source that was behind is no longer waited for.
	stalledAfter = 5 * time.Second
	// lastCommit is how long the last commit may take when the engine stops.
	lastCommit = 15 * time.Second
	// decideFor is how long requests wait for the mode to be told by more of them.
	decideFor = 5 * time.Second
)

// NewEngine returns an engine that knows what the store remembers.
func NewEngine(ctx context.Context, opt EngineOptions) (*Engine, error) {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&opt.Slack, 2*time.Second)
	def(&opt.Settle, 500*time.Millisecond)
	def(&opt.WaitAtMost, 30*time.Second)
	def(&opt.OpenFor, 2*time.Minute)
	def(&opt.CommitEvery, 100*time.Millisecond)
	if opt.MaxBytes <= 0 {
		opt.MaxBytes = 128 << 20
	}
	if opt.MaxRequests <= 0 {
		opt.MaxRequests = 1 << 20
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	e := &Engine{
		opt: opt, in: make(chan *delivery), ops: make(chan func()), results: make(chan error, 1), stopped: make(chan struct{}),
		patient: semaphore.NewWeighted(opt.MaxBytes / 2), urgent: semaphore.NewWeighted(opt.MaxBytes / 2),
		lanes: map[string]*lane{}, inflight: map[tally.ID]*request{}, seen: newSeen(opt.MaxRequests / 2),
	}
	all, err := opt.Store.Memory(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading what the rules remember: %w", err)
	}
	if opt.Detectors != nil {
		stored, err := opt.Store.Acquire(ctx, noteLane, 0, 0)
		if err == nil {
			err = e.openLane(noteLane, 0, stored)
		}
		if err != nil {
			return nil, fmt.Errorf("opening the lane of what is found over time: %w", err)
		}
		e.notes = true
	}
	return e, e.restore(all)
}

// restore puts back what is remembered.
func (e *Engine) restore(all []tally.Remembered) error {
	for i := range all {
		if all[i].Kind == rememberedMode {
			e.opt.Judge.Mode.Restore(all[i].Value)
			e.mode = string(all[i].Value)
		}
	}
	if d := e.opt.Detectors; d != nil {
		return d.Restore(all)
	}
	return nil
}

// Take implements source.Intake.
func (e *Engine) Take(ctx context.Context, b *source.Batch, done func(error)) error {
	d := &delivery{b: b, done: done, sem: e.urgent, cost: max(int64(b.Bytes), int64(1024*len(b.Events)), 1)}
	d.cost = min(d.cost, e.opt.MaxBytes/2)
	if b.Wait {
		d.sem = e.patient
		if err := e.acquire(ctx, d); err != nil {
			return err
		}
	} else if !d.sem.TryAcquire(d.cost) {
		return source.ErrBusy
	}
	e.held.Add(d.cost)
	var err error
	select {
	case e.in <- d:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-e.stopped:
		err = source.ErrClosed
	}
	e.giveBack(d)
	return err
}

// acquire waits for room, and lets the loop know that somebody does.
func (e *Engine) acquire(ctx context.Context, d *delivery) error {
	if d.sem.TryAcquire(d.cost) {
		return nil
	}
	e.blocked.Add(1)
	defer e.blocked.Add(-1)
	// The loop may be asleep, with requests that wait for what cannot come in.
	if err := e.do(ctx, func() error { return nil }); err != nil {
		return err
	}
	return d.sem.Acquire(ctx, d.cost)
}

func (e *Engine) giveBack(d *delivery) {
	e.held.Add(-d.cost)
	d.sem.Release(d.cost)
}

// Open implements source.Intake.
func (e *Engine) Open(ctx context.Context, name string, fence int64) (string, error) {
	recent := 0
	if e.opens.Add(1) == 1 { // those of all lanes
		recent = e.opt.MaxRequests / 4
	}
	stored, err := e.opt.Store.Acquire(ctx, name, fence, recent)
	if err != nil {
		return "", err
	}
	var memory []tally.Remembered
	if fence != 0 { // another process may have judged what this lane held until now
		if memory, err = e.opt.Store.Memory(ctx); err != nil {
			return "", fmt.Errorf("reading what the rules remember: %w", err)
		}
	}
	err = e.do(ctx, func() error {
		if err := e.restore(memory); err != nil {
			e.opt.Log.Warn().Err(err).Msg("some of what the rules remembered is lost")
		}
		return e.openLane(name, fence, stored)
	})
	return stored.Position, err
}

// Close implements source.Intake.
func (e *Engine) Close(name string) {
	done := make(chan struct{})
	err := e.do(context.Background(), func() error {
		if l := e.lanes[name]; l != nil {
			e.closeLane(l, done)
		} else {
			close(done)
		}
		return nil
	})
	if err != nil {
		return // stopped, and everything is closed
	}
	select {
	case <-done:
	case <-e.stopped:
	}
}

// do runs f in the loop.
func (e *Engine) do(ctx context.Context, f func() error) error {
	result := make(chan error, 1)
	select {
	case e.ops <- func() { result <- f() }:
		return <-result
	case <-ctx.Done():
		return ctx.Err()
	case <-e.stopped:
		return source.ErrClosed
	}
}

// Do runs f where nothing else touches the judge and the state's feeding, between two events. It returns when f did, or with
// source.ErrClosed when the engine has stopped.
func (e *Engine) Do(ctx context.Context, f func()) error {
	return e.do(ctx, func() error { f(); return nil })
}

// Stats returns the figures of a moment ago.
func (e *Engine) Stats() EngineStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Held = e.held.Load()
	return s
}

// Run judges and stores until ctx ends. Then what was judged is stored, what waits is given up (its sources will bring it again), and
// Run returns nil. It must be called once.
func (e *Engine) Run(ctx context.Context) error {
	defer close(e.stopped)
	var giveUp context.CancelFunc
	e.commits, giveUp = context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			defer time.AfterFunc(lastCommit, giveUp).Stop()
			return e.stop()
		case d := <-e.in:
			e.take(d)
		case f := <-e.ops:
			f()
		case err := <-e.results:
			e.committed(err)
		case <-timer.C:
		}
		now := e.opt.Now()
		next := e.drain(now)
		e.detect(now)
		if at := e.startCommit(now); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
		e.tell(now)
		wait := time.Hour
		if e.opt.Detectors != nil {
			wait = rules.DetectStep // in silence their time goes on with the clock
		}
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(now), time.Millisecond))
		}
		timer.Reset(wait)
	}
}

// tell publishes the figures, not more often than anybody looks.
func (e *Engine) tell(now time.Time) {
	if now.Sub(e.told) < 20*time.Millisecond && !now.Before(e.told) && len(e.queue) > 0 {
		return
	}
	e.told = now
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &e.stats
	s.Waiting, s.Open, s.Oldest = len(e.queue), e.openCount(), time.Time{}
	if r := e.oldest(); r != nil {
		s.Oldest = r.received
	}
	if d := e.opt.Detectors; d != nil {
		s.Late = d.Late()
	}
	s.Lanes = s.Lanes[:0:0]
	for _, l := range e.lanes {
		s.Lanes = append(s.Lanes, LaneStats{Lane: l.name, Latest: l.latest, Behind: l.behind, Batches: len(l.batches)})
	}
}
