package pipeline

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/tally"
)

// lane is a lane that is open.
type lane struct {
	name  string
	fence int64
	// latest is the latest time of its events.
	latest time.Time
	// behind says that what it brought last is old and more of it is there; taken is when that was.
	behind bool
	taken  time.Time
	// batches are those not stored, in order; inOrder says that they have positions.
	batches []*batch
	inOrder bool
	// judged are the requests that wait for the next commit.
	judged   []*request
	resolved []tally.ID
	gone     error // why it was closed
}

// batch is a source's batch until it is stored.
type batch struct {
	d    *delivery
	lane *lane
	// unjudged counts the requests that must be judged before the batch is complete, its own and those of which it brought another event.
	unjudged int
	// using counts the requests whose event is in the batch's memory.
	using int
	// keeps is about how many bytes the requests keep that it began, or whose response it brought.
	keeps int64
	taken bool
	// complete says that it is in the commit under way.
	complete bool
	events   tally.Events
}

type requestState uint8

const (
	requestOpened requestState = iota // only its beginning was logged
	requestWaiting
	requestJudged // not stored
	requestOver
)

// request is one in flight.
type request struct {
	id      tally.ID
	ev      *audit.Event
	inBatch *batch // whose memory ev is in, nil if it is its own
	owner   *batch // through whose lane it is stored, nil if that batch is complete and the request is stored as opened
	waiters []*batch
	lane    *lane // of owner, or the one that stores it as opened
	state   requestState
	stored  *lane // that stores it as opened
	// relying are other lanes' batches that brought its beginning, too, while the commit that stores it as opened is under way: if the
	// lane is taken out of that, one of them brings the request.
	relying  []*batch
	bits     uint8
	seq      uint64
	due      time.Time // in the log's time
	received time.Time
	until    time.Time // in the log's time, while it is opened
	bytes    int64
	entry    tally.Entry
	line     []byte
}

// openLane is the loop's part of Open.
func (e *Engine) openLane(name string, fence int64, stored *tally.Lane) error {
	if l := e.lanes[name]; l != nil {
		return fmt.Errorf("%s was opened twice", name)
	}
	for _, id := range stored.Recent {
		e.seen.set(e.hash(id), judgedBit)
	}
	l := &lane{name: name, fence: fence, latest: stored.Latest}
	e.lanes[name] = l
	now := e.opt.Now()
	for i := range stored.Opened {
		o := &stored.Opened[i]
		if e.inflight[o.ID] != nil {
			continue
		}
		var ev *audit.Event
		(&audit.Decoder{}).Chunk(o.Event, 1, func(read *audit.Event) { ev = read.Clone() }, func(audit.Malformed) {})
		if ev == nil {
			continue
		}
		r := &request{
			id: o.ID, ev: ev, lane: l, stored: l, until: o.Until, received: now, bits: stageBit(ev.Stage), bytes: costOf(ev),
		}
		e.inflight[o.ID] = r
		e.opened = append(e.opened, r)
	}
	return nil
}

func (e *Engine) hash(id tally.ID) uint64 { return maphash.Bytes(e.seen.seed, id[:]) }

// idOf identifies a request, by all that was logged of it where it has no auditID.
func idOf(ev *audit.Event) tally.ID {
	var b [512]byte
	if ev.AuditID != "" {
		return tally.IDOf(identify(b[:0], ev))
	}
	id := b[:0]
	for _, s := range []string{
		ev.RequestReceived.Format(time.RFC3339Nano), ev.Verb, ev.RequestURI, ev.User.Username, ev.Impersonated.Username, ev.UserAgent,
		ev.ObjectRef.Name, ev.Decision, ev.Reason, strconv.Itoa(int(ev.Code)), fmt.Sprint(ev.SourceIPs),
	} {
		id = fmt.Appendf(id, "%d:%s,", len(s), s)
	}
	return tally.IDOf(id)
}

// identify appends what all events of one request share, and events of no other: its auditID, verb and URI, and when it was received. The
// auditID alone does not do: a client may give it by the header Audit-ID, the same for all that it asks for, and what looked like another
// event of a harmless request would never be judged. Events derived from another kind of log have no such time.
func identify(b []byte, ev *audit.Event) []byte {
	for _, s := range [...]string{ev.AuditID, ev.Verb, ev.RequestURI} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	if !ev.Derived && !ev.RequestReceived.IsZero() {
		b = binary.AppendVarint(b, ev.RequestReceived.UnixMicro())
	}
	return b
}

// kept is a copy without the bodies, of which the state was told already.
func kept(ev *audit.Event) *audit.Event {
	bare := *ev
	bare.RequestObject, bare.ResponseObject = nil, nil
	return bare.Clone()
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
	return int64(n)
}

// take takes a batch in.
func (e *Engine) take(d *delivery) {
	l := e.lanes[d.b.Lane]
	if l == nil {
		e.finish(&batch{d: d, taken: true}, source.ErrClosed)
		return
	}
	b := &batch{d: d, lane: l}
	src := d.b
	l.inOrder = l.inOrder || src.Position != ""
	l.batches = append(l.batches, b)
	l.taken = e.opt.Now()
	for i := range src.Events {
		ev := &src.Events[i]
		if e.opt.State != nil && audit.ChangesState(ev) {
			e.opt.State.ApplyAudit(ev)
		}
		if t := timeOf(ev); t.After(l.latest) {
			l.latest = t
		}
		if audit.Needed(ev, audit.Want{}) {
			e.arrive(b, ev)
		}
	}
	l.behind = src.Behind && l.taken.Sub(l.latest) > behindBy
	c := &src.Counts
	b.events.Read, b.events.Skipped, b.events.Malformed = c.Read, c.Skipped, c.Malformed
	for i := range src.Places {
		if p := &src.Places[i]; i < tally.MaxMalformed {
			b.events.MalformedAt = append(b.events.MalformedAt, tally.Place{File: p.Input, Line: int(p.Line), Cause: p.Cause})
		}
	}
	b.taken = true
	e.letGo(b)
}

// letGo gives the memory of the batch's events back when nothing uses it any more.
func (e *Engine) letGo(b *batch) {
	if src := b.d.b; b.taken && b.using == 0 && src.Release != nil {
		src.Release()
		src.Release = nil
		e.lighten(b)
	}
	b.d.b.Events = nil
}

// lighten gives back what the batch was counted for beyond its requests: most events of a log are not a node's.
func (e *Engine) lighten(b *batch) {
	const fixed = 1024
	if less := b.d.cost - fixed - b.keeps; less > 0 {
		b.d.cost -= less
		e.held.Add(-less)
		b.d.sem.Release(less)
	}
}

// arrive takes in an event of a request.
func (e *Engine) arrive(b *batch, ev *audit.Event) {
	u := ev.Effective()
	if _, isNode := audit.NodeIdentity(u.Username, u.Groups); isNode {
		b.events.Node++
	}
	id, bit := idOf(ev), stageBit(ev.Stage)
	r := e.inflight[id]
	if r == nil {
		h := e.hash(id)
		if bits := e.seen.get(h); bits&judgedBit != 0 {
			if bits&bit != 0 {
				b.events.Duplicates++
			}
			e.seen.set(h, bits|bit)
			return
		}
		e.begin(b, ev, id, bit)
		return
	}
	if r.bits&bit != 0 {
		b.events.Duplicates++
	}
	r.bits |= bit
	if r.state == requestOpened && ev.Stage != audit.StageRequestReceived {
		e.respond(b, r, ev)
		return
	}
	if r.state == requestOpened && r.stored != nil {
		if e.commit.opens(r) && r.lane != b.lane {
			r.relying = append(r.relying, b)
		}
		return
	}
	r.waiters = append(r.waiters, b)
	if r.state != requestJudged { // else it is stored with the batch, or before
		b.unjudged++
	}
}

// begin makes a request of its first event.
func (e *Engine) begin(b *batch, ev *audit.Event, id tally.ID, bit uint8) {
	e.seq++
	r := &request{id: id, owner: b, lane: b.lane, bits: bit, seq: e.seq, received: b.d.b.Received, bytes: costOf(ev)}
	if r.received.IsZero() {
		r.received = b.lane.taken
	}
	e.inflight[id] = r
	b.unjudged++
	b.keeps += r.bytes + entryBytes
	if ev.Stage == audit.StageRequestReceived {
		r.ev, r.until = kept(ev), timeOf(ev).Add(e.opt.OpenFor)
		e.opened = append(e.opened, r)
		return
	}
	e.enqueue(r, b, ev)
}

// respond goes on with a request that was opened, now that its response has come.
func (e *Engine) respond(b *batch, r *request, ev *audit.Event) {
	if r.owner != nil {
		r.waiters = append(r.waiters, r.owner)
	}
	e.seq++
	r.await()
	r.owner, r.lane, r.received, r.seq = b, b.lane, b.d.b.Received, e.seq
	if r.received.IsZero() {
		r.received = b.lane.taken
	}
	b.unjudged++
	b.keeps += costOf(ev) + entryBytes
	e.enqueue(r, b, ev)
}

// enqueue lets the request wait for its turn. While a source catches up, whole batches are kept, which costs less than copies of nearly
// all of their events.
func (e *Engine) enqueue(r *request, b *batch, ev *audit.Event) {
	if b.d.b.Behind {
		r.ev, r.inBatch = ev, b
		b.using++
	} else {
		r.ev, r.inBatch = kept(ev), nil
	}
	r.state, r.due = requestWaiting, timeOf(ev).Add(e.opt.Skew+e.opt.Slack)
	e.waiting += r.bytes
	e.push(r)
}

// closeLane gives a lane up; done is closed once no commit of it is under way.
func (e *Engine) closeLane(l *lane, done chan struct{}) {
	e.dropLane(l, source.ErrClosed)
	switch {
	case !e.commit.has(l):
	case e.committing:
		e.closing = append(e.closing, closing{l, done})
		return
	default:
		e.takeOut(e.commit, l.name, source.ErrClosed)
	}
	close(done)
}

// dropLane forgets what of a lane is not in a commit under way. Requests of which another lane brought an event too go on through that.
func (e *Engine) dropLane(l *lane, why error) {
	if l.gone != nil {
		return
	}
	l.gone = why
	if e.lanes[l.name] == l {
		delete(e.lanes, l.name)
	}
	for id, r := range e.inflight {
		if r.lane != l || e.commit.holds(r) {
			continue
		}
		if !e.passOn(r) {
			delete(e.inflight, id)
			if r.state == requestWaiting {
				e.waiting -= r.bytes
			}
			r.state = requestOver
		}
	}
	l.judged = nil
	for _, b := range l.batches {
		b.using = 0
		e.finish(b, why)
	}
	l.batches = nil
}

// passOn makes another batch that brought an event of the request its owner, if there is one.
func (e *Engine) passOn(r *request) bool {
	for i, w := range r.waiters {
		if w.lane.gone != nil {
			continue
		}
		if r.inBatch != nil { // whose memory goes
			r.ev, r.inBatch = kept(r.ev), nil
		}
		r.owner, r.lane = w, w.lane
		r.waiters = append(r.waiters[:i:i], r.waiters[i+1:]...)
		if r.state == requestJudged {
			w.lane.judged = append(w.lane.judged, r)
		}
		return true
	}
	return r.state == requestOpened && r.relyOn()
}

// relyOn makes a batch that relies on the request bring it: one that is not complete, so that it need not be, else one that is stored by
// the commit under way.
func (r *request) relyOn() bool {
	for _, complete := range []bool{false, true} {
		for i, w := range r.relying {
			if w.lane.gone != nil || w.complete != complete {
				continue
			}
			if r.lane = w.lane; complete {
				r.stored = w.lane
				return true
			}
			w.unjudged++
			r.owner, r.stored = w, nil
			r.relying = slices.Delete(r.relying, i, i+1)
			r.await()
			return true
		}
	}
	return false
}

// await makes the batches that rely on the request being stored as opened wait for it to be judged.
func (r *request) await() {
	r.relying = slices.DeleteFunc(r.relying, func(w *batch) bool {
		if w.complete {
			return false
		}
		if w.lane.gone == nil {
			w.unjudged++
			r.waiters = append(r.waiters, w)
		}
		return true
	})
}

// finish is the end of a batch: its source is told, and its memory given back.
func (e *Engine) finish(b *batch, err error) {
	e.letGo(b)
	e.giveBack(b.d)
	if b.d.done != nil {
		b.d.done(err)
	}
}
