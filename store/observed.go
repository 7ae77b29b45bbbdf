package store

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// observations stores what detectors look at of the requests that the commit counts, in one row, and deletes the rows that are judged.
func (w *work) observations(ctx context.Context) error {
	var repeated map[*tally.Entry]bool
	for i := range w.marks {
		if m := &w.marks[i]; m.duplicate {
			if repeated == nil {
				repeated = map[*tally.Entry]bool{}
			}
			repeated[m.entry] = true
		}
	}
	o := &w.s.observed
	o.Reset()
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
		// The lanes are locked: all that was stored of them before, by any analyzer, is visible and gets a lower number.
		if err := w.w.each(ctx, `SELECT coalesce(max(number), 0) FROM observed`, nil, func(scan func(...any) error) error {
			var last int64
			err := scan(&last)
			w.s.added = max(w.s.added, last)
			return err
		}); err != nil {
			return err
		}
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

// Observations returns what detectors look at that was stored after the rows given by writer, and the lanes of the last day (Options.IdleLane) but for
// that of the lease.
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
		whole := int64(math.MaxInt64) // all rows up to this number were read
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
			if last < one.last {
				out.More, whole = true, min(whole, last)
			}
		}
		out.Rows = slices.DeleteFunc(out.Rows, func(row tally.ObservationRow) bool { return row.Number > whole })
		slices.SortStableFunc(out.Rows, func(a, b tally.ObservationRow) int { return cmp.Compare(a.Number, b.Number) })
		return r.each(ctx, `SELECT lane, fence, updated FROM lanes WHERE lane <> $1 AND updated >= (SELECT max(updated) FROM lanes WHERE lane <> $1) - $2 ORDER BY lane`,
			[]any{laneText(tally.OverTimeLane), int64(s.options.IdleLane)}, func(scan func(...any) error) error {
				var one rules.KnownLane
				fence := int64(0)
				err := scan(&one.Name, &fence, &one.Touched)
				one.Shared = fence != 0
				out.Lanes = append(out.Lanes, one)
				return err
			})
	})
	return out, err
}

// Announce adds lanes that several processes share, before any of them acquires one. Lanes that are there already are touched, and otherwise stay as they
// are. It does nothing where one process at a time may write to the store: that one acquires them all.
func (s *Store) Announce(ctx context.Context, lanes []string) error {
	if _, alone := s.db.(*embedded); alone || len(lanes) == 0 {
		return nil
	}
	if err := s.turn.take(ctx); err != nil {
		return err
	}
	defer s.turn.give()
	return s.write(ctx, "announcing lanes", func(w tx) error {
		for _, lane := range slices.Sorted(slices.Values(lanes)) {
			if err := w.exec(ctx, `INSERT INTO lanes (lane, fence, owner, position, latest, updated) VALUES ($1, $2, $3, $4, $5, $6)
				ON CONFLICT (lane) DO UPDATE SET updated = excluded.updated`,
				laneText(lane), int64(announcedFence), []byte{}, []byte{}, int64(noLast), nanos(time.Now(), noLast)); err != nil {
				return err
			}
		}
		return nil
	})
}

// announcedFence is lower than each fence under which a lane is acquired, and differs from that of lanes which are not shared.
const announcedFence = -1

// leaseFor is how long a lease is left to a process that does not ask for it again. It is measured by the clock of who wants it.
const leaseFor = 10 * time.Second

// beat is when a lease of somebody else was seen to be asked for last. Where nobody else can have it, it is kept.
type beat struct {
	fence, updated int64
	since          time.Time
	kept           bool
}

// Lease gives the lane to this Store if nobody else has it: where one process at a time may write to the store, always; otherwise where who had it
// has given it up, or has not asked for it again for ten seconds in which this Store did. Who lost it cannot commit to it any more.
func (s *Store) Lease(ctx context.Context, lane string, frontier time.Time) (tally.Lease, error) {
	if err := s.turn.take(ctx); err != nil {
		return tally.Lease{}, err
	}
	defer s.turn.give()
	_, alone := s.db.(*embedded)
	if b := s.leases[lane]; b.kept {
		return tally.Lease{Held: true, Fence: b.fence, Frontier: frontier}, nil
	}
	name, now := laneText(lane), s.aging.elapsed()
	var seen beat
	var out tally.Lease
	err := s.write(ctx, "asking for the lease of "+lane, func(w tx) error {
		at := nanos(time.Now(), noLast)
		if err := w.exec(ctx, `INSERT INTO lanes (lane, fence, owner, position, latest, updated) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`,
			name, int64(0), []byte{}, []byte{}, int64(noLast), at); err != nil {
			return err
		}
		var owner []byte
		var latest int64
		seen = beat{since: now}
		if err := w.each(ctx, s.db.dialect().sql(`SELECT fence, owner, latest, updated FROM lanes WHERE lane = $1 {lock}`), []any{name},
			func(scan func(...any) error) error { return scan(&seen.fence, &owner, &latest, &seen.updated) }); err != nil {
			return err
		}
		was, known := s.leases[lane]
		same := known && was.fence == seen.fence && was.updated == seen.updated
		out = tally.Lease{Fence: seen.fence, Frontier: fromNanos(latest)}
		if !bytes.Equal(owner, s.owner) {
			if len(owner) > 0 && !alone && !(same && now.Sub(was.since) >= leaseFor) {
				if same {
					seen = was
				}
				out.Fence = 0
				return nil
			}
			out.Fence++
		}
		if out.Held = true; !frontier.IsZero() {
			out.Frontier, latest = frontier, nanos(frontier, noLast)
		}
		return w.exec(ctx, `UPDATE lanes SET fence = $2, owner = $3, latest = $4, updated = $5 WHERE lane = $1`, name, out.Fence, s.owner, latest, at)
	})
	if err != nil {
		return tally.Lease{}, err
	}
	if seen.kept = out.Held && alone; seen.kept {
		seen.fence = out.Fence
	}
	s.leases[lane] = seen
	return out, nil
}

// Resign gives up the lease of a lane, so that nobody has to wait for it. It does nothing where another Store has it.
func (s *Store) Resign(ctx context.Context, lane string) error {
	if err := s.turn.take(ctx); err != nil {
		return err
	}
	defer s.turn.give()
	delete(s.leases, lane)
	return s.write(ctx, "giving up the lease of "+lane, func(w tx) error {
		return w.exec(ctx, `UPDATE lanes SET owner = $3 WHERE lane = $1 AND owner = $2`, laneText(lane), s.owner, []byte{})
	})
}
