package pipeline

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// overTime judges what several requests show together, of whichever lanes and analyzers.
//
// Each analyzer stores what detectors look at of a request with the request itself, so that it is there exactly once, even across crashes. One analyzer at a
// time, by a lease of the lane tally.OverTimeLane, reads that back, and shows it to the detectors in the order of time. With what they find it stores
// what they remember as of the beginning of a minute, and deletes what is part of that. So whoever comes after it knows the same, and finds what is in that
// minute and after it once more, with the same IDs.
type overTime struct {
	e     *Engine
	lanes *rules.Lanes // nil while another process judges, or none
	taken []takenRow   // in the order of their coming
	came  time.Time    // when a request came in last
	// frontier is how far the log is, zero while that is not known. moved is when time was moved on last, warned when a partition was last named that holds
	// it back, both by the clock.
	frontier, moved, warned time.Time
	next                    time.Time // when time is moved on at the latest
	fresh                   bool      // something came since that
	// whole says that all that was stored at one time was taken in: until then what a lane says of how far it is may be of later rows than its requests.
	whole bool
	buf   []byte
	// memory is what the detectors remember as of cut and is not stored; cutAt is when that was, by the clock.
	memory map[memoryKey]rules.Remembered
	cut    time.Time
	cutAt  time.Time
}

type memoryKey struct{ kind, key string }

// takenRow is what is known of a row that was taken in: the latest time of a request in it.
type takenRow struct {
	tally.RowID
	last time.Time
}

const (
	// cutEvery is how often at most what detectors remember is stored, by the clock.
	cutEvery = 10 * time.Second
	// advanceEvery is how often at least their time is moved on.
	advanceEvery = time.Second
	// stuckAfter is for how long a lane holds time back until that is logged, and how often.
	stuckAfter = 5 * time.Minute
	// resignFor bounds how long it may take to give up the lease.
	resignFor = 2 * time.Second
)

func newOverTime(e *Engine) *overTime { return &overTime{e: e} }

// watch asks for the lease, and takes in what was stored while this process has it, until ctx ends. The function that it returns waits for that and gives
// the lease up.
func (o *overTime) watch(ctx context.Context) (stop func()) {
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	e := o.e // what else o has is the loop's, which begins it anew when the lane is lost
	w := &leaseWatch{o: o, e: e}
	all.Go(func() {
		ticker := time.NewTicker(e.opt.LeaseEvery)
		defer ticker.Stop()
		for ctx.Err() == nil {
			if err := w.look(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, source.ErrClosed) {
				e.opt.Log.Warn().Err(err).Msg("what several requests show together is not judged for now")
			}
			select {
			case <-ctx.Done():
			case <-ticker.C:
			}
		}
	})
	return func() {
		cancel()
		all.Wait()
		if !w.held {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), resignFor)
		defer cancel()
		if err := e.opt.Store.Resign(ctx, tally.OverTimeLane); err != nil {
			e.opt.Log.Warn().Err(err).Msg("another analyzer waits until it takes this one for dead")
		}
	}
}

// leaseWatch is what the goroutine of watch knows.
type leaseWatch struct {
	o     *overTime
	e     *Engine
	held  bool  // this process has the lease
	fence int64 // under which it judges, 0 if it does not
	after map[string]int64
}

// look asks for the lease, and for what is new.
func (w *leaseWatch) look(ctx context.Context) error {
	var frontier time.Time
	if err := w.e.do(ctx, func() error { frontier = w.o.frontier; return nil }); err != nil {
		return err
	}
	lease, err := w.e.opt.Store.Lease(ctx, tally.OverTimeLane, frontier)
	if err != nil {
		return err
	}
	fence, held := lease.Fence, lease.Held
	w.held = held
	judges := false
	if err := w.e.do(ctx, func() error {
		judges = w.o.lanes != nil
		w.e.parts.frontiers.learn(lease.Frontier, w.e.opt.Now())
		return nil
	}); err != nil {
		return err
	}
	if w.fence != fence || judges != held {
		w.fence = 0
		if err := w.change(ctx, fence); err != nil {
			return err
		}
		w.fence, w.after = fence, map[string]int64{}
	}
	if fence == 0 {
		return nil
	}
	for {
		all, err := w.e.opt.Store.Observations(ctx, w.after)
		if err != nil {
			return err
		}
		lost := false
		if err := w.e.do(ctx, func() error { lost = !w.o.take(all); return nil }); err != nil || lost {
			return err
		}
		for i := range all.Rows {
			w.after[all.Rows[i].Writer] = all.Rows[i].Number
		}
		if !all.More {
			return nil
		}
	}
}

// change has this process begin to judge, under the fence, or leave that to another one.
func (w *leaseWatch) change(ctx context.Context, fence int64) error {
	var memory []rules.Remembered
	if fence != 0 {
		var err error
		if memory, err = w.e.opt.Store.Memory(ctx); err != nil {
			return err
		}
	}
	done := make(chan struct{})
	if err := w.e.do(ctx, func() error {
		if l := w.e.parts.open[tally.OverTimeLane]; l != nil {
			w.e.commits.close(l, done)
		} else {
			close(done)
		}
		return nil
	}); err != nil {
		return err
	}
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if fence == 0 {
		return nil
	}
	return w.e.do(ctx, func() error {
		if err := w.e.openPartition(tally.OverTimeLane, fence, &tally.Lane{}); err != nil {
			return err
		}
		w.o.begin(memory)
		return nil
	})
}

// begin judges from where whoever did it last was.
func (o *overTime) begin(memory []rules.Remembered) {
	now := o.e.opt.Now()
	d := o.e.opt.Detectors
	d.Forget()
	*o = overTime{e: o.e, lanes: rules.NewLanes(d), came: now, moved: now, memory: map[memoryKey]rules.Remembered{}, cutAt: now, buf: o.buf}
	if err := o.lanes.Restore(memory); err != nil {
		o.e.opt.Log.Warn().Err(err).Msg("some of what the rules remembered is lost")
	}
	begun := o.e.opt.Log.Info()
	if from := o.lanes.Watermark(); !from.IsZero() {
		begun = begun.Time("from", from)
	}
	begun.Msg("this process evaluates the rules that need several requests")
}

// lose is called when the lane is another process's, or closed.
func (o *overTime) lose() {
	*o = overTime{e: o.e, buf: o.buf}
	o.e.opt.Detectors.Forget()
}

// take takes in rows. It is false where another process judges by now.
func (o *overTime) take(all *tally.Observed) bool {
	if o.lanes == nil {
		return false
	}
	now := o.e.opt.Now()
	o.lanes.Know(slices.DeleteFunc(all.Lanes, func(l rules.KnownLane) bool { return l.Name == noteLane }), now) // which has no requests to wait for
	o.whole = !all.More
	for i := range all.Rows {
		row := &all.Rows[i]
		last, err := o.lanes.Take(row.Body)
		if err != nil {
			o.e.opt.Log.Error().Err(err).Msg("some requests are left out of what several show together")
		}
		o.taken, o.fresh = append(o.taken, takenRow{row.RowID, last}), true
		if !last.IsZero() {
			o.came = now
		}
	}
	return true
}

// advance moves the detectors' time on. What they find is stored before what they remember of it, or with it.
func (o *overTime) advance(now time.Time) {
	if o.lanes == nil || !o.whole || !o.fresh && now.Before(o.next) {
		return
	}
	o.fresh, o.next = false, now.Add(advanceEvery)
	// The clock counts only where nothing has come in for long: a log may be old, and come in slowly.
	clock := now
	if o.e.sched.waiting.n > 0 || now.Sub(o.came) < silentAfter {
		clock = time.Time{}
	}
	for _, l := range o.e.parts.open {
		if l.behind {
			clock = time.Time{}
		}
	}
	was := o.lanes.Watermark()
	o.frontier = o.lanes.Frontier(clock)
	o.lanes.Advance(now, clock, o.e.opt.HoldFor, o.e.opt.Judge.State, o.detected, func() { o.remember(now) })
	if o.lanes.Watermark().After(was) {
		o.moved = now
	}
	o.warn(now)
}

// warn logs which partition holds back what several requests show, if time has not moved for long.
func (o *overTime) warn(now time.Time) {
	lane, reached := o.lanes.Behind(now, o.e.opt.HoldFor)
	if lane == "" || !reached.Before(o.frontier) || now.Sub(o.moved) < stuckAfter || now.Sub(o.warned) < stuckAfter {
		return
	}
	o.warned = now
	o.e.opt.Log.Warn().Str("partition", lane).Time("storedUpTo", reached).Time("othersUpTo", o.frontier).Msg("findings that need several requests wait for a partition that is behind")
}

// detected puts a detection in line to be stored.
func (o *overTime) detected(d *rules.Detection) {
	e := o.e
	l := e.parts.open[tally.OverTimeLane]
	enabled := slices.ContainsFunc(e.opt.Judge.Rules, func(r *rules.Rule) bool { return r.Name == d.Rule })
	if l == nil || !enabled {
		return
	}
	e.parts.found(l, DetectionEntry(d, e.opt.Judge.State), e.opt.Now())
}

// remember keeps what the detectors remember at the beginning of a minute, for the next commit.
func (o *overTime) remember(now time.Time) {
	if now.Sub(o.cutAt) < cutEvery && !o.cut.IsZero() {
		return
	}
	o.cut, o.cutAt = o.lanes.Watermark(), now
	for _, m := range o.lanes.Changes() {
		o.memory[memoryKey{m.Kind, m.Key}] = m
	}
}

// owed is what is to be stored with the lane, nil if there is nothing.
func (o *overTime) owed() *tally.OverTime {
	if len(o.memory) == 0 {
		return nil
	}
	out := &tally.OverTime{}
	for _, m := range o.memory {
		out.Memory = append(out.Memory, m)
	}
	clear(o.memory)
	o.taken = slices.DeleteFunc(o.taken, func(row takenRow) bool {
		over := row.last.Before(o.cut)
		if over {
			out.Taken = append(out.Taken, row.RowID)
		}
		return over
	})
	return out
}
