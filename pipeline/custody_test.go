package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// driver does what an engine's loop does, but one step at a time and without goroutines, so that all can be looked at in between: what waits for
// what, what is counted where, what was acknowledged.
type driver struct {
	t       *testing.T
	store   *modelStore
	clock   *fakeClock
	e       *Engine
	held    map[*delivery]bool
	judged  map[string]int // how often, by auditID and code
	allowed map[string]int // how often it may be, beyond once
	fence   int64
	trace   []string
}

var driverLanes = []string{"file:a", "file:b", "kafka:c/0", "webhook:w"}

func newDriver(t *testing.T) *driver {
	d := &driver{t: t, store: newModelStore(), clock: newFakeClock()}
	d.restart()
	return d
}

func (d *driver) restart() {
	killed := false
	d.held, d.judged, d.allowed = map[*delivery]bool{}, map[string]int{}, map[string]int{}
	e, err := NewEngine(d.t.Context(), EngineOptions{
		Judge: judgeOf(d.t, cluster.NewState(), "Node,RBAC"), Store: process{d.store, &killed}, Skew: 150 * time.Millisecond, Log: zerolog.Nop(),
		Now: d.clock.now, Settle: 200 * time.Millisecond, OpenFor: 20 * time.Second, MaxBytes: 256 << 10, MaxRequests: 1 << 12,
		Ledger: evidence.New(),
		Line: func(j *Judgement, _ []byte) []byte {
			d.judged[fmt.Sprint(j.Event.AuditID, " ", j.Event.Code)]++
			return nil
		},
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.e = e
}

func (d *driver) fail(format string, args ...any) {
	d.t.Helper()
	d.t.Fatalf("%s\nafter %q", fmt.Sprintf(format, args...), d.trace)
}

// open opens the lane unless it is open.
func (d *driver) open(name string) {
	if d.e.parts.open[name] != nil {
		return
	}
	stored, err := d.e.opt.Store.Acquire(d.t.Context(), name, d.fence, 0)
	if err == nil {
		err = d.e.openPartition(name, d.fence, stored)
	}
	if err != nil {
		d.fail("opening %s: %v", name, err)
	}
}

// take gives events to the lane, whose memory is overwritten when it is given back.
func (d *driver) take(name, position string, behind bool, all []operation) {
	d.open(name)
	var text bytes.Buffer
	for _, o := range all {
		text.WriteString(o.line() + "\n")
	}
	buf := text.Bytes()
	b := &source.Batch{
		Lane: name, Position: position, Behind: behind, Received: d.clock.now(), Bytes: len(buf),
		Release: func() {
			for i := range buf {
				buf[i] = 'X'
			}
		},
	}
	b.Counts = (&audit.Decoder{}).Chunk(buf, 1, func(ev *audit.Event) { b.Events = append(b.Events, *ev) }, func(bad audit.Malformed) { d.t.Fatal(bad) })
	var del *delivery
	del, err := d.e.room.admit(d.t.Context(), b, func(err error) {
		if !d.held[del] {
			d.fail("a batch ended twice")
		}
		delete(d.held, del)
		for _, o := range all {
			if err == nil && !d.store.stored(o) {
				d.fail("the batch is acknowledged, %s of %d is not stored", o.stage, o.id)
			}
			if err == nil && !d.store.witnessed(o) {
				d.fail("the batch is acknowledged, the evidence of %d is not stored", o.id)
			}
		}
	}, nil)
	if errors.Is(err, source.ErrBusy) {
		return
	}
	if err != nil {
		d.fail("%v", err)
	}
	d.held[del] = true
	d.e.take(del)
}

// losing does something by which requests may be forgotten, which are then judged again if they come again.
func (d *driver) losing(f func()) {
	before := map[*request]bool{}
	for _, r := range d.e.sched.inFlight {
		before[r] = true
	}
	f()
	for r := range before {
		if r.state == stateUnknown {
			for id := range twins {
				if (operation{id, began}).request().ID == r.is.ID {
					d.allowed[operation{id: id}.auditID()]++
				}
			}
		}
	}
}

// beginCommit and endCommit are the two ends of a commit.
func (d *driver) beginCommit() {
	k := d.e.commits
	if k.under == nil {
		k.under = k.gather(d.clock.now())
	}
	k.running = k.under != nil
}

func (d *driver) endCommit(how int) {
	k := d.e.commits
	if !k.running {
		return
	}
	var err error
	switch lanes := k.under.c.Lanes; {
	case how == 0:
		err = errors.New("no space left on device")
	case how <= 2 && len(lanes) > 0: // others have taken over one or two lanes
		d.fence++
		for i := range min(how, len(lanes)) {
			d.store.lanes[lanes[(how+i)%len(lanes)].Lane].Fence = d.fence
		}
		fallthrough
	default:
		if err = d.e.opt.Store.Commit(d.t.Context(), &k.under.c); err == nil {
			k.under.report(d.clock.now(), d.clock.now())
		}
	}
	d.losing(func() { k.ended(err) })
}

// check holds all that is counted against what it counts.
func (d *driver) check() {
	s := d.e.sched
	var pendings, waitings int
	var keeps int64
	inLine, waits, using := map[*request]int{}, map[*batch]int{}, map[*memory]int{}
	for _, l := range d.e.parts.open {
		for _, r := range l.judged {
			if inLine[r]++; r.part != l {
				d.fail("a request is in line to be stored by a partition that is not its own")
			}
		}
	}
	for key, r := range s.inFlight {
		if r.key != key || !r.state.isInFlight() {
			d.fail("a request in state %d is kept", r.state)
		}
		if (r.ev != nil) != (r.state.isPending() || r.state.isWaiting()) {
			d.fail("a request in state %d keeps its event, or does not", r.state)
		}
		under := d.e.commits.under
		if r.part.gone != nil && !(r.state.isStoring() && under.has(r.part)) && !(r.state.isSaving() && under.has(r.keeper)) {
			d.fail("a request in state %d is of a partition that was lost", r.state)
		}
		if (r.keeper != nil) != (r.state.isSaving() || r.state.isSaved()) && !(r.state == stateStoring && r.keeper == nil) {
			d.fail("a request in state %d has a keeper, or has none", r.state)
		}
		if (inLine[r] == 1) != (r.state.isJudged() && r.part.gone == nil) {
			d.fail("a request in state %d is %d times in line to be stored", r.state, inLine[r])
		}
		if r.state.isPending() {
			pendings++
		}
		if r.state.isWaiting() {
			waitings++
			keeps += r.bytes
		}
		if r.in != nil {
			using[r.in]++
		}
		if r.state == statePending || r.state.isWaiting() {
			for _, b := range r.batches {
				if !b.complete {
					waits[b]++
				}
			}
		}
	}
	if s.pending.n != pendings || s.waiting.n != waitings || len(s.queue.run)-s.queue.head+len(s.queue.late) != waitings || s.bytes != keeps {
		d.fail("%d pending and %d waiting with %d bytes, but %d, %d and %d are counted, and %d queued", pendings, waitings, keeps, s.pending.n,
			s.waiting.n, s.bytes, len(s.queue.run)-s.queue.head+len(s.queue.late))
	}
	for _, l := range d.e.parts.open {
		for _, b := range l.batches {
			if b.unjudged != waits[b] || b.memory.using != using[&b.memory] {
				d.fail("a batch waits for %d requests, %d are counted; %d are in its memory, %d are counted", waits[b], b.unjudged,
					using[&b.memory], b.memory.using)
			}
			if !d.held[b.d] {
				d.fail("a batch is kept that has ended")
			}
		}
	}
	var held int64
	for del := range d.held {
		held += del.cost
	}
	if got := d.e.room.held.Load(); got != held {
		d.fail("batches hold %d bytes, %d are counted", held, got)
	}
	for id, n := range d.judged {
		auditID, _, _ := strings.Cut(id, " ")
		if n > 1+d.allowed[auditID] {
			d.fail("%s was judged %d times, and forgotten %d times", id, n, d.allowed[auditID])
		}
	}
}

// step does one thing.
func (d *driver) step(rnd *rand.Rand) {
	name := driverLanes[rnd.IntN(len(driverLanes))]
	op := rnd.IntN(20)
	d.trace = append(d.trace, fmt.Sprint(op, name))
	switch {
	case op < 8:
		var all []operation
		for range 1 + rnd.IntN(4) {
			o := operation{id: rnd.IntN(2 * twins), stage: ended}
			if rnd.IntN(2) == 0 {
				o.stage = began
			}
			all = append(all, o)
		}
		position := ""
		if name != "webhook:w" {
			position = fmt.Sprint(len(d.trace))
		}
		d.take(name, position, rnd.IntN(4) == 0, all)
	case op < 11:
		d.clock.advance([]time.Duration{time.Millisecond, 300 * time.Millisecond, 3 * time.Second, 30 * time.Second}[rnd.IntN(4)])
		d.e.drain(d.clock.now())
	case op < 14:
		if !d.e.commits.running {
			d.beginCommit()
		}
	case op < 18:
		d.endCommit(rnd.IntN(8))
	case op < 19:
		if l := d.e.parts.open[name]; l != nil && len(d.e.commits.closing) == 0 {
			done := make(chan struct{})
			d.losing(func() { d.e.commits.close(l, done) })
			if d.e.commits.running && d.e.commits.under.has(l) {
				break // it is closed with the end of the commit
			}
			<-done
		}
	case rnd.IntN(10) == 0:
		d.restart()
	}
}

// finish has all stored that was taken in.
func (d *driver) finish() {
	for range 10 {
		d.endCommit(9)
		d.clock.advance(24 * time.Hour)
		d.e.drain(d.clock.now())
		d.beginCommit()
		d.endCommit(9)
		d.check()
	}
	s, r := d.e.sched, d.e.room
	if len(d.held) != 0 || len(s.inFlight) != 0 || s.bytes != 0 || r.held.Load() != 0 {
		d.fail("in the end %d batches and %d requests are kept, %d and %d bytes are counted", len(d.held), len(s.inFlight), s.bytes, r.held.Load())
	}
	if !r.patient.TryAcquire(r.most/2) || !r.urgent.TryAcquire(r.most/2) {
		d.fail("in the end not all room is free")
	}
	for name, l := range d.e.parts.open {
		if len(l.batches)+len(l.judged)+len(l.resolved) != 0 {
			d.fail("%s keeps %d batches, %d requests, %d beginnings", name, len(l.batches), len(l.judged), len(l.resolved))
		}
	}
}

// drive does so many random things and then has everything stored; been counts the states that requests were in.
func drive(t *testing.T, seed uint64, steps int, been *[numStates]int) {
	rnd := rand.New(rand.NewPCG(seed, 12))
	d := newDriver(t)
	for range steps {
		d.step(rnd)
		d.check()
		for _, r := range d.e.sched.inFlight {
			been[r.state]++
		}
	}
	d.finish()
}

// Batches come through four lanes, commits begin, end, fail and lose lanes, lanes are closed and opened, the engine is killed, all in any order.
// After each step all that is counted is what it counts, what was acknowledged is stored, and no request is judged twice. In the end
// nothing is kept.
func TestRequestsInAnyOrder(t *testing.T) {
	var been [numStates]int
	for seed := range effort.Of(uint64(60), 15) {
		drive(t, seed, 120, &been)
	}
	for s := statePending; s < stateOver; s++ {
		if been[s] < effort.Of(20, 5) {
			t.Errorf("state %d came about %d times only", s, been[s])
		}
	}
}

// FuzzRequestsInAnyOrder is the same with more seeds.
func FuzzRequestsInAnyOrder(f *testing.F) {
	f.Add(uint64(0), uint8(10))
	f.Fuzz(func(t *testing.T, seed uint64, steps uint8) { drive(t, seed, int(steps), &[numStates]int{}) })
}
