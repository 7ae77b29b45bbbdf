package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/tally"
)

// boundBook is a bindingBook over a state that changes, whose uses are stored. Of others than nodes a service judges no requests.
type boundBook struct {
	*bindingBook
	book string
	at   time.Time            // when it looked for bindings
	seen uint64               // how much of the store had changed until then
	told map[bindingUse]int64 // the counts that changes has handed out
	lost int64                // and the count of what could not be judged
	said time.Time            // and of when the request was that was allowed without a reason
}

// missingEvery is how often at most bindings are looked for because a request names one that is not known.
const missingEvery = 100 * time.Millisecond

// rememberedUses is the kind of memory in which uses of bindings are stored.
const rememberedUses = "binding-uses"

func newBoundBook(book string, s *rbac.Store, kept []rbac.BindingRef) *boundBook {
	seen := s.Changes()
	return &boundBook{bindingBook: newBindingBook(s, kept), book: book, seen: seen, told: map[bindingUse]int64{}}
}

// refresh looks for bindings that go and were not there before.
func (b *boundBook) refresh(now time.Time) {
	if now.Sub(b.at) >= proveEvery {
		b.look(now)
	}
}

// keep takes over which bindings are to stay, when the configuration has changed.
func (b *boundBook) keep(kept []rbac.BindingRef) {
	b.kept, b.last = kept, newBindingBook(b.store, kept).last
}

// look is refresh, however long ago the last look was.
func (b *boundBook) look(now time.Time) {
	b.at = now
	changes := b.store.Changes()
	if changes == b.seen {
		return
	}
	b.seen = changes
	fresh := newBindingBook(b.store, b.kept)
	maps.Copy(b.goes, fresh.goes)
	maps.Copy(b.subjects, fresh.subjects)
	maps.Copy(b.went, fresh.went)
	b.ever, b.last, b.rights = fresh.ever, fresh.last, fresh.rights
}

// add takes in a judgement. What a binding of system:node allowed that the state does not have was not judged: nobody knows what else it gives.
func (b *boundBook) add(j *pipeline.Judgement) {
	if b.bindingBook == nil {
		return
	}
	b.bindingBook.add(j)
	g := &j.Observed.Grant
	if j.IsNode || !j.Observed.HasGrant || !j.Allowed || g.Role.Kind != rbac.KindClusterRole || g.Role.Name != nodeRole || b.ever[g.Binding] || !b.store.Covers(j.Time) {
		return
	}
	if now := time.Now(); now.Sub(b.at) >= missingEvery { // it may have come since
		b.look(now)
	}
	if !b.ever[g.Binding] {
		b.unjudged++
	}
}

// storedUse is the form in which a use is stored, or how many requests could not be judged until Last, or the latest request that was allowed without a
// reason.
type storedUse struct {
	Use        checks.Use
	Unjudged   int64
	Unreasoned *checks.Unreasoned `json:",omitempty"`
	Last       time.Time
}

// changes are what has changed since it was called last, to be stored with the requests that were judged meanwhile.
func (b *boundBook) changes() (out []tally.Remembered) {
	put := func(name string, s *storedUse) {
		if v, err := json.Marshal(s); err == nil { // of strings, numbers and times
			out = append(out, tally.Remembered{Kind: rememberedUses, Key: b.book + "\x00" + name, Value: v})
		}
	}
	for k, u := range b.uses {
		if b.told[k] != u.Count {
			b.told[k] = u.Count
			put(fmt.Sprintf("%+v", k), &storedUse{Use: *u, Last: u.Last})
		}
	}
	if b.unjudged != b.lost {
		b.lost = b.unjudged
		put("unjudged", &storedUse{Unjudged: b.unjudged, Last: b.at.UTC()})
	}
	if u := b.unreasoned; u.At.After(b.said) {
		b.said = u.At
		put("unreasoned", &storedUse{Unreasoned: &u, Last: u.At})
	}
	return append(out, b.memberChanges()...)
}

// readUses sets the uses that were stored, as far as they reach into the time from begin on.
func (p *proof) readUses(stored []tally.Remembered, begin time.Time) error {
	for i := range stored {
		var s storedUse
		if err := json.Unmarshal(stored[i].Value, &s); err != nil {
			return fmt.Errorf("reading uses of bindings that were stored: %w", err)
		}
		switch {
		case s.Last.Before(begin):
		case s.Unjudged > 0:
			p.unjudgedUses += s.Unjudged
		case s.Unreasoned == nil:
			p.uses = append(p.uses, s.Use)
		case s.Unreasoned.At.After(p.unreasoned.At):
			p.unreasoned = *s.Unreasoned
		}
	}
	p.uses = ordered(p.uses)
	return nil
}
