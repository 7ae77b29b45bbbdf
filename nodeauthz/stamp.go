package nodeauthz

import (
	"math"
	"time"
)

// Source says where the estimate of a change's time comes from. A greater one is better and replaces a lesser one.
type Source uint8

const (
	// SourceObject is a timestamp inside the object itself, in whole seconds.
	SourceObject Source = iota
	// SourceWatch is the moment at which a watcher saw the change.
	SourceWatch
	// SourceAudit is the audit event of the change itself: the API server's clock, which is also that of the requests.
	SourceAudit
)

// Stamp is an estimate of when something happened: at some instant in [Time-Lag, Time+Slop].
type Stamp struct {
	Time   time.Time
	Slop   time.Duration
	Source Source
	// Lag is of a change whose request was answered late: it may have taken effect that much before the answer. It is kept in whole seconds, rounded up,
	// and at most 255.
	Lag time.Duration
}

// IsZero reports whether the stamp says nothing.
func (s Stamp) IsZero() bool { return s.Time.IsZero() }

const (
	minTime = math.MinInt64
	maxTime = math.MaxInt64
)

// boundary is a Stamp made small: where a lifetime begins or ends.
type boundary struct {
	at     int64  // Unix nanoseconds
	slop   uint32 // milliseconds, rounded up
	source Source
	set    bool
	mixed  bool  // an audit event's time moved towards a watcher's
	lag    uint8 // seconds, rounded up
}

func boundaryOf(s Stamp) boundary {
	const ms = time.Millisecond
	slop := (max(s.Slop, 0) + ms - 1) / ms
	lag := (max(s.Lag, 0) + time.Second - 1) / time.Second
	return boundary{at: unixNano(s.Time), slop: uint32(min(slop, math.MaxUint32)), source: s.Source, set: true, lag: uint8(min(lag, math.MaxUint8))}
}

// early is the beginning of the interval in which the change happened.
func (b boundary) early() int64 { return satAdd(b.at, -int64(b.lag)*int64(time.Second)) }

// late is the end of the interval in which the change happened.
func (b boundary) late() int64 { return satAdd(b.at, int64(b.slop)*int64(time.Millisecond)) }

// betterThan orders estimates of one change: by source, then what was mixed of two, then the narrower, then the earlier (a watcher that
// saw it earlier was nearer to it).
func (b boundary) betterThan(o boundary) bool {
	switch {
	case !o.set || !b.set:
		return b.set
	case b.source != o.source:
		return b.source > o.source
	case b.mixed != o.mixed:
		return b.mixed // it holds two words, of which the other is one given again
	case b.slop != o.slop:
		return b.slop < o.slop
	case b.lag != o.lag:
		return b.lag < o.lag
	}
	return b.at < o.at
}

// How far an audit event's time is moved towards the time at which a watcher saw the same change. The reference's graph is fed by a
// watch too: an edge is there when the watch has delivered it, which is after the request that made it was answered. Measured on the
// capture of a real control plane (ARCHITECTURE.md): the share of equal verdicts in races is greatest so.
const (
	shareOfBeginning = 1.0
	shareOfEnd       = 0.5
	// mixWithin is how much later a watcher may have seen the change for that to be delivery and not a relist or another clock.
	mixWithin = int64(time.Second)
)

// refine takes in another estimate of the same change and reports whether that changed anything.
func (b *boundary) refine(by boundary, share float64) bool {
	audit, watch := *b, by
	if by.source == SourceAudit {
		audit, watch = by, *b
	}
	if b.set && by.set && audit.source == SourceAudit && watch.source == SourceWatch {
		if b.mixed {
			return false
		}
		changed := *b != audit
		switch d := watch.at - audit.at; {
		case d > 0 && d <= mixWithin:
			audit.at += int64(float64(d) * share)
			audit.lag, audit.mixed, changed = 0, true, true
		case d <= 0 && watch.at >= audit.early() && audit.lag > 0 && watch.slop == 0: // it was seen before the answer
			audit.at, audit.lag, audit.mixed, changed = watch.at, 0, true, true
		case share == shareOfBeginning && audit.early()-watch.at > mixWithin: // what was seen had begun: the clocks differ, and it began between the two
			audit, changed = audit.backTo(watch.at), true
		}
		*b = audit
		return changed
	}
	if !by.betterThan(*b) {
		return false
	}
	*b = by
	return true
}

// backTo is the boundary with its beginning at an earlier time: it is not known when between the two it was.
func (b boundary) backTo(at int64) boundary {
	const ms = int64(time.Millisecond)
	b.slop = uint32(min((b.late()-at+ms-1)/ms, math.MaxUint32))
	b.at, b.lag, b.mixed = at, 0, true
	return b
}

// unixNano is t.UnixNano, and the nearest end of what that can hold for a time beyond it, such as the zero time. It is never maxTime, which
// stands for what does not come: a request that says it is of the year 9999 is not in a state that was never observed.
func unixNano(t time.Time) int64 {
	switch s := t.Unix(); {
	case s <= math.MinInt64/int64(time.Second):
		return minTime
	case s >= math.MaxInt64/int64(time.Second):
		return maxTime - 1
	}
	return t.UnixNano()
}

func satAdd(a, d int64) int64 {
	if d > 0 && a > maxTime-d {
		return maxTime
	}
	if d < 0 && a < minTime-d {
		return minTime
	}
	return a + d
}

// life is the lifetime of an edge. A from that is not set reaches back indefinitely, a to that is not set has not come yet.
type life struct{ from, to boundary }

// possible is the widest interval in which the edge may have lived, certain the one in which it did.
func (l life) possible() (lo, hi int64) {
	lo, hi = minTime, maxTime
	if l.from.set {
		lo = l.from.early()
	}
	if l.to.set {
		hi = l.to.late()
	}
	return lo, hi
}

func (l life) certain() (lo, hi int64) {
	lo, hi = minTime, maxTime
	if l.from.set {
		lo = l.from.late()
	}
	if l.to.set {
		hi = l.to.early()
	}
	return lo, hi
}
