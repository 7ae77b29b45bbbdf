package cluster

import (
	"container/heap"
	"math"
	"slices"
	"sort"
)

// A revision of etcd has no time, but many objects hold the time at which they were written, and revisions are in the order of time. So the time of a
// revision is after all times that were written before it, and before all that were written after it, give or take how long a write takes.

// writeTakes is how long after the time in an object its write may be done. No interval is shorter, so that a pod's own time of its binding counts, and not that of a
// later change that comes soon after it (change.agrees).
const writeTakes = second

// sighting is the time of one revision: in [early, late], by one clock. late is 0 where the object says only that it was not earlier.
type sighting struct {
	at          etcdRevision
	early, late int64
	// clock is 0 for API servers, whose clock is also that of the audit log; others are the holders of Leases.
	clock int32
}

// etcdTimes tells the times of revisions.
type etcdTimes struct {
	servers, others bracketing
}

// newEtcdTimes takes all that was seen, in any order. A clock of a Lease's holder counts if none of its times contradicts those of the API servers, and where
// a second one confirms it.
func newEtcdTimes(all []sighting) *etcdTimes {
	slices.SortFunc(all, func(a, b sighting) int { return a.at.compare(b.at) })
	var servers, others []sighting
	for _, s := range all {
		if s.clock == 0 {
			servers = append(servers, s)
		}
	}
	t := &etcdTimes{servers: ofOneClock(servers)}
	wrong := map[int32]bool{}
	for _, s := range all {
		if lo, hi := t.servers.of(s.at); s.clock != 0 && (s.late < lo || s.early > hi) {
			wrong[s.clock] = true
		}
	}
	for _, s := range all {
		if s.clock != 0 && !wrong[s.clock] {
			others = append(others, s)
		}
	}
	t.others = ofManyClocks(others)
	return t
}

// of returns in which time a revision was made. The first is math.MinInt64 and the second math.MaxInt64 where nothing tells.
func (t *etcdTimes) of(r etcdRevision) (from, to int64) {
	from, to = t.servers.of(r)
	if lo, hi := t.others.of(r); max(from, lo) <= min(to, hi) {
		from, to = max(from, lo), min(to, hi)
	}
	return from, to
}

// bracketing has an interval for each sighting's revision, at 2i+1, and for those between it and the one before it, at 2i.
type bracketing struct {
	at   []etcdRevision
	from []int64
	to   []int64
}

func newBracketing(all []sighting) bracketing {
	b := bracketing{at: make([]etcdRevision, len(all)), from: make([]int64, 2*len(all)+1), to: make([]int64, 2*len(all)+1)}
	for i := range all {
		b.at[i] = all[i].at
	}
	return b
}

func (b *bracketing) of(r etcdRevision) (from, to int64) {
	n := len(b.at)
	if n == 0 {
		return math.MinInt64, math.MaxInt64
	}
	first := sort.Search(n, func(i int) bool { return b.at[i].compare(r) >= 0 })
	end := sort.Search(n, func(i int) bool { return b.at[i].compare(r) > 0 })
	if first == end {
		return b.from[2*first], b.to[2*first]
	}
	return b.from[2*end-1], b.to[2*first+1] // what several say of one revision counts together
}

// ofOneClock makes the intervals of what one clock says. Where it contradicts itself (a write took long, or the clocks of several API servers differ), an
// interval holds both what it says before and what it says after.
func ofOneClock(all []sighting) bracketing {
	b := newBracketing(all)
	n := len(b.from)
	latest, earliest := int64(math.MinInt64), int64(math.MaxInt64)
	for i := range n {
		if i%2 == 1 {
			latest = max(latest, all[i/2].early)
		}
		b.from[i] = latest
	}
	for i := n - 1; i >= 0; i-- {
		if i%2 == 1 && all[i/2].late != 0 {
			earliest = min(earliest, all[i/2].late)
		}
		b.to[i] = earliest
	}
	from, to := slices.Clone(b.from), slices.Clone(b.to)
	// The latest time before that does not contradict what comes after, and the other way round. The limits rise, and fall on the way back.
	var pending int64Heap
	best := int64(math.MinInt64)
	for i := range n {
		if i%2 == 1 {
			heap.Push(&pending, all[i/2].early)
		}
		for len(pending) > 0 && pending[0] <= to[i] {
			best = max(best, heap.Pop(&pending).(int64))
		}
		if from[i] > to[i] {
			b.from[i] = best
		}
	}
	pending, best = nil, math.MaxInt64
	for i := n - 1; i >= 0; i-- {
		if i%2 == 1 && all[i/2].late != 0 {
			heap.Push(&pending, -all[i/2].late)
		}
		for len(pending) > 0 && -pending[0] >= from[i] {
			best = min(best, -heap.Pop(&pending).(int64))
		}
		if from[i] > to[i] {
			b.to[i] = best
		}
	}
	return b
}

// ofManyClocks makes the intervals of what at least two clocks say.
func ofManyClocks(all []sighting) bracketing {
	b := newBracketing(all)
	var first, second witness2
	first.reset()
	for i := range b.from {
		if i%2 == 1 {
			first.take(all[i/2].clock, all[i/2].early)
		}
		b.from[i] = first.second
	}
	second.reset()
	for i := len(b.to) - 1; i >= 0; i-- {
		if i%2 == 1 {
			second.take(all[i/2].clock, -all[i/2].late)
		}
		b.to[i] = math.MaxInt64
		if second.second != math.MinInt64 {
			b.to[i] = -second.second
		}
	}
	return b
}

// witness2 keeps the two greatest values of different clocks.
type witness2 struct {
	clock         int32
	first, second int64
}

func (w *witness2) reset() { *w = witness2{first: math.MinInt64, second: math.MinInt64} }

func (w *witness2) take(clock int32, v int64) {
	switch {
	case v > w.first && clock == w.clock:
		w.first = v
	case v > w.first:
		w.clock, w.first, w.second = clock, v, w.first
	case clock != w.clock && v > w.second:
		w.second = v
	}
}

// int64Heap is a heap whose least value comes first.
type int64Heap []int64

func (h int64Heap) Len() int           { return len(h) }
func (h int64Heap) Less(i, j int) bool { return h[i] < h[j] }
func (h int64Heap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push adds a value, as container/heap wants it.
func (h *int64Heap) Push(x any) { *h = append(*h, x.(int64)) }

// Pop takes the last value out, as container/heap wants it.
func (h *int64Heap) Pop() any {
	n := len(*h) - 1
	x := (*h)[n]
	*h = (*h)[:n]
	return x
}
