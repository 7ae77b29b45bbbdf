package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
)

// The bounds of a measured skew, which is a multiple of the least.
const (
	leastSkew = 50 * time.Millisecond
	mostSkew  = time.Second
)

// maxSkewObjects bounds the objects that a measurement remembers.
const maxSkewObjects = 100_000

// ErrSkewTwice refuses to measure the skew of what can be read only once.
var ErrSkewTwice = errors.New("to measure the skew, the log and the state are read twice, and standard input (-) or loaded state can be read only once")

// skewMeter measures how far from a change the API server's own decisions still disagreed with the state.
type skewMeter struct {
	furthest map[skewObject]*time.Duration
}

func newSkewMeter() *skewMeter { return &skewMeter{furthest: map[skewObject]*time.Duration{}} }

type skewObject struct{ group, resource, namespace, name string }

// skewObjectOf is the object of a judgement, whose strings it shares.
func skewObjectOf(j *pipeline.Judgement) skewObject {
	return skewObject{j.Attrs.APIGroup, j.Attrs.Resource, j.Attrs.Namespace, j.Attrs.Name}
}

// own has strings of its own.
func (o skewObject) own() skewObject {
	return skewObject{strings.Clone(o.group), strings.Clone(o.resource), strings.Clone(o.namespace), strings.Clone(o.name)}
}

// add takes in a judgement by the most that a skew can be. Disagreements that are no race even so are none of the skew.
func (m *skewMeter) add(j *pipeline.Judgement) {
	if d, ok := j.RaceDistance(); ok {
		m.note(skewObjectOf(j), d)
	}
}

func (m *skewMeter) note(o skewObject, d time.Duration) {
	old := m.furthest[o]
	switch {
	case old != nil:
		*old = max(*old, d)
	case len(m.furthest) < maxSkewObjects:
		m.furthest[o.own()] = &d
	}
}

// skew is the 0.99 quantile over the objects, rounded up: of fewer than a hundred it is the largest but one, so that a single object decides nothing.
func (m *skewMeter) skew() time.Duration {
	all := make([]time.Duration, 0, len(m.furthest))
	for _, d := range m.furthest {
		all = append(all, *d)
	}
	slices.Sort(all)
	var d time.Duration
	if rank := len(all) * 99 / 100; rank > 0 {
		d = all[rank-1]
	}
	up := d.Truncate(leastSkew)
	if up < d {
		up += leastSkew
	}
	return min(max(up, leastSkew), mostSkew)
}

// measure goes through the logs once to find the skew, over state of its own.
func (p *passage) measure(ctx context.Context) error {
	first := &passage{in: p.in, judged: p.judged, logs: p.logs}
	first.logs.Progress, first.logs.Ledger, first.logs.All = nil, nil, false
	first.judged.Skew, first.judged.Rules, first.judged.Kubelets = mostSkew, nil, nil
	var err error
	if first.judged.Mode, err = pipeline.ParseMode(p.mode); err != nil {
		return &OptionError{"AuthorizationMode", err}
	}
	m := newSkewMeter()
	_, _, err = first.run(ctx, func(*judging.Setup) {}, func(j *pipeline.Judgement) error {
		m.add(j)
		return nil
	})
	if err != nil {
		return err
	}
	p.judged.Skew = m.skew()
	p.measured = &report.Skew{Milliseconds: p.judged.Skew.Milliseconds(), Objects: len(m.furthest)}
	return nil
}
