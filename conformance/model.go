package conformance

import (
	"math/bits"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	pvutil "k8s.io/kubernetes/pkg/api/v1/persistentvolume"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// model is a small graph of now, written from the description of the reference's rather than from either side's data structures.
// It exists to recognise the reference's known bugs exactly: where the two sides disagree, the model with the bugs must give the
// reference's answer and the model without them must give ours. Anything else is a failure.
//
// The bugs are described in docs/conformance.md (and where [Bug] is declared).
type model struct {
	bugs     bool
	vertices map[vertexKey]*modelVertex
	byID     map[int]*modelVertex
	free     idSet
	maxID    int
}

type vertexKey struct{ kind, namespace, name string }

type modelVertex struct {
	key vertexKey
	id  int
	// out has, for each vertex that this one leads to, the node at its end, nil where the reference does not note it.
	out map[*modelVertex]*modelVertex
	in  map[*modelVertex]bool
	// index counts destinations by id, when there is one.
	index map[int]int
}

func (v *modelVertex) degree() int { return len(v.out) + len(v.in) }

// indexThreshold is the number of neighbours from which on the reference keeps an index of a vertex's destinations.
const indexThreshold = 200

func newModel(bugs bool) *model {
	return &model{bugs: bugs, vertices: map[vertexKey]*modelVertex{}, byID: map[int]*modelVertex{}, maxID: -1}
}

// idSet is a set of small numbers that gives the least.
type idSet []uint64

func (s *idSet) put(i int) {
	for len(*s) <= i/64 {
		*s = append(*s, 0)
	}
	(*s)[i/64] |= 1 << (i % 64)
}

func (s idSet) remove(i int) {
	if i/64 < len(s) {
		s[i/64] &^= 1 << (i % 64)
	}
}

func (s idSet) takeMin() (int, bool) {
	for w := range s {
		if s[w] != 0 {
			b := bits.TrailingZeros64(s[w])
			s[w] &^= 1 << b
			return w*64 + b, true
		}
	}
	return 0, false
}

// vertex numbers vertices as the reference does, since a stale entry of an index may come to mean another node that gets the number
// of one that is gone.
func (m *model) vertex(kind, namespace, name string) *modelVertex {
	key := vertexKey{kind, namespace, name}
	if v := m.vertices[key]; v != nil {
		return v
	}
	v := &modelVertex{key: key, out: map[*modelVertex]*modelVertex{}, in: map[*modelVertex]bool{}}
	if len(m.vertices) == 0 {
		m.free.remove(0) // the reference then begins at 0 again
		m.maxID = max(m.maxID, 0)
	} else if id, ok := m.free.takeMin(); ok {
		v.id = id
	} else {
		m.maxID++
		v.id = m.maxID
	}
	m.vertices[key] = v
	m.byID[v.id] = v
	return v
}

func (m *model) drop(v *modelVertex) {
	for o := range v.out {
		delete(o.in, v)
	}
	for i := range v.in {
		delete(i.out, v)
	}
	delete(m.vertices, v.key)
	delete(m.byID, v.id)
	m.free.put(v.id)
}

func (m *model) link(from, to, node *modelVertex) {
	from.out[to] = node
	to.in[from] = true
	if from.index != nil {
		if node != nil {
			from.index[node.id]++ // even when the edge was there already: the first bug
		}
		return
	}
	if from.degree() < indexThreshold {
		return
	}
	from.index = map[int]int{}
	for _, node := range from.out {
		if node != nil {
			from.index[node.id]++
		}
	}
}

// remove takes a vertex out with whatever then has no neighbour left.
func (m *model) remove(kind, namespace, name string) {
	v := m.vertices[vertexKey{kind, namespace, name}]
	if v == nil {
		return
	}
	var lonely []*modelVertex
	unlinked := map[*modelVertex]*modelVertex{}
	for o := range v.out {
		if o.degree() == 1 {
			lonely = append(lonely, o)
		}
	}
	for i := range v.in {
		if i.degree() == 1 {
			lonely = append(lonely, i)
		} else {
			unlinked[i] = i.out[v]
		}
	}
	m.drop(v)
	for _, l := range lonely {
		m.drop(l)
	}
	for i, node := range unlinked {
		if i.degree() < indexThreshold {
			i.index = nil
		} else if i.index != nil && node != nil {
			if i.index[node.id]--; i.index[node.id] <= 0 {
				delete(i.index, node.id)
			}
		}
	}
}

// authoritative are the kinds whose index, where there is one, is all that the reference asks since 1.32.
func authoritative(kind string) bool {
	return Minor() >= 32 && kind != "secret" && kind != "pv" && kind != "node"
}

// leads says whether there is a path to the node, by the reference's way of looking.
func (m *model) leads(kind, namespace, name, nodeName string) bool {
	node, v := m.vertices[vertexKey{"node", "", nodeName}], m.vertices[vertexKey{kind, namespace, name}]
	if node == nil || v == nil {
		return false
	}
	if m.bugs && v.index != nil {
		if v.index[node.id] > 0 {
			return true
		}
		if authoritative(kind) {
			return false
		}
	}
	return reaches(v, node)
}

// leadsByEdges is leads without the index.
func (m *model) leadsByEdges(kind, namespace, name, nodeName string) bool {
	node, v := m.vertices[vertexKey{"node", "", nodeName}], m.vertices[vertexKey{kind, namespace, name}]
	return node != nil && v != nil && reaches(v, node)
}

func reaches(v, node *modelVertex) bool {
	if v == node {
		return true
	}
	for o, end := range v.out {
		if end == node || end == nil && reaches(o, node) {
			return true
		}
	}
	return false
}

func (m *model) addPod(p *corev1.Pod) {
	m.remove("pod", p.Namespace, p.Name)
	pod := m.vertex("pod", p.Namespace, p.Name)
	node := m.vertex("node", "", p.Spec.NodeName)
	m.link(pod, node, node)
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return
	}
	add := func(kind string) func(string) bool {
		return func(name string) bool {
			m.link(m.vertex(kind, p.Namespace, name), pod, node)
			return true
		}
	}
	if p.Spec.ServiceAccountName != "" {
		add("serviceaccount")(p.Spec.ServiceAccountName)
	}
	podutil.VisitPodSecretNames(p, add("secret"))
	podutil.VisitPodConfigmapNames(p, add("configmap"))
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if c := v.PersistentVolumeClaim; c != nil {
			if c.ClaimName != "" {
				add("pvc")(c.ClaimName)
			}
		} else if v.Ephemeral != nil {
			add("pvc")(ephemeral.VolumeClaimName(p, v))
		}
	}
	for i := range p.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(p, &p.Spec.ResourceClaims[i]); err == nil && name != nil {
			add("resourceclaim")(*name)
		}
	}
	if name := extendedClaim(p); name != "" {
		add("resourceclaim")(name)
	}
}

func (m *model) setPod(old, p *corev1.Pod) {
	if p.Spec.NodeName == "" {
		// The second bug: the reference looks no further, although under the old name and another UID there is another pod.
		if !m.bugs && old != nil && old.UID != p.UID {
			m.remove("pod", p.Namespace, p.Name)
		}
		return
	}
	if old != nil && old.Spec.NodeName == p.Spec.NodeName && old.UID == p.UID &&
		(Minor() < 33 || len(p.Spec.EphemeralContainers) <= len(old.Spec.EphemeralContainers)) &&
		equality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, p.Status.ResourceClaimStatuses) &&
		(Minor() < 37 || extendedClaimsEqual(old, p)) {
		return
	}
	m.addPod(p)
}

func (m *model) deletePod(old *corev1.Pod) {
	// Of an unbound pod the reference does not look whether it left edges.
	if old.Spec.NodeName != "" || !m.bugs {
		m.remove("pod", old.Namespace, old.Name)
	}
}

func (m *model) setVolume(pv *corev1.PersistentVolume) {
	m.remove("pv", "", pv.Name)
	if pv.Spec.ClaimRef == nil {
		return
	}
	v := m.vertex("pv", "", pv.Name)
	m.link(v, m.vertex("pvc", pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name), nil)
	pvutil.VisitPVSecretNames(pv, func(namespace, name string, visible bool) bool {
		if visible {
			m.link(m.vertex("secret", namespace, name), v, nil)
		}
		return true
	})
}

// setOnNode is for the three kinds that lead to a node directly. Slices and requests are immutable to the reference: it ignores
// their updates, even of another object under the name, which is the third bug.
func (m *model) setOnNode(kind string, old, o *OnNode) {
	if old != nil && kind != "attachment" && (m.bugs || old.UID == o.UID) {
		return
	}
	if old != nil && kind == "attachment" && old.Node == o.Node {
		return
	}
	m.remove(kind, o.Namespace, o.Name)
	if o.Node == "" && kind != "request" {
		return
	}
	v, node := m.vertex(kind, o.Namespace, o.Name), m.vertex("node", "", o.Node)
	m.link(v, node, node)
}
