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

// incidents are those of the store that have a finding since from and that which chooses, nil for all, and how many more there are in each state.
func (p *prover) incidents(ctx context.Context, cluster string, from time.Time, which func(*incidents.Incident) bool, most int) ([]incidents.Incident, map[incidents.State]int, error) {
	ctx, end, err := p.turns.take(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	book, now, err := storedBook(ctx, p.store, cluster, exceptionsOf(p.config(), nil), time.Now())
	if err != nil {
		return nil, nil, err
	}
	all, more := book.First(now, func(in *incidents.Incident) bool { return !in.Last.Before(from) && (which == nil || which(in)) }, most)
	return all, more, nil
}

// storedIncidents are the incidents of a store that have a finding since from, as of the last request that is stored. clock is the present
// time.
func storedIncidents(ctx context.Context, s *store.Store, cluster string, from time.Time, except *exceptions.Set, clock time.Time) ([]incidents.Incident, error) {
	book, now, err := storedBook(ctx, s, cluster, except, clock)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(book.Incidents(now), func(in incidents.Incident) bool { return in.Last.Before(from) }), nil
}

// storedBook is a book of what is stored, and when the last request was.
func storedBook(ctx context.Context, s *store.Store, cluster string, except *exceptions.Set, clock time.Time) (*incidents.Book, time.Time, error) {
	now, err := s.Newest(ctx, clock)
	if err != nil {
		return nil, now, err
	}
	book, covered := incidents.NewBook(cluster), excepted(except, clock)
	err = s.Acts(ctx, func(k *tally.Key, g *tally.Group) { book.Add(k, g, covered(k, g)) })
	return book, now, err
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
