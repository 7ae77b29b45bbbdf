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
	// SourceAudit is the audit event of the change itself: the apiserver's clock, which is also that of the requests.
	SourceAudit
)

// Stamp is an estimate of when something happened: at some instant in [Time, Time+Slop].
type Stamp struct {
	Time   time.Time
	Slop   time.Duration
	Source Source
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
}

func boundaryOf(s Stamp) boundary {
	const ms = time.Millisecond
	slop := (max(s.Slop, 0) + ms - 1) / ms
	return boundary{at: s.Time.UnixNano(), slop: uint32(min(slop, math.MaxUint32)), source: s.Source, set: true}
}

// late is the end of the interval in which the change happened.
func (b boundary) late() int64 { return satAdd(b.at, int64(b.slop)*int64(time.Millisecond)) }

func (b boundary) time() time.Time { return time.Unix(0, b.at).UTC() }

// betterThan orders estimates of one change: by source, then the narrower, then the earlier (a watcher that saw it earlier was
// nearer to it).
func (b boundary) betterThan(o boundary) bool {
	switch {
	case !o.set || !b.set:
		return b.set
	case b.source != o.source:
		return b.source > o.source
	case b.slop != o.slop:
		return b.slop < o.slop
	}
	return b.at < o.at
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

// life is the lifetime of an edge. A from that is not set reaches back for ever, a to that is not set has not come yet.
type life struct{ from, to boundary }

// possible is the widest interval in which the edge may have lived, certain the one in which it did.
func (l life) possible() (lo, hi int64) {
	lo, hi = minTime, maxTime
	if l.from.set {
		lo = l.from.at
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
		hi = l.to.at
	}
	return lo, hi
}
