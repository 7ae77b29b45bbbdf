package nodeauthz

import "time"

// SetPod records that the pod was so when it was seen at `at`. What the reference's informer handlers skip, this skips
// (graph_populator.go): an update makes the edges anew only when the node, the UID or the claim statuses changed, since 1.33 also when there
// are more ephemeral containers than before, and since 1.37 when the extended claim's status changed; an image pull secret edited in later is
// not in the reference's graph either. A pod that is not bound has no edges; one of another UID under the name ends the old pod's life.
func (g *Graph) SetPod(p *Pod, at Stamp) {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := g.uidOf(p.UID)
	if p.NodeName == "" {
		g.sawUnbound(p, u, at)
		return
	}
	g.noNames.see(p)
	vid := g.intern(KindPod, p.Namespace, p.Name)
	node := g.node(p.NodeName)
	id, stale := g.findTenure(vid, u, node, at)
	if stale {
		g.release(vid)
		return
	}
	bound := at
	if !p.Bound.IsZero() {
		bound = p.Bound
	}
	claims, eph := g.claimState(p), uint8(max(0, min(p.EphemeralContainers, 255)))
	t := unixNano(at.Time)
	if id == 0 {
		id = g.beginTenure(vid, u, node, boundaryOf(bound))
		g.setTargets(id, g.targets(p))
		r := g.tenure(id)
		r.lastEph, r.claims = eph, claims
		s := g.sighting(id)
		s.seen, s.lastSeen = t, t
		return
	}
	g.adopt(id, u, node)
	g.refineFrom(id, p.Bound, at)
	r, s := g.tenure(id), g.sighting(id)
	edges := boundaryOf(at)
	edges.lag = 0 // an edge is not there before the pod
	switch {
	case r.open:
		g.close(id)
		g.setTargets(id, g.targets(p))
		s.seen = t
	case t >= s.lastSeen:
		of := g.lookAgain(r.claims, claims, eph > r.lastEph)
		if r.again {
			of = allGens
		}
		if of != 0 {
			g.retarget(id, g.targets(p), edges, of)
		}
	case t < s.seen:
		g.rebase(id, g.targets(p), edges, g.lookAgain(r.claims, claims, eph < r.lastEph))
		return
	default:
		if r.extra != nil && eph == r.lastEph {
			g.earlier(id, g.targets(p), edges, allGens&^g.lookAgain(r.claims, claims, false))
		}
		return
	}
	r.again, s.lastSeen, r.lastEph, r.claims = false, t, eph, claims
}

// sawUnbound notes a pod without a node.
func (g *Graph) sawUnbound(p *Pod, u uid, at Stamp) {
	vid := g.lookup(KindPod, p.Namespace, p.Name)
	if vid == 0 {
		return
	}
	t := unixNano(at.Time)
	g.eachAlive(vid, func(id tenureID) {
		r := g.tenure(id)
		switch {
		case r.to.set || r.from.at > t:
		case !u.known() || g.sighting(id).uid == u:
			r.again = true
		default:
			g.end(id, boundaryOf(at))
		}
	})
}

// adopt completes a tenure of which only the end, or neither UID nor targets, was known.
func (g *Graph) adopt(id tenureID, u uid, node nodeID) {
	r := g.tenure(id)
	g.identify(id, u)
	if r.node == 0 {
		g.dropRef(r.vertex, ref{tenure: id})
		r.node = node
		g.placed(id)
		g.addRef(r.vertex, ref{tenure: id, node: node})
		r.open = true // its targets come with the observation that made it known
		g.open++
		g.nodeRecs[node].open = append(g.nodeRecs[node].open, id)
	}
}

// close marks an open tenure's targets as known.
func (g *Graph) close(id tenureID) {
	r := g.tenure(id)
	r.open = false
	g.open--
	n := &g.nodeRecs[r.node]
	n.open = without(n.open, id)
}

// refineFrom betters the estimate of when the tenure began. To have seen it bound says only that it began no later. What the object itself says is no later either: a pod that is made
// with a node has no time of its binding until its kubelet sets one, some time after it was bound.
func (g *Graph) refineFrom(id tenureID, bound, at Stamp) {
	r := g.tenure(id)
	switch b := boundaryOf(at); {
	case !bound.IsZero():
		if b := boundaryOf(bound); !r.from.set || r.from.source != SourceObject || b.source != SourceWatch || b.early() <= r.from.late() {
			r.from.refine(b, shareOfBeginning)
		}
	case r.from.lag > 0 && b.at < r.from.at: // it was seen before the answer
		r.from.refine(b, shareOfBeginning)
	case !r.from.set || (b.at < r.from.at && b.source >= r.from.source):
		r.from = b
	}
	g.begins(id)
}

// targets are the vertices that lead to the pod, each once.
func (g *Graph) targets(p *Pod) []vertexID {
	if p.Mirror {
		return nil
	}
	n := 1 + len(p.Secrets) + len(p.ConfigMaps) + len(p.PersistentVolumeClaims) + len(p.ResourceClaims)
	out := make([]vertexID, 0, n)
	add := func(kind Kind, name string) {
		if name == "" {
			return
		}
		id := g.intern(kind, p.Namespace, name)
		for _, have := range out {
			if have == id {
				return
			}
		}
		out = append(out, id)
	}
	add(KindServiceAccount, p.ServiceAccountName)
	for _, name := range p.Secrets {
		add(KindSecret, name)
	}
	for _, name := range p.ConfigMaps {
		add(KindConfigMap, name)
	}
	for _, name := range p.PersistentVolumeClaims {
		add(KindPersistentVolumeClaim, name)
	}
	for _, name := range p.ResourceClaims {
		add(KindResourceClaim, name)
	}
	return out
}

// DeletePod records that the pod was gone from `at` on. An empty uid means the pod that was there. A deletion that comes before the
// pod itself was seen is kept.
func (g *Graph) DeletePod(namespace, name, uid string, at Stamp) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delete(KindPod, namespace, name, uid, at)
}

func (g *Graph) delete(kind Kind, namespace, name, uidString string, at Stamp) {
	u := g.uidOf(uidString)
	vid := g.lookup(kind, namespace, name)
	if vid == 0 && !u.known() {
		return
	}
	t := unixNano(at.Time)
	var found, sole tenureID
	see := func(id tenureID) {
		r, is := g.tenure(id), g.sighting(id).uid
		if u.known() && is.known() && is != u {
			return
		}
		if u.known() && is == u && (sole == 0 || g.after(sole, id)) {
			sole = id
		}
		if r.from.set && r.from.at > t || (!u.known() && r.to.set) {
			return
		}
		if found == 0 || g.after(id, found) {
			found = id
		}
	}
	switch {
	case vid == 0:
	case u.known():
		g.eachNamed(vid, u, func(id tenureID) bool { see(id); return true })
	default:
		g.eachAlive(vid, see)
	}
	if found == 0 {
		found = sole // by two clocks it may have ended before it began
	}
	if found != 0 {
		g.end(found, boundaryOf(at))
		return
	}
	if !u.known() {
		return
	}
	vid = g.intern(kind, namespace, name)
	id := g.newTenure(tenure{vertex: vid, used: true, life: life{from: boundary{at: minTime}}}, u)
	g.addRef(vid, ref{tenure: id})
	g.end(id, boundaryOf(at))
}

// BindPod records what the audit event of a pods/binding says: when the pod was bound, by the clock that the requests' times come
// from. Of a pod that was never seen it makes one whose targets are unknown. If that was before the state begins, it ended before then, or the state would
// have it.
func (g *Graph) BindPod(namespace, name, uid, nodeName string, at Stamp) {
	if nodeName == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	const near = 5 * time.Second
	u, node, t := g.uidOf(uid), g.node(nodeName), unixNano(at.Time)
	vid := g.intern(KindPod, namespace, name)
	var found tenureID
	g.eachNamed(vid, u, func(id tenureID) bool {
		r := g.tenure(id)
		if r.node != node && r.node != 0 {
			return true
		}
		isNear := r.from.set && r.from.at > t-int64(near)-int64(max(at.Lag, 0)) && r.from.at < t+int64(near)
		is := g.sighting(id).uid
		sameUID := u.known() && is == u
		if !sameUID && (u.known() && is.known() || !isNear) {
			return true
		}
		if found != 0 { // the one of the UID, or the latest
			foundUID := u.known() && g.sighting(found).uid == u
			if foundUID && !sameUID || foundUID == sameUID && g.after(found, id) {
				return true
			}
		}
		found = id
		return true
	})
	if found == 0 {
		found = g.beginTenure(vid, u, node, boundaryOf(at))
		g.tenure(found).open = true
		s := g.sighting(found)
		s.seen, s.lastSeen = t, minTime
		g.open++
		g.nodeRecs[node].open = append(g.nodeRecs[node].open, found)
		if b := boundaryOf(at); g.coveredFrom != maxTime && b.late() < g.coveredFrom { // or the state would have it
			g.end(found, boundaryOf(Stamp{Time: at.Time, Slop: time.Duration(g.coveredFrom - t), Source: SourceObject}))
		}
		return
	}
	r := g.tenure(found)
	if r.node == 0 { // its end was given first
		g.adopt(found, u, node)
		s := g.sighting(found)
		s.seen, s.lastSeen = t, minTime
	}
	r.from.refine(boundaryOf(at), shareOfBeginning)
	g.begins(found)
}

// RefineBinding betters the time at which the pod of that UID was bound, if it is known, by that of the request that made it with its
// node, and reports whether it is known.
func (g *Graph) RefineBinding(namespace, name, uid string, at Stamp) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	vid, u, found := g.lookup(KindPod, namespace, name), g.uidOf(uid), tenureID(0)
	if vid == 0 || !u.known() {
		return false
	}
	g.eachNamed(vid, u, func(id tenureID) bool {
		r := g.tenure(id)
		if g.sighting(id).uid == u && r.from.set && (found == 0 || g.after(found, id)) {
			found = id
		}
		return true
	})
	if found == 0 {
		return false
	}
	g.tenure(found).from.refine(boundaryOf(at), shareOfBeginning)
	g.begins(found)
	return true
}

// RefineDeletion betters the time at which a pod ended by that of its audit event, if an end is known already within the given
// distance of it (or of the interval in which it is known to lie), and reports whether it did. By itself such an event proves nothing: with a grace period it only begins the end.
func (g *Graph) RefineDeletion(namespace, name string, at Stamp, within time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	vid := g.lookup(KindPod, namespace, name)
	if vid == 0 {
		return false
	}
	b, found, least := boundaryOf(at), tenureID(0), int64(0)
	g.eachEnding(vid, satAdd(b.at, -int64(within)), satAdd(b.at, int64(within)), func(id tenureID) bool {
		r := g.tenure(id)
		near := b.at >= satAdd(r.to.at, -int64(within)) && b.at <= satAdd(r.to.late(), int64(within))
		distance := max(0, r.to.at-b.at, b.at-r.to.late())
		if r.to.set && near && b.betterThan(r.to) && b.at >= r.from.at && (found == 0 || distance < least || distance == least && g.after(id, found)) {
			found, least = id, distance
		}
		return true
	})
	if found != 0 {
		g.end(found, b)
	}
	return found != 0
}

// SetVolumeAttachment records the node of an attachment from `at` on; an empty one means none.
func (g *Graph) SetVolumeAttachment(name, uid, nodeName string, at Stamp) {
	g.setOnNode(KindVolumeAttachment, "", name, uid, nodeName, at, true)
}

// DeleteVolumeAttachment records that the attachment was gone from `at` on.
func (g *Graph) DeleteVolumeAttachment(name, uid string, at Stamp) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delete(KindVolumeAttachment, "", name, uid, at)
}

// SetResourceSlice records the node of a slice from `at` on; empty for a slice of no single node. As in the reference a slice's
// node never changes: an update that says otherwise is ignored.
func (g *Graph) SetResourceSlice(name, uid, nodeName string, at Stamp) {
	g.setOnNode(KindResourceSlice, "", name, uid, nodeName, at, false)
}

// DeleteResourceSlice records that the slice was gone from `at` on.
func (g *Graph) DeleteResourceSlice(name, uid string, at Stamp) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delete(KindResourceSlice, "", name, uid, at)
}

// SetPodCertificateRequest records the node of a request from `at` on. As in the reference it never changes.
func (g *Graph) SetPodCertificateRequest(namespace, name, uid, nodeName string, at Stamp) {
	g.setOnNode(KindPodCertificateRequest, namespace, name, uid, nodeName, at, false)
}

// DeletePodCertificateRequest records that the request was gone from `at` on.
func (g *Graph) DeletePodCertificateRequest(namespace, name, uid string, at Stamp) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delete(KindPodCertificateRequest, namespace, name, uid, at)
}

func (g *Graph) setOnNode(kind Kind, namespace, name, uidString, nodeName string, at Stamp, mutable bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	u, t := g.uidOf(uidString), unixNano(at.Time)
	if nodeName == "" && kind != KindPodCertificateRequest {
		if vid := g.lookup(kind, namespace, name); vid != 0 {
			g.eachAlive(vid, func(id tenureID) {
				r := g.tenure(id)
				is := g.sighting(id).uid
				another := u.known() && is.known() && is != u
				if !r.to.set && r.from.at <= t && (mutable || another) {
					g.end(id, boundaryOf(at))
				}
			})
		}
		return
	}
	vid := g.intern(kind, namespace, name)
	node := g.node(nodeName)
	if !mutable && u.known() {
		ignored := false
		g.eachNamed(vid, u, func(id tenureID) bool {
			r := g.tenure(id)
			ignored = r.node != node && r.node != 0 && g.sighting(id).uid == u && r.from.at <= t && (!r.to.set || t < r.to.at)
			return !ignored
		})
		if ignored {
			return
		}
	}
	id, stale := g.findTenure(vid, u, node, at)
	if stale {
		return
	}
	if id == 0 {
		g.beginTenure(vid, u, node, boundaryOf(at))
		return
	}
	r := g.tenure(id)
	if r.node == 0 {
		g.dropRef(vid, ref{tenure: id})
		r.node = node
		g.addRef(vid, ref{tenure: id, node: node})
	}
	g.identify(id, u)
	if b := boundaryOf(at); !r.from.set || (b.at < r.from.at && b.source >= r.from.source) || b.source > r.from.source && b.at <= r.from.late() {
		r.from = b
		g.begins(id)
	}
}
