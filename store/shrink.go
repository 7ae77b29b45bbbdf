package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// Shrunk is what Shrink did.
type Shrunk struct {
	// Groups of findings are counted in wider ones by now, Allowed of them of requests that were allowed.
	Groups, Allowed int64
	// Bytes is what the store takes up, as far as it can be known, and was before.
	Bytes, Before int64
	// Over says that it is larger than its bound all the same.
	Over bool
}

const (
	// shrinkTo is the part of the bound, in tenths, that is left where it was exceeded.
	shrinkTo = 9
	// shrinkKept is the part of the bound, as a divisor, that names of what was allowed have for themselves.
	shrinkKept = 4
	// shrinkAtOnce is how many groups one transaction folds.
	shrinkAtOnce = 2000
	// rowBytes is what a row of findings takes up in addition to its texts, with its part of an index.
	rowBytes = 160
)

// rank is groups of findings that are equally important: those of refused requests before those of allowed ones that failed and those that succeeded,
// of low severity before high, of old steps before new.
type rank struct{ hour, allowed, severity int64 }

// textBytes is the sum of the bytes in a table's texts.
func textBytes(t *sqlTable) string {
	var all []string
	for _, c := range t.columns {
		if c.kind == text {
			all = append(all, "octet_length("+c.name+")")
		}
	}
	return strings.Join(all, " + ")
}

// findingsBytes asks for the bytes of the rows of findings; $1 is rowBytes.
func findingsBytes() string {
	return `SELECT CAST(coalesce(sum(` + textBytes(&findingsTable) + ` + $1), 0) AS BIGINT) FROM findings`
}

// Shrink holds the store to Options.MaxBytes. Where it is larger, the least important groups of findings lose their names: each is counted in the
// group that stands for the further findings of its rule, reason, severity and node in that step. So the counts stay, and every reader knows that they
// are of many. What was allowed is folded after all that was refused, and only as far as it takes more than a quarter of the bound by itself: so nothing
// else that fills the store, such as requests that are remembered, takes the names of what passed. It is meant to be called every minute or so.
func (s *Store) Shrink(ctx context.Context) (Shrunk, error) {
	var out Shrunk
	if s.options.MaxBytes <= 0 || s.options.ReadOnly {
		return out, nil
	}
	var ranks []rank
	var allowed int64 // what the names of what was allowed take
	err := s.read(ctx, "measuring the store", func(r reader) (err error) {
		ranks = nil
		if out.Bytes, err = s.db.size(ctx, r, s.options.MaxBytes); err != nil || out.Bytes <= s.options.MaxBytes {
			return err
		}
		if err := r.each(ctx, findingsBytes()+` WHERE wide = 0 AND allowed <> 0`, []any{int64(rowBytes)},
			func(scan func(...any) error) error { return scan(&allowed) }); err != nil {
			return err
		}
		return r.each(ctx, `SELECT DISTINCT hour, allowed, severity FROM findings WHERE wide = 0 ORDER BY allowed, severity, hour`, nil, func(scan func(...any) error) error {
			var k rank
			err := scan(&k.hour, &k.allowed, &k.severity)
			ranks = append(ranks, k)
			return err
		})
	})
	out.Before = out.Bytes
	for i := 0; err == nil && i < len(ranks) && out.Bytes > s.options.MaxBytes/10*shrinkTo; {
		var groups, bytes int64
		var more bool
		want := out.Bytes - s.options.MaxBytes/10*shrinkTo
		if ranks[i].allowed != 0 {
			if want = min(want, allowed-s.options.MaxBytes/shrinkKept); want <= 0 {
				break
			}
		}
		if groups, bytes, more, err = s.foldSome(ctx, &ranks[i], want); err != nil {
			break
		}
		out.Groups += groups
		out.Bytes -= bytes
		if ranks[i].allowed != 0 {
			out.Allowed += groups
			allowed -= bytes
		}
		if !more {
			i++
		}
	}
	out.Over = out.Bytes > s.options.MaxBytes
	return out, err
}

// foldSome folds the groups of a rank that came last the longest ago, as many as give back the bytes; more says that the
// rank may have more.
func (s *Store) foldSome(ctx context.Context, k *rank, want int64) (groups, bytes int64, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, false, err
	}
	if err := s.turn.take(ctx); err != nil {
		return 0, 0, false, err
	}
	defer s.turn.give()
	err = s.writeAs(ctx, true, "folding findings", func(w tx) error {
		groups, bytes = 0, 0
		seen := 0
		wider := map[tally.Key]*tally.Group{}
		gone := &batch{t: &findingsTable}
		ids := map[tally.ID]bool{}
		err := eachFinding(ctx, w, `hour = $1 AND allowed = $2 AND severity = $3 AND wide = 0 ORDER BY last, id LIMIT $4`,
			[]any{k.hour, k.allowed, k.severity, int64(shrinkAtOnce)}, func(_ int64, key tally.Key, g *tally.Group) {
				seen++
				if bytes >= want || key.Rule == rules.CoverageGap { // which says what is missing
					return
				}
				name := keyText(&key)
				id := hash(name)
				ids[id] = true
				groups++
				bytes += rowBytes
				row := &batch{}
				addFinding(row, k.hour, id, name, g)
				for _, v := range row.args {
					if s, is := v.(string); is {
						bytes += int64(len(s))
					}
				}
				class := g.Class(&key)
				g.Wide, g.Reason, g.Params = true, "", nil
				wide := class.WideKey()
				if to := wider[wide]; to != nil {
					merge(to, g)
				} else {
					wider[wide] = g
				}
			})
		if more = groups > 0 && seen == shrinkAtOnce; err != nil || groups == 0 {
			return err
		}
		for _, id := range sortedIDs(ids) {
			gone.add(k.hour, id[:])
		}
		if err := w.remove(ctx, &findingsTable, gone); err != nil {
			return err
		}
		rows := &batch{t: &findingsTable}
		texts := map[tally.ID]tally.Key{}
		for key := range wider {
			texts[hash(keyText(&key))] = key
		}
		for _, id := range sortedIDs(texts) {
			key := texts[id]
			addFinding(rows, k.hour, id, keyText(&key), wider[key])
		}
		if err := w.upsert(ctx, rows); err != nil {
			return err
		}
		return w.exec(ctx, `UPDATE hours SET changes = changes + 1 WHERE hour = $1`, k.hour)
	})
	if err != nil {
		return 0, 0, false, fmt.Errorf("holding the store to its bound: %w", err)
	}
	return groups, bytes, more, nil
}
