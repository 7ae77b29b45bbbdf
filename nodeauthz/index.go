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

const firstSlots = 1024

func newIndex() index {
	return index{seed: maphash.MakeSeed(), check: maphash.MakeSeed(), slots: make([]slot, firstSlots)}
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
	x := &g.index
	for i := x.start(tag); ; i = x.after(i) {
		s := x.slots[i]
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

// start is the slot at which the search for a tag begins.
func (x *index) start(tag uint32) int { return int(uint64(tag) * uint64(len(x.slots)) >> 32) }

// after is the slot next to another, round the end.
func (x *index) after(i int) int {
	if i++; i < len(x.slots) {
		return i
	}
	return 0
}

// grow makes room for a quarter more, or with many dead slots only order. Twice the room would often be half of it empty.
func (x *index) grow() {
	old := x.slots
	x.slots, x.dead = make([]slot, max(firstSlots, x.used*5/3)), 0
	for _, s := range old {
		if s.id != 0 && s.id != deadSlot {
			x.put(s)
		}
	}
}

func (x *index) put(s slot) {
	i := x.start(s.tag)
	for x.slots[i].id != 0 {
		i = x.after(i)
	}
	x.slots[i] = s
}

func (x *index) remove(tag uint32, id vertexID) {
	for i := x.start(tag); x.slots[i].id != 0; i = x.after(i) {
		if x.slots[i].id == id {
			x.slots[i] = slot{id: deadSlot}
			x.used--
			x.dead++
			return
		}
	}
}
