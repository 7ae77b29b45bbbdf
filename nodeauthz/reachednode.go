package nodeauthz

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Reached is an object that led to a node.
type Reached struct {
	Object Step
	// Paths are the ways to the node that were there at some instant of the time asked about: those that last longest first.
	Paths []Path
}

// ReachedBy returns the objects that led to the node at any instant from `from` to `to`, both included, in order of kind, namespace and name: what
// the Node authorizer let a holder of the node's credential get, and of service accounts make tokens for. A zero time bounds nothing. missing says
// in words why there may be others; it is empty if all are known. It takes time in proportion to the number of lifetimes that the graph holds, some
// nanoseconds each; writers wait meanwhile.
func (a *Authorizer) ReachedBy(node string, from, to time.Time) (objects []Reached, missing string) {
	missing = a.EachReached([]string{node}, from, to, func(_ string, all []Reached) { objects = all })
	return objects, missing
}

// EachReached calls f with what [Authorizer.ReachedBy] returns for each of the nodes, in their order, and goes through the graph once for all of
// them. f must not change the graph: writers wait until it has returned for the last node.
func (a *Authorizer) EachReached(nodes []string, from, to time.Time, f func(node string, objects []Reached)) (missing string) {
	lo, hi := unixNano(from), unixNano(to)
	if to.IsZero() {
		hi = maxTime - 1
	}
	g := a.graph
	g.mu.RLock()
	defer g.mu.RUnlock()
	for kind := KindConfigMap; kind <= KindPodCertificateRequest && missing == ""; kind++ {
		missing = g.missingDuring(kind, lo, hi)
	}
	tenures := make(map[nodeID][]tenureID, len(nodes))
	for _, node := range nodes {
		if id := g.nodes[node]; id != 0 {
			tenures[id] = nil
		}
	}
	for i := uint32(1); i < g.tenures.Len() && len(tenures) > 0; i++ {
		if r := g.tenures.At(i); r.used {
			if list, wanted := tenures[r.node]; wanted {
				tenures[r.node] = append(list, tenureID(i))
			}
		}
	}
	volumes := map[vertexID][]volumeID{} // by their claims
	for i := uint32(1); i < g.volumes.Len() && len(tenures) > 0; i++ {
		if v := g.volumes.At(i); v.used {
			volumes[v.claim] = append(volumes[v.claim], volumeID(i))
		}
	}
	for _, node := range nodes {
		c := reached{g: g, of: a.of, lo: lo, hi: hi, ways: map[vertexID][]way{}, claims: map[vertexID][]tenureID{}}
		for _, id := range tenures[g.nodes[node]] {
			c.tenure(id, g.tenure(id))
		}
		for claim := range c.claims {
			for _, id := range volumes[claim] {
				c.volume(id, g.volume(id))
			}
		}
		f(node, c.objects())
	}
	return missing
}

// objects are those from which there are ways, in their order.
func (c *reached) objects() (out []Reached) {
	g := c.g
	for vid, ways := range c.ways {
		slices.SortFunc(ways, func(a, b way) int { return g.compareWays(&a, &b) })
		o := Reached{Object: g.step(vid), Paths: make([]Path, 0, len(ways))}
		for j := range ways {
			o.Paths = append(o.Paths, g.path(vid, &ways[j]))
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b Reached) int { return compareSteps(&a.Object, &b.Object) })
	return out
}

func compareSteps(a, b *Step) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// reached collects the paths to one node.
type reached struct {
	g      *Graph
	of     gens
	lo, hi int64
	ways   map[vertexID][]way
	claims map[vertexID][]tenureID // of volumes, with the lives of the pods that have them
}

func (c *reached) add(vid vertexID, w way) {
	if w.span.plo < w.span.phi && w.span.plo <= c.hi && w.span.phi > c.lo {
		c.ways[vid] = append(c.ways[vid], w)
	}
}

// tenure takes in what leads to the node by way of one life of a pod, or of what else is bound to it.
func (c *reached) tenure(id tenureID, r *tenure) {
	if s := r.span(); s.plo > c.hi || s.phi <= c.lo {
		return
	}
	c.edges(r.vertex, id, r)
	targets, extra := c.g.targetsOf(r), r.extras()
	for _, t := range targets {
		c.edges(t, id, r)
	}
	for i := range extra {
		t := extra[i].vertex
		if !slices.Contains(targets, t) && !slices.ContainsFunc(extra[:i], func(e extraEdge) bool { return e.vertex == t }) {
			c.edges(t, id, r)
		}
	}
}

func (c *reached) edges(vid vertexID, id tenureID, r *tenure) {
	r.lives(vid, c.of, func(l life) { c.add(vid, way{tenure: id, span: l.span(), edge: l}) })
	if vid != r.vertex && c.g.vertex(vid).kind == KindPersistentVolumeClaim {
		c.claims[vid] = append(c.claims[vid], id)
	}
}

// volume takes in a persistent volume whose claim a pod has, and its secrets.
func (c *reached) volume(id volumeID, v *volumeLife) {
	for _, t := range c.claims[v.claim] {
		c.g.tenure(t).lives(v.claim, c.of, func(l life) {
			w := way{tenure: t, volume: id, span: l.span().and(v.span()), edge: v.life}
			c.add(v.vertex, w)
			for _, secret := range v.secrets {
				c.add(secret, w)
			}
		})
	}
}
