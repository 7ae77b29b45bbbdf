package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/internal/floor"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// Tally returns the sum of the steps that hold any time from from until before to; a zero time bounds nothing. Of a day that is kept as a
// whole (Options.Hourly) all counts if from or its first hour does. It is one state of the store, however long reading takes.
func (s *Store) Tally(ctx context.Context, from, to time.Time) (*tally.Tally, error) {
	var out *tally.Tally
	err := s.read(ctx, "reading the counts", func(r reader) error {
		first, last, err := s.span(ctx, r, from, to)
		if err == nil {
			out, err = window(ctx, r, first, last, nil)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// span is the steps that hold any time from from until before to. It begins with a day if from is in one that is kept as a whole: nothing says what belongs to its parts, and the
// day after begins too late.
func (s *Store) span(ctx context.Context, r reader, from, to time.Time) (first, last int64, err error) {
	first, last = math.MinInt64, math.MaxInt64
	if !to.IsZero() {
		last = s.stepOf(to.Add(-1))
	}
	if from.IsZero() {
		return first, last, nil
	}
	first = s.stepOf(from)
	day := floor.Div(first, s.perDay()) * s.perDay()
	err = r.each(ctx, `SELECT hour FROM hours WHERE hour = $1 AND last >= $2`, []any{day, s.at(first).UnixNano()}, func(scan func(...any) error) error { return scan(&first) })
	return first, last, err
}

// window is the tally of the steps from first to last. each, if it is not nil, is called for each row of findings.
func window(ctx context.Context, r reader, first, last int64, each func(int64, tally.Key, *tally.Group)) (*tally.Tally, error) {
	out, args := tally.New(), []any{first, last}
	findings := func(ctx context.Context, r reader, args []any, out *tally.Tally) error {
		return readFindings(ctx, r, args, out, each)
	}
	for _, part := range []func(context.Context, reader, []any, *tally.Tally) error{
		readHours, readNodes, findings, readAmbient, readAdmission, readNotes,
	} {
		if err := part(ctx, r, args, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func readHours(ctx context.Context, r reader, args []any, out *tally.Tally) error {
	columns := ""
	for _, name := range sumNames() {
		columns += ", " + name
	}
	return r.each(ctx, `SELECT first, last`+columns+` FROM hours WHERE hour >= $1 AND hour <= $2`, args, func(scan func(...any) error) error {
		one := tally.Tally{}
		var first, last int64
		to := []any{&first, &last}
		for _, n := range sumsOf(&one.Sums, &one.Events) {
			to = append(to, n)
		}
		if err := scan(to...); err != nil {
			return err
		}
		one.From, one.To = fromNanos(first), fromNanos(last)
		out.Merge(&one)
		return nil
	})
}

func readNodes(ctx context.Context, r reader, args []any, out *tally.Tally) error {
	some := &tally.Tally{Nodes: map[string]*tally.Node{}}
	err := r.each(ctx, `SELECT node, CAST(sum(requests) AS BIGINT), CAST(sum(deny) AS BIGINT), CAST(sum(excess) AS BIGINT),
		CAST(sum(unknown) AS BIGINT) FROM nodes
		WHERE hour >= $1 AND hour <= $2 GROUP BY node ORDER BY node`, args, func(scan func(...any) error) error {
		var name string
		n := &tally.Node{}
		if err := scan(&name, &n.Requests, &n.Deny, &n.Excess, &n.Unknown); err != nil {
			return err
		}
		name, err := unescape(name)
		if some.Nodes[name] = n; len(some.Nodes) > 1000 {
			out.Merge(some)
			clear(some.Nodes)
		}
		return err
	})
	out.Merge(some)
	return err
}

func readFindings(ctx context.Context, r reader, args []any, out *tally.Tally, each func(int64, tally.Key, *tally.Group)) error {
	return eachFinding(ctx, r, `hour >= $1 AND hour <= $2 ORDER BY hour, id`, args, func(step int64, k tally.Key, g *tally.Group) {
		if each != nil {
			each(step, k, g)
		}
		out.MergeGroup(k, g)
	})
}

// eachFinding calls f for each row of findings that the condition selects.
func eachFinding(ctx context.Context, r reader, where string, args []any, f func(step int64, k tally.Key, g *tally.Group)) error {
	keys := map[string]tally.Key{}
	return r.each(ctx, `SELECT hour, finding, count, low, first, last, reason, params, severity, allowed, wide, audit_ids, listed,
		users, user_groups, impersonated, addresses, answers FROM findings WHERE `+where, args, func(scan func(...any) error) error {
		var key, reason, params, ids string
		var step, first, last, severity, allowed, wide, listed int64
		var origins [5]string
		g := &tally.Group{}
		err := scan(&step, &key, &g.Count, &g.Low, &first, &last, &reason, &params, &severity, &allowed, &wide, &ids, &listed,
			&origins[0], &origins[1], &origins[2], &origins[3], &origins[4])
		if err != nil {
			return err
		}
		g.First, g.Last, g.Severity, g.Allowed, g.Wide = fromNanos(first), fromNanos(last), rules.Severity(severity), allowed != 0, wide != 0
		g.Succeeded = allowed > 1
		if reason, err = unescape(reason); err != nil {
			return fmt.Errorf("reading a finding's reason: %w", err)
		}
		g.Reason = rules.Reason(reason)
		if g.Params, err = parseParams(params); err != nil {
			return err
		}
		if g.AuditIDs, err = parseAuditIDs(ids, listed); err != nil {
			return err
		}
		if err = parseOrigins(&g.Origins, &origins); err != nil {
			return err
		}
		k, known := keys[key]
		if !known {
			if k, err = parseKey(key); err != nil {
				return err
			}
			if len(keys) < tally.MaxGroups {
				keys[key] = k
			}
		}
		f(step, k, g)
		return nil
	})
}

func readAmbient(ctx context.Context, r reader, args []any, out *tally.Tally) error {
	rest := int64(0) // what stands for all others does not take the place of one
	err := r.each(ctx, `SELECT access, CAST(sum(count) AS BIGINT) FROM ambient WHERE hour >= $1 AND hour <= $2 GROUP BY access
		ORDER BY 2 DESC, access`, args, func(scan func(...any) error) error {
		var key string
		var n int64
		if err := scan(&key, &n); err != nil {
			return err
		}
		k, err := parseAmbient(key)
		if err != nil {
			return err
		}
		if k == (tally.AmbientKey{}) {
			rest = n
			return nil
		}
		out.Merge(&tally.Tally{Ambient: map[tally.AmbientKey]int64{k: n}})
		return nil
	})
	if rest > 0 {
		out.Merge(&tally.Tally{Ambient: map[tally.AmbientKey]int64{{}: rest}})
	}
	return err
}

func readAdmission(ctx context.Context, r reader, args []any, out *tally.Tally) error {
	return r.each(ctx, `SELECT answer, CAST(sum(count) AS BIGINT) FROM admission WHERE hour >= $1 AND hour <= $2 GROUP BY answer`, args,
		func(scan func(...any) error) error {
			var key string
			var n int64
			if err := scan(&key, &n); err != nil {
				return err
			}
			k, err := parseAdmission(key)
			if err != nil {
				return err
			}
			out.Merge(&tally.Tally{Admission: map[tally.AdmissionKey]*int64{k: &n}})
			return nil
		})
}

func readNotes(ctx context.Context, r reader, args []any, out *tally.Tally) error {
	some := &tally.Tally{}
	err := r.each(ctx, `SELECT kind, body FROM notes WHERE hour >= $1 AND hour <= $2 ORDER BY hour, kind, id`, args, func(scan func(...any) error) error {
		var kind int64
		var body []byte
		if err := scan(&kind, &body); err != nil {
			return err
		}
		if kind == place {
			var p tally.Place
			err := json.Unmarshal(body, &p)
			if err != nil {
				return fmt.Errorf("reading a place: %w", err)
			}
			if len(some.Events.MalformedAt) < tally.MaxMalformed {
				some.Events.MalformedAt = append(some.Events.MalformedAt, p)
			}
			return nil
		}
		var d tally.Disagreement
		if err := json.Unmarshal(body, &d); err != nil {
			return fmt.Errorf("reading a disagreement: %w", err)
		}
		if len(some.Disagreements) < tally.MaxDisagree {
			some.Disagreements = append(some.Disagreements, d)
		} else {
			some.Sums.DisagreeMore++
		}
		return nil
	})
	slices.SortFunc(some.Disagreements, func(a, b tally.Disagreement) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.AuditID, b.AuditID))
	})
	out.Merge(some)
	return err
}
