package store

import (
	"context"
	"math"
	"time"

	"github.com/nodetrail/nodetrail/internal/floor"
)

// How long a bound is held back before what lies below it is deleted. The bounds are times of the log and of the clock, and both may
// jump ahead and back again: by then what was known must be known still. It is measured by the clock that never jumps.
const holdBack = 10 * time.Minute

// aheadAtMost is how far ahead of the clock what is kept may be. An API server whose clock is wrong dates requests in the future: without a bound these would
// stay until then, and be the newest all the time.
const aheadAtMost = 24 * time.Hour

// How much is deleted in one transaction, and how much of the rules' memory is kept.
const (
	seenAtOnce = 20_000
	maxMemory  = 200_000
)

// bounds are below what nothing is kept, and ahead from where on nothing is.
type bounds struct {
	seen, opened int64 // seconds, nanoseconds
	hours, days  int64 // steps: kept at all, kept as such
	ahead        int64 // seconds
}

func (b bounds) min(o bounds) bounds {
	return bounds{min(b.seen, o.seen), min(b.opened, o.opened), min(b.hours, o.hours), min(b.days, o.days), max(b.ahead, o.ahead)}
}

// aging holds bounds back.
type aging struct {
	elapsed func() time.Time
	held    *bounds
	since   time.Time
}

// take returns bounds that have been so for long enough, if there are any.
func (a *aging) take(now bounds) (bounds, bool) {
	if a.held != nil && a.elapsed().Sub(a.since) < holdBack {
		*a.held = a.held.min(now)
		return bounds{}, false
	}
	old := a.held
	a.held, a.since = &now, a.elapsed()
	if old == nil {
		return bounds{}, false
	}
	return old.min(now), true
}

// Prune deletes what is older than it is kept for: hours, and by the lanes' latest times the IDs of requests and those that were opened. What is
// dated more than a day ahead of the clock is deleted too.
// Hours that are kept by the day are summed up. It is meant to be called every minute or so; nothing is deleted in the first ten minutes,
// nor ten minutes after a clock jumped. It deletes little at a time, so that commits continue between.
func (s *Store) Prune(ctx context.Context, now time.Time) error {
	if s.options.ReadOnly {
		return errReadOnly
	}
	var b bounds
	err := s.read(ctx, "reading what is old", func(r reader) (err error) {
		b, err = s.bounds(ctx, r, now)
		return err
	})
	if err != nil {
		return err
	}
	if err := s.turn.take(ctx); err != nil {
		return err
	}
	b, ripe := s.aging.take(b)
	s.turn.give()
	if !ripe {
		return nil
	}
	for _, step := range []func(context.Context, bounds) (more bool, err error){s.pruneSeen, s.pruneHours, s.pruneEvidence, s.sumUp, s.pruneRest} {
		for more := true; more; {
			if err := ctx.Err(); err != nil {
				return err
			}
			if more, err = step(ctx, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// bounds takes the earliest of what the lanes, the hours and the clock say.
func (s *Store) bounds(ctx context.Context, r reader, now time.Time) (bounds, error) {
	at := nanos(now, noLast)
	low, lanes, clock := at, 0, at
	idle := int64(s.options.IdleLane)
	err := r.each(ctx, `SELECT latest, updated FROM lanes`, nil, func(scan func(...any) error) error {
		var latest, updated int64
		if err := scan(&latest, &updated); err != nil {
			return err
		}
		clock = max(clock, updated) // of what was stored when: the clock may have been set back
		if latest != noLast && at-updated <= idle && updated-at <= idle {
			low = min(low, latest)
			lanes++
		}
		return nil
	})
	if err != nil {
		return bounds{}, err
	}
	newest := int64(math.MinInt64)
	err = r.each(ctx, `SELECT hour FROM hours ORDER BY hour DESC LIMIT 1`, nil, func(scan func(...any) error) error { return scan(&newest) })
	if err != nil {
		return bounds{}, err
	}
	b := bounds{seen: math.MinInt64, opened: math.MinInt64, hours: math.MinInt64, days: math.MinInt64, ahead: time.Unix(0, clock).Add(aheadAtMost).Unix()}
	if lanes > 0 {
		t := time.Unix(0, low).Add(-s.options.DedupeFor)
		b.seen, b.opened = t.Unix(), t.UnixNano()
	}
	if newest != math.MinInt64 {
		newest = min(newest, s.stepOf(now))
		b.hours = newest - s.steps(s.options.Retention)
		b.days = floor.Div(newest-s.steps(s.options.Hourly), s.perDay()) * s.perDay()
	}
	return b, nil
}

func (s *Store) pruneSeen(ctx context.Context, b bounds) (more bool, err error) {
	if err := s.turn.take(ctx); err != nil {
		return false, err
	}
	defer s.turn.give()
	err = s.write(ctx, "forgetting requests", func(w tx) error {
		until := b.seen
		more = false
		if err := w.each(ctx, `SELECT second FROM seen WHERE second < $1 ORDER BY second LIMIT 1 OFFSET $2`, []any{b.seen, int64(seenAtOnce)},
			func(scan func(...any) error) error {
				if err := scan(&until); err != nil {
					return err
				}
				until++
				more = true
				return nil
			}); err != nil {
			return err
		}
		if err := w.exec(ctx, `DELETE FROM seen WHERE second > $1`, b.ahead); err != nil {
			return err
		}
		return w.exec(ctx, `DELETE FROM seen WHERE second < $1`, min(until, b.seen))
	})
	return more, err
}

// pruneHours deletes one hour.
func (s *Store) pruneHours(ctx context.Context, b bounds) (more bool, err error) {
	if err := s.turn.take(ctx); err != nil {
		return false, err
	}
	defer s.turn.give()
	err = s.writeAs(ctx, true, "deleting old hours", func(w tx) error {
		hour := int64(0)
		more = false
		if err := w.each(ctx, `SELECT hour FROM hours WHERE hour < $1 OR hour > $2 ORDER BY hour LIMIT 1`, []any{b.hours, floor.Div(b.ahead, s.seconds)}, func(scan func(...any) error) error {
			more = true
			return scan(&hour)
		}); err != nil || !more {
			return err
		}
		s.known.forget()
		return deleteHours(ctx, w, hour, hour)
	})
	return more, err
}

func deleteHours(ctx context.Context, w tx, first, last int64) error {
	for _, t := range []string{"nodes", "findings", "ambient", "admission", "notes", "hours"} {
		if err := w.exec(ctx, `DELETE FROM `+t+` WHERE hour >= $1 AND hour <= $2`, first, last); err != nil {
			return err
		}
	}
	return nil
}

// sumUp makes the hours of one day one row each, at its first hour. What comes late for the day is added the next time.
func (s *Store) sumUp(ctx context.Context, b bounds) (more bool, err error) {
	if err := s.turn.take(ctx); err != nil {
		return false, err
	}
	defer s.turn.give()
	err = s.writeAs(ctx, true, "summing up a day", func(w tx) error {
		hour := int64(0)
		more = false
		if err := w.each(ctx, `SELECT hour FROM hours WHERE hour < $1 AND hour % $2 <> 0 ORDER BY hour LIMIT 1`, []any{b.days, s.perDay()},
			func(scan func(...any) error) error {
				more = true
				return scan(&hour)
			}); err != nil || !more {
			return err
		}
		first := floor.Div(hour, s.perDay()) * s.perDay()
		last := first + s.perDay() - 1
		day, err := window(ctx, w, first, last, nil)
		if err != nil {
			return err
		}
		if err := deleteHours(ctx, w, first, last); err != nil {
			return err
		}
		s.known.forget()
		return s.put(ctx, w, map[int64]*delta{first: {Tally: day}})
	})
	s.known.forget()
	return more, err
}

func (s *Store) pruneRest(ctx context.Context, b bounds) (more bool, err error) {
	if err := s.turn.take(ctx); err != nil {
		return false, err
	}
	defer s.turn.give()
	err = s.write(ctx, "forgetting what is old", func(w tx) error {
		if err := w.exec(ctx, `DELETE FROM opened WHERE until > $1 AND until < $2`, int64(noLast), b.opened); err != nil {
			return err
		}
		// What nobody took in for so long nobody judges.
		if err := w.exec(ctx, `DELETE FROM observed WHERE at < $1`, time.Unix(b.ahead, 0).Add(-aheadAtMost-s.options.DedupeFor).UnixNano()); err != nil {
			return err
		}
		rows := int64(0)
		if err := w.each(ctx, `SELECT count(*) FROM memory`, nil, func(scan func(...any) error) error { return scan(&rows) }); err != nil {
			return err
		}
		if rows > s.maxMemory {
			if err := w.exec(ctx, `DELETE FROM memory WHERE (kind, id) IN (SELECT kind, id FROM memory ORDER BY at, kind, id LIMIT $1)`,
				rows-s.maxMemory); err != nil {
				return err
			}
		}
		if b.opened < math.MinInt64+int64(s.options.Retention) {
			return nil
		}
		return w.exec(ctx, `DELETE FROM writers WHERE at < $1`, b.opened-int64(s.options.Retention))
	})
	return false, err
}
