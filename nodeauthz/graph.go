package nodeauthz

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nodetrail/nodetrail/internal/arena"
)

// Kind is the kind of a vertex.
type Kind uint8

// The kinds of vertices that lead to a node.
const (
	KindNone Kind = iota
	KindConfigMap
	KindSecret
	KindServiceAccount
	KindPersistentVolumeClaim
	KindPersistentVolume
	KindResourceClaim
	KindPod
	KindVolumeAttachment
	KindResourceSlice
	KindPodCertificateRequest
)

var kindNames = [...]string{
	"", "configmap", "secret", "service account", "persistent volume claim", "persistent volume", "resource claim", "pod",
	"volume attachment", "resource slice", "pod certificate request",
}

// String returns the kind as words, lower-case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return ""
}

// Graph is the reference's graph with a lifetime on each edge. All its methods may be called concurrently; a writer holds the lock
// for the few microseconds that one object takes. Each event names its time; see the package comment for the order they may come in.
type Graph struct {
	mu sync.RWMutex

	index     index
	latest    latest
	vertices  arena.Of[vertex]
	tails     arena.Of[tail]
	names     arena.Texts
	tenures   arena.Of[tenure]
	sightings arena.Of[sighting] // by tenureID
	lists     lists
	volumes   arena.Of[volumeLife]
	nodes     map[string]nodeID
	nodeRecs  []nodeRecord // by nodeID; 0 is no node

	namespaces map[string]namespaceID
	nsNames    []string              // by namespaceID; 0 is the empty one
	claimSigs  map[claimState]uint32 // interned
	claims     []claimState          // by the number in claimSigs
	ended      endedQueue

	open        int   // tenures whose targets we have not been given
	coveredFrom int64 // from here on what was not seen does not exist
	prunedTo    int64 // before this, lifetimes may have been forgotten
	plain       bool  // without lives, in tests
	holed       bool  // there ever was anything in holes
	holes       [watchedKinds]Holes
	cut         [watchedKinds]bool // the state ended where holes says that nothing is known since
	ends        bool               // there is anything in cut
	resumed     int64              // what began after it is known all the same; 0 for nothing
	noNames     noNames
}

type (
	vertexID uint32
	tailID   uint32
	tenureID uint32
	volumeID uint32
	nodeID   uint32

	namespaceID uint32
)

type nodeRecord struct {
	name   string
	reason string // the reference's "no relationship" reason for this node, with the authorizer's name, made once
	open   []tenureID
	had    []placement // the namespaces of the pods that were bound to it
}

// vertex is an object, named by kind, namespace and name as in the reference: an object made again under its name is the same vertex.
//
// Two fill one cache line, and a decision mostly needs no more of it. There are millions, in which the garbage collector has nothing to follow.
type vertex struct {
	check     uint64 // see index
	first     ref    // the oldest of the tenures that lead from here to a node; tenure 0 if there is none
	tail      tailID // 0 for most
	name      arena.Text
	namespace namespaceID
	kind      Kind
	heavy     bool // its tenures are in tail.byNode, and the newest of each node in Graph.latest
}

// tail holds what few vertices have: further tenures, or persistent volumes.
type tail struct {
	more   []ref                 // next to the first, the newest last
	byNode map[nodeID][]tenureID // all, in place of first and more, once there are many
	// volumes are, at a persistent volume, its own lives; at a secret, those of the volumes that need it.
	volumes []volumeID
	pins    uint32 // lives of persistent volumes whose claim this is
	lives   *lives // of an object whose own lives byNode has, nil for others
}

// manyRefs is where looking a node up beats walking the list.
const manyRefs = 32

type ref struct {
	tenure tenureID
	node   nodeID
}

// tenure is the life of one pod (volume attachment, resource slice, pod certificate request) on one node, and what it leads to. What a
// decision reads of it is one cache line.
type tenure struct {
	life
	extra   *[]extraEdge // nil for most
	vertex  vertexID
	node    nodeID // 0: only its end is known yet
	targets listID // what leads to the pod for the whole of the tenure
	claims  uint32
	lastEph uint8 // at most 255: no pod has so many
	open    bool  // the targets are not known
	again   bool  // the next update sets up the edges again whatever it holds
	used    bool
	_       [4]byte
}

// sighting is what changes need of a tenure, and decisions do not.
type sighting struct {
	uid      uid
	seen     int64 // when the targets were seen so
	lastSeen int64
}

// extraEdge is an edge whose lifetime is not that of its tenure: ephemeral containers and claim statuses come and go.
type extraEdge struct {
	life
	vertex vertexID
	of     gens
}

// volumeLife is one state of a persistent volume: its claim and its secrets.
type volumeLife struct {
	life
	uid     uid
	vertex  vertexID
	claim   vertexID
	secrets []vertexID
	used    bool
}

type uid [16]byte

// NewGraph returns an empty graph that covers nothing.
func NewGraph() *Graph {
	g := &Graph{
		index:       newIndex(),
		latest:      newLatest(),
		names:       arena.NewTexts(),
		lists:       newLists(),
		nodes:       map[string]nodeID{},
		nodeRecs:    make([]nodeRecord, 1),
		namespaces:  map[string]namespaceID{"": 0},
		nsNames:     []string{""},
		claimSigs:   map[claimState]uint32{{}: 0},
		claims:      make([]claimState, 1),
		coveredFrom: maxTime,
		prunedTo:    minTime,
	}
	g.vertices.Alloc() // ids begin at 1
	g.tails.Alloc()
	g.tenures.Alloc()
	g.sightings.Alloc()
	g.volumes.Alloc()
	return g
}

// CoverFrom says that the graph is complete from t on: an object that was not seen does not exist, and where there is no path the
// answer is Deny rather than Unknown. The earliest t given counts.
func (g *Graph) CoverFrom(t time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.coveredFrom = min(g.coveredFrom, unixNano(t))
}

// CoveredFrom returns the instant given to CoverFrom, and whether there was one.
func (g *Graph) CoveredFrom() (time.Time, bool) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.coveredFrom == maxTime {
		return time.Time{}, false
	}
	return time.Unix(0, g.coveredFrom).UTC(), true
}

// Stats counts what a graph holds, lifetimes that have ended included.
type Stats struct{ Vertices, Tenures, Volumes, Nodes int }

// Stats returns the counts.
func (g *Graph) Stats() Stats {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return Stats{
		Vertices: g.vertices.Live() - 1, Tenures: g.tenures.Live() - 1, Volumes: g.volumes.Live() - 1, Nodes: len(g.nodes),
	}
}

func (g *Graph) vertex(id vertexID) *vertex { return g.vertices.At(uint32(id)) }
func (g *Graph) tenure(id tenureID) *tenure { return g.tenures.At(uint32(id)) }
func (g *Graph) volume(id volumeID) *volumeLife {
	return g.volumes.At(uint32(id))
}
func (g *Graph) sighting(id tenureID) *sighting { return g.sightings.At(uint32(id)) }
func (g *Graph) targetsOf(r *tenure) []vertexID { return g.lists.at(r.targets) }

// newTenure returns a tenure that is as given, with what is known of it.
func (g *Graph) newTenure(r tenure, u uid) tenureID {
	id := tenureID(g.tenures.Alloc())
	g.sightings.Alloc() // the two are released together, so that their numbers are the same
	*g.tenure(id), *g.sighting(id) = r, sighting{uid: u}
	return id
}

// releaseTenure forgets a tenure that nothing refers to.
func (g *Graph) releaseTenure(id tenureID) {
	g.lists.release(g.tenure(id).targets)
	*g.tenure(id), *g.sighting(id) = tenure{}, sighting{}
	g.tenures.Release(uint32(id))
	g.sightings.Release(uint32(id))
}

// lookup returns 0 where there is no such vertex.
func (g *Graph) lookup(kind Kind, namespace, name string) vertexID {
	ns, ok := g.namespaces[namespace]
	if !ok {
		return 0
	}
	return g.find(kind, ns, name)
}

func (g *Graph) intern(kind Kind, namespace, name string) vertexID {
	ns, ok := g.namespaces[namespace]
	if !ok {
		namespace = strings.Clone(namespace)
		ns = namespaceID(len(g.nsNames))
		g.nsNames = append(g.nsNames, namespace)
		g.namespaces[namespace] = ns
	}
	tag, check := g.index.hash(kind, ns, name)
	if id := g.findHash(tag, check); id != 0 {
		return id
	}
	id := vertexID(g.vertices.Alloc())
	*g.vertex(id) = vertex{kind: kind, namespace: ns, name: g.names.Put(name), check: check}
	g.index.add(tag, id)
	return id
}

// release forgets a vertex that nothing refers to.
func (g *Graph) release(id vertexID) {
	v, t := g.vertex(id), g.tail(g.vertex(id))
	if v.kind == KindNone || v.first.tenure != 0 || t != nil && (t.pins > 0 || len(t.byNode) > 0 || len(t.volumes) > 0) {
		return
	}
	tag, _ := g.index.hash(v.kind, v.namespace, g.names.Get(v.name))
	g.index.remove(tag, id)
	if g.names.Release(v.name); t != nil {
		*t = tail{}
		g.tails.Release(uint32(v.tail))
	}
	*v = vertex{}
	g.vertices.Release(uint32(id))
}

func (g *Graph) node(name string) nodeID {
	if id, ok := g.nodes[name]; ok {
		return id
	}
	name = strings.Clone(name)
	id := nodeID(len(g.nodeRecs))
	g.nodeRecs = append(g.nodeRecs, nodeRecord{name: name, reason: noRelationship(name)})
	g.nodes[name] = id
	return id
}

// uidOf packs a UID. One that is no UUID is hashed: only equality matters.
func (g *Graph) uidOf(s string) (u uid) {
	if s == "" {
		return u
	}
	if parseUUID(s, &u) {
		return u
	}
	a, b := maphash.String(g.index.seed, s), maphash.String(g.index.check, s)
	for i := range 8 {
		u[i], u[8+i] = byte(a>>(8*i)), byte(b>>(8*i))
	}
	u[0] |= 1 // never the zero value, which stands for an unknown one
	return u
}

func parseUUID(s string, u *uid) bool {
	if len(s) != 36 {
		return false
	}
	j := 0
	for i := 0; i < 36; {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return false
			}
			i++
			continue
		}
		hi, lo := unhex(s[i]), unhex(s[i+1])
		if hi > 15 || lo > 15 {
			return false
		}
		u[j] = hi<<4 | lo
		j++
		i += 2
	}
	return *u != uid{}
}

// unhex knows lower case only, so that two UIDs that differ in case stay two.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}

func (u uid) known() bool { return u != uid{} }

// tail returns the tail of a vertex, nil if it has none.
func (g *Graph) tail(v *vertex) *tail {
	if v.tail == 0 {
		return nil
	}
	return g.tails.At(uint32(v.tail))
}

func (g *Graph) needTail(v *vertex) *tail {
	if v.tail == 0 {
		v.tail = tailID(g.tails.Alloc())
	}
	return g.tail(v)
}

// addRef makes the vertex lead to the tenure.
func (g *Graph) addRef(vid vertexID, r ref) {
	v := g.vertex(vid)
	if v.first.tenure == 0 && !v.heavy {
		v.first = r
		return
	}
	t := g.needTail(v)
	switch {
	case v.heavy:
		g.addHeavy(vid, r)
	case len(t.more) < manyRefs:
		t.more = append(t.more, r)
	default:
		first, more := v.first, t.more
		v.heavy, v.first, t.more, t.byNode = true, ref{}, nil, map[nodeID][]tenureID{}
		g.addHeavy(vid, first)
		for _, r := range append(more, r) {
			g.addHeavy(vid, r)
		}
	}
}

func (g *Graph) addHeavy(vid vertexID, r ref) {
	t := g.tail(g.vertex(vid))
	t.byNode[r.node] = append(t.byNode[r.node], r.tenure)
	g.latest.set(vid, r.node, r.tenure)
	if own := g.tenure(r.tenure); own.vertex == vid && !g.plain {
		if t.lives == nil {
			t.lives = &lives{first: map[uid]tenureID{}, more: map[uid][]tenureID{}, ends: map[int64][]tenureID{}, from: minTime}
		}
		t.lives.add(r.tenure, own, g.sighting(r.tenure).uid)
	}
}

// dropRef keeps the order of the others: the newest is looked at first.
func (g *Graph) dropRef(vid vertexID, r ref) {
	v := g.vertex(vid)
	switch t := g.tail(v); {
	case v.heavy:
		if t.lives != nil {
			t.lives.remove(r.tenure, g.tenure(r.tenure), g.sighting(r.tenure).uid)
		}
		list := without(t.byNode[r.node], r.tenure)
		if len(list) == 0 {
			delete(t.byNode, r.node)
			g.latest.remove(vid, r.node)
		} else {
			t.byNode[r.node] = list
			g.latest.set(vid, r.node, list[len(list)-1])
		}
	case v.first != r:
		if t != nil {
			t.more = without(t.more, r)
		}
	case t != nil && len(t.more) > 0:
		v.first = t.more[0]
		t.more = without(t.more, v.first)
	default:
		v.first = ref{}
	}
}

func (g *Graph) addVolume(vid vertexID, id volumeID) {
	t := g.needTail(g.vertex(vid))
	t.volumes = append(t.volumes, id)
}

// volumesOf are the volumes at a vertex: see tail.
func (g *Graph) volumesOf(vid vertexID) []volumeID {
	if t := g.tail(g.vertex(vid)); t != nil {
		return t.volumes
	}
	return nil
}

// eachTenure calls f for the vertex's tenures on all nodes until f returns false.
func (g *Graph) eachTenure(vid vertexID, f func(tenureID) bool) {
	v := g.vertex(vid)
	t := g.tail(v)
	if v.first.tenure != 0 && !f(v.first.tenure) || t == nil {
		return
	}
	for _, r := range t.more {
		if !f(r.tenure) {
			return
		}
	}
	each := func(list []tenureID) bool {
		return !slices.ContainsFunc(list, func(id tenureID) bool { return !f(id) })
	}
	if v.kind.hasLives() { // on few nodes; what is decided by them must not depend on the order of a map
		for _, node := range slices.Sorted(maps.Keys(t.byNode)) {
			if !each(t.byNode[node]) {
				return
			}
		}
		return
	}
	for _, list := range t.byNode {
		if !each(list) {
			return
		}
	}
}

func without[T comparable](list []T, x T) []T {
	for i := range list {
		if list[i] == x {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}
