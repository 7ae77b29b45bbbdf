package rules

import "encoding/binary"

// heldStep holds the observations of a [DetectStep], in the order in which they came. They are bytes, and what many of them have in common is there once: of
// hundreds of thousands the garbage collector has to follow little.
type heldStep struct {
	start  int64 // nanoseconds since 1970
	who    shares[*observedWho]
	what   shares[*observedWhat]
	chunks [][]byte
	n      int
	bytes  int64 // about what it takes
}

// The least and the largest size of a chunk, in bytes, but for an observation that is larger.
const (
	leastChunk   = 1 << 10
	largestChunk = 64 << 10
)

func newHeldStep(step int64) *heldStep { return &heldStep{start: stepTime(step).UnixNano()} }

// add appends an observation and copies what it holds.
func (h *heldStep) add(o *observation) {
	need := 4*binary.MaxVarintLen64 + len(o.rest)
	last := len(h.chunks) - 1
	if last < 0 || cap(h.chunks[last])-len(h.chunks[last]) < need {
		size := max(int(min(max(h.bytes, leastChunk), largestChunk)), need)
		h.chunks, h.bytes = append(h.chunks, make([]byte, 0, size)), h.bytes+int64(size)
		last++
	}
	h.n++
	who, newWho := h.who.at(o.who)
	what, newWhat := h.what.at(o.what)
	if newWho || newWhat {
		h.bytes += shareBytes
	}
	b := binary.AppendUvarint(h.chunks[last], who)
	b = binary.AppendUvarint(b, what)
	b = binary.AppendVarint(b, o.at-h.start)
	h.chunks[last] = append(binary.AppendUvarint(b, uint64(len(o.rest))), o.rest...)
}

// observations returns them. Their rests belong to the step.
func (h *heldStep) observations() []observation {
	all := make([]observation, 0, h.n)
	for _, b := range h.chunks {
		for c := (cursor{b: b}); len(c.b) > 0; {
			o := observation{who: h.who.all[c.uvarint()], what: h.what.all[c.uvarint()], at: h.start + c.varint()}
			o.rest = c.bytes()
			all = append(all, o)
		}
	}
	return all
}

// shareBytes is about what something that is shared takes in shares.
const shareBytes = 64

// shares numbers what many observations share.
type shares[T comparable] struct {
	all    []T
	number map[T]uint64
}

// at returns the number, and whether it is new.
func (s *shares[T]) at(one T) (n uint64, isNew bool) {
	if n, is := s.number[one]; is {
		return n, false
	}
	if s.number == nil {
		s.number = map[T]uint64{}
	}
	n = uint64(len(s.all))
	s.all = append(s.all, one)
	s.number[one] = n
	return n, true
}
