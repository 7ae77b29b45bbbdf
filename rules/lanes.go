package rules

import (
	"cmp"
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
// Time is that of the lane which is the furthest behind, by what is stored of it. So no request is late because nobody reads its lane for a while.
// Requests are held until time passes them. A request that is dated ahead of the clock of whoever took it in moves time on to when it came in, and no further: it
// waits until time is there, so that an API server whose clock is ahead makes no request late that others write. At any time the detectors know all requests from before it, and none from after it. Not safe for concurrent
// use.
type Lanes struct {
	d      *Detectors
	reader *observationReader
	of     observed
	lanes  map[string]*laneTime
	steps  map[int64]*heldStep
	packer *packer
	bytes  int64 // of what is held
	most   int64 // maxHeld, but in tests
	// resumed is up to when whoever judged before knows the requests; those are no news, and not late.
	resumed time.Time
	// last is the latest time of a request that waits, which may be ahead of time by the clocks of API servers.
	last time.Time
}

// KnownLane is a lane as the store has it.
type KnownLane struct {
	Name string
	// Shared says that any analyzer can own the lane, as with a partition of Kafka. Other lanes end with their process.
	Shared bool
	// Touched changes whenever an analyzer stores anything of the lane.
	Touched int64
}

// laneTime is how far a lane is.
type laneTime struct {
	clock
	reached time.Time // zero until anything is known
	listed  bool      // the store has it
	shared  bool
	touched int64
	alive   time.Time // by the clock, when touched was seen to change last
}

// goneAfter is for how long a shared lane holds time back without an analyzer that reads it: its topic may be gone. It is shorter than the time for
// which the store keeps observations.
const goneAfter = time.Hour

// maxHeld bounds the memory of the observations that are held, in bytes: some 100 each, and more for long names. When so much is held, time no longer waits
// for the lanes that are behind: else requests of all nodes would be missing. If all are of the last minutes, the latest give way and count as late.
const maxHeld = 256 << 20

// maxLanes bounds the lanes that are remembered.
const maxLanes = 1 << 16

// rememberedLanes is the kind of the entry that says how far the lanes were.
const rememberedLanes = "detector-lanes"

// NewLanes returns lanes for detectors that have seen nothing. Nobody else may show them requests or move their time on.
func NewLanes(d *Detectors) *Lanes {
	return &Lanes{d: d, reader: newObservationReader(), lanes: map[string]*laneTime{}, steps: map[int64]*heldStep{}, packer: newPacker(), most: maxHeld}
}

// Restore puts back what Changes returned, as [Detectors.Restore] does.
func (l *Lanes) Restore(all []Remembered) error {
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
			l.lanes[name] = &laneTime{reached: t}
		}
	}
	return err
}

// Changes is [Detectors.Changes], with how far the lanes are.
func (l *Lanes) Changes() []Remembered {
	at := map[string]time.Time{}
	for name, one := range l.lanes {
		if one.listed && !one.reached.IsZero() {
			at[name] = one.reached
		}
	}
	return remember(l.d.Changes(), rememberedLanes, "", at)
}

// Watermark is how far time is: all from before it is judged.
func (l *Lanes) Watermark() time.Time { return l.d.watermark }

// Held is how many observations wait for time to pass them.
func (l *Lanes) Held() (n int) {
	for _, h := range l.steps {
		n += h.n
	}
	return n
}

// Know sets the lanes that the store has; now is by the clock. Each of them holds time back, also one of which nothing else is known.
func (l *Lanes) Know(all []KnownLane, now time.Time) {
	for _, at := range l.lanes {
		at.listed = false
	}
	for i := range all {
		one := &all[i]
		at := l.lane(one.Name)
		if at.listed, at.shared = true, one.Shared; at.touched != one.Touched || at.alive.IsZero() {
			at.touched, at.alive = one.Touched, now
		}
	}
}

// lane is what is known of a lane.
func (l *Lanes) lane(name string) *laneTime {
	at := l.lanes[name]
	if at == nil {
		if at = (&laneTime{}); len(l.lanes) < maxLanes {
			l.lanes[strings.Clone(name)] = at
		}
	}
	return at
}

// Take takes in what [Observations] made, and keeps nothing of b. It returns the latest time of a request in it, zero for none; those that are improbably far ahead
// of the others left out.
func (l *Lanes) Take(b []byte) (latest time.Time, err error) {
	lane := &laneTime{}
	err = l.reader.read(b, func(name string, reached time.Time) {
		if lane = l.lane(name); reached.After(lane.reached) {
			lane.reached = reached
		}
	}, func(of observation) {
		t, moves := of.time(), of.moves()
		late := lane.isLate(t, l.d.lateness)
		if lane.see(moves); late || t.Before(l.d.watermark) {
			if t.Before(l.resumed) {
				return
			}
			l.leave(&of)
			return
		}
		l.d.see(moves)
		if t.After(l.last) {
			l.last = t
		}
		if t.After(latest) && !t.After(l.d.latest.Add(leap)) {
			latest = t
		}
		l.hold(&of, stepOf(t))
	})
	return latest, err
}

func (l *Lanes) hold(of *observation, step int64) {
	if l.bytes >= l.most {
		last := step
		for other := range l.steps {
			last = max(last, other)
		}
		all := l.drop(last)
		for i := range all {
			l.leave(&all[i])
		}
		if last == step {
			l.leave(of)
			return
		}
	}
	h := l.steps[step]
	if h == nil {
		h = newHeldStep(step, l.packer)
		l.steps[step] = h
	}
	l.bytes -= h.bytes
	h.add(of)
	l.bytes += h.bytes
}

// drop holds a step no longer, and returns its observations.
func (l *Lanes) drop(step int64) []observation {
	h := l.steps[step]
	if h == nil {
		return nil
	}
	delete(l.steps, step)
	l.bytes -= h.bytes
	return h.observations()
}

// leave leaves a request out, as one that comes too late.
func (l *Lanes) leave(of *observation) {
	if r, whole := l.of.request(of); whole {
		l.d.late++
		l.d.straggles(r)
	}
}

// Frontier returns how far the log is: the time of its latest request, and up to three and a half minutes more, by the clock, in a log that is silent, so
// that all that came in is judged. The zero clock stands for a log that is not silent. The result is zero before the first request.
func (l *Lanes) Frontier(clock time.Time) time.Time {
	t := l.d.latest
	if t.IsZero() || !clock.After(t) {
		return t
	}
	if l.last.After(t) { // it is dated ahead, and its time has come
		if t = l.last; t.After(clock) {
			t = clock
		}
	}
	if most := t.Add(flushBy + l.d.lateness); clock.After(most) {
		return most
	}
	return clock
}

// Behind returns the lane that is the furthest behind, and how far it is; "" if there is none. A lane that is not shared counts until hold after an
// analyzer stored anything of it.
func (l *Lanes) Behind(now time.Time, hold time.Duration) (name string, reached time.Time) {
	for other, one := range l.lanes {
		most := hold
		if one.shared {
			most = goneAfter
		}
		if !one.listed || now.Sub(one.alive) > most {
			continue
		}
		if name == "" || one.reached.Before(reached) || one.reached.Equal(reached) && other < name {
			name, reached = other, one.reached
		}
	}
	return name, reached
}

// Advance moves time on to the frontier less the lateness, but not past a lane that is behind. At the beginning of each minute it calls cut, when all
// from before it is judged and nothing else was shown: what [Lanes.Changes] returns then is complete.
func (l *Lanes) Advance(now, clock time.Time, hold time.Duration, s State, found func(*Detection), cut func()) {
	d := l.d
	if d.latest.IsZero() {
		return
	}
	t := l.Frontier(clock)
	if name, reached := l.Behind(now, hold); name != "" && reached.Before(t) && l.bytes < l.most {
		t = reached
	}
	t = t.Add(-d.lateness).UTC().Truncate(DetectStep)
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
	all := l.drop(step)
	slices.SortStableFunc(all, func(a, b observation) int { return cmp.Compare(a.at, b.at) })
	for i := range all {
		if r, whole := l.of.request(&all[i]); whole {
			l.d.show(r, s)
		}
	}
}
