package pipeline

import (
	"cmp"
	"fmt"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/nodeadmission"
)

// scheduler takes in the events of requests and has each request judged once, when it is due. It knows the events of a request for one,
// waits for its response, gives up waiting, keeps requests in the order in which they are due, and bounds how many are pending. analyze
// ([Stream]) and run ([Engine]) share it; they differ in their pace and in the fields of this type that they set. One goroutine uses it.
type scheduler struct {
	judge *Judge
	// judged is given each judgement and reports whether something of it is to be stored. After an error nothing more is judged.
	judged func(r *request, j *Judgement) (store bool, err error)
	// sliced is called when all of a slice are judged, whose judgements live until it returns; nil for nothing.
	sliced func() error
	// act does what a transition asks for that no event of the request caused; nil if nobody relies on requests.
	act func(r *request, do action)
	// lag is how far the log has to advance beyond a request before it is due: the skew and the slack.
	lag time.Duration
	// openFor is how long, in the log's time, a pending request waits for its response.
	openFor time.Duration
	// maxPending bounds the requests that are pending. Beyond it the oldest does not wait any longer.
	maxPending int
	// inLogOrder says that requests are judged in the order of the log, each as soon as it and all before it are due.
	inLogOrder bool
	// follow says that requests are kept track of until they are over; otherwise only while they are pending.
	follow bool

	seen     *seen
	inFlight map[uint64]*request
	pending  list
	waiting  list // in the order of arrival
	queue    queue
	bytes    int64 // that the requests in queue keep
	seq      uint64
	spare    []*request
	due      []dueRequest // the slice in hand
	bench    bench
}

// request is one whose first event has come.
type request struct {
	key   uint64
	state state
	bits  uint8 // the stages that came
	mark  uint32
	// ev is what is judged; in is the memory that it is in, nil if that is its own.
	ev       *audit.Event
	in       *memory
	seq      uint64
	due      time.Time // in the log's time
	until    time.Time // in the log's time, while it is pending
	received time.Time // by the clock
	bytes    int64
	taken    bool // into the slice in hand

	prev, next *request
	*custody
}

// memory is that of a batch. Requests that wait may point into it.
type memory struct {
	using  int  // requests that do
	closed bool // no further request will
	// left is called when none does any more, release to give the memory back after that.
	left, release func()
}

// leave is called by each request that uses the memory, when it is judged next.
func (m *memory) leave() {
	m.using--
	m.vacate()
}

func (m *memory) vacate() {
	if m.closed && m.using == 0 && m.left != nil {
		m.left()
		m.left = nil
	}
}

// giveBack gives the memory back once nobody uses it.
func (m *memory) giveBack() {
	m.vacate()
	if m.closed && m.using == 0 && m.release != nil {
		m.release()
		m.release = nil
	}
}

// pace says when requests are due: by the log's time in analyze, by the log's and the clock's in run, where the state may lag, too.
// Next to a refusal is when to ask again, zero if only news can change it.
type pace interface {
	// expired reports whether a pending request has waited long enough for its response.
	expired(r *request) (bool, time.Time)
	// ready reports whether the request that is due first is to be judged now. early says that the state has not caught up with it.
	ready(r *request) (ready, early bool, again time.Time)
	// settled reports whether the order of the authorizers is to be inferred from the requests that wait, though they are few.
	settled() (bool, time.Time)
}

// arrival is an event that comes in.
type arrival struct {
	// key is the request's, 0 for one that nothing identifies: each event of it counts as a request.
	key uint64
	// was is what is known of the key.
	was sighting
	// mark is of what the event tells of the answer, 0 if it tells nothing.
	mark uint32
	ev   *audit.Event
	// in is the memory of ev if ev may stay there; nil if it has to be copied.
	in       *memory
	received time.Time
	bytes    int64 // about what a copy of ev takes
}

// sighting is what is known of a request.
type sighting struct {
	r    *request // nil if it is not in flight
	bits uint8    // the stages that came, 0 if none did
	mark uint32   // of its answer, 0 if none came
}

// find looks a request up.
func (s *scheduler) find(key uint64) (was sighting) {
	if key == 0 {
		return was
	}
	if r := s.inFlight[key]; r != nil {
		return sighting{r, r.bits, r.mark}
	}
	was.bits, was.mark = s.seen.get(key)
	return was
}

// isOther reports whether an event with that mark is of another request than the one that was seen: of that one came another answer. A client chooses the auditID,
// and many a log has times in whole seconds, so that two requests may have the same key. Where the store was given one without an answer, it alone knows
// which answer that request has by now: the event is judged, and the store says whether it is a duplicate.
func (w *sighting) isOther(mark uint32) bool {
	if w.mark == 0 {
		return mark != 0 && w.bits&storedBit != 0 && (w.r == nil || w.r.state.isStoring())
	}
	return mark != 0 && w.mark != mark
}

// arrive takes in an event that rules need. It returns the event's request, nil if that is over, and what is to be done about the batch that
// brought it. again says that this stage of the request came before.
func (s *scheduler) arrive(a *arrival) (r *request, do action, again bool) {
	bit := stageBit(a.ev.Stage)
	if r = a.was.r; r == nil && a.was.bits != 0 {
		s.seen.set(a.key, a.was.bits|bit, cmp.Or(a.was.mark, a.mark))
		return nil, 0, a.was.bits&bit != 0
	}
	ev := eventResponded
	if a.ev.Stage == audit.StageRequestReceived && a.key != 0 {
		ev = eventBegan
	}
	if r == nil {
		r = s.fresh()
		r.key, r.state = a.key, stateUnknown
	}
	again = r.bits&bit != 0
	r.bits, r.mark = r.bits|bit, cmp.Or(r.mark, a.mark)
	switch {
	case r.state == stateUnknown && ev == eventBegan:
		if s.pending.n >= s.maxPending {
			s.expire(s.pending.first)
		}
		r.ev, r.until = kept(a.ev), timeOf(a.ev).Add(s.openFor)
		r.received, r.bytes = a.received, a.bytes
	case r.state == stateUnknown || r.state.isPending() && ev == eventResponded:
		if r.ev, r.in = a.ev, a.in; a.in == nil {
			r.ev = kept(a.ev)
		} else {
			a.in.using++
		}
		r.received, r.bytes = a.received, a.bytes
	}
	return r, s.step(r, ev), again
}

// maxBody is how long the body of a write may be that is kept until the request is judged, in bytes. Patches that are longer are not applied anyhow.
const maxBody = 256 << 10

// kept is a copy without the bodies, of which the state was given already, but for that which the admission plugin reads.
func kept(ev *audit.Event) *audit.Event {
	bare := *ev
	bare.ResponseObject = nil
	if !keepsBody(ev) {
		bare.RequestObject = nil
	}
	return bare.Clone()
}

// keepsBody reports whether the body is needed when the request is judged.
func keepsBody(ev *audit.Event) bool {
	if len(ev.RequestObject) == 0 || len(ev.RequestObject) > maxBody {
		return false
	}
	u, ref := ev.Effective(), &ev.ObjectRef
	_, isNode := nodeid.Of(u.Username, u.Groups)
	return audit.Signs(ev) || isNode && nodeadmission.ReadsBody(ev.Verb, ref.APIGroup, ref.Resource, ref.Subresource, ref.Name)
}

func (s *scheduler) fresh() *request {
	if s.follow {
		both := &struct {
			request
			of custody
		}{}
		both.request.custody = &both.of
		return &both.request
	}
	if n := len(s.spare); n > 0 {
		r := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return r
	}
	return &request{}
}

// follows reports whether a request in this state is found by its key.
func (s *scheduler) follows(is state) bool { return is.isPending() || s.follow && is.isInFlight() }

// step moves the request on, and keeps account of where it is. It returns what is left to do.
func (s *scheduler) step(r *request, ev event) action {
	was := r.state
	next, do, ok := was.on(ev)
	if !ok {
		panic(fmt.Sprintf("pipeline: event %d in state %d of a request", ev, was))
	}
	r.state = next
	// What is not followed was remembered when it was queued: by now further stages of it may have come, of which it does not know.
	remember := do&doRemember != 0 && s.follow
	switch {
	case was.isPending() && !next.isPending():
		s.pending.remove(r)
	case was.isWaiting() && !next.isWaiting() && !r.taken:
		s.waiting.remove(r)
		s.bytes -= r.bytes
	}
	switch {
	case next.isPending() && !was.isPending():
		s.pending.push(r)
	case next.isWaiting() && !was.isWaiting():
		s.enqueue(r)
		remember = remember || !s.follow
	}
	if r.key != 0 {
		if remember {
			s.seen.set(r.key, r.bits|judgedBit, r.mark)
		}
		switch before, after := s.follows(was), s.follows(next); {
		case after && !before:
			s.inFlight[r.key] = r
		case before && !after:
			delete(s.inFlight, r.key)
		}
	}
	return do
}

// enqueue lets the request wait for its turn.
func (s *scheduler) enqueue(r *request) {
	s.seq++
	r.seq, r.due = s.seq, timeOf(r.ev).Add(s.lag)
	if last := s.queue.last(); s.inLogOrder && last != nil && r.due.Before(last.due) {
		r.due = last.due
	}
	s.bytes += r.bytes
	s.waiting.push(r)
	s.queue.push(r)
}

func (s *scheduler) expire(r *request) {
	if do := s.step(r, eventExpired); s.act != nil {
		s.act(r, do)
	}
}

// floor is the earliest time of a request that waits, zero if none does.
func (s *scheduler) floor() time.Time {
	if r := s.queue.first(); r != nil {
		return timeOf(r.ev)
	}
	return time.Time{}
}

// drain has judged what is due, and returns when to call it again, the zero time if only news can change anything.
func (s *scheduler) drain(p pace) (again time.Time, err error) {
	for r := s.pending.first; r != nil; r = s.pending.first {
		yes, at := p.expired(r)
		if !yes {
			again = at
			break
		}
		s.expire(r)
	}
	for {
		at := s.collect(p)
		if len(s.due) == 0 {
			return sooner(again, at), nil
		}
		s.bench.judge(s.judge, s.due)
		for i := range s.due {
			if err := s.pass(i); err != nil {
				return again, err
			}
		}
		if s.sliced != nil {
			if err := s.sliced(); err != nil {
				return again, err
			}
		}
		for i := range s.due {
			if in := s.due[i].in; in != nil {
				in.giveBack()
			}
		}
	}
}

// dueRequest is a request of the slice in hand.
type dueRequest struct {
	r     *request
	in    *memory // of r
	early bool    // the state has not caught up with it
}

// collect takes the next slice out of the queue. at is when to ask again where there is none.
func (s *scheduler) collect(p pace) (at time.Time) {
	s.due = s.due[:0]
	for r := s.queue.first(); r != nil && len(s.due) < sliceMost; r = s.queue.first() {
		ready, early, at := p.ready(r)
		if ready && !s.judge.decided() {
			if s.waiting.n < decideAfter {
				ready, at = p.settled()
			}
			if ready {
				s.decide()
			}
		}
		if !ready {
			return at
		}
		s.queue.pop()
		s.waiting.remove(r)
		s.bytes -= r.bytes
		if r.taken = true; r.in != nil {
			r.in.leave()
		}
		if s.due = append(s.due, dueRequest{r, r.in, early}); early {
			break // room or news may come of it
		}
	}
	return time.Time{}
}

// sooner is the earlier of two times of which zero is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// decide lets the mode and the versions see everything that waits before the first judgement depends on them.
func (s *scheduler) decide() {
	silent := *s.judge
	silent.Rules, silent.Versions = nil, nil
	for r := s.waiting.first; r != nil && !s.judge.Mode.Decided(); r = r.next {
		silent.Judge(r.ev)
	}
	s.judge.Mode.settle()
	if v := s.judge.Versions; v != nil && !v.settled {
		mode := *s.judge.Mode
		silent.Mode, silent.Versions = &mode, v
		for r := s.waiting.first; r != nil; r = r.next {
			silent.Judge(r.ev)
		}
		v.again()
	}
}

// pass gives a request of the slice its turn.
func (s *scheduler) pass(i int) error {
	r := s.due[i].r
	s.judge.Early = s.due[i].early
	store, err := s.judged(r, s.judge.settle(&s.bench.hearings[i], r.ev))
	ev := eventDismissed
	if r.ev, r.in = nil, nil; store {
		ev = eventDecided
	}
	do := s.step(r, ev)
	if r.taken = false; s.act != nil {
		s.act(r, do)
	}
	if !s.follow {
		*r = request{}
		s.spare = append(s.spare, r)
	}
	return err
}
