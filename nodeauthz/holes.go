package nodeauthz

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// Hole is a time in which nobody watched. An object that was made and deleted in it was never seen.
type Hole struct{ From, To time.Time }

// Holes are times in which nobody watched, in order and apart from each other. The zero value has none. They are bounded in number: beyond
// that, the two oldest become one with what is between them.
type Holes struct {
	list []hole
	// since is from when on nothing is known any more, as long as blind is true.
	since int64
	blind bool
}

// hole is closed at both ends.
type hole struct{ from, to int64 }

// maxHoles bounds the holes that are remembered.
const maxHoles = 512

// Add adds one. A zero from means that nobody ever watched before.
func (h *Holes) Add(from, to time.Time) { h.add(hole{unixNano(from), unixNano(to)}) }

func (h *Holes) add(n hole) {
	if n.to < n.from {
		return
	}
	i := sort.Search(len(h.list), func(i int) bool { return h.list[i].to >= n.from })
	j := i
	for ; j < len(h.list) && h.list[j].from <= n.to; j++ {
		n.from, n.to = min(n.from, h.list[j].from), max(n.to, h.list[j].to)
	}
	h.list = slices.Replace(h.list, i, j, n)
	if len(h.list) > maxHoles {
		h.list[1].from = h.list[0].from
		h.list = slices.Delete(h.list, 0, 1)
	}
}

// Since says that from t on nothing is known, until End is called. The zero time says that nothing was
// ever known.
func (h *Holes) Since(t time.Time) { h.since, h.blind = unixNano(t), true }

// End takes Since back: all that happened meanwhile was learned, or is in a hole that was added.
func (h *Holes) End() { h.blind = false }

// Prune forgets what was over before t.
func (h *Holes) Prune(t time.Time) { h.prune(unixNano(t)) }

func (h *Holes) prune(before int64) {
	i := sort.Search(len(h.list), func(i int) bool { return h.list[i].to >= before })
	h.list = slices.Delete(h.list, 0, i)
}

// Touch returns the hole that has an instant in common with [from, to], if there is one. That of Since has a zero To.
func (h *Holes) Touch(from, to time.Time) (Hole, bool) {
	found, ok := h.touch(unixNano(from), unixNano(to))
	return found.exported(), ok
}

func (h *Holes) touch(from, to int64) (hole, bool) {
	if h.blind && to >= h.since {
		return hole{h.since, maxTime}, true
	}
	if len(h.list) == 0 {
		return hole{}, false
	}
	i := sort.Search(len(h.list), func(i int) bool { return h.list[i].to >= from })
	if i < len(h.list) && h.list[i].from <= to {
		return h.list[i], true
	}
	return hole{}, false
}

// All returns them in order.
func (h *Holes) All() []Hole {
	out := make([]Hole, 0, len(h.list)+1)
	for _, l := range h.list {
		out = append(out, l.exported())
	}
	if h.blind {
		out = append(out, hole{h.since, maxTime}.exported())
	}
	return out
}

func (h hole) exported() Hole { return Hole{timeOf(h.from), timeOf(h.to)} }

// watchedKind indexes the kinds of objects that a graph is made from.
type watchedKind uint8

const (
	ofPods watchedKind = iota
	ofVolumes
	ofAttachments
	ofSlices
	ofRequests
	watchedKinds
)

var watchedNames = [watchedKinds]string{"pods", "persistent volumes", "volume attachments", "resource slices", "pod certificate requests"}

// watchedAs says by which objects a vertex of the kind comes to lead to a node; a second one is ofPods where there is none.
func watchedAs(k Kind) [2]watchedKind {
	switch k {
	case KindSecret, KindPersistentVolume:
		return [2]watchedKind{ofPods, ofVolumes}
	case KindVolumeAttachment:
		return [2]watchedKind{ofAttachments, ofAttachments}
	case KindResourceSlice:
		return [2]watchedKind{ofSlices, ofSlices}
	case KindPodCertificateRequest:
		return [2]watchedKind{ofRequests, ofRequests}
	}
	return [2]watchedKind{}
}

// watchedOf is the kind's own objects.
func watchedOf(k Kind) (watchedKind, bool) {
	switch k {
	case KindPod:
		return ofPods, true
	case KindPersistentVolume:
		return ofVolumes, true
	case KindVolumeAttachment:
		return ofAttachments, true
	case KindResourceSlice:
		return ofSlices, true
	case KindPodCertificateRequest:
		return ofRequests, true
	}
	return 0, false
}

// Uncovered says that from `from` to `to` nobody watched the objects of the kind: pods, persistent volumes, volume attachments, resource
// slices or pod certificate requests; others are ignored. What would be a Deny within the skew of that time is Unknown, if such an object
// could have made it an Allow. A zero from means that nobody ever watched before.
func (g *Graph) Uncovered(kind Kind, from, to time.Time) {
	if k, ok := watchedOf(kind); ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.holed = true
		g.holes[k].Add(from, to)
	}
}

// UncoveredSince says the same of all time from t on, until [Graph.CoveredAgain] is called. The zero time says that nothing is known at all.
func (g *Graph) UncoveredSince(kind Kind, t time.Time) {
	if k, ok := watchedOf(kind); ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.holed = true
		g.holes[k].Since(t)
	}
}

// EndsAt says what UncoveredSince does, and that what was there at t may have ended since: after t, every answer that depends on such objects is Unknown.
func (g *Graph) EndsAt(kind Kind, t time.Time) {
	g.UncoveredSince(kind, t)
	if k, ok := watchedOf(kind); ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.cut[k], g.ends = true, true
	}
}

// ResumesAt says that a source tells again what comes to be after t: what it says of that is known, also where the state has ended.
func (g *Graph) ResumesAt(t time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.resumed = unixNano(t)
}

// CoveredAgain takes UncoveredSince and EndsAt back: what happened since then is known by now, or was given to Uncovered.
func (g *Graph) CoveredAgain(kind Kind) {
	if k, ok := watchedOf(kind); ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.holes[k].End()
		g.cut[k] = false
		g.ends = slices.Contains(g.cut[:], true)
	}
}

// doubted reports whether a path that may have lived at the instant may as well have ended, long before or after: the state had ended, or the path is not
// certain and nobody watched for a while.
func (g *Graph) doubted(kind Kind, spans []span, w *window) bool {
	if !g.holed {
		return false
	}
	k := watchedAs(kind)[0]
	if g.cut[k] && w.t > g.holes[k].since {
		return g.resumed == 0 || !slices.ContainsFunc(spans, func(s span) bool { return g.resumed < s.plo && s.clo <= w.t && w.t < s.chi })
	}
	h, unseen := g.holes[k].touch(w.t, w.t)
	short := h.to <= satAdd(h.from, max(w.hi-w.lo, int64(time.Second))) // the change is near: a race
	if !unseen || short || h.from <= unixNano(time.Time{}) {            // what was never watched is known by other means
		return false
	}
	for _, s := range spans {
		if s.clo <= w.t && w.t < s.chi {
			return false
		}
	}
	return true
}

// Holes returns the times given to Uncovered and UncoveredSince for the kind, in order.
func (g *Graph) Holes(kind Kind) []Hole {
	k, ok := watchedOf(kind)
	if !ok {
		return nil
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.holes[k].All()
}

// hole finds the hole in which a path from a vertex of the kind may have been.
func (g *Graph) hole(kind Kind, w *window) (watchedKind, hole, bool) {
	for _, k := range watchedAs(kind) {
		if h, ok := g.holes[k].touch(w.lo, w.hi); ok {
			return k, h, true
		}
	}
	return 0, hole{}, false
}

// words says what was not watched, and when.
func (h hole) words(k watchedKind) string {
	const format = "2006-01-02T15:04:05.000Z"
	name := watchedNames[k]
	switch from, to := timeOf(h.from), timeOf(h.to); {
	case from.IsZero() && to.IsZero():
		return name + " cannot be watched"
	case from.IsZero():
		return fmt.Sprintf("%s were not watched before %s", name, to.Format(format))
	case to.IsZero():
		return fmt.Sprintf("%s have not been watched since %s", name, from.Format(format))
	default:
		return fmt.Sprintf("%s were not watched from %s to %s", name, from.Format(format), to.Format(format))
	}
}
