package nodeauthz

import (
	"slices"
	"time"
)

// staleAfter is how long after an object's end an observation of the same UID that does not come from a watch (which is ordered)
// may still be a late one.
const staleAfter = 10 * time.Second

// findTenure returns the tenure of the vertex that an observation belongs to, 0 if it begins a new one. The reference's graph has
// the same notion: what it removes and adds again under a name is a new life.
func (g *Graph) findTenure(vid vertexID, u uid, node nodeID, at Stamp) (found tenureID, stale bool) {
	t := unixNano(at.Time)
	g.eachNamed(vid, u, func(id tenureID) bool {
		r, is := g.tenure(id), g.sighting(id).uid
		sameNode := r.node == node || r.node == 0
		if !sameNode || (u.known() && is.known() && is != u) {
			return true
		}
		if !u.known() || !is.known() {
			// Nothing but the name and the node to go by: it must be alive then.
			if r.to.set && t >= r.to.at {
				return true
			}
		}
		if r.to.set && t >= r.to.at {
			if at.Source == SourceWatch || t > satAdd(r.to.at, int64(staleAfter)) {
				return true
			}
			stale = true
			return true
		}
		if found == 0 || g.after(id, found) {
			found = id
		}
		return true
	})
	return found, stale && found == 0
}

// after orders tenures by their beginnings, and those of one instant by their numbers: no order in which they are found decides.
func (g *Graph) after(a, b tenureID) bool {
	x, y := g.tenure(a).from.at, g.tenure(b).from.at
	return x > y || x == y && a < b
}

// beginTenure records a new life on a node, ends those it follows and is ended by those it precedes.
func (g *Graph) beginTenure(vid vertexID, u uid, node nodeID, from boundary) tenureID {
	id := g.newTenure(tenure{life: life{from: from}, vertex: vid, node: node, used: true}, u)
	r := g.tenure(id)
	follows := func(other tenureID) {
		o := g.tenure(other)
		switch {
		case o.node == 0 && g.sighting(other).uid != u:
			// A pod whose end alone is known does not say when it began.
		case !o.to.set && o.from.at <= from.at:
			g.end(other, from)
		case o.from.set && o.from.at > from.at && (!r.to.set || o.from.at < r.to.at):
			r.to = o.from
		}
	}
	if l := g.livesOf(vid); l != nil && l.from <= from.at {
		g.eachAlive(vid, follows) // none begins later
	} else {
		g.eachTenure(vid, func(other tenureID) bool { follows(other); return true })
	}
	if r.to.set {
		g.ended.add(r.to.late(), id)
	}
	g.addRef(vid, ref{tenure: id, node: node})
	g.placed(id)
	return id
}

// end sets the end of a tenure, if the estimate is better than the one there is.
func (g *Graph) end(id tenureID, b boundary) {
	r := g.tenure(id)
	was := r.to
	if !r.to.refine(b, shareOfEnd) {
		return
	}
	g.ended.add(r.to.late(), id)
	if l := g.livesOf(r.vertex); l != nil {
		l.removeEnd(id, was)
		l.addEnd(id, r.to)
	}
}

// setTargets makes the vertices lead to the tenure for its whole life.
func (g *Graph) setTargets(id tenureID, targets []vertexID) {
	r := g.tenure(id)
	g.lists.release(r.targets)
	r.targets = g.lists.put(targets)
	for _, t := range targets {
		g.addRef(t, ref{tenure: id, node: r.node})
	}
}

// retarget sets up the edges again, as the reference of some generations does when it looks at a pod once more: those that are new begin now,
// those that are gone end now.
func (g *Graph) retarget(id tenureID, targets []vertexID, at boundary, of gens) {
	r := g.tenure(id)
	want := make(map[vertexID]bool, len(targets))
	for _, t := range targets {
		want[t] = true
	}
	alive := map[vertexID]gens{}
	own := map[vertexID]bool{} // has an entry in extra
	for i, n := 0, len(r.extras()); i < n; i++ {
		e := &(*r.extra)[i]
		own[e.vertex] = true
		switch {
		case e.to.set:
		case want[e.vertex]:
			alive[e.vertex] |= e.of
		case e.of&of != 0:
			if kept := e.of &^ of; kept != 0 {
				r.addExtra(extraEdge{vertex: e.vertex, life: e.life, of: kept})
				e = &(*r.extra)[i]
			}
			e.of &= of
			e.to = at
		}
	}
	for _, t := range g.targetsOf(r) {
		if own[t] {
			continue
		}
		if want[t] {
			alive[t] = allGens
		} else {
			r.endTarget(t, at, of)
			own[t] = true
		}
	}
	for _, t := range targets {
		begins := of &^ alive[t]
		if begins == 0 {
			continue
		}
		if !own[t] {
			g.addRef(t, ref{tenure: id, node: r.node})
			own[t] = true
		}
		alive[t] |= begins
		r.addExtra(extraEdge{vertex: t, life: life{from: at}, of: begins})
	}
}

// endTarget ends the edge from a target for some generations; for the others it stays.
func (r *tenure) endTarget(v vertexID, at boundary, of gens) {
	r.addExtra(extraEdge{vertex: v, life: life{to: at}, of: of})
	if kept := allGens &^ of; kept != 0 {
		r.addExtra(extraEdge{vertex: v, of: kept})
	}
}

// rebase takes an older observation for the beginning of the tenure. What the newer one alone named began when that was seen, and
// what the older one alone named ended then; for the generations of the reference that the newer would not have made look again it never counted.
func (g *Graph) rebase(id tenureID, targets []vertexID, at boundary, of gens) {
	r := g.tenure(id)
	if of != 0 {
		seen := boundary{at: g.sighting(id).seen, set: true, source: at.source}
		newer := slices.Clone(g.targetsOf(r))
		old := map[vertexID]bool{}
		for _, t := range targets {
			old[t] = true
		}
		is := map[vertexID]bool{}
		for _, t := range newer {
			is[t] = true
			if !old[t] && !r.hasExtra(t) {
				r.addExtra(extraEdge{vertex: t, life: life{from: seen}, of: of})
			}
		}
		for _, t := range targets {
			if is[t] {
				continue
			}
			if !r.hasExtra(t) {
				r.endTarget(t, seen, of)
				newer = append(newer, t)
				g.addRef(t, ref{tenure: id, node: r.node})
			}
		}
		g.lists.release(r.targets)
		r.targets = g.lists.put(newer)
	} else {
		old := slices.Clone(g.targetsOf(r))
		for _, t := range old {
			if !r.hasExtra(t) {
				g.dropRef(t, ref{tenure: id, node: r.node})
			}
		}
		kept := targets[:0:0]
		for _, t := range targets {
			if !r.hasExtra(t) {
				kept = append(kept, t)
			}
		}
		g.setTargets(id, kept)
		for _, t := range old {
			g.release(t)
		}
	}
	g.sighting(id).seen = at.at
}

func (r *tenure) extras() []extraEdge {
	if r.extra == nil {
		return nil
	}
	return *r.extra
}

func (r *tenure) addExtra(e extraEdge) {
	if r.extra == nil {
		r.extra = &[]extraEdge{}
	}
	*r.extra = append(*r.extra, e)
}

func (r *tenure) hasExtra(v vertexID) bool {
	return slices.ContainsFunc(r.extras(), func(e extraEdge) bool { return e.vertex == v })
}

// extraAt reports whether an edge from v with a lifetime of its own was there at t already.
func (r *tenure) extraAt(v vertexID, t int64, of gens) bool {
	for _, e := range r.extras() {
		if e.vertex == v && e.of&of != 0 && (!e.from.set || e.from.at <= t) && (!e.to.set || t < e.to.at) {
			return true
		}
	}
	return false
}

// lives calls f with each lifetime of the edge from v to the tenure's node, for one generation of the reference. An edge that has a lifetime of
// its own for another generation only was never there.
func (r *tenure) lives(v vertexID, of gens, f func(life)) {
	own := false
	if v != r.vertex {
		extra := r.extras()
		for i := range extra {
			e := &extra[i]
			if e.vertex != v {
				continue
			}
			own = true
			if e.of&of == 0 {
				continue
			}
			l := r.life
			if e.from.set && (!l.from.set || e.from.at > l.from.at) {
				l.from = e.from
			}
			if e.to.set && (!l.to.set || e.to.at < l.to.at) {
				l.to = e.to
			}
			f(l)
		}
	}
	if !own {
		f(r.life)
	}
}

// earlier moves edges that began later than this observation, which is of the same state as the latest, back to it.
func (g *Graph) earlier(id tenureID, targets []vertexID, at boundary, of gens) {
	r := g.tenure(id)
	for i, n := 0, len(r.extras()); i < n; i++ {
		e := &(*r.extra)[i]
		if !e.from.set || e.from.at <= at.at || e.of&of == 0 || r.extraAt(e.vertex, at.at, e.of&of) || !slices.Contains(targets, e.vertex) {
			continue
		}
		if kept := e.of &^ of; kept != 0 {
			r.addExtra(extraEdge{vertex: e.vertex, life: e.life, of: kept})
			e = &(*r.extra)[i]
			e.of &= of
		}
		e.from = at
	}
	for _, t := range targets {
		g.release(t)
	}
}
