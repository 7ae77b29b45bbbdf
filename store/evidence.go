package store

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/floor"
)

// foldEvery is how often the evidence of commits is merged into the ledger's rows. Nearly every node has something new in that time: a row for each
// commit costs a tenth of the pages that rewriting the rows of all its nodes would, and loses nothing, for it is stored with the commit.
const foldEvery = 10 * time.Second

// evidence stores what the commit adds to the ledger of evidence, and from time to time merges what commits added, of whichever process.
func (w *work) evidence(ctx context.Context) error {
	if len(w.c.Evidence) > 0 {
		w.s.added++
		b := &batch{t: &evidenceNewTable}
		b.add(w.s.owner, w.s.added, w.c.Evidence)
		if err := w.w.upsert(ctx, b); err != nil {
			return err
		}
	}
	if since := w.s.aging.elapsed().Sub(w.s.folded); since >= 0 && since < w.s.foldEvery {
		return nil
	}
	w.folded = true
	return fold(ctx, w.w, w.s.db.dialect())
}

// fold merges what commits added into the rows. One process at a time does it, so that of two that find no row neither overwrites the other's.
func fold(ctx context.Context, w tx, d *dialect) error {
	if err := w.each(ctx, d.sql(`SELECT value FROM meta WHERE name = 'schema' {lock}`), nil,
		func(scan func(...any) error) error { return scan(new(int64)) }); err != nil {
		return err
	}
	added, hours, merged := evidence.New(), map[evidence.Hour]bool{}, &batch{}
	if err := w.each(ctx, `SELECT writer, number, records FROM evidence_new ORDER BY writer, number`, nil, func(scan func(...any) error) error {
		var writer, records []byte
		var number int64
		if err := scan(&writer, &number, &records); err != nil {
			return err
		}
		merged.add(writer, number)
		return evidence.Each(records, func(k evidence.Key, value []byte) error {
			hours[k.Hour] = true
			return added.Put(k, value)
		})
	}); err != nil || merged.n == 0 {
		return err
	}
	l := evidence.New()
	for h := range hours {
		if err := readEvidence(ctx, w, l, int64(h), int64(h)); err != nil {
			return err
		}
	}
	l.Merge(added)
	rows, err := evidenceRows(l)
	if err != nil {
		return err
	}
	if err := w.upsert(ctx, rows); err != nil {
		return err
	}
	return w.remove(ctx, &evidenceNewTable, merged)
}

// evidenceRows are what changed in a ledger, in the order of their key.
func evidenceRows(l *evidence.Ledger) (*batch, error) {
	type row struct {
		evidence.Key
		value []byte
	}
	var all []row
	if err := l.Changes(func(k evidence.Key, value []byte) error {
		all = append(all, row{k, bytes.Clone(value)})
		return nil
	}); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.Hour, b.Hour), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	rows := &batch{t: &evidenceTable}
	for i := range all {
		rows.add(int64(all[i].Hour), int64(all[i].Kind), []byte(all[i].Name), all[i].value)
	}
	return rows, nil
}

// readEvidence puts the rows of the hours from first to last into a ledger. That hours were dropped concerns all before them, so that is read of later
// hours, too.
func readEvidence(ctx context.Context, r reader, to *evidence.Ledger, first, last int64) error {
	return r.each(ctx, `SELECT hour, kind, name, value FROM evidence WHERE hour >= $1 AND (hour <= $2 OR kind = $3)`,
		[]any{first, last, int64(evidence.KindDropped)}, func(scan func(...any) error) error {
			var hour, kind int64
			var name, value []byte
			if err := scan(&hour, &kind, &name, &value); err != nil {
				return err
			}
			return to.Put(evidence.Key{Kind: evidence.Kind(kind), Hour: evidence.Hour(hour), Name: string(name)}, value)
		})
}

// Evidence returns the ledger of the hours that hold any time from from until before to, and of the hour before them; a zero time bounds nothing.
// It is one state of the store: all that was committed, by whichever process. The caller owns it. It takes some 200 bytes for each node and hour.
func (s *Store) Evidence(ctx context.Context, from, to time.Time) (*evidence.Ledger, error) {
	first, last := int64(math.MinInt32), int64(math.MaxInt32)
	if !from.IsZero() {
		first = int64(evidence.HourOf(from)) - 1
	}
	if !to.IsZero() {
		last = int64(evidence.HourOf(to.Add(-1)))
	}
	var l *evidence.Ledger
	err := s.read(ctx, "reading the ledger of evidence", func(r reader) error {
		l = evidence.New()
		if err := readEvidence(ctx, r, l, first, last); err != nil {
			return err
		}
		return r.each(ctx, `SELECT records FROM evidence_new`, nil, func(scan func(...any) error) error {
			var records []byte
			if err := scan(&records); err != nil {
				return err
			}
			return evidence.Each(records, func(k evidence.Key, value []byte) error {
				if h := int64(k.Hour); h < first || h > last && k.Kind != evidence.KindDropped {
					return nil
				}
				return l.Put(k, value)
			})
		})
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// pruneEvidence deletes an hour of the ledger that is older than counts are kept for.
func (s *Store) pruneEvidence(ctx context.Context, b bounds) (more bool, err error) {
	if err := s.turn.take(ctx); err != nil {
		return false, err
	}
	defer s.turn.give()
	err = s.writeAs(ctx, true, "deleting old evidence", func(w tx) error {
		hour, oldest := int64(0), int64(math.MinInt64)
		if b.hours > math.MinInt64/hourSeconds {
			oldest = floor.Div(b.hours*s.seconds, hourSeconds)
		}
		more = false
		if err := w.each(ctx, `SELECT hour FROM evidence WHERE hour < $1 OR hour > $2 ORDER BY hour LIMIT 1`, []any{oldest, floor.Div(b.ahead, hourSeconds)},
			func(scan func(...any) error) error {
				more = true
				return scan(&hour)
			}); err != nil || !more {
			return err
		}
		return w.exec(ctx, `DELETE FROM evidence WHERE hour = $1`, hour)
	})
	return more, err
}
