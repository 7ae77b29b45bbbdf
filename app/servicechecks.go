package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
)

// rememberedState is the kind of memory in which the state proof is stored, by the instance.
const rememberedState = "state-proof"

// witnessed keeps what the checks need of a running service in addition to its counts and its evidence: what the state tells, and races. It is stored with the
// requests that it is about. The engine's loop alone uses it.
type witnessed struct {
	config   func() *config.Config
	state    *stateFeed
	setup    *judging.Setup
	instance string
	window   func() (from, to time.Time, heard bool)
	races    *raceBook
	refused  *restrictionBook
	births   *birthBook
	groups   *groupBook
	held     *holderBook
	written  *writtenBook
	book     string
	bound    *boundBook
	off      offBook
	since    []byte // from when on races and holders are kept, nil once that is stored
	next     time.Time
}

// openWitnessed begins. A store that is empty holds no races from before.
func openWitnessed(ctx context.Context, s *store.Store, w witnessed) (*witnessed, error) {
	var since time.Time
	_, to, err := s.Range(ctx)
	if err != nil {
		return nil, err
	}
	if !to.IsZero() {
		since = to
	}
	if w.since, err = since.UTC().MarshalText(); err != nil {
		return nil, err
	}
	book := w.instance + " " + time.Now().UTC().Format(time.RFC3339Nano)
	w.races, w.refused, w.bound = newRaceBook(book), newRestrictionBook(), newBoundBook(book, w.state.RBAC, w.setup.Judge.Kept)
	w.births, w.groups, w.written, w.book = newBirthBook(), newGroupBook(), newWrittenBook(), book
	members, err := s.RememberedOf(ctx, rememberedMembers)
	if err != nil {
		return nil, err
	}
	if err := w.bound.members.learn(members); err != nil {
		return nil, err
	}
	held, err := s.RememberedOf(ctx, rememberedHolders)
	if err != nil {
		return nil, err
	}
	if w.held, err = resumed(held, w.instance); err != nil {
		return nil, fmt.Errorf("reading who held the nodes' credentials: %w", err)
	}
	return &w, nil
}

func (w *witnessed) judged(j *pipeline.Judgement) {
	w.bound.refresh(time.Now())
	w.races.add(j, w.bound.bindingBook)
	w.bound.add(j)
	w.refused.add(j)
	w.births.add(j)
	w.groups.add(j)
	w.held.add(j)
	w.written.add(j)
}

// Bounds of the state proof.
const (
	// moreThanAsked is how much longer than what is asked for it reaches back: reports are made a while later, and by a clock of their own.
	moreThanAsked = time.Minute
	// maxNeeds is from when on of the objects that a node needs one of each kind in five minutes stands for all.
	maxNeeds = 5000
)

// remember is what is to be stored now.
func (w *witnessed) remember(now time.Time, last bool) []tally.Remembered {
	out := slices.Concat(w.races.changes(), w.refused.changes(w.book), w.births.changes(w.book), w.groups.changes(w.book), w.held.changes(w.instance, last), w.written.changes(w.book), w.bound.changes(), w.off.changes(w.config().Rules.Disable, now))
	if w.since != nil {
		for _, of := range []string{sinceRaces, sinceHolders} {
			out = append(out, tally.Remembered{Kind: rememberedSince, Key: of, Value: w.since, First: true})
		}
		w.since = nil
	}
	if !w.state.given || !last && now.Before(w.next) {
		return out
	}
	from, to, _ := w.window()
	if to.IsZero() {
		to = now
	}
	if least := w.config().Readiness.MinWindow.D(); least > 0 {
		from = to.Add(-least - moreThanAsked)
	}
	began := time.Now()
	p := newStateProof(w.setup, from, to)
	if w.config().State.Horizon.D() < to.Sub(from)-moreThanAsked || w.state.forgotten.After(from) { // what was over before is forgotten
		p.NodesKnown, p.NeedsKnown, p.Servers.Known = false, false, false
	}
	p.Gaps = append(p.Gaps, w.state.doubts()...)
	p.thin()
	value, err := json.Marshal(p)
	w.next = now.Add(max(proveEvery, time.Duration(stateShare)*time.Since(began)))
	if err != nil {
		return out // of strings, numbers and times
	}
	return append(out, tally.Remembered{Kind: rememberedState, Key: w.instance, Value: value})
}

// thin leaves one of the objects of a kind that a node came to need in the same five minutes, the one that it needed for longest: what is looked for is any
// read of the kind.
func (p *stateProof) thin() {
	if n := len(p.Pods); n > maxNeeds { // one in so many is as good
		kept := make([]checks.PodLife, maxNeeds)
		for i := range kept {
			kept[i] = p.Pods[i*n/maxNeeds]
		}
		p.Pods = kept
	}
	if len(p.Needs) <= maxNeeds {
		return
	}
	type key struct {
		node string
		kind evidence.Read
		part int64
	}
	seen := map[key]int{}
	kept := p.Needs[:0]
	for _, n := range p.Needs {
		k := key{n.Node, n.Kind, n.At.UnixNano() / int64(evidence.PartLength)}
		at, there := seen[k]
		switch {
		case !there:
			seen[k] = len(kept)
			kept = append(kept, n)
		case !kept[at].Until.IsZero() && (n.Until.IsZero() || n.Until.After(kept[at].Until)):
			kept[at] = n
		}
	}
	p.Needs = kept
}
