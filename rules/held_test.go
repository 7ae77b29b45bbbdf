package rules

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// What is held comes out as it was, in its order, whatever was done with the memory from which it was taken in.
func TestHeldStep(t *testing.T) {
	r, packer := rand.New(rand.NewPCG(11, 26)), newPacker()
	for range 200 {
		who, what := make([]*observedWho, 1+r.IntN(300)), make([]*observedWhat, 1+r.IntN(9))
		for i := range who {
			who[i] = &observedWho{}
		}
		for i := range what {
			what[i] = &observedWhat{}
		}
		step := r.Int64N(1<<40) - 1<<39
		h, buf := newHeldStep(step, packer), []byte(nil)
		var want []observation
		for range r.IntN(2000) {
			n := r.IntN(100)
			if r.IntN(500) == 0 {
				n = r.IntN(3 * largestChunk)
			}
			buf = slices.Grow(buf[:0], n)[:n]
			for i := range buf {
				buf[i] = byte(r.Uint32())
			}
			o := observation{at: stepTime(step).UnixNano() + r.Int64N(int64(DetectStep)), who: who[r.IntN(len(who))], what: what[r.IntN(len(what))], rest: buf}
			h.add(&o)
			o.rest = slices.Clone(buf)
			want = append(want, o)
		}
		got := h.observations()
		if len(got) != h.n {
			t.Fatalf("%d of %d", len(got), h.n)
		}
		if !slices.EqualFunc(want, got, func(a, b observation) bool {
			return a.at == b.at && a.who == b.who && a.what == b.what && bytes.Equal(a.rest, b.rest)
		}) {
			t.Fatalf("what is held is not what was taken in, of %d", len(want))
		}
	}
}

// What many requests have in common is held once, and the rest compressed: of a request that denies, little more than its audit ID, which is random.
func TestHeldMemory(t *testing.T) {
	h, who, what := newHeldStep(stepOf(time.Now()), newPacker()), &observedWho{}, &observedWhat{}
	r := rand.New(rand.NewPCG(11, 27))
	rest := bytes.Repeat([]byte("namespace/object"), 5)
	const n = 100_000
	for range n {
		binary.LittleEndian.PutUint64(rest, r.Uint64())
		binary.LittleEndian.PutUint64(rest[8:], r.Uint64())
		h.add(&observation{at: h.start + r.Int64N(int64(DetectStep)), who: who, what: what, rest: rest})
	}
	held := int64(cap(h.open))
	for _, b := range h.chunks {
		held += int64(cap(b))
	}
	if held > 35*n || h.bytes < held || h.bytes > held+1000 || len(h.who.all) != 1 {
		t.Errorf("%d bytes are held, counted as %d, for %d users", held, h.bytes, len(h.who.all))
	}
}
