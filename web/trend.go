package web

import (
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/tally"
)

// maxPoints is how many steps a trend has, if it can be done with the lengths that there are; mostPoints bounds them, the latest remain.
const (
	maxPoints  = 200
	mostPoints = 400
)

const day = 24 * time.Hour

// lengths are those that a step of a trend can have.
func lengths() []time.Duration {
	return []time.Duration{
		time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, day,
	}
}

// stepFor is how long a step of a trend from from to to is. The store keeps steps of the length least, for the time fine; older ones by the
// day.
func stepFor(from, to time.Time, least, fine time.Duration) time.Duration {
	span := to.Sub(from)
	for _, d := range lengths() {
		if d >= least && d%least == 0 && span/d < maxPoints && (d == day || span <= fine) {
			return d
		}
	}
	return day
}

// stepName is what a Trend calls its step.
func stepName(d time.Duration) string {
	switch d {
	case time.Hour:
		return "hour"
	case day:
		return "day"
	}
	return strings.TrimSuffix(d.String(), "m0s") + map[bool]string{true: "m"}[d >= time.Minute]
}

// trendOf is the steps in equal lengths, without gaps.
func trendOf(steps []tally.Step, from, to time.Time, least, fine time.Duration) Trend {
	if from.IsZero() || to.Before(from) {
		return Trend{Step: "hour", Points: []Point{}}
	}
	length := stepFor(from, to, least, fine)
	first := from.UTC().Truncate(length) // of the zero time, which is the beginning of a day
	if n := to.Sub(first) / length; n >= mostPoints {
		first = to.UTC().Truncate(length).Add(-(mostPoints - 1) * length)
	}
	out := Trend{Step: stepName(length), Points: make([]Point, 0, to.Sub(first)/length+1)}
	for at := first; !at.After(to); at = at.Add(length) {
		out.Points = append(out.Points, Point{At: at})
	}
	for i := range steps {
		s := &steps[i]
		if s.At.Before(first.Add(-least)) {
			continue
		}
		n := max(0, s.At.Sub(first)/length)
		if int(n) >= len(out.Points) {
			continue
		}
		p := &out.Points[n]
		p.Allow += s.Allow
		p.Deny += s.Deny
		p.Unknown += s.Unknown
		p.Excess += s.Excess
	}
	return out
}
