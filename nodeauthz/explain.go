package nodeauthz

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Step is one object on a path, or the node at its end (Kind is KindNone then).
type Step struct {
	Kind            Kind
	Namespace, Name string
}

// String returns the step as "secret shop/db", or "node worker-2".
func (s Step) String() string {
	switch {
	case s.Kind == KindNone:
		return "node " + s.Name
	case s.Namespace == "":
		return s.Kind.String() + " " + s.Name
	}
	return s.Kind.String() + " " + s.Namespace + "/" + s.Name
}

// Path is a way from an object to a node with the time in which it was there. From is zero when it has no known beginning, To when
// it has not ended.
type Path struct {
	Steps    []Step
	From, To time.Time
	span     span
	pod      life // of the pod (or whatever is bound to the node), for words on what began or ended
	edge     life // of the narrowest edge before it, when that is another one
	edgeName string
}

// String returns the path as "secret shop/db -> pod shop/web-1 -> node worker-2".
func (p Path) String() string {
	s := ""
	for i, step := range p.Steps {
		if i > 0 {
			s += " -> "
		}
		s += step.String()
	}
	return s
}

// Explanation is an Answer with its evidence.
type Explanation struct {
	Answer
	// Object is what the request names, when the answer depends on the graph at all.
	Object *Step
	// Path is how the object led to the node at the instant, for Allow.
	Path *Path
	// Detail says, for a race, which edge began or ended and the time between; for Unknown, what state is missing.
	Detail string
	// Leads are the paths that led from the object to other nodes at the instant, at most [MaxLeads] of them.
	Leads []Path
	// Others is how many more there were.
	Others int
	// Last is the latest path to this node that had ended before the instant, for Deny and Unknown.
	Last *Path
	// Next is the earliest path to this node that began after the instant, for Deny and Unknown.
	Next *Path
}

// MaxLeads bounds Explanation.Leads.
const MaxLeads = 10

// Explain answers as Decide does, with the evidence. It allocates, and for an object that many pods use it takes time in
// proportion to their number.
func (a *Authorizer) Explain(attrs authorizer.Attributes, t time.Time) Explanation {
	ex := Explanation{Answer: a.Decide(attrs, t)}
	node, isNode := NodeIdentity(attrs.GetUser())
	if !isNode || node == "" {
		return ex
	}
	q := a.question(node, attrs)
	if q.kind == KindNone {
		return ex
	}
	ex.Object = &Step{Kind: q.kind, Namespace: q.namespace, Name: q.name}
	g := a.graph
	g.mu.RLock()
	defer g.mu.RUnlock()
	own, others := g.paths(&q, node, a.of)
	at := unixNano(t)
	ex.Path, ex.Last, ex.Next = around(own, at)
	for _, p := range others {
		if p.span.plo > at || at >= p.span.phi {
			continue
		}
		if len(ex.Leads) < MaxLeads {
			ex.Leads = append(ex.Leads, p)
		} else {
			ex.Others++
		}
	}
	switch {
	case ex.Race:
		ex.Detail = raceDetail(own, at, ex.Verdict == Allow)
	case ex.Verdict == Unknown:
		ex.Detail = g.missing(at, &window{lo: satAdd(at, -a.skew), t: at, hi: satAdd(at, a.skew)}, q.kind)
	}
	return ex
}

// RaceDetail names the edge that makes the answer a race, and the time between; empty if there is none within the skew. It looks at the
// paths to the node alone, for requests that are races come by the thousand for objects that all nodes use.
func (a *Authorizer) RaceDetail(attrs authorizer.Attributes, t time.Time) string {
	answer := a.Decide(attrs, t)
	node, isNode := NodeIdentity(attrs.GetUser())
	if !answer.Race || !isNode {
		return ""
	}
	q := a.question(node, attrs)
	a.graph.mu.RLock()
	defer a.graph.mu.RUnlock()
	return raceDetail(a.graph.ownPaths(&q, node, true, a.of), unixNano(t), answer.Verdict == Allow)
}

// RaceDistance returns how far from t the nearest change is that makes the answer a race; false if it is none within the skew.
func (a *Authorizer) RaceDistance(attrs authorizer.Attributes, t time.Time) (time.Duration, bool) {
	if !a.Decide(attrs, t).Race {
		return 0, false
	}
	after, is := a.NearestChange(attrs, t)
	return after.Abs(), is
}

// NearestChange returns how long after t, or before it if that is negative, a path to the node begins or ends that makes the answer at t another one. It looks as far
// as the state goes; false if there is none, or the request is not a node's.
func (a *Authorizer) NearestChange(attrs authorizer.Attributes, t time.Time) (after time.Duration, is bool) {
	node, isNode := NodeIdentity(attrs.GetUser())
	if !isNode {
		return 0, false
	}
	allowed := a.Decide(attrs, t).Verdict == Allow
	q := a.question(node, attrs)
	a.graph.mu.RLock()
	defer a.graph.mu.RUnlock()
	p, nanos, _ := raceEdge(a.graph.ownPaths(&q, node, true, a.of), unixNano(t), allowed)
	return time.Duration(nanos), p != nil
}

// Missing says in words why an answer at t is Unknown. [Authorizer.MissingFor] is sure of it.
func (a *Authorizer) Missing(t time.Time) string {
	a.graph.mu.RLock()
	defer a.graph.mu.RUnlock()
	at := unixNano(t)
	w := window{lo: satAdd(at, -a.skew), t: at, hi: satAdd(at, a.skew)}
	return a.graph.missing(at, &w, KindSecret, KindVolumeAttachment, KindResourceSlice, KindPodCertificateRequest)
}

// MissingFor says in words why the answer to the request is Unknown at t; empty if it is not.
func (a *Authorizer) MissingFor(attrs authorizer.Attributes, t time.Time) string {
	node, isNode := NodeIdentity(attrs.GetUser())
	if !isNode || a.Decide(attrs, t).Verdict != Unknown {
		return ""
	}
	q := a.question(node, attrs)
	a.graph.mu.RLock()
	defer a.graph.mu.RUnlock()
	at := unixNano(t)
	return a.graph.missing(at, &window{lo: satAdd(at, -a.skew), t: at, hi: satAdd(at, a.skew)}, q.kind)
}

// missing looks at the holes of what leads from vertices of the given kinds.
func (g *Graph) missing(at int64, w *window, kinds ...Kind) string {
	switch {
	case g.coveredFrom == maxTime:
		return "no complete state was given"
	case at < g.coveredFrom:
		return fmt.Sprintf("the state begins %s later", rounded(g.coveredFrom-at))
	case at < g.prunedTo:
		return fmt.Sprintf("the state of then was forgotten (it is kept for what is less than %s older)", rounded(g.prunedTo-at))
	}
	for _, k := range kinds {
		if of, h, unseen := g.hole(k, w); unseen {
			return h.words(of)
		}
	}
	return "a pod was bound to the node whose spec was never seen"
}

// paths lists all ways from the object to the node and to other nodes, whenever they were.
func (g *Graph) paths(q *question, node string, of gens) (own, others []Path) {
	vid := g.lookup(q.kind, q.namespace, q.name)
	if vid == 0 {
		return nil, nil
	}
	add := func(p Path, r *tenure) {
		if p.span.plo >= p.span.phi {
			return
		}
		p.From, p.To = timeOf(p.span.plo), timeOf(p.span.phi)
		if g.nodeRecs[r.node].name == node {
			own = append(own, p)
		} else {
			others = append(others, p)
		}
	}
	start := g.step(vid)
	g.eachTenure(vid, func(id tenureID) bool {
		r := g.tenure(id)
		if r.node == 0 {
			return true
		}
		r.lives(vid, of, func(l life) {
			p := Path{Steps: []Step{start}, span: l.span(), pod: r.life, edge: l, edgeName: start.String()}
			if vid != r.vertex {
				p.Steps = append(p.Steps, g.step(r.vertex))
			}
			p.Steps = append(p.Steps, Step{Name: g.nodeRecs[r.node].name})
			add(p, r)
		})
		return true
	})
	for _, id := range g.volumesOf(vid) {
		vol := g.volume(id)
		g.eachTenure(vol.claim, func(id tenureID) bool {
			r := g.tenure(id)
			if r.node == 0 {
				return true
			}
			r.lives(vol.claim, of, func(l life) {
				p := Path{Steps: []Step{start}, span: l.span().and(vol.span()), pod: r.life, edge: vol.life}
				if vid != vol.vertex {
					p.Steps = append(p.Steps, g.step(vol.vertex))
				}
				p.edgeName = g.step(vol.vertex).String()
				p.Steps = append(p.Steps, g.step(vol.claim), g.step(r.vertex), Step{Name: g.nodeRecs[r.node].name})
				add(p, r)
			})
			return true
		})
	}
	byTime := func(a, b Path) int {
		switch {
		case a.span.plo < b.span.plo:
			return -1
		case a.span.plo > b.span.plo:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(own, byTime)
	slices.SortStableFunc(others, byTime)
	return own, others
}

func (g *Graph) step(id vertexID) Step {
	v := g.vertex(id)
	return Step{Kind: v.kind, Namespace: g.nsNames[v.namespace], Name: g.names.Get(v.name)}
}

func timeOf(ns int64) time.Time {
	if ns == minTime || ns == maxTime {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

// raceDetail names the beginning or end that makes the answer a race, and the time between.
func raceDetail(own []Path, at int64, allowed bool) string {
	p, after, began := raceEdge(own, at, allowed)
	if p == nil {
		return ""
	}
	return p.change(after, began)
}

// raceEdge finds the beginning or end nearest to the instant among the paths to the node that would make the answer another one, and how long
// after it that is. The path is nil where there is none.
func raceEdge(own []Path, at int64, allowed bool) (path *Path, after int64, began bool) {
	best := int64(maxTime)
	consider := func(edge int64, p *Path, begins bool) {
		d := edge - at
		if d < 0 {
			d = -d
		}
		if d < best && edge != minTime && edge != maxTime {
			best, path, after, began = d, p, edge-at, begins
		}
	}
	for i := range own {
		p := &own[i]
		// What makes a deny a race begins after it or ended before it; an allow's path began before it or ends after it.
		if begin := p.span.plo; (begin <= at) == allowed {
			consider(begin, p, true)
		}
		if end := p.span.phi; (end > at) == allowed {
			consider(end, p, false)
		}
	}
	return path, after, began
}

// change says what began or ended: the pod on its node, or an edge before it.
func (p *Path) change(after int64, began bool) string {
	bound := p.Steps[len(p.Steps)-2]
	node := p.Steps[len(p.Steps)-1].Name
	when := rounded(after) + " later"
	if after <= 0 {
		when = rounded(-after) + " earlier"
	}
	if began {
		if p.pod.from.set && p.span.plo == p.pod.from.early() {
			return fmt.Sprintf("%s was bound to %s %s", bound, node, when)
		}
		return fmt.Sprintf("%s began to lead to %s %s", p.edgeName, node, when)
	}
	if p.pod.to.set && p.span.phi == p.pod.to.late() {
		return fmt.Sprintf("%s on %s was deleted %s", bound, node, when)
	}
	return fmt.Sprintf("%s ceased to lead to %s %s", p.edgeName, node, when)
}

// rounded prints nanoseconds as a duration that a person reads: whole milliseconds, seconds beyond a minute.
func rounded(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

// PodWasOn reports whether a pod of that name was bound to the node at some instant from `from` to `to`, both included.
func (g *Graph) PodWasOn(namespace, name, node string, from, to time.Time) (was bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	id, known := g.nodes[node]
	vid := g.lookup(KindPod, namespace, name)
	if !known || vid == 0 {
		return false
	}
	g.eachTenure(vid, func(t tenureID) bool {
		r := g.tenure(t)
		lo, hi := r.possible()
		was = r.node == id && lo <= unixNano(to) && unixNano(from) < hi
		return !was
	})
	return was
}

// Stay is the time that one pod may have been bound to a node.
type Stay struct {
	Node string
	// Begin and End are its bounds; the zero time is none.
	Begin, End time.Time
	// UIDKnown says that the UID of the pod is known, Is that it is the one that was asked for.
	UIDKnown, Is bool
}

// PodStays calls f with each stay of a pod of that name on a node at some instant from `from` to `to`, both included. uid is compared with the pods'; it may be empty.
func (g *Graph) PodStays(namespace, name, uid string, from, to time.Time, f func(*Stay)) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	vid := g.lookup(KindPod, namespace, name)
	if vid == 0 {
		return
	}
	u := g.uidOf(uid)
	g.eachTenure(vid, func(id tenureID) bool {
		r := g.tenure(id)
		if lo, hi := r.possible(); r.node != 0 && lo <= unixNano(to) && unixNano(from) < hi {
			is := g.sighting(id).uid
			f(&Stay{Node: g.nodeRecs[r.node].name, Begin: timeOf(lo), End: timeOf(hi), UIDKnown: is.known(), Is: is.known() && is == u})
		}
		return true
	})
}

// PodNode returns the node that the pod was bound to at t.
func (g *Graph) PodNode(namespace, name string, t time.Time) (node string, ok bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	vid := g.lookup(KindPod, namespace, name)
	if vid == 0 {
		return "", false
	}
	at := unixNano(t)
	g.eachTenure(vid, func(id tenureID) bool {
		r := g.tenure(id)
		lo, hi := r.possible()
		if r.node != 0 && lo <= at && at < hi {
			node, ok = g.nodeRecs[r.node].name, true
		}
		return !ok
	})
	return node, ok
}
