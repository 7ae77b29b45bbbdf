package alertmanager

import (
	"context"
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

// Kept is an alert that fires longer than its findings say, since no peer took it in time or they were found late.
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

// keepFound keeps alerts of findings that were found late: nothing else brings them back after a crash.
func (s *Sink) keepFound(ctx context.Context) {
	s.mu.Lock()
	var put []Kept
	var gone []string
	if s.book.hurry {
		put, gone = s.book.toKeep(s.o.Clock.Now())
	}
	s.mu.Unlock()
	s.store(ctx, put, gone)
}

// restore takes in an alert that is kept.
func (b *book) restore(k *Kept, now time.Time) {
	if now.Sub(k.Learnt) > 2*untaken { // who kept it is no more
		b.gone = append(b.gone, k.Key)
		return
	}
	f := &k.Finding
	f.Authorized = f.Authorized || f.Allowed // kept by a program that did not tell these apart
	own := keyOf(f)
	at := own
	for _, wider := range []key{own.ofNode(f.Authorized), own.ofRule(f.Authorized)} {
		if at.text(b.o.Name) != k.Key {
			at = wider
		}
	}
	if at.text(b.o.Name) != k.Key || f.Count <= 0 {
		return // of another sink, or of another version of the program
	}
	a := b.alerts[at]
	if a == nil {
		if len(b.alerts) >= b.o.MaxAlerts {
			return
		}
		a = b.add(at, at.class(f.Authorized), now)
		a.first, a.last = earlier(k.First, now), earlier(k.Last, now)
		a.learnt, a.taken, a.found = earlier(k.Learnt, now), earlier(k.Taken, now), earlier(k.Found, now)
		b.lead(a, now)
		a.tell(f, a.last)
		a.atLeast(a.last, f.Count)
	}
	if !a.fires() && k.Found.After(a.closed) { // by another process
		a.again(k.First, now)
		a.last = earlier(k.Last, now)
		b.lead(a, now)
		a.tell(f, a.last)
		a.atLeast(a.last, f.Count)
	}
	if !a.fires() {
		if !k.Last.After(a.last) {
			b.gone = append(b.gone, k.Key)
		}
		return
	}
	a.kept, a.keptTaken, a.keptFound = true, k.Taken, k.Found
	a.found = later(a.found, earlier(k.Found, now))
	a.learnt = earlier(a.learnt, k.Learnt)
	if !k.Taken.IsZero() && k.Taken.After(a.taken) {
		a.taken = earlier(k.Taken, now)
	}
}

// toKeep is what has changed of what has to be kept.
func (b *book) toKeep(now time.Time) (put []Kept, gone []string) {
	b.hurry = false
	if b.o.Keeper == nil {
		return nil, nil
	}
	for _, a := range b.order {
		late := !a.found.IsZero() || a.taken.IsZero() && now.Sub(a.learnt) >= b.o.Resend/2 || !a.taken.IsZero() && b.ends(a).After(a.last.Add(b.o.resolveAfter(&a.key)+b.o.Resend))
		if !a.fires() || a.kept && a.keptTaken.Equal(a.taken) && a.keptFound.Equal(a.found) || !late && !a.kept {
			continue
		}
		k := &a.key
		put = append(put, Kept{
			Key: k.text(b.o.Name), First: a.first, Last: a.last, Learnt: a.learnt, Taken: a.taken, Found: a.found, Finding: a.finding(),
		})
		a.kept, a.keptTaken, a.keptFound = true, a.taken, a.found
	}
	gone, b.gone = b.gone, nil
	return put, gone
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
