package rules

import "math/rand/v2"

// idSet is a set of objects' hashes. It is a table with open addressing, which takes a third of a map's time to fill and to go through.
type idSet struct {
	table []uint64 // a power of two long, at most half full; 0 is a free place
	len   int
	mix   uint64 // odd, and nobody's to know: what has the same place is not for a client to choose
}

// newIDSet returns a set with room for so many at first.
func newIDSet(room int) *idSet {
	size := 64
	for size < 2*room {
		size *= 2
	}
	return &idSet{table: make([]uint64, size), mix: rand.Uint64() | 1}
}

// place is where the id is, or would be.
func (s *idSet) place(id uint64) int {
	mask := len(s.table) - 1
	at := int(id*s.mix>>32) & mask
	for s.table[at] != 0 && s.table[at] != id {
		at = (at + 1) & mask
	}
	return at
}

func (s *idSet) has(id uint64) bool { return s.table[s.place(max(id, 1))] != 0 }

// add puts an id in. That of 0, which is as likely as any other, is taken for 1.
func (s *idSet) add(id uint64) {
	id = max(id, 1)
	at := s.place(id)
	if s.table[at] != 0 {
		return
	}
	s.table[at] = id
	if s.len++; 2*s.len > len(s.table) {
		was := s.table
		s.table = make([]uint64, 2*len(was))
		for _, id := range was {
			if id != 0 {
				s.table[s.place(id)] = id
			}
		}
	}
}

// all yields the ids in no order.
func (s *idSet) all(yield func(uint64) bool) {
	for _, id := range s.table {
		if id != 0 && !yield(id) {
			return
		}
	}
}

func (s *idSet) clear() {
	clear(s.table)
	s.len = 0
}
