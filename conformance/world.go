package conformance

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// World is a cluster that both sides watch.
type World struct {
	up    *upstream
	graph *nodeauthz.Graph
	ours  *nodeauthz.Authorizer
	known *model // with the reference's bugs
	right *model // without them

	pods        map[nodeauthz.NamespacedName]*corev1.Pod
	volumes     map[string]*corev1.PersistentVolume
	attachments map[string]*OnNode
	slices      map[string]*OnNode
	podRequests map[nodeauthz.NamespacedName]*OnNode
	// objects are the last two kinds as the reference sees them.
	objects map[*OnNode]any

	now          time.Time
	sightings    []sighting
	withSlices   bool
	withRequests bool
}

// sighting is one thing that our graph was given, kept so that it can be given again in another order.
type sighting struct {
	object string
	at     nodeauthz.Stamp
	tell   func(*nodeauthz.Graph, nodeauthz.Stamp)
}

// epoch is when every history begins.
func epoch() time.Time { return time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC) }

// tick is the time between two steps.
const tick = 10 * time.Millisecond

// NewWorld returns an empty world for the feature gates in force.
func NewWorld(f nodeauthz.Features) *World {
	w := &World{
		up: newUpstream(), graph: nodeauthz.NewGraph(), known: newModel(true), right: newModel(false),
		pods: map[nodeauthz.NamespacedName]*corev1.Pod{}, volumes: map[string]*corev1.PersistentVolume{},
		attachments: map[string]*OnNode{}, slices: map[string]*OnNode{}, podRequests: map[nodeauthz.NamespacedName]*OnNode{},
		objects: map[*OnNode]any{}, now: epoch(),
		withSlices: enabled("DynamicResourceAllocation"), withRequests: enabled("PodCertificateRequest"),
	}
	w.graph.CoverFrom(w.now)
	w.ours = nodeauthz.NewAuthorizer(w.graph, f, 0)
	return w
}

// Apply plays one step to both sides, and reports whether it did anything.
func (w *World) Apply(s *Step) bool {
	w.now = w.now.Add(tick)
	switch {
	case s.Pod != nil:
		return w.applyPod(s)
	case s.Volume != nil:
		return w.applyVolume(s)
	case s.Attachment != nil:
		return w.applyAttachment(s)
	case s.Slice != nil:
		return w.applySlice(s)
	case s.PodRequest != nil:
		return w.applyPodRequest(s)
	}
	return false
}

func (w *World) tell(object string, f func(*nodeauthz.Graph, nodeauthz.Stamp)) {
	at := nodeauthz.Stamp{Time: w.now, Source: nodeauthz.SourceWatch}
	f(w.graph, at)
	w.sightings = append(w.sightings, sighting{object, at, f})
}

func (w *World) applyPod(s *Step) bool {
	key := nodeauthz.NamespacedName{Namespace: s.Pod.Namespace, Name: s.Pod.Name}
	old := w.pods[key]
	if s.Op != OpSet {
		if old == nil {
			return false
		}
		delete(w.pods, key)
		w.up.pods.remove(old, key.Namespace+"/"+key.Name, s.Op == OpTombstone)
		w.tell("pod/"+key.Namespace+"/"+key.Name, func(g *nodeauthz.Graph, at nodeauthz.Stamp) {
			g.DeletePod(old.Namespace, old.Name, string(old.UID), at)
		})
		w.known.deletePod(old)
		w.right.deletePod(old)
		return true
	}
	w.pods[key] = s.Pod
	if old == nil {
		w.up.pods.set(nil, s.Pod)
	} else {
		w.up.pods.set(old, s.Pod)
	}
	p := nodeauthz.PodOf(s.Pod, claimsOf(s.Pod))
	w.tell("pod/"+key.Namespace+"/"+key.Name, func(g *nodeauthz.Graph, at nodeauthz.Stamp) { g.SetPod(&p, at) })
	w.known.setPod(old, s.Pod)
	w.right.setPod(old, s.Pod)
	return true
}

func (w *World) applyVolume(s *Step) bool {
	name := s.Volume.Name
	old := w.volumes[name]
	if s.Op != OpSet {
		if old == nil {
			return false
		}
		delete(w.volumes, name)
		w.up.volumes.remove(old, name, s.Op == OpTombstone)
		w.tell("pv/"+name, func(g *nodeauthz.Graph, at nodeauthz.Stamp) { g.DeletePersistentVolume(name, string(old.UID), at) })
		w.known.remove("pv", "", name)
		w.right.remove("pv", "", name)
		return true
	}
	w.volumes[name] = s.Volume
	if old == nil {
		w.up.volumes.set(nil, s.Volume)
	} else {
		w.up.volumes.set(old, s.Volume)
	}
	pv := nodeauthz.PersistentVolumeOf(s.Volume)
	w.tell("pv/"+name, func(g *nodeauthz.Graph, at nodeauthz.Stamp) { g.SetPersistentVolume(&pv, at) })
	w.known.setVolume(s.Volume)
	w.right.setVolume(s.Volume)
	return true
}

// bound is one of the three kinds that lead to a node by themselves.
type bound struct {
	kind   string
	tap    *tap
	object func(*OnNode) any
	set    func(*nodeauthz.Graph, *OnNode, nodeauthz.Stamp)
	delete func(*nodeauthz.Graph, *OnNode, nodeauthz.Stamp)
	// seen is false when the reference does not watch the kind.
	seen bool
}

func (w *World) applyAttachment(s *Step) bool {
	return w.applyBound(s.Op, s.Attachment, w.attachments[s.Attachment.Name], bound{
		kind: "attachment", tap: &w.up.attachments, object: attachmentObject, seen: true,
		set: func(g *nodeauthz.Graph, o *OnNode, at nodeauthz.Stamp) {
			g.SetVolumeAttachment(o.Name, o.UID, o.Node, at)
		},
		delete: func(g *nodeauthz.Graph, o *OnNode, at nodeauthz.Stamp) {
			g.DeleteVolumeAttachment(o.Name, o.UID, at)
		},
	}, func(o *OnNode) { put(w.attachments, s.Attachment.Name, o) })
}

func (w *World) applySlice(s *Step) bool {
	return w.applyBound(s.Op, s.Slice, w.slices[s.Slice.Name], bound{
		kind: "slice", tap: &w.up.slices, object: sliceObject, seen: w.withSlices,
		set:    func(g *nodeauthz.Graph, o *OnNode, at nodeauthz.Stamp) { g.SetResourceSlice(o.Name, o.UID, o.Node, at) },
		delete: func(g *nodeauthz.Graph, o *OnNode, at nodeauthz.Stamp) { g.DeleteResourceSlice(o.Name, o.UID, at) },
	}, func(o *OnNode) { put(w.slices, s.Slice.Name, o) })
}

func (w *World) applyPodRequest(s *Step) bool {
	key := nodeauthz.NamespacedName{Namespace: s.PodRequest.Namespace, Name: s.PodRequest.Name}
	return w.applyBound(s.Op, s.PodRequest, w.podRequests[key], bound{
		kind: "request", tap: &w.up.requests, object: requestObject, seen: w.withRequests,
		set: func(g *nodeauthz.Graph, o *OnNode, at nodeauthz.Stamp) {
			g.SetPodCertificateRequest(o.Namespace, o.Name, o.UID, o.Node, at)
		},
		delete: func(g *nodeauthz.Graph, o *OnNode, at nodeauthz.Stamp) {
			g.DeletePodCertificateRequest(o.Namespace, o.Name, o.UID, at)
		},
	}, func(o *OnNode) { put(w.podRequests, key, o) })
}

func put[K comparable](m map[K]*OnNode, key K, o *OnNode) {
	if o == nil {
		delete(m, key)
	} else {
		m[key] = o
	}
}

func (w *World) applyBound(op Op, o, old *OnNode, b bound, keep func(*OnNode)) bool {
	if op != OpSet {
		if old == nil {
			return false
		}
		keep(nil)
		key := old.Name
		if old.Namespace != "" {
			key = old.Namespace + "/" + old.Name
		}
		b.tap.remove(w.objects[old], key, op == OpTombstone)
		delete(w.objects, old)
		w.tell(b.kind+"/"+o.Namespace+"/"+o.Name, func(g *nodeauthz.Graph, at nodeauthz.Stamp) { b.delete(g, old, at) })
		if b.seen {
			w.known.remove(b.kind, old.Namespace, old.Name)
			w.right.remove(b.kind, old.Namespace, old.Name)
		}
		return true
	}
	c := *o // a step may be played more than once
	o = &c
	keep(o)
	obj := b.object(o)
	w.objects[o] = obj
	if old == nil {
		b.tap.set(nil, obj)
	} else {
		b.tap.set(w.objects[old], obj)
		delete(w.objects, old)
	}
	w.tell(b.kind+"/"+o.Namespace+"/"+o.Name, func(g *nodeauthz.Graph, at nodeauthz.Stamp) { b.set(g, o, at) })
	if b.seen {
		w.known.setOnNode(b.kind, old, o)
		w.right.setOnNode(b.kind, old, o)
	}
	return true
}

// asOutcome puts our answer into the API server's words. ok is false for an answer that the reference could not give, here where
// everything is known and happened at one instant.
func asOutcome(a nodeauthz.Answer) (o outcome, ok bool) {
	o = outcome{allowed: a.Verdict == nodeauthz.Allow, reason: a.Reason}
	return o, a.Verdict != nodeauthz.Unknown && !a.Race
}

// graphKind is what the model calls the resource of a request that may depend on the graph.
func graphKind(a authorizer.Attributes) string {
	switch a.GetAPIGroup() + "/" + a.GetResource() {
	case "/secrets":
		return "secret"
	case "/configmaps":
		return "configmap"
	case "/persistentvolumeclaims":
		return "pvc"
	case "/persistentvolumes":
		return "pv"
	case "/serviceaccounts":
		return "serviceaccount"
	case "/pods":
		return "pod"
	case "resource.k8s.io/resourceclaims":
		return "resourceclaim"
	case "resource.k8s.io/resourceslices":
		return "slice"
	case "storage.k8s.io/volumeattachments":
		return "attachment"
	case "certificates.k8s.io/podcertificaterequests":
		return "request"
	}
	return ""
}

// Bug is one of the reference's that the comparison knows.
type Bug string

// The reference's bugs; docs/conformance.md describes them.
const (
	BugNone       Bug = ""
	BugIndex      Bug = "index-counts-twice"
	BugPodRelist  Bug = "pod-replaced-by-unbound"
	BugImmutables Bug = "slice-or-request-replaced"
)

// explain says which known bug makes the two answers of now differ; BugNone if none does exactly.
func (w *World) explain(a authorizer.Attributes, theirs, ours outcome) Bug {
	node, isNode := nodeauthz.NodeIdentity(a.GetUser())
	kind := graphKind(a)
	none := named("no relationship found between node '" + node + "' and this object")
	if !isNode || kind == "" || theirs != answer(true, none) && theirs != answer(false, none) || ours != answer(true, none) && ours != answer(false, none) {
		return BugNone
	}
	ns, name := a.GetNamespace(), a.GetName()
	if w.known.leads(kind, ns, name, node) != theirs.allowed || w.right.leads(kind, ns, name, node) != ours.allowed {
		return BugNone
	}
	switch {
	case w.known.leadsByEdges(kind, ns, name, node) != theirs.allowed:
		return BugIndex
	case kind == "slice" || kind == "request":
		return BugImmutables
	}
	return BugPodRelist
}

// named is a reason of the node authorizer as the union of authorizers of this minor has it.
func named(reason string) string {
	if reason == "" || Minor() < 37 {
		return reason
	}
	return "node: " + reason
}

func answer(allowed bool, reason string) outcome {
	if allowed {
		reason = ""
	}
	return outcome{allowed, reason}
}
