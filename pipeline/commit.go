package pipeline

import (
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/tally"
)

// commit is a commit with what ends once it is stored.
type commit struct {
	c        tally.Commit
	parts    []*partition // of c.Lanes
	requests [][]*request // of the lanes' entries, in their order
	saving   []*request   // whose beginning it stores
	batches  []*batch
}

func (c *commit) has(l *partition) bool { return c != nil && slices.Contains(c.parts, l) }

// gather makes a commit of what is judged and complete. It may be empty.
func (p *partitions) gather(now time.Time) *commit {
	c := &commit{}
	all := p.sorted()
	floor := p.sched.floor()
	beginnings := p.gatherPending(c)
	for _, l := range all {
		for _, r := range l.judged { // what it resolves belongs to the same commit
			r.claim(nil, p.sched.step(r, eventGathered))
		}
	}
	for _, l := range all {
		lc := tally.LaneCommit{Lane: l.name, Fence: l.fence, Latest: l.latest, Resolved: l.resolved, Opened: beginnings[l]}
		done := c.complete(l, &lc)
		owed := p.overTime != nil && l.name == tally.OverTimeLane
		if owed {
			c.c.OverTime = p.overTime()
		}
		reached, idle := p.reach(l, floor, now)
		if done == 0 && !idle && len(l.judged) == 0 && len(lc.Opened) == 0 && len(lc.Resolved) == 0 && (!owed || c.c.OverTime == nil) {
			continue
		}
		if !reached.IsZero() {
			l.reached, l.told, lc.Reached = reached, now, reached
		}
		if done == 0 && reached.After(lc.Latest) {
			lc.Latest = reached // so that a lane without events does not hold back what the store forgets
		}
		lc.Entries = make([]tally.Entry, 0, len(l.judged))
		for _, r := range l.judged {
			r.entry.ID, r.entry.Answer = r.is.ID, r.is.Answer
			lc.Entries = append(lc.Entries, r.entry)
			r.entry = tally.Entry{}
		}
		c.parts, c.requests, c.c.Lanes = append(c.parts, l), append(c.requests, l.judged), append(c.c.Lanes, lc)
		l.judged, l.resolved = nil, nil
	}
	return c
}

const (
	// tellEvery is how far a lane moves on, by the log's time, until that is said where there is nothing else to say.
	tellEvery = time.Second
	// tellAgain is how often it is stored of a partition without requests, by the clock, so that others know that somebody reads it.
	tellAgain = 5 * time.Minute
)

// reach returns how far the partition is: all of its requests from before that time are stored with this commit or were stored before. It is zero where
// that is nothing new. Events from before the partition was opened do not count: some of them may not be stored. idle reports whether the partition is to
// be in the commit for this alone.
func (p *partitions) reach(l *partition, floor, now time.Time) (at time.Time, idle bool) {
	if l.name == noteLane || l.name == tally.OverTimeLane {
		return at, false
	}
	end := l.ended
	if l.fence == 0 && !l.more { // no other process can have any of it
		end = now
	}
	at = l.came
	if log := p.frontiers.at(end); log.After(at) {
		at, idle = log, true
	}
	if !floor.IsZero() && floor.Before(at) {
		at = floor
	}
	again := !end.IsZero() && !l.told.IsZero() && now.Sub(end) < tellAgain && now.Sub(l.told) >= tellAgain
	if at.IsZero() || at.Sub(l.reached) < tellEvery && !again {
		return time.Time{}, false
	}
	return at, idle || again
}

// gatherPending adds, by partition, the beginnings of the pending requests, so that their batches need not wait for the response.
func (p *partitions) gatherPending(c *commit) map[*partition][]tally.Opened {
	all := map[*partition][]tally.Opened{}
	for r := p.sched.pending.first; r != nil; r = r.next {
		if r.state != statePending {
			continue
		}
		line, err := r.ev.AppendJSON(nil)
		if err != nil { // a body that is no JSON, which the decoder does not let through
			continue
		}
		all[r.part] = append(all[r.part], tally.Opened{ID: r.is.ID, Event: line, Until: r.until})
		c.saving = append(c.saving, r)
		r.claim(nil, p.sched.step(r, eventGathered))
	}
	return all
}

// complete adds the partition's batches that are complete with this commit, in order if they have one, and returns how many.
func (c *commit) complete(l *partition, lc *tally.LaneCommit) int {
	before, kept := len(c.batches), l.batches[:0]
	for i, b := range l.batches {
		if b.unjudged > 0 {
			if l.inOrder {
				kept = append(kept, l.batches[i:]...)
				break
			}
			kept = append(kept, b)
			continue
		}
		b.complete = true
		c.batches = append(c.batches, b)
		lc.Events.Add(&b.events)
		if p := b.d.b.Position; p != "" {
			lc.Position = p
		}
	}
	clear(l.batches[len(kept):])
	l.batches = kept
	return len(c.batches) - before
}

// report is what is reported of the commit once it is stored.
func (c *commit) report(begin, end time.Time) *Stored {
	s := &Stored{At: end, Took: end.Sub(begin)}
	counts := map[*partition]*audit.Counts{}
	for _, b := range c.batches {
		if counts[b.part] == nil {
			counts[b.part] = &audit.Counts{}
		}
		counts[b.part].Add(b.d.b.Counts)
	}
	for i := range c.c.Lanes {
		lc := &c.c.Lanes[i]
		one := StoredLane{Lane: lc.Lane, Events: lc.Events, Latest: lc.Latest}
		if of := counts[c.parts[i]]; of != nil {
			one.Counts = *of
		}
		s.Lanes = append(s.Lanes, one)
		if len(s.Entries) == 0 {
			s.Entries = slices.Clip(lc.Entries) // most commits have those of one lane
		} else {
			s.Entries = append(s.Entries, lc.Entries...)
		}
		n := len(c.requests[i])
		s.Received, s.Lines = slices.Grow(s.Received, n), slices.Grow(s.Lines, n)
		for _, r := range c.requests[i] {
			s.Received = append(s.Received, r.received)
			s.Lines = append(s.Lines, r.line)
		}
	}
	return s
}

// stored is called when the commit is stored.
func (p *partitions) stored(c *commit) {
	for _, r := range c.saving {
		if !r.state.isSaving() {
			continue // it was over, or forgotten, before its beginning was stored
		}
		if r.claim(nil, p.sched.step(r, eventCommitted)); r.keeper.gone != nil {
			p.unkept(r) // whoever owns that partition now finds it in the store
		}
		p.follow(r)
	}
	for _, all := range c.requests {
		for _, r := range all {
			p.sched.step(r, eventCommitted)
		}
	}
	for _, b := range c.batches {
		p.finish(b, nil)
	}
}

// follow passes on a request that stopped being pending after its partition was closed, while the commit held it.
func (p *partitions) follow(r *request) {
	if waits := r.state.isWaiting(); (waits || r.state.isJudged()) && r.part.gone != nil {
		if p.passOn(r); waits && !r.state.isWaiting() {
			p.sched.queue.sweep() // nobody has its event any more
		}
	}
}

// takeOut takes a partition out of a commit that did not succeed, and closes it. What other partitions brought events of, too, continues
// through those. It reports whether anything is left of the commit.
func (p *partitions) takeOut(c *commit, l *partition, why error) (left bool) {
	p.drop(l, why)
	at := slices.Index(c.parts, l)
	if at < 0 {
		return true
	}
	lc, requests := c.c.Lanes[at], c.requests[at]
	if l.name == tally.OverTimeLane {
		c.c.OverTime = nil
	}
	c.parts, c.c.Lanes, c.requests = slices.Delete(c.parts, at, at+1), slices.Delete(c.c.Lanes, at, at+1), slices.Delete(c.requests, at, at+1)
	for _, r := range c.saving {
		if r.state.isSaving() && r.keeper == l {
			p.moveBeginning(c, r, lc.Opened)
			p.follow(r)
		}
	}
	for i, r := range requests {
		r.entry = lc.Entries[i]
		p.moveJudged(c, r)
	}
	c.batches = slices.DeleteFunc(c.batches, func(b *batch) bool {
		if b.part == l {
			p.finish(b, why)
		}
		return b.part == l
	})
	return len(c.parts) > 0
}

// moveBeginning lets another partition of the commit store the beginning of a request, if a batch of the commit relies on it.
func (p *partitions) moveBeginning(c *commit, r *request, opened []tally.Opened) {
	w := r.heir(true)
	if w == nil {
		p.unkept(r)
		return
	}
	at := slices.Index(c.parts, w.part)
	c.c.Lanes[at].Opened = append(c.c.Lanes[at].Opened, opened[slices.IndexFunc(opened, func(o tally.Opened) bool { return o.ID == r.is.ID })])
	if r.keeper = w.part; r.state.isPending() {
		r.part = w.part
	}
	p.sched.step(r, eventMoved)
}

// moveJudged finds another way to store what was judged of a request. If a batch of the commit has an event of it, the request has to be in
// the commit, too.
func (p *partitions) moveJudged(c *commit, r *request) {
	w := r.heir(true)
	if w == nil {
		w = r.heir(false)
	}
	if w != nil && c.has(w.part) {
		p.sched.step(r, eventMoved)
		r.part = w.part
		to := slices.Index(c.parts, w.part)
		c.c.Lanes[to].Entries, c.requests[to] = append(c.c.Lanes[to].Entries, r.entry), append(c.requests[to], r)
		r.entry = tally.Entry{}
		return
	}
	ev := eventOrphaned
	if w != nil {
		ev, r.part = eventInherited, w.part
	}
	do := p.sched.step(r, ev)
	if do&doRetain != 0 {
		c.retain(r)
	}
	r.claim(nil, do)
}

// retain leaves the beginning of the request in the store.
func (c *commit) retain(r *request) {
	if at := slices.Index(c.parts, r.keeper); at >= 0 {
		lc := &c.c.Lanes[at]
		lc.Resolved = slices.DeleteFunc(lc.Resolved, func(id tally.ID) bool { return id == r.is.ID })
	}
}
