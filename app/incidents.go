package app

import (
	"context"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/exceptions"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/report"
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
	exists, err := existing(ctx, p.store)
	if err != nil {
		return nil, nil, err
	}
	all, more := book.First(now, func(in *incidents.Incident) bool { return !in.Last.Before(from) && (which == nil || which(in)) }, most, exists)
	return all, more, nil
}

// storedIncidents are all incidents of a store, as of the last request that is stored. clock is the present time.
func storedIncidents(ctx context.Context, s *store.Store, cluster string, except *exceptions.Set, clock time.Time) ([]incidents.Incident, error) {
	book, now, err := storedBook(ctx, s, cluster, except, clock)
	if err != nil {
		return nil, err
	}
	return book.Incidents(now), nil
}

// existing says which nodes have Node objects, as far as the store knows; nil if it does not.
func existing(ctx context.Context, s *store.Store) (func(node string) bool, error) {
	all, err := s.Facts(ctx)
	if err != nil {
		return nil, err
	}
	f, err := fromStore(all)
	return nodesOf(&f), err
}

// nodesOf says which nodes have Node objects; nil if that is not known.
func nodesOf(f *report.Facts) func(node string) bool {
	if f.Nodes == nil {
		return nil
	}
	names := make(map[string]bool, len(f.Nodes))
	for _, name := range f.Nodes {
		names[name] = true
	}
	return func(node string) bool { return names[node] }
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
