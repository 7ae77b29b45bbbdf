package nodeauthz

import (
	"fmt"
	"slices"
	"time"
)

// Reach is who can reach an object in a span of time.
type Reach struct {
	// Paths are the ways to nodes that were there at any instant of the span: those that last longest first; MorePaths counts those not listed.
	Paths     []Path
	MorePaths int
	// Nodes is how many nodes there are at their ends, all counted.
	Nodes int
	// Missing says in words why paths may be lacking; empty if all are known.
	Missing string
}

// KindOfResource returns what an object of the resource is in the graph, KindNone for what is not there.
func KindOfResource(group, resource string) Kind { return kindOfResource(group, resource) }

// Reach returns the paths that led from the object to nodes at any instant from `from` to `to`, both included, and at most as many as
// given. A zero time bounds nothing. It takes time in proportion to the number of pods that ever used the object; writers wait meanwhile.
func (a *Authorizer) Reach(object Step, from, to time.Time, most int) Reach {
	lo, hi := unixNano(from), unixNano(to)
	if to.IsZero() {
		hi = maxTime - 1
	}
	most = max(most, 1)
	g := a.graph
	g.mu.RLock()
	defer g.mu.RUnlock()
	out := Reach{Missing: g.missingDuring(object.Kind, lo, hi)}
	vid := g.lookup(object.Kind, object.Namespace, object.Name)
	if vid == 0 {
		return out
	}
	var list []way
	nodes, n, full := map[nodeID]struct{}{}, 0, false
	cut := func() {
		slices.SortFunc(list, func(a, b way) int { return g.compareWays(&a, &b) })
		list, full = list[:min(len(list), most)], len(list) >= most
	}
	g.ways(vid, 0, a.of, func(w *way) {
		if w.span.plo > hi || w.span.phi <= lo {
			return
		}
		n++
		nodes[g.tenure(w.tenure).node] = struct{}{}
		if full && g.compareWays(w, &list[most-1]) > 0 {
			return
		}
		if list = append(list, *w); len(list) >= 4*most+64 {
			cut()
		}
	})
	cut()
	for i := range list {
		out.Paths = append(out.Paths, g.path(vid, &list[i]))
	}
	out.MorePaths, out.Nodes = n-len(list), len(nodes)
	return out
}

// missingDuring says what of a span the state does not know.
func (g *Graph) missingDuring(kind Kind, lo, hi int64) string {
	const format = "2006-01-02T15:04:05.000Z"
	switch {
	case g.coveredFrom == maxTime:
		return "no complete state was given"
	case lo < g.prunedTo && g.prunedTo > g.coveredFrom:
		return fmt.Sprintf("what ended before %s was forgotten", timeOf(g.prunedTo).Format(format))
	case lo < g.coveredFrom:
		return fmt.Sprintf("the state begins at %s", timeOf(g.coveredFrom).Format(format))
	}
	if of, h, unseen := g.hole(kind, &window{lo: lo, t: lo, hi: hi}); unseen {
		return h.words(of)
	}
	return ""
}
