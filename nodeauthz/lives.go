package nodeauthz

import (
	"slices"
	"time"
)

// lives finds few of the lives of one object that has had many, such as a pod whose name is used again and again: to look through all for each change takes
// time that grows with the square of their number, and whoever may make pods decides on that. An object that never had more than manyRefs has none.
type lives struct {
	first map[uid]tenureID     // that was added first; at the zero UID one of those of which it is not known
	more  map[uid][]tenureID   // the others of the UID
	alive []tenureID           // those without an end
	ends  map[int64][]tenureID // by each minute that the end may lie in
	wide  []tenureID           // those whose end may lie in wideEnd minutes and more
	from  int64                // none begins later
}

const (
	endMinute = int64(time.Minute)
	wideEnd   = 8
)

// hasLives reports whether objects of the kind are on nodes by themselves, and not by what leads to them.
func (k Kind) hasLives() bool {
	return k == KindPod || k == KindVolumeAttachment || k == KindResourceSlice || k == KindPodCertificateRequest
}

// livesOf returns nil where the vertex has few.
func (g *Graph) livesOf(vid vertexID) *lives {
	if v := g.vertex(vid); v.heavy {
		return g.tail(v).lives
	}
	return nil
}

func (l *lives) add(id tenureID, r *tenure, u uid) {
	l.addUID(id, u)
	l.from = max(l.from, r.from.at)
	l.addEnd(id, r.to)
}

func (l *lives) remove(id tenureID, r *tenure, u uid) {
	l.removeUID(id, u)
	l.removeEnd(id, r.to)
}

func (l *lives) addUID(id tenureID, u uid) {
	if l.first[u] == 0 {
		l.first[u] = id
		return
	}
	l.more[u] = append(l.more[u], id)
}

func (l *lives) removeUID(id tenureID, u uid) {
	rest := l.more[u]
	switch {
	case l.first[u] != id:
		rest = without(rest, id)
	case len(rest) == 0:
		delete(l.first, u)
		return
	default:
		l.first[u], rest = rest[0], rest[1:]
	}
	if len(rest) > 0 {
		l.more[u] = rest
	} else {
		delete(l.more, u)
	}
}

// minutes are those in which an end may lie.
func minutes(to boundary) (first, last int64) { return to.at / endMinute, to.late() / endMinute }

func (l *lives) addEnd(id tenureID, to boundary) {
	l.changeEnd(to, func(list []tenureID) []tenureID { return append(list, id) })
}

func (l *lives) removeEnd(id tenureID, to boundary) {
	l.changeEnd(to, func(list []tenureID) []tenureID { return without(list, id) })
}

// changeEnd changes each list that has the tenures with such an end.
func (l *lives) changeEnd(to boundary, change func([]tenureID) []tenureID) {
	first, last := minutes(to)
	switch {
	case !to.set:
		l.alive = change(l.alive)
	case last-first >= wideEnd:
		l.wide = change(l.wide)
	default:
		for m := first; m <= last; m++ {
			if list := change(l.ends[m]); len(list) > 0 {
				l.ends[m] = list
			} else {
				delete(l.ends, m)
			}
		}
	}
}

// identify says which UID a tenure has of which it was not known.
func (g *Graph) identify(id tenureID, u uid) {
	s := g.sighting(id)
	if s.uid.known() || !u.known() {
		return
	}
	if l := g.livesOf(g.tenure(id).vertex); l != nil {
		l.removeUID(id, s.uid)
		l.addUID(id, u)
	}
	s.uid = u
}

// begins notes that the beginning of a tenure is another one.
func (g *Graph) begins(id tenureID) {
	r := g.tenure(id)
	if l := g.livesOf(r.vertex); l != nil {
		l.from = max(l.from, r.from.at)
	}
	g.placed(id)
}

// eachNamed calls f for the vertex's tenures of the UID and for those of which it is not known, of an unknown UID for all, until f returns false. It may
// call f for others.
func (g *Graph) eachNamed(vid vertexID, u uid, f func(tenureID) bool) {
	l := g.livesOf(vid)
	if l == nil || !u.known() {
		g.eachTenure(vid, f)
		return
	}
	for _, of := range [...]uid{{}, u} {
		if id := l.first[of]; id != 0 && !f(id) {
			return
		}
		for _, id := range l.more[of] {
			if !f(id) {
				return
			}
		}
	}
}

// eachAlive calls f for the vertex's tenures without an end, which f may give one. It may call f for others.
func (g *Graph) eachAlive(vid vertexID, f func(tenureID)) {
	if l := g.livesOf(vid); l != nil {
		for _, id := range slices.Clone(l.alive) {
			f(id)
		}
		return
	}
	g.eachTenure(vid, func(id tenureID) bool { f(id); return true })
}

// eachEnding calls f for the vertex's tenures whose end may lie between two times, until f returns false. It may call f for others, and more than once.
func (g *Graph) eachEnding(vid vertexID, from, to int64, f func(tenureID) bool) {
	l := g.livesOf(vid)
	first, last := from/endMinute-1, to/endMinute+1 // a time before 1970 is cut towards it
	if l == nil || last-first > int64(len(l.ends)) {
		g.eachTenure(vid, f)
		return
	}
	for _, id := range l.wide {
		if !f(id) {
			return
		}
	}
	for m := first; m <= last; m++ {
		for _, id := range l.ends[m] {
			if !f(id) {
				return
			}
		}
	}
}
