package store

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/nodetrail/nodetrail/tally"
)

// Commit stores everything of c, or nothing. Where a lane is no longer this Store's, errors.As finds a *tally.FencedError. Of entries that
// count for anything, those that were stored before are marked as duplicates, and those that come a second time within c; entries of no
// node without findings count for nothing and are not kept in mind. After an error c may be given again.
//
// The hour of an entry is its own time's; the events of a lane are counted in the hour of its Latest.
func (s *Store) Commit(ctx context.Context, c *tally.Commit) error {
	if err := s.turn.take(ctx); err != nil {
		return err
	}
	defer s.turn.give()
	var done *work
	err := s.write(ctx, "storing a batch", func(w tx) error {
		if done != nil {
			s.known.forget() // an attempt before this one put in what is not stored
		}
		done = &work{s: s, c: c, w: w}
		return done.run(ctx)
	})
	if err != nil {
		s.known.forget()
		return err
	}
	for i := range done.marks {
		m := &done.marks[i]
		m.entry.Duplicate = m.duplicate
	}
	s.known.shrink()
	if done.folded {
		s.folded = s.aging.elapsed()
	}
	return nil
}

// work is one attempt to store a commit.
type work struct {
	s *Store
	c *tally.Commit
	w tx
	// marks are the entries that count, sorted by ID, in their order where that is equal.
	marks []mark
	// folded says that the evidence of all commits was merged.
	folded bool
}

type mark struct {
	seenRequest
	entry     *tally.Entry
	duplicate bool
}

func (w *work) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{w.own, w.dedupe, w.lanes, w.counts, w.rest, w.evidence, w.observations} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// own locks the lanes and makes sure that they are ours.
func (w *work) own(ctx context.Context) error {
	if len(w.c.Lanes) == 0 {
		return nil
	}
	type ownership struct {
		fence int64
		owner []byte
	}
	stored := make(map[string]ownership, len(w.c.Lanes))
	var names []any
	in := ""
	for i := range w.c.Lanes {
		names = append(names, laneText(w.c.Lanes[i].Lane))
		in += ", $" + strconv.Itoa(i+1)
	}
	query := w.s.db.dialect().sql(`SELECT lane, fence, owner FROM lanes WHERE lane IN (` + in[2:] + `) ORDER BY lane {lock}`)
	if err := w.w.each(ctx, query, names, func(scan func(...any) error) error {
		var name string
		var o ownership
		err := scan(&name, &o.fence, &o.owner)
		stored[name] = o
		return err
	}); err != nil {
		return err
	}
	var gone []string
	for i := range w.c.Lanes {
		l := &w.c.Lanes[i]
		o, known := stored[names[i].(string)]
		if !known || o.fence != l.Fence || l.Fence != 0 && !bytes.Equal(o.owner, w.s.owner) {
			gone = append(gone, l.Lane)
		}
	}
	if gone != nil {
		return &tally.FencedError{Lanes: gone}
	}
	return nil
}

// lanes stores positions, and the requests that are not answered yet.
func (w *work) lanes(ctx context.Context) error {
	rows := map[string][]any{}
	opened, resolved := map[string]map[tally.ID]*tally.Opened{}, map[string]map[tally.ID]bool{}
	for i := range w.c.Lanes {
		l := &w.c.Lanes[i]
		name, position, latest := laneText(l.Lane), []byte(l.Position), nanos(l.Latest, noLast)
		if was := rows[name]; was != nil {
			if len(position) == 0 {
				position = was[3].([]byte)
			}
			latest = max(latest, was[4].(int64))
		} else {
			opened[name], resolved[name] = map[tally.ID]*tally.Opened{}, map[tally.ID]bool{}
		}
		rows[name] = []any{name, l.Fence, w.s.owner, position, latest, nanos(w.c.At, noLast)}
		for j := range l.Opened {
			opened[name][l.Opened[j].ID] = &l.Opened[j]
		}
		for _, id := range l.Resolved {
			resolved[name][id] = true
		}
	}
	at, open, closed := &batch{t: &lanesTable}, &batch{t: &openedTable}, &batch{}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		at.add(rows[name]...)
		for _, id := range sortedIDs(opened[name]) {
			if !resolved[name][id] {
				open.add(name, id[:], opened[name][id].Event, nanos(opened[name][id].Until, noLast))
			}
		}
		for _, id := range sortedIDs(resolved[name]) {
			closed.add(name, id[:])
		}
	}
	if err := w.w.upsert(ctx, at); err != nil {
		return err
	}
	if err := w.w.upsert(ctx, open); err != nil {
		return err
	}
	return w.w.remove(ctx, &openedTable, closed)
}

// rest stores the rules' memory and the facts.
func (w *work) rest(ctx context.Context) error {
	type key struct {
		kind string
		id   tally.ID
	}
	at := nanos(w.c.At, noLast)
	rows := map[key]*tally.Remembered{}
	memory := w.c.Memory
	if w.c.OverTime != nil {
		memory = slices.Concat(memory, w.c.OverTime.Memory)
	}
	for i := range memory {
		m := &memory[i]
		k := key{m.Kind, hash(m.Key)}
		if rows[k] == nil || !m.First {
			rows[k] = m
		}
	}
	first, latest := &batch{t: &firstTable}, &batch{t: &latestTable}
	for _, k := range slices.SortedFunc(maps.Keys(rows), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), bytes.Compare(a.id[:], b.id[:]))
	}) {
		m, b := rows[k], latest
		if m.First {
			b = first
		}
		b.add(escape(k.kind), k.id[:], []byte(m.Key), m.Value, at)
	}
	facts := &batch{t: &factsTable}
	if w.c.Facts != nil {
		facts.add(escape(w.c.Instance), w.c.Facts, at)
	}
	for _, b := range []*batch{first, latest, facts} {
		if err := w.w.upsert(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

func compareIDs(a, b tally.ID) int { return bytes.Compare(a[:], b[:]) }

func sortedIDs[V any](m map[tally.ID]V) []tally.ID {
	return slices.SortedFunc(maps.Keys(m), compareIDs)
}

// sortedByHash sorts as rows are whose key is a hash.
func sortedByHash[V any](m map[string]V) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int { return compareIDs(hash(a), hash(b)) })
}
