package store

import (
	"context"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// Acts calls f for what each step of time holds of each group of findings above low severity, in no certain order. What is as old as the
// store is among them: an incident that continues has its ID from its beginning.
func (s *Store) Acts(ctx context.Context, f func(k *tally.Key, g *tally.Group)) error {
	type act struct {
		k tally.Key
		g *tally.Group
	}
	var all []act // reading may begin anew
	err := s.read(ctx, "reading findings for incidents", func(r reader) error {
		all = nil
		return eachFinding(ctx, r, `severity > $1`, []any{int64(rules.Low)}, func(_ int64, k tally.Key, g *tally.Group) { all = append(all, act{k, g}) })
	})
	if err != nil {
		return err
	}
	for i := range all {
		f(&all[i].k, all[i].g)
	}
	return nil
}

// Recent is what one hour holds of a group of findings.
type Recent struct {
	Key   tally.Key
	Group tally.Group
}

// Recent returns what the hours from that of since on hold of each group of findings, whichever process found it: those found last first,
// and no more than most. If there are more, groups of refused requests are left out before others.
func (s *Store) Recent(ctx context.Context, since time.Time, most int) ([]Recent, error) {
	var out []Recent
	err := s.read(ctx, "reading recent findings", func(r reader) error {
		out = nil
		return eachFinding(ctx, r, `hour >= $1 ORDER BY allowed DESC, last DESC, hour, id LIMIT $2`, []any{s.stepOf(since), int64(most)},
			func(_ int64, k tally.Key, g *tally.Group) {
				out = append(out, Recent{Key: k, Group: *g})
			})
	})
	slices.SortStableFunc(out, func(a, b Recent) int { return b.Group.Last.Compare(a.Group.Last) })
	return out, err
}
