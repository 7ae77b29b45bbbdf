package nodeauthz

// window is the skew around a request's time, and what was found of the paths to one node in it.
type window struct {
	lo, t, hi int64
	of        gens
	covered   bool // one path lived certainly through the whole of it
	touched   bool // some path may have lived somewhere in it
}

// see takes in a path that may have lived in [plo, phi) and certainly did in [clo, chi).
func (w *window) see(plo, phi, clo, chi int64) {
	if plo <= w.hi && phi > w.lo && plo < phi {
		w.touched = true
		if clo <= w.lo && chi > w.hi {
			w.covered = true
		}
	}
}

// span is the time in which a path may have lived, and certainly did.
type span struct{ plo, phi, clo, chi int64 }

func (l life) span() span {
	var s span
	s.plo, s.phi = l.possible()
	s.clo, s.chi = l.certain()
	return s
}

func (s span) and(o span) span {
	return span{max(s.plo, o.plo), min(s.phi, o.phi), max(s.clo, o.clo), min(s.chi, o.chi)}
}

// scan looks at every path from the vertex to the node. It is the hot path: one pass, no allocation.
func (g *Graph) scan(vid vertexID, node nodeID, w *window) {
	v := g.vertex(vid)
	t := g.tail(v)
	if v.heavy {
		g.scanHeavy(vid, t, node, w)
	} else if t != nil {
		for i := len(t.more) - 1; i >= 0 && !w.covered; i-- {
			if t.more[i].node == node {
				g.see(g.tenure(t.more[i].tenure), vid, w)
			}
		}
	}
	if v.first.node == node && v.first.tenure != 0 && !w.covered {
		g.see(g.tenure(v.first.tenure), vid, w)
	}
	if !w.covered && t != nil && len(t.volumes) > 0 {
		g.scanVolumes(t.volumes, node, w)
	}
}

// scanHeavy looks at the newest tenure on the node first, which mostly is the one that lives.
func (g *Graph) scanHeavy(vid vertexID, t *tail, node nodeID, w *window) {
	id := g.latest.of(vid, node)
	if id == 0 {
		return
	}
	if g.see(g.tenure(id), vid, w); w.covered {
		return
	}
	list := t.byNode[node]
	for i := len(list) - 2; i >= 0 && !w.covered; i-- {
		g.see(g.tenure(list[i]), vid, w)
	}
}

func (g *Graph) see(r *tenure, vid vertexID, w *window) {
	if r.extra == nil || vid == r.vertex {
		lo, hi := r.possible()
		clo, chi := r.certain()
		w.see(lo, hi, clo, chi)
		return
	}
	r.lives(vid, w.of, func(l life) {
		s := l.span()
		w.see(s.plo, s.phi, s.clo, s.chi)
	})
}

// scanVolumes follows the paths that lead through a persistent volume's claim.
func (g *Graph) scanVolumes(volumes []volumeID, node nodeID, w *window) {
	for _, id := range volumes {
		r := g.volume(id)
		through := r.span()
		if through.plo > w.hi || through.phi <= w.lo {
			continue
		}
		claim := g.vertex(r.claim)
		g.eachOnNode(claim, node, func(t *tenure) {
			t.lives(r.claim, w.of, func(l life) {
				s := l.span().and(through)
				w.see(s.plo, s.phi, s.clo, s.chi)
			})
		})
		if w.covered {
			return
		}
	}
}

func (g *Graph) eachOnNode(v *vertex, node nodeID, f func(*tenure)) {
	if v.first.node == node && v.first.tenure != 0 {
		f(g.tenure(v.first.tenure))
	}
	tail := g.tail(v)
	if tail == nil {
		return
	}
	for _, id := range tail.byNode[node] {
		f(g.tenure(id))
	}
	for _, r := range tail.more {
		if r.node == node {
			f(g.tenure(r.tenure))
		}
	}
}

// spans collects the paths from the vertex to the node that may touch the window. It allocates: only answers that are not plain
// come here.
func (g *Graph) spans(vid vertexID, node nodeID, w *window) []span {
	var out []span
	add := func(s span) {
		if s.plo <= w.hi && s.phi > w.lo && s.plo < s.phi {
			out = append(out, s)
		}
	}
	v := g.vertex(vid)
	g.eachOnNode(v, node, func(t *tenure) {
		t.lives(vid, w.of, func(l life) { add(l.span()) })
	})
	for _, id := range g.volumesOf(vid) {
		r := g.volume(id)
		g.eachOnNode(g.vertex(r.claim), node, func(t *tenure) {
			t.lives(r.claim, w.of, func(l life) { add(l.span().and(r.span())) })
		})
	}
	return out
}

// reachAt reports whether a path may have lived at t, and whether together the paths certainly lived through the whole window.
func reachAt(spans []span, w *window) (at, throughout bool) {
	for _, s := range spans {
		at = at || s.plo <= w.t && w.t < s.phi
	}
	for pos := w.lo; ; {
		end := pos
		for _, s := range spans {
			if s.clo <= pos && s.chi > end {
				end = s.chi
			}
		}
		if end == pos {
			return at, false
		}
		if pos = end; pos > w.hi {
			return at, true
		}
	}
}
