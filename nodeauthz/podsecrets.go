package nodeauthz

import "time"

// PodSecrets returns the secrets that the pod itself names, those of its persistent volumes left out, and the earliest time at which it can have
// been bound to the node. ok is false unless the pod may have been on the node at t.
func (g *Graph) PodSecrets(namespace, name, node string, t time.Time) (secrets []NamespacedName, since time.Time, ok bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	vid, on := g.lookup(KindPod, namespace, name), g.nodes[node]
	if vid == 0 || on == 0 {
		return nil, time.Time{}, false
	}
	at := unixNano(t)
	g.eachOnNode(g.vertex(vid), on, func(r *tenure) {
		lo, hi := r.possible()
		if ok || at < lo || hi <= at || !r.from.set {
			return
		}
		since, ok = time.Unix(0, lo).UTC(), true
		for _, id := range g.targetsOf(r) {
			if v := g.vertex(id); v.kind == KindSecret {
				secrets = append(secrets, NamespacedName{Namespace: g.nsNames[v.namespace], Name: g.names.Get(v.name)})
			}
		}
	})
	return secrets, since, ok
}
