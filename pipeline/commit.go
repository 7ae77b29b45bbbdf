package pipeline

import (
	"errors"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/tally"
)

// rememberedMode is the kind of memory in which the mode is stored.
const rememberedMode = "mode"

// commit is a commit under way with what is over once it is stored.
type commit struct {
	c        tally.Commit
	lanes    []*lane      // of c.Lanes
	requests [][]*request // of the lanes' entries, in their order
	members  map[*request]struct{}
	opened   map[*request]*lane // by which they are stored as opened
	batches  []*batch
}

func (c *commit) has(l *lane) bool { return c != nil && slices.Contains(c.lanes, l) }

func (c *commit) holds(r *request) bool {
	if c == nil {
		return false
	}
	_, ok := c.members[r]
	return ok
}

// opens reports whether the request is stored as opened by the commit.
func (c *commit) opens(r *request) bool {
	if c == nil {
		return false
	}
	_, ok := c.opened[r]
	return ok
}

// startCommit begins a commit if it is time and there is something to store, and returns when to look again.
func (e *Engine) startCommit(now time.Time) time.Time {
	switch {
	case e.committing:
		return time.Time{}
	case e.commit != nil:
		if now.Before(e.retryAt) {
			return e.retryAt
		}
	case now.Before(e.nextCommit):
		return e.nextCommit
	default:
		if e.commit = e.gather(now); e.commit == nil {
			if e.opt.Facts == nil {
				return time.Time{}
			}
			return e.nextFacts // also of a log that falls silent
		}
	}
	e.committing = true
	go e.store(e.commit)
	return time.Time{}
}

// factsEvery is how often the facts of a report are stored.
const factsEvery = 5 * time.Second

// gather makes a commit of what is judged and complete, nil if there is nothing.
func (e *Engine) gather(now time.Time) *commit {
	c := &commit{members: map[*request]struct{}{}, opened: map[*request]*lane{}}
	opened := e.gatherOpened(c)
	for _, l := range e.lanes {
		for _, r := range l.judged { // only with what was judged of it
			if by := r.stored; by != nil && by.gone == nil {
				by.resolved = append(by.resolved, r.id)
			}
		}
	}
	for _, l := range e.lanes {
		lc := tally.LaneCommit{Lane: l.name, Fence: l.fence, Latest: l.latest, Resolved: l.resolved, Opened: opened[l]}
		done := c.complete(l, &lc)
		if done == 0 && len(l.judged) == 0 && len(lc.Opened) == 0 && len(lc.Resolved) == 0 {
			continue
		}
		for _, r := range l.judged {
			c.members[r] = struct{}{}
			lc.Entries = append(lc.Entries, r.entry)
			r.entry = tally.Entry{}
		}
		c.lanes, c.requests, c.c.Lanes = append(c.lanes, l), append(c.requests, l.judged), append(c.c.Lanes, lc)
		l.judged, l.resolved = nil, nil
	}
	facts := e.opt.Facts != nil && (e.lastFacts || !now.Before(e.nextFacts))
	if len(c.lanes) == 0 && !facts && !e.stopping {
		return nil
	}
	c.c.At = now
	if d := e.opt.Detectors; d != nil {
		c.c.Memory = d.Changes(now, e.stopping)
	}
	if mode := string(e.opt.Judge.Mode.Save()); mode != e.mode {
		e.mode = mode
		c.c.Memory = append(c.c.Memory, tally.Remembered{Kind: rememberedMode, Value: []byte(mode)})
	}
	if facts {
		c.c.Facts, c.c.Instance = e.opt.Facts(), e.opt.Instance
		e.nextFacts, e.lastFacts = now.Add(factsEvery), false
	}
	if len(c.lanes) == 0 && len(c.c.Memory) == 0 && !facts {
		return nil
	}
	return c
}

// gatherOpened makes, by lane, what is to be stored of the requests that wait for their response: their batches need not wait for it, too.
func (e *Engine) gatherOpened(c *commit) map[*lane][]tally.Opened {
	var all map[*lane][]tally.Opened
	for _, r := range e.opened {
		if r.state != requestOpened || r.stored != nil || r.owner == nil {
			continue
		}
		line, err := r.ev.AppendJSON(nil)
		if err != nil { // a body that is no JSON, which the decoder does not let through
			continue
		}
		if all == nil {
			all = map[*lane][]tally.Opened{}
		}
		all[r.lane] = append(all[r.lane], tally.Opened{ID: r.id, Event: line, Until: r.until})
		r.stored = r.lane
		c.opened[r] = r.lane
		r.owner.unjudged--
		for _, w := range r.waiters {
			w.unjudged--
			if w.lane != r.lane {
				r.relying = append(r.relying, w)
			}
		}
		r.owner, r.waiters = nil, nil
	}
	return all
}

// complete adds the lane's batches that are complete with this commit, in order if they have one, and returns how many.
func (c *commit) complete(l *lane, lc *tally.LaneCommit) int {
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

// store runs apart from the loop.
func (e *Engine) store(c *commit) {
	begin := e.opt.Now()
	err := e.opt.Store.Commit(e.commits, &c.c)
	if err == nil && e.opt.Stored != nil {
		e.opt.Stored(c.stored(begin, e.opt.Now()))
	}
	e.results <- err
}

func (c *commit) stored(begin, end time.Time) *Stored {
	s := &Stored{At: end, Took: end.Sub(begin)}
	counts := map[*lane]*audit.Counts{}
	for _, b := range c.batches {
		if counts[b.lane] == nil {
			counts[b.lane] = &audit.Counts{}
		}
		counts[b.lane].Add(b.d.b.Counts)
	}
	for i := range c.c.Lanes {
		lc := &c.c.Lanes[i]
		one := StoredLane{Lane: lc.Lane, Events: lc.Events, Latest: lc.Latest}
		if n := counts[c.lanes[i]]; n != nil {
			one.Counts = *n
		}
		s.Lanes = append(s.Lanes, one)
		s.Entries = append(s.Entries, lc.Entries...)
		for _, r := range c.requests[i] {
			s.Received = append(s.Received, r.received)
			s.Lines = append(s.Lines, r.line)
		}
	}
	return s
}

// committed is told how a commit ended.
func (e *Engine) committed(err error) {
	c := e.commit
	e.committing = false
	now := e.opt.Now()
	var fenced *tally.FencedError
	switch {
	case err == nil:
		e.mu.Lock()
		e.stats.Failing = time.Time{}
		e.mu.Unlock()
		e.commit, e.retries, e.nextCommit = nil, 0, now.Add(e.opt.CommitEvery)
		for r := range c.opened {
			r.relying = nil
		}
		for _, all := range c.requests {
			for _, r := range all {
				e.over(r)
			}
		}
		for _, b := range c.batches {
			e.finish(b, nil)
		}
		e.closed()
	case errors.As(err, &fenced):
		for _, name := range fenced.Lanes {
			e.opt.Log.Info().Str("lane", name).Msg("another process has taken over")
			e.takeOut(c, name, source.ErrFenced)
		}
		e.closed()
		e.retryAt = now
	default:
		e.retries++
		e.retryAt = now.Add(min(100*time.Millisecond<<min(e.retries, 7), 5*time.Second))
		e.mu.Lock()
		e.stats.Failures++
		if e.stats.Failing.IsZero() {
			e.stats.Failing = now
		}
		e.mu.Unlock()
		e.opt.Log.Error().Err(err).Int("attempt", e.retries).Msg("cannot store; nothing is acknowledged until that works again")
		for _, w := range e.closing {
			e.takeOut(c, w.lane.name, source.ErrClosed)
		}
		e.closed()
	}
}

// closed tells who waits for it that no commit of a closed lane is under way.
func (e *Engine) closed() {
	e.closing = slices.DeleteFunc(e.closing, func(w closing) bool {
		if e.commit.has(w.lane) {
			return false
		}
		close(w.done)
		return true
	})
}

// takeOut takes a lane out of a commit that did not succeed. What other lanes brought events of, too, goes on through those.
func (e *Engine) takeOut(c *commit, name string, why error) {
	at := slices.IndexFunc(c.lanes, func(l *lane) bool { return l.name == name })
	if at < 0 {
		return
	}
	l, entries, requests, opened := c.lanes[at], c.c.Lanes[at].Entries, c.requests[at], c.c.Lanes[at].Opened
	c.lanes, c.c.Lanes, c.requests = slices.Delete(c.lanes, at, at+1), slices.Delete(c.c.Lanes, at, at+1), slices.Delete(c.requests, at, at+1)
	l.gone = why
	c.passOpened(l, opened)
	for i, r := range requests {
		delete(c.members, r)
		r.entry = entries[i]
		if !e.passOn(r) {
			c.keepOpened(r)
			delete(e.inflight, r.id)
			r.state = requestOver
			continue
		}
		// The batch that brought it may be in this very commit: then the request has to be, too.
		if to := slices.Index(c.lanes, r.lane); to >= 0 {
			r.lane.judged = r.lane.judged[:len(r.lane.judged)-1]
			c.c.Lanes[to].Entries, c.requests[to] = append(c.c.Lanes[to].Entries, r.entry), append(c.requests[to], r)
			c.members[r] = struct{}{}
			r.entry = tally.Entry{}
			continue
		}
		c.keepOpened(r)
	}
	c.batches = slices.DeleteFunc(c.batches, func(b *batch) bool {
		if b.lane == l {
			e.finish(b, why)
		}
		return b.lane == l
	})
	l.gone = nil
	e.dropLane(l, why)
	if len(c.lanes) == 0 {
		e.commit = nil
	}
}

// passOpened lets other lanes of the commit store what the lane that is taken out was to store as opened, if batches of theirs rely on it.
func (c *commit) passOpened(l *lane, opened []tally.Opened) {
	for r, by := range c.opened {
		if by != l {
			continue
		}
		delete(c.opened, r)
		i := slices.IndexFunc(r.relying, func(w *batch) bool { return w.complete && w.lane.gone == nil })
		if i < 0 {
			continue
		}
		to := r.relying[i].lane
		at := slices.Index(c.lanes, to)
		c.c.Lanes[at].Opened = append(c.c.Lanes[at].Opened, opened[slices.IndexFunc(opened, func(o tally.Opened) bool { return o.ID == r.id })])
		c.opened[r] = to
		if r.stored == l {
			r.stored = to
		}
		if r.state == requestOpened && r.lane == l {
			r.lane = to
		}
	}
}

// keepOpened leaves the request stored as opened: it is not in the commit any more.
func (c *commit) keepOpened(r *request) {
	if at := slices.Index(c.lanes, r.stored); r.stored != nil && at >= 0 {
		lc := &c.c.Lanes[at]
		lc.Resolved = slices.DeleteFunc(lc.Resolved, func(id tally.ID) bool { return id == r.id })
	}
}

// stop stores what was judged and gives the rest up.
func (e *Engine) stop() error {
	e.stopping, e.lastFacts = true, true
	for tries := 0; tries < 3; tries++ {
		if !e.committing {
			if e.commit == nil {
				e.commit = e.gather(e.opt.Now())
			}
			if e.commit == nil {
				break
			}
			e.committing = true
			go e.store(e.commit)
		}
		e.committed(<-e.results)
	}
	for _, l := range e.lanes {
		e.dropLane(l, source.ErrClosed)
	}
	if e.commit != nil { // it failed: its sources will bring it again
		for _, b := range e.commit.batches {
			e.finish(b, source.ErrClosed)
		}
		e.commit = nil
		e.closed()
		return errors.New("what was judged last could not be stored; its sources will bring it again")
	}
	return nil
}
