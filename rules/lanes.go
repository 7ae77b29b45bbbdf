package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Lanes show detectors the observations of several lanes, whoever judged the requests, in the order of their times.
//
// Time is that of the lane which is the furthest behind, so that nothing of it is late for what came by the others. A lane that has not moved for a
// while by the clock holds nothing back: it has no requests, or nobody reads it. Requests are held until time passes them. So what the detectors know
// at a time is what all requests from before it tell, and none from after it. Not safe for concurrent use.
type Lanes struct {
	d      *Detectors
	reader *observationReader
	of     observed
	lanes  map[string]*laneTime
	steps  map[int64][]Observation
	held   int
	// resumed is up to when whoever judged before knows the requests; those are no news, and not late.
	resumed time.Time
	lost    int64 // that had no room
}

// laneTime is how far a lane is.
type laneTime struct {
	clock
	reached time.Time // zero until anything is known
	moved   time.Time // by the clock
}

// maxHeld bounds the observations that are held. The latest give way, so that a time which cannot be keeps no others out.
const maxHeld = 4 << 20

// maxLanes bounds the lanes that are remembered.
const maxLanes = 1 << 16

// rememberedLanes is the kind of the entry that says how far the lanes were.
const rememberedLanes = "detector-lanes"

// NewLanes returns lanes for detectors that have seen nothing. Nobody else may show them requests or move their time on.
func NewLanes(d *Detectors) *Lanes {
	return &Lanes{d: d, reader: newObservationReader(), lanes: map[string]*laneTime{}, steps: map[int64][]Observation{}}
}

// Restore puts back what Changes returned, as [Detectors.Restore] does. The lanes of then hold time back from now on.
func (l *Lanes) Restore(all []Remembered, now time.Time) error {
	err := l.d.Restore(all)
	l.resumed = l.d.watermark
	for i := range all {
		if all[i].Kind != rememberedLanes {
			continue
		}
		var at map[string]time.Time
		if wrong := json.Unmarshal(all[i].Value, &at); wrong != nil || len(at) > maxLanes {
			err = errors.Join(err, fmt.Errorf("reading how far the lanes are: %w", wrong))
			continue
		}
		for name, t := range at {
			l.lanes[name] = &laneTime{reached: t, moved: now}
		}
	}
	return err
}

// Changes is [Detectors.Changes], with how far the lanes are.
func (l *Lanes) Changes() []Remembered {
	at := map[string]time.Time{}
	for name, one := range l.lanes {
		if !one.reached.IsZero() {
			at[name] = one.reached
		}
	}
	return remember(l.d.Changes(), rememberedLanes, "", at)
}

// Watermark is how far time is: all from before it is judged.
func (l *Lanes) Watermark() time.Time { return l.d.watermark }

// Held is how many observations wait for time to pass them, Lost how many had no room.
func (l *Lanes) Held() int { return l.held }

// Lost is how many observations had no room.
func (l *Lanes) Lost() int64 { return l.lost }

// Know says that there is a lane, which holds time back until something of it came, or for a while.
func (l *Lanes) Know(name string, now time.Time) {
	if l.lanes[name] == nil && len(l.lanes) < maxLanes {
		l.lanes[strings.Clone(name)] = &laneTime{moved: now}
	}
}

// Take takes in what [Observations] made, and keeps b. It returns the latest time of a request in it, zero for none; those that are improbably far ahead
// of the others left out.
func (l *Lanes) Take(b []byte, now time.Time) (latest time.Time, err error) {
	lane := &laneTime{}
	err = l.reader.read(b, func(name string, reached time.Time) {
		l.Know(name, now)
		if lane = l.lanes[name]; lane == nil {
			lane = &laneTime{}
		}
		if reached.After(lane.reached) {
			lane.reached, lane.moved = reached, now
		}
	}, func(of Observation) {
		late := lane.isLate(of.Time, l.d.lateness)
		if lane.see(of.Time); late || of.Time.Before(l.d.watermark) {
			if of.Time.Before(l.resumed) {
				return
			}
			if r, whole := l.of.request(&of); whole {
				l.d.late++
				l.d.straggles(r)
			}
			return
		}
		l.d.see(of.Time)
		if of.Time.After(latest) && !of.Time.After(l.d.latest.Add(leap)) {
			latest = of.Time
		}
		l.hold(of)
	})
	return latest, err
}

func (l *Lanes) hold(of Observation) {
	step := stepOf(of.Time)
	if l.held >= maxHeld {
		last := step
		for other := range l.steps {
			last = max(last, other)
		}
		l.held -= len(l.steps[last])
		l.lost += int64(len(l.steps[last]))
		delete(l.steps, last)
		if last == step {
			l.lost++
			return
		}
	}
	l.held++
	l.steps[step] = append(l.steps[step], of)
}

// holding says whether lanes hold time back, and at what time. hold is for how long a lane may stand still.
func (l *Lanes) holding(now time.Time, hold time.Duration) (until time.Time, ok bool) {
	for _, one := range l.lanes {
		if now.Sub(one.moved) > hold || one.reached.After(l.d.latest) {
			continue
		}
		if !ok || one.reached.Before(until) {
			until, ok = one.reached, true
		}
	}
	return until, ok
}

// Advance moves time on as [Detectors.Advance] does, but not beyond what the lanes hold back. At the beginning of each minute it calls cut, when all from
// before it is judged and nothing else was shown: what [Lanes.Changes] returns then is complete.
func (l *Lanes) Advance(now, clock time.Time, hold time.Duration, s State, found func(*Detection), cut func()) {
	d := l.d
	if d.latest.IsZero() {
		return
	}
	t := d.latest.Add(-d.lateness)
	switch until, ok := l.holding(now, hold); {
	case ok:
		if until = until.Add(-d.lateness); until.Before(t) {
			t = until
		}
	case !clock.IsZero():
		c, most := clock.Add(-d.lateness), d.latest.Add(flushBy)
		if c.After(most) {
			c = most
		}
		if c.After(t) {
			t = c
		}
	}
	t = t.UTC().Truncate(DetectStep)
	if !t.After(d.watermark) {
		return
	}
	for _, one := range d.births {
		if b, is := one.(interface{ reached(step int64) }); is {
			b.reached(stepOf(d.latest))
		}
	}
	end := stepOf(t)
	steps := slices.Sorted(maps.Keys(l.steps))
	minute := minuteOf(d.watermark)
	at := func(step int64) {
		d.advance(stepTime(step), s, found)
		if m := minuteOf(d.watermark); m != minute {
			minute = m
			if d.watermark.Equal(timeOfMinute(m)) {
				cut()
			}
		}
	}
	for _, step := range steps {
		if step >= end {
			break
		}
		at(step / stepsPerMinute * stepsPerMinute)
		l.show(step, s)
		at(step + 1)
	}
	at(end / stepsPerMinute * stepsPerMinute)
	at(end)
}

// show gives the detectors the observations of a step, in an order that is always the same.
func (l *Lanes) show(step int64, s State) {
	all := l.steps[step]
	delete(l.steps, step)
	l.held -= len(all)
	slices.SortStableFunc(all, func(a, b Observation) int { return a.Time.Compare(b.Time) })
	for i := range all {
		if r, whole := l.of.request(&all[i]); whole {
			l.d.show(r, s)
		}
	}
}
