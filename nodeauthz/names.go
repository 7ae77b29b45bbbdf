package nodeauthz

import (
	"encoding/binary"
	"strings"
)

// nameID is the number of a name in a nameStore; 0 is none.
type nameID uint32

const (
	nameUnit  = 4       // bytes; a name begins at a multiple
	nameChunk = 1 << 16 // bytes that are taken from the heap at once
	// longName stands for a length that does not fit a byte: then the number of the name in the map long follows. Kubernetes has no such names.
	longName = 255
	// maxNameUnits are those of the longest name that is not long, with the byte of its length before it.
	maxNameUnits = (longName + nameUnit - 1) / nameUnit
)

// nameStore keeps the names of vertices without a pointer and a length for each, and without what the heap would round up. One that is released makes
// room for others of about its length.
type nameStore struct {
	chunks [][]byte
	free   [maxNameUnits + 1]nameID // by units; the bytes of each hold the next
	end    nameID                   // of what was given out
	long   map[uint32]string
	longs  uint32 // names ever put into long
}

func newNames() nameStore {
	return nameStore{chunks: [][]byte{make([]byte, nameChunk)}, end: 1, long: map[uint32]string{}}
}

// put keeps a copy of the name.
func (a *nameStore) put(name string) nameID {
	if len(name) >= longName {
		a.longs++
		a.long[a.longs] = strings.Clone(name)
		id := a.alloc(unitsOf(4))
		b := a.at(id)
		b[0] = longName
		binary.LittleEndian.PutUint32(b[1:], a.longs)
		return id
	}
	id := a.alloc(unitsOf(len(name)))
	b := a.at(id)
	b[0] = byte(len(name))
	copy(b[1:], name)
	return id
}

// text returns a copy of the name.
func (a *nameStore) text(id nameID) string {
	b := a.at(id)
	if b[0] == longName {
		return a.long[binary.LittleEndian.Uint32(b[1:])]
	}
	return string(b[1 : 1+b[0]])
}

// release forgets the name.
func (a *nameStore) release(id nameID) {
	b := a.at(id)
	n := int(b[0])
	if n == longName {
		delete(a.long, binary.LittleEndian.Uint32(b[1:]))
		n = 4
	}
	units := unitsOf(n)
	binary.LittleEndian.PutUint32(b, uint32(a.free[units]))
	a.free[units] = id
}

// unitsOf is how many units a name of so many bytes takes, with its length.
func unitsOf(n int) int { return n/nameUnit + 1 }

func (a *nameStore) at(id nameID) []byte {
	const units = nameChunk / nameUnit
	return a.chunks[id/units][id%units*nameUnit:]
}

func (a *nameStore) alloc(units int) nameID {
	if id := a.free[units]; id != 0 {
		a.free[units] = nameID(binary.LittleEndian.Uint32(a.at(id)))
		return id
	}
	const all = nameChunk / nameUnit
	if a.end%all == 0 || a.end%all+nameID(units) > all {
		a.end = nameID(len(a.chunks) * all)
		a.chunks = append(a.chunks, make([]byte, nameChunk))
	}
	id := a.end
	a.end += nameID(units)
	return id
}
