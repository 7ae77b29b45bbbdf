package arena

import (
	"encoding/binary"
	"strings"
)

// Text is the number of a text in a Texts; 0 is none.
type Text uint32

const (
	textUnit  = 4       // bytes; a text begins at a multiple
	textChunk = 1 << 16 // bytes that are taken from the heap at once
	// long stands for a length that does not fit a byte: then the number of the text in a map follows. Kubernetes has no names that are so long.
	long = 255
	// maxUnits are those of the longest text that is not long, with the byte of its length before it.
	maxUnits = (long + textUnit - 1) / textUnit
)

// Texts keeps short texts without a pointer and a length for each, and without what the heap would round up. One that is released makes
// room for others of about its length.
type Texts struct {
	chunks   [][]byte
	free     [maxUnits + 1]Text // by units; the bytes of each hold the next
	end      Text               // of what was given out
	byNumber map[uint32]string  // those that are long
	longs    uint32             // that ever were
}

// NewTexts returns an empty one.
func NewTexts() Texts {
	return Texts{chunks: [][]byte{make([]byte, textChunk)}, end: 1, byNumber: map[uint32]string{}}
}

// Put keeps a copy of a text and returns its number, which is not 0.
func (a *Texts) Put(text string) Text {
	if len(text) >= long {
		a.longs++
		a.byNumber[a.longs] = strings.Clone(text)
		id := a.alloc(unitsOf(4))
		b := a.at(id)
		b[0] = long
		binary.LittleEndian.PutUint32(b[1:], a.longs)
		return id
	}
	id := a.alloc(unitsOf(len(text)))
	b := a.at(id)
	b[0] = byte(len(text))
	copy(b[1:], text)
	return id
}

// Get returns a copy of a text.
func (a *Texts) Get(id Text) string {
	b := a.at(id)
	if b[0] == long {
		return a.byNumber[binary.LittleEndian.Uint32(b[1:])]
	}
	return string(b[1 : 1+b[0]])
}

// Release forgets a text.
func (a *Texts) Release(id Text) {
	b := a.at(id)
	n := int(b[0])
	if n == long {
		delete(a.byNumber, binary.LittleEndian.Uint32(b[1:]))
		n = 4
	}
	units := unitsOf(n)
	binary.LittleEndian.PutUint32(b, uint32(a.free[units]))
	a.free[units] = id
}

// unitsOf is how many units a text of so many bytes takes, with its length.
func unitsOf(n int) int { return n/textUnit + 1 }

func (a *Texts) at(id Text) []byte {
	const units = textChunk / textUnit
	return a.chunks[id/units][id%units*textUnit:]
}

func (a *Texts) alloc(units int) Text {
	if id := a.free[units]; id != 0 {
		a.free[units] = Text(binary.LittleEndian.Uint32(a.at(id)))
		return id
	}
	const all = textChunk / textUnit
	if a.end%all == 0 || a.end%all+Text(units) > all {
		a.end = Text(len(a.chunks) * all)
		a.chunks = append(a.chunks, make([]byte, textChunk))
	}
	id := a.end
	a.end += Text(units)
	return id
}
