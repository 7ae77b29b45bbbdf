package nodeauthz

import "hash/maphash"

// index finds vertices by kind, namespace and name. It holds 32 bits of one hash next to each vertex's number, and the vertex itself 64
// bits of another one: a decision then touches one cache line here and one there, and never the name. That two objects agree in both,
// with seeds that nobody knows, does not happen.
type index struct {
	seed, check maphash.Seed
	slots       []slot
	used, dead  int
}

type slot struct {
	tag uint32
	id  vertexID
}

// deadSlot marks a slot whose vertex is gone: a search continues behind it.
const deadSlot = ^vertexID(0)

func newIndex() index {
	return index{seed: maphash.MakeSeed(), check: maphash.MakeSeed(), slots: make([]slot, 1024)}
}

func (x *index) hash(kind Kind, ns namespaceID, name string) (tag uint32, check uint64) {
	const mix = 0x9e3779b97f4a7c15
	where := (uint64(ns)<<8 | uint64(kind)) * mix
	return uint32((maphash.String(x.seed, name) + where) >> 32), maphash.String(x.check, name) ^ where
}

// find returns 0 where there is no such vertex.
func (g *Graph) find(kind Kind, ns namespaceID, name string) vertexID {
	tag, check := g.index.hash(kind, ns, name)
	return g.findHash(tag, check)
}

func (g *Graph) findHash(tag uint32, check uint64) vertexID {
	slots := g.index.slots
	mask := uint32(len(slots) - 1)
	for i := tag & mask; ; i = (i + 1) & mask {
		s := slots[i]
		if s.id == 0 {
			return 0
		}
		if s.tag == tag && s.id != deadSlot && g.vertex(s.id).check == check {
			return s.id
		}
	}
}

func (x *index) add(tag uint32, id vertexID) {
	if (x.used+x.dead+1)*4 > len(x.slots)*3 {
		x.grow()
	}
	x.put(slot{tag: tag, id: id})
	x.used++
}

// grow makes room, or with many dead slots only order.
func (x *index) grow() {
	old, n := x.slots, len(x.slots)
	if x.used*2 > n {
		n *= 2
	}
	x.slots, x.dead = make([]slot, n), 0
	for _, s := range old {
		if s.id != 0 && s.id != deadSlot {
			x.put(s)
		}
	}
}

func (x *index) put(s slot) {
	mask := uint32(len(x.slots) - 1)
	i := s.tag & mask
	for x.slots[i].id != 0 {
		i = (i + 1) & mask
	}
	x.slots[i] = s
}

func (x *index) remove(tag uint32, id vertexID) {
	mask := uint32(len(x.slots) - 1)
	for i := tag & mask; x.slots[i].id != 0; i = (i + 1) & mask {
		if x.slots[i].id == id {
			x.slots[i] = slot{id: deadSlot}
			x.used--
			x.dead++
			return
		}
	}
}
