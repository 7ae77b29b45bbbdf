package pipeline

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
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
// A request is known by its auditID, what it asked for, and when, and by its answer where several have all of that in common. It is in flight from its first event until what was judged of it is
// stored; the batches of all its events, and of events that come again meanwhile, are complete only then. The store remembers what it
// counted. So whatever is delivered again, and in whatever order, counts once, and what was acknowledged was counted.
//
// # When a request is judged
//
// News of the state, from the audit log itself or from a watch, may come a little after the request. A source that is behind has the
// next seconds of the log at hand: then a request waits until the log has advanced by the skew and a slack. Otherwise it waits for a
// moment of the clock. And where the state is live, it waits until that has caught up, up to a bound, after which it is judged and counted
// as judged early.
type Engine struct {
	opt     EngineOptions
	in      chan *delivery
	ops     chan func()
	stopped chan struct{}
	room    *room
	opens   atomic.Int64
	notes   notes
	figures figures

	// The rest is the loop's.
	sched   *scheduler
	parts   *partitions
	commits *committer
	pace    clockPace
	witness witness
	over    *overTime // nil without detectors
	ahead   ahead
	mode    string // as it was stored
	version string // likewise
}

// NewEngine returns an engine that knows what the store remembers.
func NewEngine(ctx context.Context, opt EngineOptions) (*Engine, error) {
	opt = opt.withDefaults()
	opt.Judge.Tallies = true
	e := &Engine{opt: opt, in: make(chan *delivery), ops: make(chan func()), stopped: make(chan struct{}), room: newRoom(opt.MaxBytes)}
	e.sched = &scheduler{
		judge: opt.Judge, judged: e.judged, act: func(r *request, do action) { r.claim(nil, do) }, lag: opt.Skew + opt.Slack,
		openFor: opt.OpenFor, maxPending: maxPending, follow: true, seen: newSeen(opt.MaxRequests / 2), inFlight: map[uint64]*request{},
	}
	e.parts = &partitions{open: map[string]*partition{}, sched: e.sched, room: e.room, dropped: e.part, frontiers: frontiers{after: opt.EndAfter}}
	if opt.Detectors != nil {
		e.over = newOverTime(e)
		e.parts.overTime = e.over.owed
	}
	e.witness = witness{ledger: opt.Ledger, judge: opt.Judge}
	e.commits = &committer{opt: &e.opt, parts: e.parts, witness: &e.witness, memory: e.remembered, ctx: ctx, results: make(chan error, 1)}
	e.pace = clockPace{opt: &e.opt, sched: e.sched, crowded: e.crowded}
	all, err := opt.Store.Memory(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading what the rules remember: %w", err)
	}
	e.restore(all)
	return e, nil
}

const (
	// maxPending bounds the requests whose response has not come.
	maxPending = 20_000
	// rememberedMode is the kind of memory in which the mode is stored.
	rememberedMode = "mode"
	// rememberedVersion is the kind in which the version that the log shows is stored.
	rememberedVersion = "version"
)

// restore puts back what is remembered of the whole log.
func (e *Engine) restore(all []tally.Remembered) {
	for i := range all {
		if all[i].Kind == rememberedMode {
			e.opt.Judge.Mode.Restore(all[i].Value)
			e.mode = string(all[i].Value)
		}
		if v := e.opt.Judge.Versions; v != nil && all[i].Kind == rememberedVersion {
			v.Restore(all[i].Value)
			e.version = string(all[i].Value)
		}
	}
}

// remembered is what has changed of what is remembered.
func (e *Engine) remembered(now time.Time, last bool) []tally.Remembered {
	var all []tally.Remembered
	if mode := string(e.opt.Judge.Mode.Save()); mode != e.mode {
		e.mode = mode
		all = append(all, tally.Remembered{Kind: rememberedMode, Value: []byte(mode)})
	}
	if v := e.opt.Judge.Versions; v != nil {
		if version := string(v.Save()); version != e.version && version != "" {
			e.version = version
			all = append(all, tally.Remembered{Kind: rememberedVersion, Value: []byte(version)})
		}
	}
	if e.opt.Remember != nil {
		all = append(all, e.opt.Remember(now, last)...)
	}
	return all
}

// Take implements source.Intake.
func (e *Engine) Take(ctx context.Context, b *source.Batch, done func(error)) error {
	d, err := e.room.admit(ctx, b, done, func() error { return e.do(ctx, func() error { return nil }) })
	if err != nil {
		return err
	}
	select {
	case e.in <- d:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-e.stopped:
		err = source.ErrClosed
	}
	e.room.giveBack(d)
	return err
}

// Announce implements source.Intake.
func (e *Engine) Announce(ctx context.Context, lanes []string) error {
	return e.opt.Store.Announce(ctx, lanes)
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
		if fence != 0 {
			e.restore(memory)
		}
		return e.openPartition(name, fence, stored)
	})
	return stored.Position, err
}

// openPartition is the loop's part of Open.
func (e *Engine) openPartition(name string, fence int64, stored *tally.Lane) error {
	if e.parts.open[name] != nil {
		return fmt.Errorf("%s was opened twice", name)
	}
	for _, is := range stored.Recent {
		e.parts.remember(is)
	}
	now := e.opt.Now()
	l := &partition{name: name, fence: fence, latest: stored.Latest, taken: now}
	e.parts.open[name] = l
	for i := range stored.Opened {
		e.parts.restore(l, &stored.Opened[i], now)
	}
	return nil
}

// Close implements source.Intake.
func (e *Engine) Close(name string) {
	done := make(chan struct{})
	err := e.do(context.Background(), func() error {
		if l := e.parts.open[name]; l != nil {
			e.commits.close(l, done)
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

// Run judges and stores until ctx ends. Then what was judged is stored, what waits is given up (its sources will bring it again), and
// Run returns nil. It must be called once.
func (e *Engine) Run(ctx context.Context) error {
	defer close(e.stopped)
	var giveUp context.CancelFunc
	e.commits.ctx, giveUp = context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	timer := time.NewTimer(0)
	defer timer.Stop()
	if e.over != nil {
		defer e.over.watch(ctx)()
	}
	for {
		select {
		case <-ctx.Done():
			defer time.AfterFunc(lastCommit, giveUp).Stop()
			err := e.commits.stop()
			e.figures.at = time.Time{} // how it ended is asked for when the rest has stopped
			e.tell(e.opt.Now())
			return err
		case d := <-e.in:
			e.take(d)
		case f := <-e.ops:
			f()
		case err := <-e.commits.results:
			e.commits.ended(err)
			e.figures.at = time.Time{} // whether commits fail is published at once, before what waits is judged
			e.tell(e.opt.Now())
		case <-timer.C:
		}
		now := e.opt.Now()
		next := e.drain(now)
		if e.over != nil {
			e.over.advance(now)
		}
		next = sooner(next, e.commits.begin(now))
		e.tell(now)
		wait := time.Hour
		if e.over != nil {
			wait = advanceEvery // in silence the detectors' time continues with the clock
		}
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(now), time.Millisecond))
		}
		timer.Reset(wait)
	}
}

// take takes a batch in.
func (e *Engine) take(d *delivery) {
	e.parts.take(d, e.opt.Now(), func(ev *audit.Event) {
		if e.opt.State != nil && audit.ChangesState(ev) {
			e.opt.State.ApplyRead(ev, nil)
		}
		e.witness.see(ev)
		if b, at := e.opt.Begins, timeOf(ev); b != nil && !at.IsZero() && (b.IsZero() || at.Before(*b)) {
			*b = at
		}
	})
}

// drain judges what is due, and returns when to look again.
func (e *Engine) drain(now time.Time) time.Time {
	e.pace.now = now
	e.pace.floor, e.pace.behind = e.parts.floor(now)
	next, _ := e.sched.drain(&e.pace) // judged has no errors
	return next
}

// judged keeps what of a judgement is to be stored.
func (e *Engine) judged(r *request, j *Judgement) (store bool, err error) {
	if e.opt.Judge.Early {
		e.figures.early++
	}
	if e.opt.Judged != nil {
		e.opt.Judged(j)
	}
	entry := j.Entry
	observation := e.observe(j, r.received)
	if !entry.IsCounted() && observation == nil {
		return false, nil
	}
	r.entry = entry.Own()
	r.entry.Observation = observation
	if entry.IsCounted() {
		r.bits |= storedBit
	}
	if e.opt.Line != nil && j.IsNode {
		r.line = e.opt.Line(j, nil)
	}
	return true, nil
}

// crowded reports whether requests cannot wait any longer: they keep too much memory, or what they wait for cannot come in without
// room and nothing that is judged will make any.
func (e *Engine) crowded() bool {
	if e.sched.bytes > e.opt.MaxBytes/4 {
		return true
	}
	if e.room.blocked.Load() == 0 || e.commits.under != nil {
		return false
	}
	for _, l := range e.parts.open {
		if len(l.batches) > 0 && l.batches[0].unjudged == 0 {
			return false
		}
	}
	return true
}

// figures are the engine's, as they were published last.
type figures struct {
	mu      sync.Mutex
	stats   EngineStats
	at      time.Time
	early   int64     // the loop's
	storing time.Time // since when the commit under way is stored, zero if none is
}

// Stats returns the figures of a moment ago.
func (e *Engine) Stats() EngineStats {
	e.figures.mu.Lock()
	defer e.figures.mu.Unlock()
	s := e.figures.stats
	s.Held = e.room.held.Load()
	if since := e.figures.storing; s.Failing.IsZero() && !since.IsZero() && e.opt.Now().Sub(since) > commitsWithin {
		s.Failing = since // a store that hangs returns no error
	}
	return s
}

// tell publishes the figures, not more often than anybody looks.
func (e *Engine) tell(now time.Time) {
	f := &e.figures
	if now.Sub(f.at) < 20*time.Millisecond && !now.Before(f.at) && e.sched.waiting.n > 0 {
		return
	}
	f.at = now
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.stats
	s.Waiting, s.Open, s.Oldest, s.Early = e.sched.waiting.n, e.sched.pending.n, time.Time{}, f.early
	s.Failures, s.Failing, s.GivenUp = e.commits.failures, e.commits.failing, e.commits.givenUp
	f.storing = time.Time{}
	if e.commits.running {
		f.storing = e.commits.began
	}
	older := func(t time.Time) {
		if !t.IsZero() && (s.Oldest.IsZero() || t.Before(s.Oldest)) {
			s.Oldest = t
		}
	}
	if r := e.sched.waiting.first; r != nil {
		older(r.received)
	}
	if c := e.commits.under; c != nil {
		for _, b := range c.batches {
			older(b.came)
		}
	}
	if d := e.opt.Detectors; d != nil {
		s.Late = d.Late()
	}
	s.Ahead = e.ahead.requests
	s.Lanes = s.Lanes[:0:0]
	for _, l := range e.parts.open {
		if len(l.batches) > 0 {
			older(l.batches[0].came)
		}
		s.Lanes = append(s.Lanes, LaneStats{Lane: l.name, Latest: l.latest, Behind: l.behind, Batches: len(l.batches)})
	}
}
