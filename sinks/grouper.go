package sinks

import (
	"container/list"
	"strings"
	"sync"
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// GrouperOptions set a Grouper up; the zero value of each is its default.
type GrouperOptions struct {
	// Cluster is the cluster's name, for the findings.
	Cluster string
	// Every is how often a group is sent at most, 1 min by default.
	Every time.Duration
	// MaxGroups bounds how many groups of one class are distinguished within Every, 20,000 by default, as tally.Rooms does. Those beyond are grouped by
	// rule, node and class, and then by rule and class.
	MaxGroups int
	// Words make the findings' messages, English by default.
	Words wording.Words
}

// Grouper puts the findings of stored entries into groups. A group is sent when it occurs first, and as long as it continues occurring
// once every so often, with counts. Safe for concurrent use.
type Grouper struct {
	o    GrouperOptions
	send func([]Finding)

	mu     sync.Mutex
	groups map[tally.Key]*list.Element
	// order has all groups, those sent longest ago first. A group that was not seen for so long that it would be sent at once is forgotten.
	order *list.List
	rooms *tally.Rooms

	stop    chan struct{}
	stopped chan struct{}
	once    sync.Once
}

type group struct {
	key  tally.Key
	room tally.Room
	// pending is what was not sent yet; its Count is 0 if that is nothing.
	pending Finding
	sent    time.Time
	flushed bool // it was sent
}

// NewGrouper returns a running Grouper; Close ends it. send must not block and gets findings that nobody changes.
func NewGrouper(o GrouperOptions, send func([]Finding)) *Grouper {
	if o.Every <= 0 {
		o.Every = time.Minute
	}
	if o.MaxGroups <= 0 {
		o.MaxGroups = 20_000
	}
	o.Words = wording.Or(o.Words)
	g := &Grouper{
		o: o, send: send, groups: map[tally.Key]*list.Element{}, order: list.New(), rooms: tally.NewRooms(o.MaxGroups),
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	go g.run()
	return g
}

// Add takes the findings of entries in, but for those that were counted before. It keeps nothing of the entries' memory.
func (g *Grouper) Add(entries []tally.Entry) {
	var out []Finding
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		if e.Duplicate {
			continue
		}
		for j := range e.Findings {
			gr, fresh := g.group(&e.Findings[j], now)
			gr.add(e, &e.Findings[j])
			if fresh {
				out = append(out, gr.take(g.o.Words))
				gr.flushed = true
			}
		}
	}
	g.hand(out)
}

// group returns the group of the finding, or a wider one where there are too many; fresh says that it was not remembered.
func (g *Grouper) group(f *tally.Finding, now time.Time) (gr *group, fresh bool) {
	if e := g.groups[f.Key]; e != nil {
		return e.Value.(*group), false
	}
	key, room := g.rooms.Place(&f.Key, f.Class(), false, func(k tally.Key) bool { return g.groups[k] != nil })
	if e := g.groups[key]; e != nil {
		return e.Value.(*group), false
	}
	key.Own()
	gr = &group{key: key, room: room, pending: newFinding(g.o.Cluster, &key), sent: now}
	g.groups[key] = g.order.PushBack(gr)
	return gr, true
}

// add counts one finding.
func (gr *group) add(e *tally.Entry, f *tally.Finding) {
	p := &gr.pending
	t := jsonTime(e.Time)
	if p.Count == 0 {
		p.First, p.Last = t, t
	}
	if t.Before(p.First) {
		p.First = t
	}
	if t.After(p.Last) {
		p.Last = t
	}
	p.Count++
	p.Allowed, p.Authorized = p.Allowed || e.Succeeded(f), p.Authorized || f.Allowed
	p.Origins.Add(&e.Origin)
	if p.Severity == "" || f.Severity > severityOf(p.Severity) {
		p.Severity = f.Severity.String()
		if !gr.room.Wide {
			p.Reason, p.Params = f.Reason, f.Params.Own()
		}
	}
	if len(p.AuditIDs) < tally.MaxAuditIDs {
		p.AuditIDs = append(p.AuditIDs, strings.Clone(tally.Bounded(f.AuditID)))
	}
}

// take returns what is pending and begins anew.
func (gr *group) take(w wording.Words) Finding {
	out := gr.pending
	if out.Params == nil {
		out.Params = codes.Params{}
	}
	out.Message = w.Finding(&gr.key, &tally.Group{Reason: out.Reason, Params: out.Params, Severity: severityOf(out.Severity), Allowed: out.Authorized, Succeeded: out.Allowed, Wide: gr.room.Wide})
	p := &gr.pending
	p.Severity, p.Reason, p.Params, p.Allowed, p.Authorized, p.Count, p.AuditIDs = rules.None.String(), "", nil, false, false, 0, []string{}
	p.Origins = (&tally.Origins{}).Filled()
	return out
}

func (g *Grouper) hand(out []Finding) {
	if len(out) > 0 {
		g.send(out)
	}
}

// Groups returns how many groups are remembered.
func (g *Grouper) Groups() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.groups)
}

// Close sends what is pending. Add must not be called afterwards.
func (g *Grouper) Close() {
	g.once.Do(func() {
		close(g.stop)
		<-g.stopped
		for g.flush(time.Now().Add(g.o.Every)) {
			continue
		}
	})
}

func (g *Grouper) run() {
	defer close(g.stopped)
	tick := time.NewTicker(max(g.o.Every/20, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			for g.flush(now) {
				continue
			}
		case <-g.stop:
			return
		}
	}
}

// flush sends groups that are due, and forgets those that do not occur any more, at most so many that Add hardly waits; more says that
// there may be others.
func (g *Grouper) flush(now time.Time) (more bool) {
	const most = 500
	var out []Finding
	g.mu.Lock()
	defer g.mu.Unlock()
	for range most {
		e := g.order.Front()
		if e == nil {
			break
		}
		gr := e.Value.(*group)
		if now.Sub(gr.sent) < g.o.Every {
			break
		}
		if gr.pending.Count == 0 {
			g.order.Remove(e)
			delete(g.groups, gr.key)
			g.rooms.Leave(gr.room)
		} else {
			out = append(out, gr.take(g.o.Words))
			out[len(out)-1].Continued = gr.flushed
			gr.sent, gr.flushed = now, true
			g.order.MoveToBack(e)
		}
		more = true
	}
	g.hand(out)
	return more
}
