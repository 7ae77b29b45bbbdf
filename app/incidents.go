package app

import (
	"context"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/exceptions"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
)

// storedIncidents are the incidents of a store that have a finding since from, as of the last request that is stored. clock is the present
// time.
func storedIncidents(ctx context.Context, s *store.Store, cluster string, from time.Time, except *exceptions.Set, clock time.Time) ([]incidents.Incident, error) {
	now, err := s.Newest(ctx, clock)
	if err != nil {
		return nil, err
	}
	book, covered := incidents.NewBook(cluster), excepted(except, clock)
	if err := s.Acts(ctx, func(k *tally.Key, g *tally.Group) { book.Add(k, g, covered(k, g)) }); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(book.Incidents(now), func(in incidents.Incident) bool { return in.Last.Before(from) }), nil
}

// excepted says whether an exception covers a group of findings.
func excepted(set *exceptions.Set, now time.Time) func(*tally.Key, *tally.Group) bool {
	return func(k *tally.Key, g *tally.Group) bool {
		f := exceptions.Of(k, g)
		return set.Covers(&f, now)
	}
}

// exceptionsOf are the exceptions of a configuration that was validated, and more that were checked.
func exceptionsOf(c *config.Config, more []exceptions.Exception) *exceptions.Set {
	all := slices.Concat(c.Excepted(), more)
	names := make([]string, len(all)) // of rules that users wrote, too: those that are not there cover nothing
	for i := range all {
		names[i] = all[i].Rule
	}
	set, err := exceptions.New(all, names...)
	if err != nil {
		return nil // each was checked; together they may be too many
	}
	return set
}
