package nodeauthz

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// graphScript feeds a graph from bytes: each step is an operation on few names at few times, in any order and by any source.
type graphScript struct {
	data []byte
	pos  int
}

// randomScript is a script of so many bytes.
func randomScript(r *rand.Rand, size int) *graphScript {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(r.IntN(256))
	}
	return &graphScript{data: data}
}

func (s *graphScript) more() bool { return s.pos < len(s.data) }

func (s *graphScript) next(n int) int {
	if s.pos >= len(s.data) {
		return 0
	}
	b := s.data[s.pos]
	s.pos++
	return int(b) % n
}

func (s *graphScript) stamp() Stamp {
	out := Stamp{Time: at(s.next(40) * 10), Slop: time.Duration(s.next(4)) * 7 * time.Millisecond, Source: Source(s.next(3))}
	if out.Source == SourceAudit {
		out.Lag = time.Duration(s.next(3)) * time.Second
	}
	return out
}

func (s *graphScript) name(prefix string, n int) string {
	return fmt.Sprintf("%s-%d", prefix, s.next(n))
}

func (s *graphScript) uid() string {
	switch k := s.next(5); k {
	case 0:
		return ""
	case 1:
		return "not-a-uuid"
	default:
		return fmt.Sprintf("00000000-0000-4000-8000-00000000000%d", k)
	}
}

func (s *graphScript) pod() *Pod {
	p := &Pod{Namespace: s.name("ns", 2), Name: s.name("pod", 3), UID: s.uid(), Mirror: s.next(8) == 0, EphemeralContainers: s.next(3)}
	if s.next(4) > 0 {
		p.NodeName = s.name("node", 3)
	}
	if s.next(3) == 0 {
		p.Bound = s.stamp()
	}
	for range s.next(3) {
		p.Secrets = append(p.Secrets, s.name("secret", 4))
	}
	for range s.next(2) {
		p.PersistentVolumeClaims = append(p.PersistentVolumeClaims, s.name("claim", 2))
		p.ConfigMaps = append(p.ConfigMaps, s.name("cm", 2))
	}
	if s.next(3) == 0 {
		p.ClaimStatuses = s.name("sig", 3)
		p.ResourceClaims = []string{s.name("rc", 2)}
	}
	return p
}

func (s *graphScript) volume() *PersistentVolume {
	v := &PersistentVolume{Name: s.name("pv", 2), UID: s.uid()}
	if s.next(4) > 0 {
		v.Claim = &NamespacedName{s.name("ns", 2), s.name("claim", 2)}
	}
	for range s.next(3) {
		v.Secrets = append(v.Secrets, NamespacedName{s.name("ns", 2), s.name("secret", 4)})
	}
	return v
}

// play applies the script to both graphs, and at the end prunes the first: an event that came after that about a life that was
// forgotten could not be put in its place.
func (s *graphScript) play(pruned, whole *Graph) (horizon time.Time) {
	horizon = at(-1000)
	for steps := 0; s.more() && steps < 200; steps++ {
		op, begin := s.next(12), s.pos
		for _, g := range []*Graph{pruned, whole} {
			s.pos = begin
			s.step(g, op)
		}
		if h := at(s.next(40) * 10); op == 11 && h.After(horizon) {
			horizon = h
		}
	}
	pruned.Prune(horizon)
	return horizon
}

func (s *graphScript) step(g *Graph, op int) {
	switch op {
	case 0, 1, 2:
		p := s.pod()
		g.SetPod(p, s.stamp())
	case 3:
		g.DeletePod(s.name("ns", 2), s.name("pod", 3), s.uid(), s.stamp())
	case 4:
		g.BindPod(s.name("ns", 2), s.name("pod", 3), s.uid(), s.name("node", 3), s.stamp())
	case 5:
		g.RefineDeletion(s.name("ns", 2), s.name("pod", 3), s.stamp(), 100*time.Millisecond)
	case 6:
		v := s.volume()
		g.SetPersistentVolume(v, s.stamp())
	case 7:
		g.DeletePersistentVolume(s.name("pv", 2), s.uid(), s.stamp())
	case 8:
		g.SetVolumeAttachment(s.name("va", 2), s.uid(), s.name("node", 3), s.stamp())
	case 9:
		g.SetResourceSlice(s.name("slice", 2), s.uid(), s.name("node", 3), s.stamp())
	case 10:
		g.DeleteVolumeAttachment(s.name("va", 2), s.uid(), s.stamp())
	}
}

var probes = []struct{ resource, ns, name string }{
	{"secrets", "ns-0", "secret-0"}, {"secrets", "ns-1", "secret-1"}, {"secrets", "ns-0", "secret-2"}, {"configmaps", "ns-0", "cm-0"},
	{"pods", "ns-0", "pod-0"}, {"pods", "ns-1", "pod-1"}, {"persistentvolumeclaims", "ns-0", "claim-0"}, {"persistentvolumes", "", "pv-0"},
	{"persistentvolumes", "", "pv-1"}, {"serviceaccounts", "ns-0", "none"},
}

// FuzzGraph feeds objects in any order: nothing panics, the structure stays sound, and what Prune forgets changes no answer for
// instants after its horizon.
func FuzzGraph(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x01\x02\x02\x01\x00\x03\x01\x02\x01\x01\x05\x02\x01\x06\x00\x00\x01\x01\x0b\x10"))
	for i := range 8 {
		seed := make([]byte, 300)
		for j := range seed {
			seed[j] = byte((j*7919 + i*104729) >> (i % 5))
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		pruned, whole := NewGraph(), NewGraph()
		pruned.CoverFrom(at(0))
		whole.CoverFrom(at(0))
		s := &graphScript{data: data}
		horizon := s.play(pruned, whole)
		checkSound(t, pruned)
		checkSound(t, whole)
		const skew = 15 * time.Millisecond
		a, b := authorizerOver(t, pruned, skew), authorizerOver(t, whole, skew)
		for ms := -20; ms < 430; ms += 7 {
			now := at(ms)
			if now.Add(-skew).Before(horizon) {
				continue
			}
			for _, p := range probes {
				for _, node := range []string{"node-0", "node-1"} {
					r := request(node, "get", p.resource, p.ns, p.name)
					if x, y := a.Decide(r, now), b.Decide(r, now); x != y {
						t.Fatalf("%s %s/%s by %s at %dms: %+v pruned before %s, %+v whole", p.resource, p.ns, p.name, node, ms, x, horizon, y)
					}
				}
			}
		}
		for _, p := range probes {
			ex := b.Explain(request("node-0", "get", p.resource, p.ns, p.name), at(200))
			_ = ex.Detail
		}
	})
}

// checkSound verifies that what refers to what is so in both directions.
func checkSound(t *testing.T, g *Graph) {
	t.Helper()
	refs := 0
	g.index.all(func(id vertexID) {
		v := g.vertex(id)
		if v.kind == KindNone || g.find(v.kind, v.namespace, g.names.Get(v.name)) != id {
			t.Fatalf("vertex %d is in the index and was released", id)
		}
		g.eachTenure(id, func(tid tenureID) bool {
			refs++
			r := g.tenure(tid)
			if !r.used {
				t.Fatalf("%s leads to a tenure that was released", g.step(id))
			}
			if r.vertex != id && !contains(g.targetsOf(r), id) && !r.hasExtra(id) {
				t.Fatalf("%s leads to a tenure that does not know it", g.step(id))
			}
			return true
		})
		for _, vid := range g.volumesOf(id) {
			if !g.volume(vid).used {
				t.Fatalf("%s leads to a volume that was released", g.step(id))
			}
		}
	})
	want, pins := 0, 0
	for i := uint32(1); i < g.tenures.Len(); i++ {
		r := g.tenures.At(i)
		if !r.used {
			continue
		}
		want++ // its own vertex
		distinct := map[vertexID]bool{}
		for _, v := range g.targetsOf(r) {
			distinct[v] = true
		}
		for _, e := range r.extras() {
			distinct[e.vertex] = true
		}
		want += len(distinct)
	}
	for i := uint32(1); i < g.volumes.Len(); i++ {
		if v := g.volumes.At(i); v.used {
			pins++
			if g.vertex(v.claim).kind != KindPersistentVolumeClaim {
				t.Fatalf("the claim of volume %s was released", g.step(v.vertex))
			}
		}
	}
	total := 0
	for i := uint32(1); i < g.tails.Len(); i++ {
		total += int(g.tails.At(i).pins)
	}
	if refs != want || total != pins {
		t.Fatalf("%d references to tenures where %d are due, %d pins where %d are", refs, want, total, pins)
	}
}

func contains(list []vertexID, v vertexID) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// all calls f with every vertex.
func (x *index) all(f func(vertexID)) {
	for _, s := range x.slots {
		if s.id != 0 && s.id != deadSlot {
			f(s.id)
		}
	}
}
