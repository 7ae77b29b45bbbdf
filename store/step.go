package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nodetrail/nodetrail/internal/floor"
	"github.com/nodetrail/nodetrail/tally"
)

const hourSeconds = 3600

// errStep is for lengths of steps that cannot be.
var errStep = errors.New("a step is an hour, or whole seconds of which an hour has a whole number")

// settle finds out how long a step is, and with a new store decides it.
func (s *Store) settle(ctx context.Context) error {
	want := int64(s.options.Step / time.Second)
	if s.options.Step%time.Second != 0 || want < 0 || want > hourSeconds || want > 0 && hourSeconds%want != 0 {
		return fmt.Errorf("counting by %s: %w", s.options.Step, errStep)
	}
	if !s.options.ReadOnly {
		fresh := want
		if fresh == 0 {
			fresh = hourSeconds
		}
		// A store from before steps could be chosen has hours.
		err := s.write(ctx, "deciding on the length of a step", func(w tx) error {
			return w.exec(ctx, `INSERT INTO meta (name, value) SELECT 'step', CASE WHEN EXISTS (SELECT 1 FROM hours) THEN 3600 ELSE CAST($1 AS BIGINT) END
				WHERE NOT EXISTS (SELECT 1 FROM meta WHERE name = 'step') ON CONFLICT (name) DO NOTHING`, fresh)
		})
		if err != nil {
			return err
		}
	}
	s.seconds = hourSeconds
	err := s.read(ctx, "reading the length of a step", func(r reader) error {
		return r.each(ctx, `SELECT value FROM meta WHERE name = 'step'`, nil, func(scan func(...any) error) error { return scan(&s.seconds) })
	})
	switch {
	case err != nil:
		return err
	case s.seconds <= 0 || hourSeconds%s.seconds != 0:
		return fmt.Errorf("%s has steps of %d s: %w", s.db.name(), s.seconds, errStep)
	case want > 0 && want != s.seconds && !s.options.ReadOnly:
		return fmt.Errorf("%s counts by %s, which cannot become %s: begin another store, or leave the step as it is", s.db.name(), s.Step(), s.options.Step)
	}
	return nil
}

// Step is how finely counts are kept.
func (s *Store) Step() time.Duration { return time.Duration(s.seconds) * time.Second }

// stepOf is the step since 1970 in which t lies: an hour, unless the store has shorter ones. The columns named hour hold it.
func (s *Store) stepOf(t time.Time) int64 { return floor.Div(t.Unix(), s.seconds) }

// at is when a step begins.
func (s *Store) at(step int64) time.Time { return time.Unix(step*s.seconds, 0).UTC() }

// steps is how many there are in a time.
func (s *Store) steps(d time.Duration) int64 { return int64(d/time.Second) / s.seconds }

func (s *Store) perDay() int64 { return 24 * hourSeconds / s.seconds }

// Version changes whenever what a tally or the facts tell does.
func (s *Store) Version(ctx context.Context) (string, error) {
	out := ""
	err := s.read(ctx, "reading the version", func(r reader) error {
		var parts [5]int64
		if err := r.each(ctx, `SELECT coalesce(max(updated), 0), count(*) FROM lanes WHERE lane <> $1`, []any{laneText(tally.OverTimeLane)},
			func(scan func(...any) error) error { return scan(&parts[0], &parts[1]) }); err != nil {
			return err
		}
		if err := r.each(ctx, `SELECT coalesce(max(at), 0) FROM facts`, nil,
			func(scan func(...any) error) error { return scan(&parts[2]) }); err != nil {
			return err
		}
		err := r.each(ctx, `SELECT coalesce(min(hour), 0), coalesce(max(hour), 0) FROM hours`, nil,
			func(scan func(...any) error) error { return scan(&parts[3], &parts[4]) })
		out = fmt.Sprint(parts)
		return err
	})
	return out, err
}

// Range returns the time of the first and of the last request; both are zero where there is none.
func (s *Store) Range(ctx context.Context) (from, to time.Time, err error) {
	err = s.read(ctx, "reading when requests came", func(r reader) error {
		first, last := int64(noFirst), int64(noLast)
		err := r.each(ctx, `SELECT coalesce(min(first), $1), coalesce(max(last), $2) FROM hours`, []any{first, last},
			func(scan func(...any) error) error { return scan(&first, &last) })
		from, to = fromNanos(first), fromNanos(last)
		return err
	})
	return from, to, err
}

// NodeCount is how many nodes made requests that are stored.
func (s *Store) NodeCount(ctx context.Context) (n int, err error) {
	err = s.read(ctx, "counting the nodes", func(r reader) error {
		return r.each(ctx, `SELECT count(DISTINCT node) FROM nodes`, nil, func(scan func(...any) error) error { return scan(&n) })
	})
	return n, err
}

// ahead is how far a request's time may lie after the clock's.
const ahead = time.Hour

// Newest is the time of the last request that is not later than now, give or take an hour, for windows to end with: one API server whose clock is
// wrong by years would leave nothing else in them. Where all requests are later it is the last of all, and where there is none zero.
func (s *Store) Newest(ctx context.Context, now time.Time) (time.Time, error) {
	last := int64(noLast)
	err := s.read(ctx, "reading when the last request came", func(r reader) error {
		for _, step := range []int64{s.stepOf(now.Add(ahead)), math.MaxInt64} {
			err := r.each(ctx, `SELECT coalesce(max(last), $1) FROM hours WHERE hour <= $2`, []any{last, step},
				func(scan func(...any) error) error { return scan(&last) })
			if err != nil || last != noLast {
				return err
			}
		}
		return nil
	})
	return fromNanos(last), err
}

// Window returns what Tally does, the counts of each step of time in order, without those in which nothing was, and calls each, if it is not
// nil, for each group of findings of each step. It is one state of the store.
func (s *Store) Window(ctx context.Context, from, to time.Time, each func(at time.Time, k *tally.Key, g *tally.Group)) (*tally.Tally, []tally.Step, error) {
	var out *tally.Tally
	var steps []tally.Step
	row := func(step int64, k tally.Key, g *tally.Group) {
		if each != nil {
			each(s.at(step), &k, g)
		}
	}
	err := s.read(ctx, "reading the counts", func(r reader) error {
		first, last, err := s.span(ctx, r, from, to)
		if err != nil {
			return err
		}
		if out, err = window(ctx, r, first, last, row); err != nil {
			return err
		}
		steps = nil
		return r.each(ctx, `SELECT hour, allow, deny, unknown, coalesce((SELECT CAST(sum(n.excess) AS BIGINT) FROM nodes n WHERE n.hour = h.hour), 0)
			FROM hours h WHERE hour >= $1 AND hour <= $2 ORDER BY hour`, []any{first, last}, func(scan func(...any) error) error {
			var one tally.Step
			var step int64
			err := scan(&step, &one.Allow, &one.Deny, &one.Unknown, &one.Excess)
			one.At = s.at(step)
			steps = append(steps, one)
			return err
		})
	})
	if err != nil {
		return nil, nil, err
	}
	return out, steps, nil
}

// NodeSteps returns the counts of one node by steps of time, in order, without those in which nothing was.
func (s *Store) NodeSteps(ctx context.Context, node string, from, to time.Time) ([]tally.Step, error) {
	var out []tally.Step
	err := s.read(ctx, "reading the counts of a node", func(r reader) error {
		first, last, err := s.span(ctx, r, from, to)
		if out = nil; err != nil {
			return err
		}
		return r.each(ctx, `SELECT h.hour, n.requests, n.deny, n.unknown, n.excess FROM hours h JOIN nodes n ON n.hour = h.hour AND n.node = $3
			WHERE h.hour >= $1 AND h.hour <= $2 ORDER BY h.hour`, []any{first, last, escape(tally.Bounded(node))}, func(scan func(...any) error) error {
			var one tally.Step
			var step, requests int64
			err := scan(&step, &requests, &one.Deny, &one.Unknown, &one.Excess)
			one.At, one.Allow = s.at(step), requests-one.Deny-one.Unknown
			out = append(out, one)
			return err
		})
	})
	return out, err
}

// FindingSteps returns the counts of one group of findings by steps of time, in order: as [Excess] where a request of it was allowed, else as
// Deny. Where it came to stand for many, nothing is distinguished.
func (s *Store) FindingSteps(ctx context.Context, k *tally.Key, from, to time.Time) ([]tally.Step, error) {
	id := hash(keyText(k))
	var out []tally.Step
	err := s.read(ctx, "reading the counts of a finding", func(r reader) error {
		first, last, err := s.span(ctx, r, from, to)
		if out = nil; err != nil {
			return err
		}
		return r.each(ctx, `SELECT h.hour, f.count, f.allowed FROM hours h JOIN findings f ON f.hour = h.hour AND f.id = $3
			WHERE h.hour >= $1 AND h.hour <= $2 ORDER BY h.hour`, []any{first, last, id[:]}, func(scan func(...any) error) error {
			var step, n, allowed int64
			err := scan(&step, &n, &allowed)
			one := tally.Step{At: s.at(step)}
			if allowed != 0 {
				one.Excess = n
			} else {
				one.Deny = n
			}
			out = append(out, one)
			return err
		})
	})
	return out, err
}

// Changes says of each step that holds any time from from until before to how often anything was added to it: where that is as it was, so is all
// that Window returns of it.
func (s *Store) Changes(ctx context.Context, from, to time.Time) (map[time.Time]int64, error) {
	out := map[time.Time]int64{}
	err := s.read(ctx, "reading what has changed", func(r reader) error {
		first, last, err := s.span(ctx, r, from, to)
		if err != nil {
			return err
		}
		return r.each(ctx, `SELECT hour, changes FROM hours WHERE hour >= $1 AND hour <= $2`, []any{first, last}, func(scan func(...any) error) error {
			var step, n int64
			err := scan(&step, &n)
			out[s.at(step)] = n
			return err
		})
	})
	return out, err
}

// Remembered returns what is remembered of one kind and key, nil if there is nothing.
func (s *Store) Remembered(ctx context.Context, kind, key string) ([]byte, error) {
	var out []byte
	id := hash(key)
	err := s.read(ctx, "reading a memory of the rules", func(r reader) error {
		out = nil
		return r.each(ctx, `SELECT value FROM memory WHERE kind = $1 AND id = $2`, []any{escape(kind), id[:]},
			func(scan func(...any) error) error { return scan(&out) })
	})
	return out, err
}

// RememberedOf returns all that is remembered of one kind, in order of the keys' hashes.
func (s *Store) RememberedOf(ctx context.Context, kind string) ([]tally.Remembered, error) {
	var out []tally.Remembered
	err := s.read(ctx, "reading a memory of the rules", func(r reader) error {
		out = nil
		return r.each(ctx, `SELECT key, value FROM memory WHERE kind = $1 ORDER BY id`, []any{escape(kind)}, func(scan func(...any) error) error {
			var key, value []byte
			err := scan(&key, &value)
			out = append(out, tally.Remembered{Kind: kind, Key: string(key), Value: value})
			return err
		})
	})
	return out, err
}
