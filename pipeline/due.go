package pipeline

import (
	"container/heap"
	"slices"
	"time"
)

// requestHeap has the request on top that is due first.
type requestHeap []*request

func (h requestHeap) Len() int { return len(h) }
func (h requestHeap) Less(i, j int) bool {
	if !h[i].due.Equal(h[j].due) {
		return h[i].due.Before(h[j].due)
	}
	return h[i].seq < h[j].seq
}
func (h requestHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *requestHeap) Push(x any) { *h = append(*h, x.(*request)) }

// Pop implements heap.Interface.
func (h *requestHeap) Pop() any {
	old := *h
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return r
}

func (e *Engine) push(r *request) {
	if e.first.IsZero() {
		e.first = e.opt.Now()
	}
	heap.Push(&e.queue, r)
	e.byAge = append(e.byAge, r)
}

// oldest is the request that has waited longest.
func (e *Engine) oldest() *request {
	for len(e.byAge) > 0 {
		if r := e.byAge[0]; r.state == requestWaiting {
			return r
		}
		e.byAge[0] = nil
		e.byAge = e.byAge[1:]
	}
	return nil
}

// floor is the earliest of the times up to which sources that are behind have come; ok is false if none is.
func (e *Engine) floor(now time.Time) (floor time.Time, ok bool) {
	for _, l := range e.lanes {
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

// drain judges what is due and returns when to look again, the zero time if only news can change anything.
func (e *Engine) drain(now time.Time) (next time.Time) {
	floor, behind := e.floor(now)
	next = e.expire(now, floor, behind)
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if len(e.queue) > 0 && !e.opt.Judge.Mode.Decided() {
		if until := e.first.Add(decideFor); len(e.queue) < decideAfter && now.Before(until) && !e.crowded() {
			sooner(until)
			return next
		}
		e.decide()
	}
	// One that came late is due before all others and has to settle first: they do not wait for it longer than for themselves.
	overdue := 2*e.opt.Settle + e.opt.Skew
	for len(e.queue) > 0 {
		r := e.queue[0]
		if r.state != requestWaiting {
			heap.Pop(&e.queue)
			continue
		}
		switch old := e.oldest(); {
		case e.crowded():
		case behind:
			if floor.Before(r.due) {
				sooner(now.Add(stalledAfter))
				return next
			}
		case now.Sub(old.received) > overdue && !now.Before(e.settled(old)):
		default:
			if at := e.settled(r); at.After(now) {
				sooner(at)
				return next
			}
		}
		ready, early := e.caughtUp(r, now)
		if !ready {
			sooner(now.Add(50 * time.Millisecond))
			return next
		}
		heap.Pop(&e.queue)
		e.judge(r, early)
	}
	return next
}

// settled is when, by the clock, nothing that matters to the request can come any more.
func (e *Engine) settled(r *request) time.Time {
	at := timeOf(r.ev).Add(e.opt.Skew + e.opt.Settle)
	if most := r.received.Add(e.opt.WaitAtMost); at.After(most) { // its clock is ahead of ours
		at = most
	}
	if least := r.received.Add(e.opt.Settle); at.Before(least) {
		at = least
	}
	return at
}

// crowded reports whether requests cannot wait any longer: they keep too much memory, or what they wait for cannot come in for want of
// room and nothing that is judged will make any.
func (e *Engine) crowded() bool {
	if e.waiting > e.opt.MaxBytes/4 {
		return true
	}
	if e.blocked.Load() == 0 || e.commit != nil {
		return false
	}
	for _, l := range e.lanes {
		if len(l.batches) > 0 && l.batches[0].unjudged == 0 {
			return false
		}
	}
	return true
}

// caughtUp reports whether the state is ready for the request, or the request has waited for it long enough and is judged early.
func (e *Engine) caughtUp(r *request, now time.Time) (ready, early bool) {
	if e.opt.CaughtUp == nil || e.opt.CaughtUp(timeOf(r.ev).Add(e.opt.Skew)) {
		return true, false
	}
	if now.Sub(r.received) < e.opt.WaitAtMost && !e.crowded() {
		return false, false
	}
	e.mu.Lock()
	e.stats.Early++
	e.mu.Unlock()
	return true, true
}

// maxOpened bounds the requests whose response has not come.
const maxOpened = 20_000

// openCount is how many requests wait for their response. It drops those that do not from the list when they are many.
func (e *Engine) openCount() int {
	n := 0
	for _, r := range e.opened {
		if r.state == requestOpened {
			n++
		}
	}
	if len(e.opened) > 2*n+1024 {
		e.opened = slices.DeleteFunc(e.opened, func(r *request) bool { return r.state != requestOpened })
	}
	return n
}

// expire queues the requests whose response has not come for long, and returns when to look again.
func (e *Engine) expire(now, floor time.Time, behind bool) (next time.Time) {
	tooMany := len(e.opened) > maxOpened && e.openCount() > maxOpened
	for len(e.opened) > 0 {
		r := e.opened[0]
		if r.state == requestOpened && !tooMany {
			at := r.received.Add(e.opt.OpenFor)
			switch {
			case behind && floor.Before(r.until):
				return now.Add(stalledAfter)
			case !behind && now.Before(at):
				return at
			}
		}
		e.opened[0] = nil
		e.opened = e.opened[1:]
		if r.state != requestOpened {
			continue
		}
		tooMany = false
		r.await()
		r.state, r.due = requestWaiting, timeOf(r.ev).Add(e.opt.Skew+e.opt.Slack)
		e.waiting += r.bytes
		e.push(r)
	}
	return time.Time{}
}

// decide lets the mode see everything that waits before the first judgement depends on it.
func (e *Engine) decide() {
	silent := *e.opt.Judge
	silent.Rules = nil
	for _, r := range e.queue {
		if e.opt.Judge.Mode.Decided() {
			break
		}
		silent.Judge(r.ev)
	}
	e.opt.Judge.Mode.settle()
}

// judge judges the request. It is then the next commit's, or over if nothing is to be stored of it.
func (e *Engine) judge(r *request, early bool) {
	e.waiting -= r.bytes
	e.opt.Judge.Early = early
	j := e.opt.Judge.Judge(r.ev)
	e.observe(j)
	entry := e.entries.Of(j)
	if entry.IsNode || len(entry.Findings) > 0 {
		r.entry = entry.Own()
		r.entry.ID = r.id
		if e.opt.Line != nil && j.IsNode {
			r.line = e.opt.Line(j, nil)
		}
	}
	if b := r.inBatch; b != nil {
		r.inBatch = nil
		b.using--
		e.letGo(b)
	}
	r.state, r.ev = requestJudged, nil
	if r.owner != nil {
		r.owner.unjudged--
	}
	for _, w := range r.waiters {
		w.unjudged--
	}
	if !entry.IsNode && len(entry.Findings) == 0 {
		if l := r.stored; l != nil && l.gone == nil {
			l.resolved = append(l.resolved, r.id)
		}
		e.over(r)
		return
	}
	r.lane.judged = append(r.lane.judged, r)
}

// over forgets a request of which everything is stored.
func (e *Engine) over(r *request) {
	e.seen.set(e.hash(r.id), r.bits|judgedBit)
	delete(e.inflight, r.id)
	r.state = requestOver
}
