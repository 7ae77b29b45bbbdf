package store

import (
	"bytes"
	"context"
	"time"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// observations stores what detectors look at of the requests that the commit counts, in one row, and deletes the rows that are judged.
func (w *work) observations(ctx context.Context) error {
	repeated := map[*tally.Entry]bool{}
	for i := range w.marks {
		if m := &w.marks[i]; m.duplicate {
			repeated[m.entry] = true
		}
	}
	var o rules.Observations
	for i := range w.c.Lanes {
		l := &w.c.Lanes[i]
		began := false
		begin := func() {
			if !began {
				began = true
				o.Lane(laneText(l.Lane), l.Reached)
			}
		}
		if !l.Reached.IsZero() {
			begin()
		}
		for j := range l.Entries {
			if e := &l.Entries[j]; len(e.Observation) > 0 && !repeated[e] {
				begin()
				o.Add(e.Observation)
			}
		}
	}
	if b := o.Bytes(); b != nil {
		w.s.added++
		row := &batch{t: &observedTable}
		row.add(w.s.owner, w.s.added, b, nanos(w.c.At, noLast))
		if err := w.w.upsert(ctx, row); err != nil {
			return err
		}
	}
	if w.c.OverTime == nil {
		return nil
	}
	taken := &batch{}
	for _, id := range w.c.OverTime.Taken {
		taken.add([]byte(id.Writer), id.Number)
	}
	return w.w.remove(ctx, &observedTable, taken)
}

// maxObserved bounds the rows that are read at a time of a writer.
const maxObserved = 256

// Observations returns what detectors look at that was stored after the rows given by writer, and the names of the lanes of the last day
// (Options.IdleLane) but for that of the lease.
func (s *Store) Observations(ctx context.Context, after map[string]int64) (*tally.Observed, error) {
	var out *tally.Observed
	err := s.read(ctx, "reading what was observed", func(r reader) error {
		out = &tally.Observed{}
		type writer struct {
			id   []byte
			last int64
		}
		var writers []writer
		if err := r.each(ctx, `SELECT writer, max(number) FROM observed GROUP BY writer ORDER BY writer`, nil, func(scan func(...any) error) error {
			var one writer
			err := scan(&one.id, &one.last)
			writers = append(writers, one)
			return err
		}); err != nil {
			return err
		}
		for _, one := range writers {
			last, known := after[string(one.id)]
			if !known {
				last = -1
			}
			if last >= one.last {
				continue
			}
			if err := r.each(ctx, `SELECT number, body FROM observed WHERE writer = $1 AND number > $2 ORDER BY number LIMIT $3`,
				[]any{one.id, last, int64(maxObserved)}, func(scan func(...any) error) error {
					row := tally.ObservationRow{RowID: tally.RowID{Writer: string(one.id)}}
					err := scan(&row.Number, &row.Body)
					out.Rows, last = append(out.Rows, row), row.Number
					return err
				}); err != nil {
				return err
			}
			out.More = out.More || last < one.last
		}
		return r.each(ctx, `SELECT lane FROM lanes WHERE lane <> $1 AND updated >= (SELECT max(updated) FROM lanes) - $2 ORDER BY lane`,
			[]any{laneText(tally.OverTimeLane), int64(s.options.IdleLane)}, func(scan func(...any) error) error {
				var name string
				err := scan(&name)
				out.Lanes = append(out.Lanes, name)
				return err
			})
	})
	return out, err
}

// leaseFor is how long a lease is left to a process that does not ask for it again. It is measured by the clock of who wants it.
const leaseFor = 10 * time.Second

// beat is when a lease of somebody else was seen to be asked for last.
type beat struct {
	fence, updated int64
	since          time.Time
}

// Lease gives the lane to this Store if nobody else has it: where one process at a time may write to the store, always; otherwise where who had it
// has given it up, or has not asked for it again for ten seconds in which this Store did. Who lost it cannot commit to it any more.
func (s *Store) Lease(ctx context.Context, lane string) (fence int64, held bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, alone := s.db.(*embedded)
	name, now := laneText(lane), s.aging.elapsed()
	var seen beat
	err = s.write(ctx, "asking for the lease of "+lane, func(w tx) error {
		held = false
		at := nanos(time.Now(), noLast)
		if err := w.exec(ctx, `INSERT INTO lanes (lane, fence, owner, position, latest, updated) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`,
			name, int64(0), []byte{}, []byte{}, int64(noLast), at); err != nil {
			return err
		}
		var owner []byte
		seen = beat{since: now}
		if err := w.each(ctx, s.db.dialect().sql(`SELECT fence, owner, updated FROM lanes WHERE lane = $1 {lock}`), []any{name},
			func(scan func(...any) error) error { return scan(&seen.fence, &owner, &seen.updated) }); err != nil {
			return err
		}
		was, known := s.leases[lane]
		same := known && was.fence == seen.fence && was.updated == seen.updated
		if fence = seen.fence; !bytes.Equal(owner, s.owner) {
			if len(owner) > 0 && !alone && !(same && now.Sub(was.since) >= leaseFor) {
				if same {
					seen = was
				}
				return nil
			}
			fence++
		}
		if held = true; alone && fence == seen.fence {
			return nil // nobody waits for it
		}
		return w.exec(ctx, `UPDATE lanes SET fence = $2, owner = $3, updated = $4 WHERE lane = $1`, name, fence, s.owner, at)
	})
	if err != nil {
		return 0, false, err
	}
	if s.leases[lane] = seen; !held {
		fence = 0
	}
	return fence, held, nil
}

// Resign gives up the lease of a lane, so that nobody has to wait for it. It does nothing where another Store has it.
func (s *Store) Resign(ctx context.Context, lane string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(ctx, "giving up the lease of "+lane, func(w tx) error {
		return w.exec(ctx, `UPDATE lanes SET owner = $3 WHERE lane = $1 AND owner = $2`, laneText(lane), s.owner, []byte{})
	})
}
