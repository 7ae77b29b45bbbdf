package store

import (
	"context"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/tally"
)

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
