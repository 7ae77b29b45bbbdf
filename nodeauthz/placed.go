package nodeauthz

import (
	"slices"
	"time"
)

// placement is a namespace of pods that were bound to a node, with when the first one was at the earliest. A node has few, and thousands of nodes have some: a map takes more.
type placement struct {
	from int64
	ns   namespaceID
}

func (n *nodeRecord) placement(ns namespaceID) *placement {
	if i := slices.IndexFunc(n.had, func(p placement) bool { return p.ns == ns }); i >= 0 {
		return &n.had[i]
	}
	return nil
}

// placed notes that a node has a pod of the namespace. What it notes stays when the pod is forgotten: there are few namespaces, and kubelets write of pods that are gone.
func (g *Graph) placed(id tenureID) {
	r := g.tenure(id)
	v := g.vertex(r.vertex)
	if r.node == 0 || v.kind != KindPod {
		return
	}
	n := &g.nodeRecs[r.node]
	from, _ := r.possible()
	if was := n.placement(v.namespace); was != nil {
		was.from = min(was.from, from)
		return
	}
	n.had = append(n.had, placement{from, v.namespace})
}

// HadPodIn reports whether a pod of the namespace may have been bound to the node by t.
func (g *Graph) HadPodIn(namespace, node string, t time.Time) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	id, known := g.nodes[node]
	ns, named := g.namespaces[namespace]
	if !known || !named {
		return false
	}
	had := g.nodeRecs[id].placement(ns)
	return had != nil && had.from <= unixNano(t)
}
