package rules

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// heldStep holds the observations of a [DetectStep], in the order in which they came. They are bytes, compressed, and what many of them have in common is
// there once: of hundreds of thousands the garbage collector has to follow little.
type heldStep struct {
	serial uint64
	start  int64 // nanoseconds since 1970
	who    shares[*observedWho]
	what   shares[*observedWhat]
	packer *packer
	chunks [][]byte // but for the last; those of largestChunk and more are compressed
	packed int      // from which chunk on they are
	open   []byte   // the last chunk
	n      int
	bytes  int64 // about what it takes
}

// The least and the largest size of a chunk, in bytes, but for an observation that is larger.
const (
	leastChunk   = 1 << 10
	largestChunk = 64 << 10
)

func newHeldStep(step int64, p *packer) *heldStep {
	p.steps++
	return &heldStep{serial: p.steps, start: stepTime(step).UnixNano(), packer: p}
}

// add appends an observation and copies what it holds.
func (h *heldStep) add(o *observation) {
	need := 4*binary.MaxVarintLen64 + len(o.rest)
	if cap(h.open)-len(h.open) < need {
		h.next(need)
	}
	h.n++
	who, what := h.who.at(o.who, &o.who.held, h), h.what.at(o.what, &o.what.held, h)
	b := binary.AppendUvarint(h.open, who)
	b = binary.AppendUvarint(b, what)
	b = binary.AppendVarint(b, o.at-h.start)
	h.open = append(binary.AppendUvarint(b, uint64(len(o.rest))), o.rest...)
}

// next makes room for so many bytes. A chunk is as large as all before it, so that a step of few observations takes little. Small ones are not worth compressing:
// the encoder begins each with tables that are as large as several.
func (h *heldStep) next(need int) {
	size := max(min(2*cap(h.open), largestChunk), leastChunk, need)
	switch n := cap(h.open); {
	case n == 0:
	case n < largestChunk: // and so are all before it
		h.chunks, h.open = append(h.chunks, h.open), nil
		h.packed++
	default:
		one := h.packer.pack(h.open)
		h.chunks, h.bytes = append(h.chunks, one), h.bytes+int64(len(one))
	}
	if size != cap(h.open) {
		h.bytes += int64(size - cap(h.open))
		h.open = make([]byte, 0, size)
	}
	h.open = h.open[:0]
}

// observations returns them. Their rests belong to the step.
func (h *heldStep) observations() []observation {
	all := make([]observation, 0, h.n)
	read := func(b []byte) {
		for c := (cursor{b: b}); len(c.b) > 0; {
			o := observation{who: h.who.all[c.uvarint()], what: h.what.all[c.uvarint()], at: h.start + c.varint()}
			o.rest = c.bytes()
			all = append(all, o)
		}
	}
	for i, b := range h.chunks {
		if i >= h.packed {
			b = h.packer.unpack(b)
		}
		read(b)
	}
	read(h.open)
	return all
}

// packer compresses chunks. Not safe for concurrent use.
type packer struct {
	enc   *zstd.Encoder
	dec   *zstd.Decoder
	buf   []byte
	steps uint64 // how many were begun with it
}

func newPacker() *packer {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(largestChunk),
		zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(fmt.Sprintf("rules: %v", err)) // its options are constants
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic(fmt.Sprintf("rules: %v", err))
	}
	return &packer{enc: enc, dec: dec}
}

// pack returns a compressed copy.
func (p *packer) pack(b []byte) []byte {
	p.buf = p.enc.EncodeAll(b, p.buf[:0])
	return append(make([]byte, 0, len(p.buf)), p.buf...) // without room to grow
}

// unpack returns what was packed, in memory of its own.
func (p *packer) unpack(b []byte) []byte {
	out, err := p.dec.DecodeAll(b, nil)
	if err != nil {
		panic(fmt.Sprintf("rules: held observations cannot be read: %v", err)) // nobody else wrote them
	}
	return out
}

// shareBytes is about what something that is shared takes in shares.
const shareBytes = 64

// shares numbers what many observations share.
type shares[T comparable] struct {
	all    []T
	number map[T]uint64
}

// numbered is the number that something shared has in the step that it was of last.
type numbered struct{ serial, n uint64 }

// at returns the number.
func (s *shares[T]) at(one T, last *numbered, h *heldStep) uint64 {
	if last.serial == h.serial {
		return last.n
	}
	n, is := s.number[one]
	if !is {
		if s.number == nil {
			s.number = map[T]uint64{}
		}
		n = uint64(len(s.all))
		s.all = append(s.all, one)
		s.number[one] = n
		h.bytes += shareBytes
	}
	*last = numbered{h.serial, n}
	return n
}
