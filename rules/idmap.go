package rules

import "math/rand/v2"

// idMap has a value for each of the hashes of objects. It is a table with open addressing, which takes a third of a map's time to fill and to go through.
type idMap[V any] struct {
	ids    []uint64 // a power of two long, at most half full; 0 is a free place
	values []V      // in the same places
	len    int
	mix    uint64 // odd, and nobody's to know: what has the same place is not for a client to choose
}

// idSet is a set of objects' hashes.
type idSet = idMap[struct{}]

// newIDMap returns a map with room for so many at first.
func newIDMap[V any](room int) *idMap[V] {
	size := 64
	for size < 2*room {
		size *= 2
	}
	return &idMap[V]{ids: make([]uint64, size), values: make([]V, size), mix: rand.Uint64() | 1}
}

// place is where the id is, or would be. That of 0, which is as likely as any other, is taken for 1.
func (m *idMap[V]) place(id uint64) int {
	id = max(id, 1)
	mask := len(m.ids) - 1
	at := int(id*m.mix>>32) & mask
	for m.ids[at] != 0 && m.ids[at] != id {
		at = (at + 1) & mask
	}
	return at
}

func (m *idMap[V]) has(id uint64) bool { return m.ids[m.place(id)] != 0 }

// get returns the value, or that of nothing.
func (m *idMap[V]) get(id uint64) V { return m.values[m.place(id)] }

// add puts an id in, or gives it another value.
func (m *idMap[V]) add(id uint64, value V) {
	at := m.place(id)
	m.values[at] = value
	if m.ids[at] != 0 {
		return
	}
	m.ids[at] = max(id, 1)
	if m.len++; 2*m.len <= len(m.ids) {
		return
	}
	ids, values := m.ids, m.values
	m.ids, m.values = make([]uint64, 2*len(ids)), make([]V, 2*len(ids))
	for i, id := range ids {
		if id != 0 {
			at := m.place(id)
			m.ids[at], m.values[at] = id, values[i]
		}
	}
}

// all yields the ids with their values, in no order.
func (m *idMap[V]) all(yield func(uint64, V) bool) {
	for i, id := range m.ids {
		if id != 0 && !yield(id, m.values[i]) {
			return
		}
	}
}

func (m *idMap[V]) clear() {
	clear(m.ids)
	clear(m.values)
	m.len = 0
}
