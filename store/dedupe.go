package store

import (
	"context"
	"errors"
	"slices"

	"github.com/nodetrail/nodetrail/tally"
)

// dedupe finds out which entries were stored before, and stores the others. The first request with an ID has a row with that ID, and its answer. Each
// other answer to the same ID is another request: it has a row of its own, with the ID of [tally.Seen.Other]. These are few, so that one row by its
// key is all that is looked for of most requests.
func (w *work) dedupe(ctx context.Context) error {
	for i := range w.c.Lanes {
		entries := w.c.Lanes[i].Entries
		for j := range entries {
			if e := &entries[j]; e.IsCounted() {
				w.marks = append(w.marks, mark{seenRequest: seenRequest{seenKey{e.Time.Unix(), e.ID}, e.Answer}, entry: e})
			}
		}
	}
	slices.SortStableFunc(w.marks, func(a, b mark) int { return a.compare(&b.seenKey) })
	all := make([]*mark, 0, len(w.marks))
	for i := range w.marks {
		all = append(all, &w.marks[i])
	}
	others, err := w.mark(ctx, all)
	if err != nil {
		return err
	}
	for _, m := range others {
		m.id = tally.Seen{ID: m.id, Answer: m.answer}.Other()
	}
	slices.SortStableFunc(others, func(a, b *mark) int { return a.compare(&b.seenKey) })
	_, err = w.mark(ctx, others)
	return err
}

// mark stores those of the marks, sorted by key, that were not there, and says of the rest that they are duplicates, but for others, to whose ID there was
// another answer.
func (w *work) mark(ctx context.Context, marks []*mark) (others []*mark, err error) {
	if len(marks) == 0 {
		return nil, nil
	}
	all := make([]seenRequest, 0, len(marks))
	for i := range marks {
		if i == 0 || marks[i].seenKey != marks[i-1].seenKey {
			all = append(all, marks[i].seenRequest)
		}
	}
	before, err := w.w.mark(ctx, all)
	if err != nil {
		return nil, err
	}
	if len(before) != len(all) {
		return nil, errors.New("not all IDs were answered for")
	}
	late := &batch{t: &seenTable}
	for i, n := 0, 0; n < len(all); n++ {
		is := &all[n]
		if !before[n].there {
			i++ // the first of its key
		} else {
			is.answer = before[n].answer
		}
		answered := is.answer
		for ; i < len(marks) && marks[i].seenKey == is.seenKey; i++ {
			switch m := marks[i]; {
			case m.answer == (tally.ID{}) || m.answer == answered:
				m.duplicate = true
			case answered == (tally.ID{}):
				m.duplicate, answered = true, m.answer
			default:
				others = append(others, m)
			}
		}
		if answered != is.answer {
			late.add(is.second, is.id[:], slices.Clone(answered[:]))
		}
	}
	return others, w.w.upsert(ctx, late)
}
