package nodeauthz

import (
	"hash/maphash"
	"math/bits"
)

// latest finds the newest tenure that leads from a vertex to a node. It has the vertices with many tenures only: what the vertex itself holds of them is
// spread over memory, and this is one cache line. It is a hash table with open addressing and linear probing.
type latest struct {
	slots []latestSlot // a power of two
	used  int
	mix   uint64 // random and odd, so that nobody can choose vertices and nodes that meet
}

type latestSlot struct {
	vertex vertexID // 0: not used
	node   nodeID
	tenure tenureID
}

func newLatest() latest {
	return latest{slots: make([]latestSlot, 64), mix: maphash.String(maphash.MakeSeed(), "") | 1}
}

// start is where the search for a pair begins.
func (l *latest) start(v vertexID, node nodeID) uint32 {
	hi, lo := bits.Mul64(uint64(v)<<32|uint64(node), l.mix)
	return uint32(hi ^ lo)
}

// slot returns the slot of the pair, or the free one where it belongs.
func (l *latest) slot(v vertexID, node nodeID) uint32 {
	mask := uint32(len(l.slots) - 1)
	for i := l.start(v, node) & mask; ; i = (i + 1) & mask {
		if s := &l.slots[i]; s.vertex == 0 || s.vertex == v && s.node == node {
			return i
		}
	}
}

// of returns 0 where no tenure leads from the vertex to the node.
func (l *latest) of(v vertexID, node nodeID) tenureID { return l.slots[l.slot(v, node)].tenure }

func (l *latest) set(v vertexID, node nodeID, id tenureID) {
	i := l.slot(v, node)
	if l.slots[i].vertex == 0 {
		if (l.used+1)*4 > len(l.slots)*3 {
			l.grow()
			i = l.slot(v, node)
		}
		l.used++
	}
	l.slots[i] = latestSlot{vertex: v, node: node, tenure: id}
}

func (l *latest) grow() {
	old := l.slots
	l.slots = make([]latestSlot, 2*len(old))
	for _, s := range old {
		if s.vertex != 0 {
			l.slots[l.slot(s.vertex, s.node)] = s
		}
	}
}

// remove forgets a pair, and moves those behind it that no search would reach any more.
func (l *latest) remove(v vertexID, node nodeID) {
	mask := uint32(len(l.slots) - 1)
	free := l.slot(v, node)
	if l.slots[free].vertex == 0 {
		return
	}
	l.used--
	for i := (free + 1) & mask; l.slots[i].vertex != 0; i = (i + 1) & mask {
		s := l.slots[i]
		if start := l.start(s.vertex, s.node); (i-start)&mask >= (i-free)&mask {
			l.slots[free] = s
			free = i
		}
	}
	l.slots[free] = latestSlot{}
}
