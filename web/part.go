package web

import (
	"context"
	"maps"
	"time"

	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// part is what a store holds of some steps of time. It never changes once it is read.
type part struct {
	from, to time.Time
	changes  map[time.Time]int64
	tally    *tally.Tally
	steps    []tally.Step
	uses     map[report.Binding]map[int64]int64
}

// recently is which steps are read anew each time: requests come late, and rarely later than that.
const recently = 2

// gather reads the window into the snapshot. Where reading all took its time before, only the latest steps are read, and the others again if
// they have changed: late requests are rare, and so is the end of a day that is summed up.
func (c *cache) gather(ctx context.Context, s *snapshot, from time.Time, before *snapshot) (*tally.Tally, error) {
	whole := before == nil || before.old == nil && before.took < c.worth
	_, last, err := c.store.Range(ctx)
	if err != nil {
		return nil, err
	}
	until := last.Truncate(c.step).Add(-(recently - 1) * c.step)
	if !from.IsZero() {
		from = from.Truncate(c.step)
	}
	if whole || !until.After(from) {
		all, err := c.readPart(ctx, from, time.Time{})
		if err != nil {
			return nil, err
		}
		s.steps, s.uses = all.steps, all.uses
		return all.tally, nil
	}
	changes, err := c.store.Changes(ctx, from, until)
	if err != nil {
		return nil, err
	}
	old := before.old
	if old == nil || !old.from.Equal(from) || !old.to.Equal(until) || !maps.Equal(old.changes, changes) {
		if old, err = c.readPart(ctx, from, until); err != nil {
			return nil, err
		}
		// What was added since it was asked for makes it be read again.
		old.from, old.to, old.changes = from, until, changes
	}
	tail, err := c.readPart(ctx, until, time.Time{})
	if err != nil {
		return nil, err
	}
	s.old, s.uses = old, map[report.Binding]map[int64]int64{}
	s.steps = append(append(s.steps, old.steps...), tail.steps...)
	for _, p := range []*part{old, tail} {
		for b, of := range p.uses {
			if s.uses[b] == nil && len(s.uses) < maxTrends {
				s.uses[b] = map[int64]int64{}
			}
			if to := s.uses[b]; to != nil {
				maps.Copy(to, of)
			}
		}
	}
	t := tally.New()
	t.Merge(old.tally) // it copies, and leaves the other as it is
	t.Merge(tail.tally)
	return t, nil
}

func (c *cache) readPart(ctx context.Context, from, to time.Time) (*part, error) {
	p := &part{uses: map[report.Binding]map[int64]int64{}}
	var err error
	p.tally, p.steps, err = c.store.Window(ctx, from, to, p.use)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// use adds what one step has of a binding's use.
func (p *part) use(at time.Time, k *tally.Key, g *tally.Group) {
	if k.Rule != rules.ExcessAccess || g.Count == g.Low || k.Binding.Name == "" {
		return
	}
	b := report.Binding{Kind: k.Binding.Kind, Namespace: k.Binding.Namespace, Name: k.Binding.Name}
	of := p.uses[b]
	if of == nil {
		if len(p.uses) >= maxTrends {
			return
		}
		of = map[int64]int64{}
		p.uses[b] = of
	}
	of[at.Unix()] += g.Count - g.Low
}
