package alertmanager

import (
	"maps"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
)

// origin is where a finding comes from.
type origin uint8

const (
	live   origin = iota // it was just stored
	stored               // the store has it
)

// outcome is what became of a finding.
type outcome uint8

const (
	unchanged outcome = iota // the alert was there, or there is none to be
	began
	old
	crowded
)

// book is the alerts that are sent. Not safe for concurrent use.
type book struct {
	o      *Options
	titles map[string]string // of rules
	alerts map[key]*alert
	order  []*alert // the oldest first
	gone   []string // keys of kept alerts that are over
	// classes and refused count the alerts.
	classes map[class]int
	refused int
	// incidents are the alerts of incidents, the latest of each credential. Some are over.
	incidents map[credential]*alert
	// hurry says that the Keeper is to know something at once: of findings that were found late, of what a peer has taken, and of what has given way.
	hurry bool
}

// How many alerts of a class are distinguished, and of all that refused requests make the share of MaxAlerts.
const (
	refusedOfClass = 3
	allowedOfClass = 50
	refusedShare   = 2
)

// place returns under which key a finding is reported: its own, or where there are too many that of its node and then that of its rule. Refused requests
// take no room of allowed ones.
func (b *book) place(k key, allowed bool) key {
	most, full := allowedOfClass, len(b.alerts) >= b.o.MaxAlerts
	if !allowed {
		most, full = refusedOfClass, full || b.refused >= b.o.MaxAlerts/refusedShare
	}
	switch {
	case b.alerts[k] != nil, !full && b.classes[k.class(allowed)] < most:
		return k
	case b.alerts[k.ofNode(allowed)] != nil, !full && k.node != "":
		return k.ofNode(allowed)
	}
	return k.ofRule(allowed)
}

func newBook(o *Options) *book {
	b := &book{o: o, titles: map[string]string{}, alerts: map[key]*alert{}, classes: map[class]int{}, incidents: map[credential]*alert{}}
	for _, r := range rules.All() {
		b.titles[r.Name] = r.Title()
	}
	b.titles[IncidentRule] = "Somebody uses a credential for what it is not for"
	return b
}

// fold takes one finding in. Those of the store may come any number of times.
func (b *book) fold(f *sinks.Finding, now time.Time, from origin) outcome {
	const ahead = 5 * time.Minute // of a clock that is fast
	severity, err := rules.ParseSeverity(f.Severity)
	if err != nil || severity < b.o.MinSeverity || f.Count <= 0 || from != live && f.Last.After(now.Add(ahead)) {
		return unchanged
	}
	first, last := earlier(f.First, now), earlier(f.Last, now)
	own, told := b.keyFor(f, severity)
	if !told {
		return unchanged
	}
	over, out := last.Add(b.o.resolveAfter(&own)), unchanged
	late := over.Before(now)
	// What nobody could find in time, such as while nodetrail was down, counts as of now. What is older than the watch is history.
	found := late && from == live && !last.Before(b.o.Since)
	k := b.place(own, f.Authorized)
	if k != own {
		out = crowded
	}
	a := b.alerts[k]
	switch {
	case a == nil && late && !found, // nothing to tell: no peer has it, or else the Keeper does
		a != nil && !a.fires() && late && !found: // the peer knows
		if from != live {
			return unchanged
		}
		return old
	case a == nil:
		a = b.add(k, k.class(f.Authorized), now)
		a.first, a.last = first, last
		out = max(out, began)
	case !a.fires() && found:
		a.again(first, now)
		a.last, out = last, max(out, began)
	case !a.fires() && last.After(a.last):
		a.again(later(first, a.resolved), now)
		a.last, out = last, max(out, began)
	case found:
		a.first = earlier(a.first, first)
	case from != live && a.learnt.Equal(now) && !late && !a.kept: // of the same reading, whose newest comes first
		a.first = earlier(a.first, first)
	}
	a.last, a.unread = later(a.last, last), false
	if found {
		a.found, b.hurry = now, b.hurry || !a.kept
	}
	b.lead(a, now)
	a.tell(f, last)
	if from == live {
		a.atLeast(last, f.Count)
	} else {
		a.reading(last, f.Count)
	}
	return out
}

func (b *book) add(k key, c class, now time.Time) *alert {
	a := &alert{key: k, class: c, learnt: now, sent: make([]mark, len(b.o.URLs))}
	b.classes[c]++
	if !c.allowed {
		b.refused++
	}
	b.alerts[k] = a
	b.order = append(b.order, a)
	return a
}

// counted ends a reading of the store.
func (b *book) counted() {
	for _, a := range b.order {
		a.counted()
	}
}

func (b *book) count() (firing, resolved int) {
	for _, a := range b.order {
		switch {
		case a.fires():
			firing++
		case !a.silent():
			resolved++
		}
	}
	return firing, resolved
}

// waiting is of how many alerts a peer does not know the beginning or end, and about how many bytes they are.
func (b *book) waiting(peer int) (n int, bytes int64) {
	for _, a := range b.order {
		if a.news(peer) {
			n++
			bytes += a.size()
		}
	}
	return n, bytes
}

// ends is when an alert is over unless it is found again.
func (b *book) ends(a *alert) time.Time {
	// least is how long an alert fires once a peer has it: longer than Alertmanager waits for others of the group.
	const least = 5 * time.Minute
	after := b.o.resolveAfter(&a.key)
	end := later(a.last, a.found).Add(after)
	if a.taken.IsZero() {
		return later(end, a.learnt.Add(untaken))
	}
	return later(end, a.taken.Add(min(least, after)))
}

// nextEnd is when the next alert is over; far ahead if there is none.
func (b *book) nextEnd() time.Time {
	var next time.Time
	for _, a := range b.order {
		if end := b.ends(a); a.fires() && (next.IsZero() || end.Before(next)) {
			next = end
		}
	}
	if next.IsZero() {
		return b.o.Clock.Now().Add(untaken)
	}
	return next
}

// settle ends what is over as of a time up to which all findings are known, and forgets what was sent as resolved for long.
func (b *book) settle(known, now time.Time) {
	for _, a := range b.order {
		if a.fires() && !b.ends(a).After(known) {
			a.resolved, a.closed = b.ends(a), now
		}
	}
	forget := func(a *alert) bool { return !a.fires() && now.Sub(a.closed) > resolvedFor }
	for _, a := range b.order {
		if forget(a) {
			delete(b.alerts, a.key)
			if whose := (credential{a.key.cluster, a.key.node}); b.incidents[whose] == a {
				delete(b.incidents, whose)
			}
			if b.classes[a.class]--; b.classes[a.class] == 0 {
				delete(b.classes, a.class)
			}
			if !a.class.allowed {
				b.refused--
			}
		}
		if a.kept && (forget(a) || a.silent()) {
			b.gone = append(b.gone, a.key.text(b.o.Name))
			a.kept = false
		}
	}
	b.order = slices.DeleteFunc(b.order, forget)
}

// sending is an alert on its way to a peer.
type sending struct {
	alert  *alert
	begun  int // of the alert
	firing bool
	wire   alertJSON
}

// due returns at most so many alerts that a peer is to be sent now, or else when to ask again at the latest. newsOnly leaves out what the peer
// has taken before.
func (b *book) due(peer int, now time.Time, most int, newsOnly bool) (out []sending, next time.Time) {
	next = now.Add(b.o.Resend)
	for _, a := range b.order {
		at := now
		if a.silent() {
			continue
		}
		if !a.news(peer) {
			at = b.again(&a.sent[peer])
			if newsOnly {
				continue
			}
		}
		if at.After(now) {
			next = earlier(next, at)
			continue
		}
		out = append(out, sending{alert: a, begun: a.begun, firing: a.fires(), wire: b.wire(a, now)})
		if len(out) == most {
			break
		}
	}
	return out, next
}

// again is when an alert is sent again: a quarter of Resend late at most, so that many go together.
func (b *book) again(m *mark) time.Time {
	const refusedTimes = 10 // what was refused again and again is hardly taken now
	every := b.o.Resend
	if m.refusals > 0 {
		every *= time.Duration(min(refusedTimes, 1<<min(m.refusals-1, refusedTimes)))
	}
	t, step := m.at.Add(every), b.o.Resend/4
	if on := t.Truncate(step); on.Before(t) {
		return on.Add(step)
	}
	return t
}

// wire is the alert as it is sent.
func (b *book) wire(a *alert, now time.Time) alertJSON {
	// An end four times Resend ahead outlasts lost requests; the fifth is for what again and a slow request add.
	const ahead = 5
	w := alertJSON{Labels: a.labels(b.o), Annotations: a.annotations(b), StartsAt: a.first.UTC(), EndsAt: now.Add(ahead * b.o.Resend).UTC()}
	if !a.fires() {
		w.EndsAt = a.resolved.UTC()
	}
	if b.o.ExternalURL != "" {
		w.GeneratorURL = b.o.ExternalURL + "/findings/" + a.id
		if a.key.isIncident() {
			w.GeneratorURL = sinks.IncidentsURL(b.o.ExternalURL, a.key.node)
		}
	}
	return w
}

// sent notes that a peer has taken an alert or refused it, and says whether that is new.
func (b *book) sent(peer int, s *sending, now time.Time, refused bool) (first bool) {
	a := s.alert
	if a.begun != s.begun {
		return true // it has begun anew meanwhile, which the peer does not know
	}
	m := &a.sent[peer]
	first = m.at.IsZero() || m.firing != s.firing || m.refusals > 0 != refused
	refusals := 0
	if refused {
		refusals = m.refusals + 1
	}
	*m = mark{at: now, firing: s.firing, refusals: refusals}
	if s.firing && !refused && a.taken.IsZero() {
		a.taken, b.hurry = now, true
	}
	return first
}

// forget takes a peer for one that knows nothing.
func (b *book) forget(peer int) {
	for _, a := range b.order {
		a.sent[peer] = mark{}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// withLabels are the labels with the configuration's own.
func withLabels(own, all map[string]string) map[string]string {
	for name, value := range own {
		all[name] = clean(value)
	}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}
