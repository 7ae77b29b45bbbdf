package alertmanager

import (
	"context"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/sinks"
)

// Keeper keeps alerts where they survive the process, and where other processes see them.
type Keeper interface {
	// Kept returns the alerts that were put and not deleted and whose key begins with the prefix.
	Kept(ctx context.Context, prefix string) ([]Kept, error)
	// Keep stores alerts, each in place of the one with its key, and deletes those with the keys gone.
	Keep(ctx context.Context, put []Kept, gone []string) error
}

// Kept is an alert that a peer has taken, or that fires longer than its findings say: no peer took it in time, or they were found late.
type Kept struct {
	Key string `json:"-"`
	// First and Last are of the findings.
	First time.Time `json:"-"`
	Last  time.Time `json:"-"`
	// Learnt is when the alert was made, Taken when a peer took it, zero if none did.
	Learnt time.Time `json:"learnt"`
	Taken  time.Time `json:"taken"`
	// Found is when the last of its findings was found that was over by then, zero if none was.
	Found time.Time `json:"found,omitzero"`
	// Resolved is when it was over, zero while it fires, and Closed since when that is sent.
	Resolved time.Time `json:"resolved,omitzero"`
	Closed   time.Time `json:"closed,omitzero"`
	// Finding is the newest of its findings.
	Finding sinks.Finding `json:"finding"`
}

const keptPrefix = "alertmanager "

// kept reads what is kept for a sink of this name, of this process or another.
func (s *Sink) kept(ctx context.Context) ([]Kept, error) {
	if s.o.Keeper == nil {
		return nil, nil
	}
	return s.o.Keeper.Kept(ctx, keptPrefix)
}

// store keeps what has to be kept.
func (s *Sink) store(ctx context.Context, put []Kept, gone []string) {
	if s.o.Keeper == nil || len(put) == 0 && len(gone) == 0 {
		return
	}
	if err := s.o.Keeper.Keep(ctx, put, gone); err != nil {
		s.o.Log.Warn().Err(err).Msg("cannot store which alerts no Alertmanager has taken yet")
		s.mu.Lock()
		s.book.notKept(put, gone)
		s.mu.Unlock()
	}
}

// keepFound keeps what nothing else brings back after a crash: alerts of findings that were found late, and what peers have taken.
func (s *Sink) keepFound(ctx context.Context) {
	s.mu.Lock()
	var put []Kept
	var gone []string
	if s.book.hurry {
		put, gone = s.book.toKeep(s.o.Clock.Now())
	}
	s.keeping = true
	s.mu.Unlock()
	s.store(ctx, put, gone)
	s.mu.Lock()
	s.keeping = false
	s.mu.Unlock()
}

// withBefore puts the alerts of the sink before in place of what is kept of them. It has them until they are asked for.
func (s *Sink) withBefore(kept []Kept) []Kept {
	before := s.before
	s.before = nil
	newer := map[string]bool{}
	for i := range before {
		newer[before[i].Key] = true
	}
	return append(before, slices.DeleteFunc(kept, func(k Kept) bool { return newer[k.Key] })...)
}

// find returns under which key an alert of this sink is kept; known is false for others.
func (b *book) find(k *Kept, now time.Time) (at key, known bool) {
	if now.Sub(later(k.Learnt, k.Last)) > 2*untaken { // who kept it is no more
		b.gone = append(b.gone, k.Key)
		return key{}, false
	}
	f := &k.Finding
	f.Authorized = f.Authorized || f.Allowed // kept by a program that did not tell these apart
	at = keyOf(f)
	for _, wider := range []key{at.ofNode(f.Authorized), at.ofRule(f.Authorized)} {
		if at.text(b.o.Name) != k.Key {
			at = wider
		}
	}
	// It is of another sink, or of another version of the program, if the key is not the same.
	return at, at.text(b.o.Name) == k.Key && f.Count > 0
}

// resume takes in what is kept, before the store is read. At first that is what the process before had, but for incidents: which of them there are, and how
// severe they are, is read.
func (b *book) resume(kept []Kept, now time.Time, first bool) {
	for i := range kept {
		if at, known := b.find(&kept[i], now); known && !(first && at.isIncident()) {
			b.restore(&kept[i], at, now, first)
		}
	}
}

// resumeIncidents takes in which incidents the process before had, when those of now are read.
func (b *book) resumeIncidents(kept []Kept, now time.Time) {
	for i := range kept {
		if at, known := b.find(&kept[i], now); known && at.isIncident() {
			b.restore(&kept[i], at, now, true)
		}
	}
}

// giveUp ends alerts of the process before whose findings make none any more: an exception covers them, or the configuration is another.
func (b *book) giveUp(now time.Time) {
	for _, a := range b.order {
		if a.unread && a.fires() {
			a.resolved, a.closed = now, now
		}
		a.unread = false
	}
}

// restore takes in an alert that is kept. The process has just started if first is true.
func (b *book) restore(k *Kept, at key, now time.Time, first bool) {
	a := b.alerts[at]
	// Its findings have just been read, or are about to be.
	read := !k.Last.Add(b.o.resolveAfter(&at)).Before(now)
	switch over := !k.Resolved.IsZero(); {
	case over && now.Sub(k.Closed) > resolvedFor:
		if a == nil {
			b.gone = append(b.gone, k.Key)
		}
		return
	case !first && (over || a == nil && read): // of another process, which knows
		return
	case a == nil && k.Taken.IsZero() && read && at.isIncident(): // it has given way, and no peer knows it
		b.gone = append(b.gone, k.Key)
		return
	case a == nil:
		if len(b.alerts) >= b.o.MaxAlerts {
			return
		}
		a = b.recall(k, at, now)
		switch whose := b.incidents[credential{at.cluster, at.node}]; {
		case over:
			a.resolved, a.closed = earlier(k.Resolved, now), earlier(k.Closed, now)
		case !at.isIncident() || !first:
			a.unread = first && read
			b.lead(a, now)
		case read || whose != nil && whose.fires() && severityOf(&whose.key) > severityOf(&at): // it has given way
			a.resolved, a.closed = now, now
		case !b.ends(a).After(now):
			a.resolved, a.closed = b.ends(a), now
		default:
			b.lead(a, now)
		}
	case over && a.fires(): // it has begun anew
		if a.found.IsZero() {
			a.first = later(a.first, k.Resolved)
		}
	case over: // it gave way before
		a.first, a.taken, a.resolved, a.closed = earlier(k.First, now), earlier(k.Taken, now), earlier(k.Resolved, now), earlier(k.Closed, now)
	case a.fires():
		b.same(a, k, now, first)
	case k.Found.After(a.closed): // by another process
		a.again(k.First, now)
		a.last = earlier(k.Last, now)
		b.lead(a, now)
		a.tell(&k.Finding, a.last)
		a.atLeast(a.last, k.Finding.Count)
		b.same(a, k, now, first)
	case k.Last.After(a.last) && !first: // another process knows more
		return
	case a.taken.IsZero() && !k.Taken.IsZero(): // it gave way, and a peer has it
		a.first, a.taken = earlier(k.First, now), earlier(k.Taken, now)
	}
	a.kept, a.saved = true, times{k.First, k.Last, k.Taken, k.Found, k.Resolved}
}

// recall makes an alert of what is kept.
func (b *book) recall(k *Kept, at key, now time.Time) *alert {
	a := b.add(at, at.class(k.Finding.Authorized), now)
	a.first, a.last = earlier(k.First, now), earlier(k.Last, now)
	a.learnt, a.taken, a.found = earlier(k.Learnt, now), earlier(k.Taken, now), earlier(k.Found, now)
	a.tell(&k.Finding, a.last)
	if hourOf(a.last) < hourOf(now.Add(-b.o.longest())) || !k.Resolved.IsZero() { // else it is counted when it is read
		a.atLeast(a.last, k.Finding.Count)
	}
	return a
}

// same takes in what is kept of an alert that fires.
func (b *book) same(a *alert, k *Kept, now time.Time, first bool) {
	switch before := earlier(k.First, now); {
	case a.first.After(k.Last.Add(b.o.resolveAfter(&a.key))): // that was over by then
	case first, before.Before(a.first):
		a.first = before
	}
	a.found = later(a.found, earlier(k.Found, now))
	a.learnt = earlier(a.learnt, k.Learnt)
	a.taken = later(a.taken, earlier(k.Taken, now))
}

// record is an alert as it is kept.
func (b *book) record(a *alert) Kept {
	return Kept{
		Key: a.key.text(b.o.Name), First: a.first, Last: a.last, Learnt: a.learnt, Taken: a.taken, Found: a.found, Resolved: a.resolved, Closed: a.closed,
		Finding: a.finding(),
	}
}

// all are all alerts as they are kept, for a sink that takes over.
func (b *book) all() []Kept {
	var out []Kept
	for _, a := range b.order {
		if !a.silent() {
			out = append(out, b.record(a))
		}
	}
	return out
}

// toKeep is what has changed of what has to be kept.
func (b *book) toKeep(now time.Time) (put []Kept, gone []string) {
	b.hurry = false
	if b.o.Keeper == nil {
		return nil, nil
	}
	for _, a := range b.order {
		is, was := a.times(), a.saved
		needed := !a.taken.IsZero() || !a.found.IsZero() || now.Sub(a.learnt) >= b.o.Resend/2
		// A record of an alert that continues need not be of its very last finding: the store has that.
		if a.kept && is.last.Sub(was.last) < b.o.resolveAfter(&a.key)/2 {
			was.last = is.last
		}
		if a.silent() || a.kept && is.equal(was) || !a.kept && !needed {
			continue
		}
		put = append(put, b.record(a))
		a.kept, a.saved = true, is
	}
	gone, b.gone = b.gone, nil
	return put, slices.DeleteFunc(gone, func(g string) bool { return slices.ContainsFunc(put, func(k Kept) bool { return k.Key == g }) })
}

// notKept notes that storing failed: it is tried next time.
func (b *book) notKept(put []Kept, gone []string) {
	keys := map[string]bool{}
	for i := range put {
		keys[put[i].Key] = true
	}
	for _, a := range b.order {
		if a.kept && keys[a.key.text(b.o.Name)] {
			a.kept = false
		}
	}
	b.gone = append(b.gone, gone...)
}
