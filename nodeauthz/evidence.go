package nodeauthz

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Limits say how much evidence is wanted.
type Limits struct {
	// Window is how far before and after the instant changes are listed.
	Window time.Duration
	// Nodes and Changes are how many of each are listed, at most.
	Nodes, Changes int
}

// Evidence is an Answer with all that bears on it, bounded by [Limits] however many pods use the object. All of it is of one state of the
// graph.
type Evidence struct {
	Answer
	// Object is what the request names, when the answer depends on the graph; or, where no node asks, when the graph has its kind.
	Object *Step
	// Path is how the object led to the node at the instant; of several the one that lasts longest.
	Path *Path
	// Last is the latest path to the node that had ended before the instant, Next the earliest that began after it; nil next to a Path.
	Last, Next *Path
	// Detail is as in [Explanation].
	Detail string
	// Others are the other nodes to which the object led at the instant, those with the first names, in their order; MoreOthers counts the rest.
	Others     []NodePath
	MoreOthers int
	// Missing says in words why nodes may be lacking among them; empty if all are known.
	Missing string
	// Changes are the beginnings and ends nearest to the instant, in the order of time; with the nearest before and after it, of all nodes and of
	// the one that asks, even if they are outside the window. Earlier and Later count those of the window that are not listed.
	Changes        []Change
	Earlier, Later int
}

// NodePath is a node to which an object leads by Paths paths; Path is the one that lasts longest.
type NodePath struct {
	Node  string
	Path  Path
	Paths int
}

// Change is the beginning or the end of edges.
type Change struct {
	At    Stamp
	Began bool
	// Steps are two or more in a row: the edges between them began or ended at once.
	Steps []Step
	// Node is the node to which the edges lead; empty for those of a persistent volume.
	Node string
}

// Evidence answers as [Authorizer.Decide] does, with what bears on the answer. It takes time in proportion to the number of pods that ever
// used the object, less than a microsecond each; writers of the graph wait meanwhile.
func (a *Authorizer) Evidence(attrs authorizer.Attributes, t time.Time, limits Limits) Evidence {
	ev, at, g := Evidence{}, unixNano(t), a.graph
	node, isNode := NodeIdentity(attrs.GetUser())
	var q question
	switch {
	case !isNode:
		if attrs.IsResourceRequest() && attrs.GetName() != "" {
			q = question{kind: kindOfResource(attrs.GetAPIGroup(), attrs.GetResource()), namespace: attrs.GetNamespace(), name: attrs.GetName()}
		}
	case node != "":
		q = a.question(node, attrs)
	}
	if q.kind == KindNone {
		ev.Answer = a.Decide(attrs, t)
		return ev
	}
	ev.Object = &Step{Kind: q.kind, Namespace: q.namespace, Name: q.name}
	g.mu.RLock()
	defer g.mu.RUnlock()
	if isNode {
		ev.Answer = a.reached(&q, node, at)
	}
	ev.Missing = g.missingDuring(q.kind, at, at)
	own := g.ownPaths(&q, node, isNode, a.of)
	if ev.Path, ev.Last, ev.Next = around(own, at); ev.Path != nil {
		ev.Last, ev.Next = nil, nil
	}
	switch {
	case ev.Race:
		ev.Detail = raceDetail(own, at, ev.Verdict == Allow)
	case ev.Verdict == Unknown:
		ev.Detail = g.missing(at, &window{lo: satAdd(at, -a.skew), t: at, hi: satAdd(at, a.skew)}, q.kind)
	}
	if vid := g.lookup(q.kind, q.namespace, q.name); vid != 0 {
		asks := nodeID(0)
		if isNode {
			asks = g.nodes[node]
		}
		ev.Others, ev.MoreOthers = g.others(vid, asks, at, limits.Nodes, a.of)
		c := changes{g: g, at: at, most: max(limits.Changes, 1), asks: asks, of: a.of, lo: satAdd(at, -int64(limits.Window)), hi: satAdd(at, int64(limits.Window))}
		c.gather(vid)
		ev.Changes, ev.Earlier, ev.Later = c.result()
	}
	return ev
}

// around picks from the paths to a node the one that there is at an instant, of several the one that lasts longest; the latest that had ended,
// and the earliest that was to come. Nil where there is none.
func around(own []Path, at int64) (now, last, next *Path) {
	for i := range own {
		p := &own[i]
		switch {
		case p.span.plo <= at && at < p.span.phi:
			if now == nil || p.span.chi > now.span.chi {
				now = p
			}
		case p.span.phi <= at:
			if last == nil || p.span.phi > last.span.phi {
				last = p
			}
		case next == nil || p.span.plo < next.span.plo:
			next = p
		}
	}
	return now, last, next
}

// way is a path without its words.
type way struct {
	tenure tenureID
	volume volumeID // 0: through none
	span   span
	edge   life // the narrowest edge before that to the node
}

// ways calls f with each path from the vertex that ever was, to the given node or, for 0, to all. The way is the same one again and again.
func (g *Graph) ways(vid vertexID, node nodeID, of gens, f func(*way)) {
	var w way
	take := func(l life) {
		w.span, w.edge = l.span(), l
		if w.volume != 0 {
			v := g.volume(w.volume)
			w.span, w.edge = w.span.and(v.span()), v.life
		}
		if w.span.plo < w.span.phi {
			f(&w)
		}
	}
	visit := func(from vertexID, id tenureID, vol volumeID) {
		r := g.tenure(id)
		if r.node == 0 {
			return
		}
		w.tenure, w.volume = id, vol
		if r.extra == nil {
			take(r.life)
			return
		}
		r.lives(from, of, take)
	}
	g.eachTenureTo(vid, node, func(id tenureID) { visit(vid, id, 0) })
	for _, vol := range g.volumesOf(vid) {
		claim := g.volume(vol).claim
		g.eachTenureTo(claim, node, func(id tenureID) { visit(claim, id, vol) })
	}
}

func (g *Graph) eachTenureTo(vid vertexID, node nodeID, f func(tenureID)) {
	if node == 0 {
		g.eachTenure(vid, func(id tenureID) bool {
			f(id)
			return true
		})
		return
	}
	v := g.vertex(vid)
	if v.first.node == node && v.first.tenure != 0 {
		f(v.first.tenure)
	}
	t := g.tail(v)
	if t == nil {
		return
	}
	for _, r := range t.more {
		if r.node == node {
			f(r.tenure)
		}
	}
	for _, id := range t.byNode[node] {
		f(id)
	}
}

// path puts a way into words.
func (g *Graph) path(vid vertexID, w *way) Path {
	r := g.tenure(w.tenure)
	start := g.step(vid)
	p := Path{Steps: []Step{start}, span: w.span, pod: r.life, edge: w.edge, edgeName: start.String()}
	if w.volume != 0 {
		vol := g.volume(w.volume)
		pv := g.step(vol.vertex)
		if vid != vol.vertex {
			p.Steps = append(p.Steps, pv)
		}
		p.edgeName = pv.String()
		p.Steps = append(p.Steps, g.step(vol.claim))
	}
	if vid != r.vertex {
		p.Steps = append(p.Steps, g.step(r.vertex))
	}
	p.Steps = append(p.Steps, Step{Name: g.nodeRecs[r.node].name})
	p.From, p.To = timeOf(w.span.plo), timeOf(w.span.phi)
	return p
}

// ownPaths are all paths to the node, in the order of their beginnings.
func (g *Graph) ownPaths(q *question, node string, isNode bool, of gens) (out []Path) {
	vid, id := g.lookup(q.kind, q.namespace, q.name), g.nodes[node]
	if vid == 0 || id == 0 || !isNode {
		return nil
	}
	g.ways(vid, id, of, func(w *way) { out = append(out, g.path(vid, w)) })
	slices.SortStableFunc(out, func(a, b Path) int { return cmp.Compare(a.span.plo, b.span.plo) })
	return out
}

// others finds the nodes other than the one that asks to which the vertex led.
func (g *Graph) others(vid vertexID, asks nodeID, at int64, most int, of gens) (out []NodePath, more int) {
	type best struct {
		way
		n int
	}
	found := map[nodeID]*best{}
	g.ways(vid, 0, of, func(w *way) {
		node := g.tenure(w.tenure).node
		if node == asks || w.span.plo > at || at >= w.span.phi {
			return
		}
		b := found[node]
		if b == nil {
			found[node] = &best{way: *w, n: 1}
			return
		}
		b.n++
		if g.compareWays(w, &b.way) < 0 {
			b.way = *w
		}
	})
	ids := make([]nodeID, 0, len(found))
	for id := range found {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b nodeID) int { return strings.Compare(g.nodeRecs[a].name, g.nodeRecs[b].name) })
	for i, id := range ids {
		if i == most {
			return out, len(ids) - i
		}
		b := found[id]
		out = append(out, NodePath{Node: g.nodeRecs[id].name, Path: g.path(vid, &b.way), Paths: b.n})
	}
	return out, 0
}

// compareWays puts first what lasts longer, then what began earlier, then the name of the node and of the pod.
func (g *Graph) compareWays(a, b *way) int {
	if c := cmp.Or(cmp.Compare(b.span.phi, a.span.phi), cmp.Compare(a.span.plo, b.span.plo)); c != 0 {
		return c
	}
	x, y := g.tenure(a.tenure), g.tenure(b.tenure)
	if c := strings.Compare(g.nodeRecs[x.node].name, g.nodeRecs[y.node].name); c != 0 {
		return c
	}
	return cmp.Or(g.compareVertices(x.vertex, y.vertex), cmp.Compare(a.tenure, b.tenure), cmp.Compare(a.volume, b.volume))
}

func (g *Graph) compareVertices(a, b vertexID) int {
	if a == b {
		return 0
	}
	x, y := g.vertex(a), g.vertex(b)
	return cmp.Or(cmp.Compare(x.kind, y.kind), strings.Compare(g.nsNames[x.namespace], g.nsNames[y.namespace]), strings.Compare(g.names.Get(x.name), g.names.Get(y.name)))
}
