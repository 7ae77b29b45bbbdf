package pipeline

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/tally"
)

// partition is an open lane of a source.
type partition struct {
	name  string
	fence int64
	// latest is the latest time of its events, came that of those which came since it was opened.
	latest, came time.Time
	// behind says that what it brought last is old and more of it is there; taken is when that was.
	behind bool
	taken  time.Time
	// batches are those not stored, in order; inOrder says that they have positions.
	batches []*batch
	inOrder bool
	// judged are the requests that the next commit stores, resolved those whose stored beginning it deletes.
	judged   []*request
	resolved []tally.ID
	gone     error // why it was closed
	// ended is when the source saw its end last: all that was there by then was taken. more says that the source knew of more after the last batch.
	ended time.Time
	more  bool
	// reached is how far it was by the last commit that said so, told is when that was by the clock.
	reached, told time.Time
}

// batch is a source's batch until it is stored.
type batch struct {
	d    *delivery
	part *partition
	came time.Time // by the clock
	// unjudged counts the requests that must be judged before the batch is complete, its own and those of which it brought another event.
	unjudged int
	// keeps is about how many bytes the requests keep that it began, or whose response it brought.
	keeps  int64
	memory memory
	// complete says that it is in the commit under way.
	complete bool
	events   tally.Events
}

// custody is what is known of a request that has to be stored.
type custody struct {
	is   tally.Seen
	part *partition // through which it is stored
	// keeper is the partition that stores its beginning, or has stored it.
	keeper *partition
	// batches wait for the request, are attached to it, or rely on its beginning, as its state says. Those that are complete rely on the
	// commit under way.
	batches []*batch
	one     [1]*batch // most have one
	entry   tally.Entry
	line    []byte
}

// entryBytes is about how much what was judged of a request takes until it is stored.
const entryBytes = 1024

// costOf is about how much memory a copy of the event takes.
func costOf(ev *audit.Event) int64 {
	n := 1024 + len(ev.RequestURI) + len(ev.Reason) + len(ev.UserAgent) + len(ev.StatusMessage)
	for _, u := range []*audit.User{&ev.User, &ev.Impersonated} {
		n += len(u.Username)
		for _, g := range u.Groups {
			n += len(g) + 16
		}
	}
	if keepsBody(ev) {
		n += len(ev.RequestObject)
	}
	return int64(n)
}

// partitions are those that are open, with the batches that wait for requests.
type partitions struct {
	open  map[string]*partition
	sched *scheduler
	room  *room
	// frontiers are how far the log of all lanes is.
	frontiers frontiers
	// overTime is what is to be stored with the lane of what several requests show; nil if there are no detectors.
	overTime func() *tally.OverTime
	// dropped is called with one that is closed.
	dropped func(*partition)
}

// sorted returns the partitions in the order of their names.
func (p *partitions) sorted() []*partition {
	all := make([]*partition, 0, len(p.open))
	for _, name := range slices.Sorted(maps.Keys(p.open)) {
		all = append(all, p.open[name])
	}
	return all
}

const (
	// behindBy is how far behind the clock the events of a source must be for the log's time to count instead of it.
	behindBy = 10 * time.Second
	// stalledAfter is after how long without a batch a source that was behind is no longer waited for.
	stalledAfter = 5 * time.Second
)

// floor is the earliest of the times up to which sources that are behind have come; ok is false if none is.
func (p *partitions) floor(now time.Time) (floor time.Time, ok bool) {
	for _, l := range p.open {
		if !l.behind {
			continue
		}
		if now.Sub(l.taken) > stalledAfter {
			l.behind = false
			continue
		}
		if !ok || l.latest.Before(floor) {
			floor, ok = l.latest, true
		}
	}
	return floor, ok
}

// latest is the latest time of any event of the open partitions, or now if that is earlier.
func (p *partitions) latest(now time.Time) time.Time {
	var latest time.Time
	for _, l := range p.open {
		if l.latest.After(latest) {
			latest = l.latest
		}
	}
	if latest.After(now) {
		return now
	}
	return latest
}

// restore takes up a request whose beginning the partition has stored, unless it is in flight.
func (p *partitions) restore(l *partition, o *tally.Opened, now time.Time) {
	key := p.sched.seen.key(o.ID)
	if p.sched.inFlight[key] != nil {
		return
	}
	if bits, _ := p.sched.seen.get(key); bits&judgedBit != 0 { // over since the partition was here last
		l.resolved = append(l.resolved, o.ID)
		return
	}
	var ev *audit.Event
	(&audit.Decoder{}).Chunk(o.Event, 1, func(read *audit.Event) { ev = read.Clone() }, func(audit.Malformed) {})
	if ev == nil {
		return
	}
	r := p.sched.fresh()
	r.key, r.state, r.ev, r.bits, r.received, r.until, r.bytes = key, stateUnknown, ev, stageBit(ev.Stage), now, o.Until, costOf(ev)
	r.is.ID, r.part, r.keeper = o.ID, l, l
	p.sched.step(r, eventRestored)
}

// arrive takes in an event that rules need.
func (p *partitions) arrive(b *batch, ev *audit.Event) {
	u := ev.Effective()
	if _, isNode := nodeid.Of(u.Username, u.Groups); isNode {
		b.events.Node++
	}
	is := tally.Seen{ID: idOf(ev), Answer: answerOf(ev)}
	a := arrival{mark: p.sched.seen.mark(is.Answer), ev: ev, received: b.d.b.Received, bytes: costOf(ev)}
	a.key, a.was = p.lookUp(is, a.mark)
	if a.received.IsZero() {
		a.received = b.part.taken
	}
	if b.d.b.Behind { // while a source catches up, keeping whole batches costs less than copies of nearly all of their events
		a.in = &b.memory
	}
	r, do, again := p.sched.arrive(&a)
	if again {
		b.events.Duplicates++
	}
	if r != nil {
		if r.is.ID = is.ID; a.was.mark == 0 {
			r.is.Answer = is.Answer
		}
		r.claim(b, do)
	}
}

// lookUp returns the key of a request with that mark, and what is known of it.
func (p *partitions) lookUp(is tally.Seen, mark uint32) (key uint64, was sighting) {
	key = p.sched.seen.key(is.ID)
	if was = p.sched.find(key); was.isOther(mark) {
		key = p.sched.seen.key(is.Other())
		was = p.sched.find(key)
	}
	return key, was
}

// remember notes a request that was stored.
func (p *partitions) remember(is tally.Seen) {
	mark := p.sched.seen.mark(is.Answer)
	if key, was := p.lookUp(is, mark); was.r == nil {
		p.sched.seen.set(key, was.bits|judgedBit|storedBit, cmp.Or(was.mark, mark))
	}
}

// found puts a finding without a request in line to be stored by the partition, unless it was.
func (p *partitions) found(l *partition, entry tally.Entry, now time.Time) {
	key := p.sched.seen.key(entry.ID)
	if was := p.sched.find(key); was.r != nil || was.bits&judgedBit != 0 {
		return
	}
	r := p.sched.fresh()
	r.key, r.state, r.received, r.is.ID, r.part, r.entry = key, stateUnknown, now, entry.ID, l, entry
	r.claim(nil, p.sched.step(r, eventFound))
}

// claim does what a transition asks for about batches and partitions; b brought the event that caused it, nil if none did.
func (r *request) claim(b *batch, do action) {
	if do&doOwn != 0 {
		r.part = b.part
		b.keeps += r.bytes + entryBytes
	}
	if do&doRecall != 0 {
		r.batches = slices.DeleteFunc(r.batches, func(w *batch) bool { return w.part.gone != nil })
		r.count(+1)
	}
	if do&doWait != 0 {
		b.unjudged++
	}
	if do&(doWait|doAttach) != 0 || do&doRely != 0 && b.part != r.keeper {
		if r.batches == nil {
			r.batches = r.one[:0]
		}
		r.batches = append(r.batches, b)
	}
	if do&doFree != 0 {
		r.count(-1)
	}
	if do&doSave != 0 {
		r.keeper = r.part
		r.batches = slices.DeleteFunc(r.batches, func(w *batch) bool { return w.part == r.keeper })
	}
	if do&doSettle != 0 {
		if r.state.isPending() {
			r.batches = nil
		}
		r.batches = slices.DeleteFunc(r.batches, func(w *batch) bool { return w.complete })
	}
	if do&doEnter != 0 {
		r.part.judged = append(r.part.judged, r)
	}
	if do&doResolve != 0 {
		r.keeper.resolved = append(r.keeper.resolved, r.is.ID)
	}
}

// count adds n to the requests that each of the batches waits for, but for those that rely on the commit under way.
func (r *request) count(n int) {
	for _, w := range r.batches {
		if !w.complete {
			w.unjudged += n
		}
	}
}

// heir is a batch that can take the request over, of those that are complete with the commit under way or of the others.
func (r *request) heir(complete bool) *batch {
	for _, w := range r.batches {
		if w.part.gone == nil && w.complete == complete {
			return w
		}
	}
	return nil
}

// passOn has another partition's batch take over the request of a lost partition, or forgets it.
func (p *partitions) passOn(r *request) {
	to := r.heir(false)
	if to == nil && r.state.isSaving() && !r.state.isPending() {
		to = r.heir(true)
	}
	if to == nil {
		r.ev, r.in = nil, nil
		p.sched.step(r, eventOrphaned)
		return
	}
	if r.in != nil { // whose memory goes
		r.ev, r.in = kept(r.ev), nil
	}
	r.part = to.part
	r.claim(nil, p.sched.step(r, eventInherited))
}

// unkept is called for a request whose beginning nobody keeps any more, because its keeper was lost.
func (p *partitions) unkept(r *request) {
	switch {
	case r.state.isPending():
		p.passOn(r)
	case r.state.isSaving() || r.state.isSaved():
		p.sched.step(r, eventWithdrawn)
	}
	r.keeper = nil
}

// drop closes a partition. What of it the commit under way holds, that commit's end decides about.
func (p *partitions) drop(l *partition, why error) {
	if l.gone != nil {
		return
	}
	l.gone = why
	if p.open[l.name] == l {
		delete(p.open, l.name)
	}
	for _, r := range p.sched.inFlight {
		if r.keeper == l && r.state.isSaved() {
			p.unkept(r)
		}
		if r.part == l && (r.state.isWaiting() || r.state.isJudged() || r.state == statePending) {
			p.passOn(r)
		}
	}
	p.sched.queue.sweep()
	p.dropped(l)
	l.judged = nil
	for _, b := range l.batches {
		p.finish(b, why)
	}
	l.batches = nil
}

// finish is the end of a batch: its source is notified, and its memory given back.
func (p *partitions) finish(b *batch, err error) {
	b.memory.using, b.memory.closed = 0, true
	b.memory.giveBack()
	b.d.b.Events = nil
	p.room.giveBack(b.d)
	if b.d.done != nil {
		b.d.done(err)
	}
}

// batch begins a batch of a delivery.
func (p *partitions) batch(d *delivery, l *partition) *batch {
	b := &batch{d: d, part: l}
	if src := d.b; src.Release != nil {
		b.memory.release = func() {
			src.Release()
			p.room.lighten(b)
		}
	}
	return b
}

// take takes a batch in; changed is given each event first.
func (p *partitions) take(d *delivery, now time.Time, changed func(*audit.Event)) {
	l := p.open[d.b.Lane]
	b := p.batch(d, l)
	if l == nil {
		p.finish(b, source.ErrClosed)
		return
	}
	src := d.b
	if src.Ended.After(l.ended) {
		l.ended = src.Ended
	}
	if len(src.Events) == 0 && src.Position == "" && !src.Ended.IsZero() { // it says nothing else
		p.finish(b, nil)
		return
	}
	l.more = src.Behind
	l.inOrder = l.inOrder || src.Position != ""
	if b.came = src.Received; b.came.IsZero() {
		b.came = now
	}
	l.batches = append(l.batches, b)
	l.taken = now
	log := p.frontiers.latest()
	if log.IsZero() {
		log = now // a log may be old, and is not of the future
	}
	for i := range src.Events {
		ev := &src.Events[i]
		changed(ev)
		t := timeOf(ev)
		if t.After(l.latest) {
			l.latest = t
		}
		if t.After(b.came) { // as for the rules over time: no further than to when it came in
			t = b.came
		}
		if t.After(l.came) && !t.After(log.Add(AheadAtMost)) { // else the clock of an API server is wrong
			l.came = t
		}
		if audit.Needed(ev, audit.Want{}) {
			p.arrive(b, ev)
		}
	}
	l.behind = src.Behind && l.taken.Sub(l.latest) > behindBy
	c := &src.Counts
	b.events.Read, b.events.Skipped, b.events.Malformed = c.Read, c.Skipped, c.Malformed
	for i := range src.Places {
		if p := &src.Places[i]; i < tally.MaxMalformed {
			b.events.MalformedAt = append(b.events.MalformedAt, tally.Place{File: p.Input, Line: int(p.Line), Cause: p.Cause, OfNoNode: p.OfNoNode})
		}
	}
	b.memory.closed = true
	b.memory.giveBack()
	b.d.b.Events = nil
}
