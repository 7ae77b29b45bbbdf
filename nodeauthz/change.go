package nodeauthz

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// changes gathers beginnings and ends of edges around an instant, in bounded memory.
type changes struct {
	g              *Graph
	at, lo, hi     int64
	most           int
	asks           nodeID
	of             gens
	list           []changeRef
	full           bool // what is farther away than the last of the first most is not kept
	earlier, later int
	// nearest are those before and after the instant, of all nodes and of the one that asks.
	nearest [4]changeRef
}

// changeRef is a Change without its words.
type changeRef struct {
	boundary
	tenure tenureID // 0: of a volume
	volume volumeID
	start  vertexID
	began  bool
	edge   changedEdges
}

// changedEdges says which edges of a way began or ended at once.
type changedEdges uint8

const (
	bothEdges  changedEdges = iota // from the start to the pod and on to the node
	firstEdge                      // from the start to the pod
	secondEdge                     // from the pod to the node
)

// gather looks at all that leads from the vertex.
func (c *changes) gather(vid vertexID) {
	g := c.g
	g.eachTenureTo(vid, 0, func(id tenureID) { c.ofTenure(vid, id) })
	var seen []vertexID
	for _, id := range g.volumesOf(vid) {
		vol := g.volume(id)
		c.add(changeRef{boundary: vol.from, volume: id, start: vid, began: true})
		c.add(changeRef{boundary: vol.to, volume: id, start: vid})
		if slices.Contains(seen, vol.claim) {
			continue
		}
		seen = append(seen, vol.claim)
		g.eachTenureTo(vol.claim, 0, func(id tenureID) { c.ofTenure(vol.claim, id) })
	}
}

func (c *changes) ofTenure(vid vertexID, id tenureID) {
	r := c.g.tenure(id)
	switch {
	case r.node == 0:
		return
	case r.extra == nil && vid != r.vertex: // as most are
		c.add(changeRef{boundary: r.from, tenure: id, start: vid, began: true, edge: bothEdges})
		c.add(changeRef{boundary: r.to, tenure: id, start: vid, edge: bothEdges})
		return
	case vid == r.vertex:
		c.add(changeRef{boundary: r.from, tenure: id, start: vid, began: true, edge: secondEdge})
		c.add(changeRef{boundary: r.to, tenure: id, start: vid, edge: secondEdge})
		return
	}
	there, began, ended := false, false, false
	r.lives(vid, c.of, func(l life) {
		there = true
		from, to := firstEdge, firstEdge
		if l.from == r.from {
			from, began = bothEdges, true
		}
		if l.to == r.to {
			to, ended = bothEdges, true
		}
		c.add(changeRef{boundary: l.from, tenure: id, start: vid, began: true, edge: from})
		c.add(changeRef{boundary: l.to, tenure: id, start: vid, edge: to})
	})
	if !there {
		return
	}
	if !began {
		c.add(changeRef{boundary: r.from, tenure: id, start: vid, began: true, edge: secondEdge})
	}
	if !ended {
		c.add(changeRef{boundary: r.to, tenure: id, start: vid, edge: secondEdge})
	}
}

func (c *changes) add(x changeRef) {
	if !x.set || x.boundary.at == minTime || x.boundary.at == maxTime {
		return
	}
	after := 0
	if x.boundary.at > c.at {
		after = 1
	}
	c.nearer(&c.nearest[after], &x)
	if x.tenure != 0 && c.g.tenure(x.tenure).node == c.asks {
		c.nearer(&c.nearest[2+after], &x)
	}
	if x.boundary.at < c.lo || x.boundary.at > c.hi {
		return
	}
	if c.full && c.compare(x, c.list[c.most-1]) > 0 {
		c.drop(&x)
		return
	}
	if c.list = append(c.list, x); len(c.list) >= 4*c.most+64 {
		c.cut()
	}
}

// drop counts one that is not listed.
func (c *changes) drop(x *changeRef) {
	if x.boundary.at > c.at {
		c.later++
	} else {
		c.earlier++
	}
}

func (c *changes) nearer(to, x *changeRef) {
	if !to.set || c.compare(*x, *to) < 0 {
		*to = *x
	}
}

// cut keeps the nearest.
func (c *changes) cut() {
	if len(c.list) <= c.most {
		return
	}
	slices.SortFunc(c.list, c.compare)
	for i := range c.list[c.most:] {
		c.drop(&c.list[c.most+i])
	}
	c.list, c.full = c.list[:c.most], true
}

// compare puts the nearest to the instant first.
func (c *changes) compare(x, y changeRef) int {
	if d := cmp.Compare(distance(x.boundary.at, c.at), distance(y.boundary.at, c.at)); d != 0 {
		return d
	}
	return c.compareInTime(x, y)
}

// compareInTime puts the earliest first; of one instant ends before beginnings, then names decide.
func (c *changes) compareInTime(x, y changeRef) int {
	began := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	if d := cmp.Or(cmp.Compare(x.boundary.at, y.boundary.at), cmp.Compare(began(x.began), began(y.began)), cmp.Compare(x.tenure, 0)-cmp.Compare(y.tenure, 0)); d != 0 {
		return d
	}
	if x.tenure != 0 {
		if d := c.g.compareVertices(c.g.tenure(x.tenure).vertex, c.g.tenure(y.tenure).vertex); d != 0 {
			return d
		}
	} else if d := c.g.compareVertices(c.g.volume(x.volume).vertex, c.g.volume(y.volume).vertex); d != 0 {
		return d
	}
	return cmp.Or(c.g.compareVertices(x.start, y.start), cmp.Compare(x.tenure, y.tenure), cmp.Compare(x.volume, y.volume), cmp.Compare(x.edge, y.edge))
}

func distance(a, b int64) uint64 {
	if a < b {
		a, b = b, a
	}
	return uint64(a) - uint64(b)
}

// result puts into words what is kept.
func (c *changes) result() (out []Change, earlier, later int) {
	c.cut()
	for _, x := range c.nearest {
		if !x.set || slices.Contains(c.list, x) {
			continue
		}
		if c.list = append(c.list, x); x.boundary.at >= c.lo && x.boundary.at <= c.hi { // it was cut
			if x.boundary.at > c.at {
				c.later--
			} else {
				c.earlier--
			}
		}
	}
	slices.SortFunc(c.list, c.compareInTime)
	for i := range c.list {
		out = append(out, c.change(&c.list[i]))
	}
	return out, c.earlier, c.later
}

func (c *changes) change(x *changeRef) Change {
	g := c.g
	out := Change{Began: x.began, At: x.stamp(), Steps: []Step{g.step(x.start)}}
	if x.tenure == 0 {
		vol := g.volume(x.volume)
		if x.start != vol.vertex {
			out.Steps = append(out.Steps, g.step(vol.vertex))
		}
		out.Steps = append(out.Steps, g.step(vol.claim))
		return out
	}
	r := g.tenure(x.tenure)
	out.Node = g.nodeRecs[r.node].name
	switch pod, node := g.step(r.vertex), (Step{Name: out.Node}); x.edge {
	case firstEdge:
		out.Steps = append(out.Steps, pod)
	case secondEdge:
		out.Steps = []Step{pod, node}
	default:
		out.Steps = append(out.Steps, pod, node)
	}
	return out
}

// stamp is the boundary as it came.
func (b boundary) stamp() Stamp {
	return Stamp{Time: time.Unix(0, b.at).UTC(), Slop: time.Duration(min(int64(b.slop), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond, Lag: time.Duration(b.lag) * time.Second, Source: b.source}
}
