package nodeauthz

import "slices"

// SetPersistentVolume records that the volume was so from `at` on. As in the reference it counts while it has a claim, and each
// update replaces what was there.
func (g *Graph) SetPersistentVolume(pv *PersistentVolume, at Stamp) {
	g.mu.Lock()
	defer g.mu.Unlock()
	u, b := g.uidOf(pv.UID), boundaryOf(at)
	if pv.Claim == nil {
		if vid := g.lookup(KindPersistentVolume, "", pv.Name); vid != 0 {
			if prev := g.volumeBefore(vid, b.at); prev != 0 {
				g.endVolume(prev, b)
			}
		}
		return
	}
	vid := g.intern(KindPersistentVolume, "", pv.Name)
	next := volumeLife{
		life: life{from: b}, uid: u, vertex: vid, used: true,
		claim: g.intern(KindPersistentVolumeClaim, pv.Claim.Namespace, pv.Claim.Name),
	}
	for _, s := range pv.Secrets {
		if s.Name == "" {
			continue
		}
		if id := g.intern(KindSecret, s.Namespace, s.Name); !slices.Contains(next.secrets, id) {
			next.secrets = append(next.secrets, id)
		}
	}
	if g.mergeVolume(&next) {
		g.releaseVolumeEnds(&next)
		return
	}
	id := volumeID(g.volumes.Alloc())
	*g.volume(id) = next
	g.addVolume(vid, id)
	g.needTail(g.vertex(next.claim)).pins++
	for _, s := range next.secrets {
		g.addVolume(s, id)
	}
	if next.to.set {
		g.ended.addVolume(next.to.late(), id)
	}
}

// mergeVolume fits a state into the volume's history. It returns true when it is part of one that is there; else it ends the state
// before it and sets its end by the one after.
func (g *Graph) mergeVolume(next *volumeLife) bool {
	at := next.from.at
	var after volumeID
	for _, id := range g.volumesOf(next.vertex) {
		r := g.volume(id)
		if r.from.at > at && (after == 0 || r.from.at < g.volume(after).from.at) {
			after = id
		}
	}
	if prev := g.volumeBefore(next.vertex, at); prev != 0 {
		r := g.volume(prev)
		if r.same(next) {
			if next.from.source > r.from.source && at <= r.from.late() {
				r.from = next.from
			}
			return true
		}
		next.to = r.to
		g.endVolume(prev, next.from)
	}
	if after != 0 {
		a := g.volume(after)
		if a.same(next) && !next.to.set {
			if a.from.source <= next.from.source || a.from.at > next.from.late() {
				a.from = next.from
			}
			return true
		}
		if !next.to.set || a.from.at < next.to.at {
			next.to = a.from
		}
	}
	return false
}

func (r *volumeLife) same(o *volumeLife) bool {
	return r.uid == o.uid && r.claim == o.claim && slices.Equal(r.secrets, o.secrets)
}

// volumeBefore is the state of the volume alive at t.
func (g *Graph) volumeBefore(vid vertexID, t int64) (found volumeID) {
	for _, id := range g.volumesOf(vid) {
		r := g.volume(id)
		if r.from.at <= t && (!r.to.set || t < r.to.at) && (found == 0 || r.from.at >= g.volume(found).from.at) {
			found = id
		}
	}
	return found
}

func (g *Graph) endVolume(id volumeID, b boundary) {
	g.volume(id).to = b
	g.ended.addVolume(b.late(), id)
}

// DeletePersistentVolume records that the volume was gone from `at` on. An empty uid means the volume that was there.
func (g *Graph) DeletePersistentVolume(name, uid string, at Stamp) {
	g.mu.Lock()
	defer g.mu.Unlock()
	vid := g.lookup(KindPersistentVolume, "", name)
	if vid == 0 {
		return
	}
	u, b := g.uidOf(uid), boundaryOf(at)
	if id := g.volumeBefore(vid, b.at); id != 0 {
		if r := g.volume(id); !u.known() || !r.uid.known() || r.uid == u {
			g.endVolume(id, b)
		}
	}
}

// releaseVolumeEnds forgets the vertices that a state alone made which is not kept.
func (g *Graph) releaseVolumeEnds(r *volumeLife) {
	for _, id := range append([]vertexID{r.vertex, r.claim}, r.secrets...) {
		g.release(id)
	}
}
