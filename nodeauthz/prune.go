package nodeauthz

import (
	"container/heap"
	"slices"
	"time"
)

// pruneBatch bounds how long Prune holds the lock at a time.
const pruneBatch = 512

// Prune forgets the lifetimes that ended before the given time. Answers for later instants (less the skew) stay as they are; for
// earlier ones the absence of a path is Unknown from now on. An event that comes later and tells of a life that was forgotten (a pod's
// binding, long after its end) is taken for a new one: prune only what no event can tell of any more.
func (g *Graph) Prune(before time.Time) {
	limit := unixNano(before)
	for g.pruneSome(limit) {
		continue
	}
}

// Overfull returns the time by which all lifetimes had ended but the n that ended last, about; the zero time if not more than n have ended.
func (g *Graph) Overfull(n int) time.Time {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if len(g.ended) <= n {
		return time.Time{}
	}
	ends := make([]int64, len(g.ended))
	for i, e := range g.ended {
		ends[i] = e.at
	}
	slices.Sort(ends)
	return timeOf(ends[len(ends)-n])
}

func (g *Graph) pruneSome(limit int64) (more bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.prunedTo = max(g.prunedTo, limit)
	for k := range g.holes {
		g.holes[k].prune(limit)
	}
	for range pruneBatch {
		if len(g.ended) == 0 || g.ended[0].at >= limit {
			return false
		}
		e := heap.Pop(&g.ended).(endedEntry)
		if e.volume != 0 {
			g.dropVolume(e.volume, limit)
		} else {
			g.dropTenure(e.tenure, limit)
		}
	}
	return true
}

func (g *Graph) dropTenure(id tenureID, limit int64) {
	r := g.tenure(id)
	if !r.used || !r.to.set || r.to.late() >= limit {
		return // an entry from before its end was refined; there is a later one
	}
	if r.open {
		g.close(id)
	}
	entry := ref{tenure: id, node: r.node}
	drop := func(vid vertexID) {
		g.dropRef(vid, entry)
		g.release(vid)
	}
	seen := map[vertexID]bool{}
	for _, e := range r.extras() {
		if v := e.vertex; !seen[v] {
			seen[v] = true
			drop(v)
		}
	}
	for _, v := range g.targetsOf(r) {
		if !seen[v] {
			seen[v] = true
			drop(v)
		}
	}
	drop(r.vertex)
	g.releaseTenure(id)
}

func (g *Graph) dropVolume(id volumeID, limit int64) {
	r := g.volume(id)
	if !r.used || !r.to.set || r.to.late() >= limit {
		return
	}
	drop := func(vid vertexID) {
		if t := g.tail(g.vertex(vid)); t != nil {
			t.volumes = without(t.volumes, id)
		}
		g.release(vid)
	}
	for _, s := range r.secrets {
		drop(s)
	}
	drop(r.vertex)
	g.tail(g.vertex(r.claim)).pins--
	g.release(r.claim)
	*r = volumeLife{}
	g.volumes.Release(uint32(id))
}

// endedQueue is a heap of lifetimes by their end. A lifetime whose end was refined is in it twice; the entry that no longer fits
// is dropped when it comes up.
type endedQueue []endedEntry

type endedEntry struct {
	at     int64
	tenure tenureID
	volume volumeID
}

func (q *endedQueue) add(at int64, id tenureID) { heap.Push(q, endedEntry{at: at, tenure: id}) }
func (q *endedQueue) addVolume(at int64, id volumeID) {
	heap.Push(q, endedEntry{at: at, volume: id})
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (q endedQueue) Len() int           { return len(q) }
func (q endedQueue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q endedQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *endedQueue) Push(x any) { *q = append(*q, x.(endedEntry)) }

// Pop implements heap.Interface.
func (q *endedQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}
