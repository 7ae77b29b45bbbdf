package conformance

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// generator makes random histories. Name spaces are small, so that names collide and are used again.
type generator struct {
	r *rand.Rand
	// names is how many of each kind there are; nodes apart.
	names, nodes int
	uids         int
	noUIDs       bool
	crowded      bool
	gathered     int // steps until a crowd is there
	// lawful histories hold only what an API server lets happen: of others both sides must make the same too.
	lawful bool

	pods        map[string]*corev1.Pod
	volumes     map[string]*corev1.PersistentVolume
	attachments map[string]*OnNode
	slices      map[string]*OnNode
	requests    map[string]*OnNode
}

// byteSource is a source of randomness that a fuzzer can steer: each byte is one choice, and when they are used up a generator
// seeded by them continues.
type byteSource struct {
	data []byte
	then rand.Source
}

// Uint64 implements rand.Source.
func (s *byteSource) Uint64() uint64 {
	if len(s.data) == 0 {
		return s.then.Uint64()
	}
	b := uint64(s.data[0])
	s.data = s.data[1:]
	return b * 0x0101010101010101
}

// SeedSource is the source of randomness of a numbered history.
func SeedSource(seed uint64) rand.Source { return rand.NewPCG(seed, 0x6e6f6465747261) }

// BytesSource is the source of randomness for a fuzzer's input.
func BytesSource(data []byte) rand.Source {
	h := uint64(len(data))
	for _, b := range data {
		h = h*1099511628211 ^ uint64(b)
	}
	return &byteSource{data: data, then: SeedSource(h)}
}

func newGenerator(src rand.Source) *generator {
	r := rand.New(src)
	g := &generator{
		r: r, names: 2 + r.IntN(4), nodes: 2 + r.IntN(3), noUIDs: r.IntN(20) == 0, lawful: r.IntN(2) == 0,
		pods: map[string]*corev1.Pod{}, volumes: map[string]*corev1.PersistentVolume{},
		attachments: map[string]*OnNode{}, slices: map[string]*OnNode{}, requests: map[string]*OnNode{},
	}
	if g.lawful {
		g.noUIDs = false
	}
	return g
}

// generate makes a random history of about n steps; one in fifty is a crowd of pods around the size at which the reference begins
// to keep an index.
func generate(g *generator, n int) *History {
	h := &History{}
	if g.r.IntN(50) == 0 {
		g.crowd(h)
		return h
	}
	for range n/2 + g.r.IntN(n) {
		h.Steps = append(h.Steps, g.step())
	}
	return h
}

func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

func (g *generator) pick(prefix string) string { return prefix + strconv.Itoa(g.r.IntN(g.names)) }

func (g *generator) node() string      { return "node-" + strconv.Itoa(g.r.IntN(g.nodes)) }
func (g *generator) namespace() string { return "ns-" + strconv.Itoa(g.r.IntN(2)) }

// maybeNode is a node, or none.
func (g *generator) maybeNode() string {
	if g.chance(30) {
		return ""
	}
	return g.node()
}

func (g *generator) uid() string {
	if g.noUIDs {
		return ""
	}
	g.uids++
	switch k := g.r.IntN(8); {
	case k == 0:
		return "uid-" + strconv.Itoa(g.uids)
	case k == 1 && !g.lawful:
		return fmt.Sprintf("ABCDEF00-0000-4000-8000-%012X", g.uids%4) // these do come again, also in lower case
	case k == 2 && !g.lawful:
		return fmt.Sprintf("abcdef00-0000-4000-8000-%012x", g.uids%4)
	}
	return fmt.Sprintf("a1b2c3d4-0000-4000-8000-%012x", g.uids)
}

func (g *generator) step() Step {
	switch k := g.r.IntN(100); {
	case k < 62:
		return g.podStep()
	case k < 80:
		return g.volumeStep()
	case k < 87:
		return g.onNodeStep(g.attachments, "", "va-", func(o *OnNode, op Op) Step { return Step{Op: op, Attachment: o} })
	case k < 94:
		return g.onNodeStep(g.slices, "", "slice-", func(o *OnNode, op Op) Step { return Step{Op: op, Slice: o} })
	}
	return g.onNodeStep(g.requests, g.namespace(), "pcr-", func(o *OnNode, op Op) Step { return Step{Op: op, PodRequest: o} })
}

func (g *generator) removal() Op {
	if g.chance(30) {
		return OpTombstone
	}
	return OpDelete
}

func (g *generator) onNodeStep(have map[string]*OnNode, ns, prefix string, step func(*OnNode, Op) Step) Step {
	name := g.pick(prefix)
	key := ns + "/" + name
	old := have[key]
	if old != nil && g.chance(30) {
		delete(have, key)
		return step(old, g.removal())
	}
	o := &OnNode{Namespace: ns, Name: name, Node: g.maybeNode()}
	if prefix == "pcr-" && o.Node == "" {
		o.Node = g.node()
	}
	if old != nil && g.chance(80) {
		o.UID = old.UID
		if g.lawful || prefix != "va-" {
			o.Node = old.Node // the API does not let it change, though the reference would see it in an attachment
		}
	} else {
		o.UID = g.onNodeUID()
	}
	have[key] = o
	return step(o, OpSet)
}

// onNodeUID is never empty: without it nothing tells a replaced slice from the old one.
func (g *generator) onNodeUID() string {
	g.uids++
	return "b1b2c3d4-0000-4000-8000-" + strconv.Itoa(100000000000+g.uids)
}
