package webhook

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/nodetrail/nodetrail/pipeline/source"
)

// budget bounds the memory of everything in flight. One request at a time may overdraw it: without that, requests that each hold a part
// of it could keep each other from ever getting the rest.
type budget struct {
	max  int64
	used atomic.Int64
	// express is held by the request that may overdraw.
	express atomic.Bool
}

// reserve takes n bytes, if there are so many.
func (b *budget) reserve(n int64) bool {
	if b.used.Add(n) > b.max {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) giveBack(n int64) { b.used.Add(-n) }

// claim is what one request takes of the budget, for as long as anything of it is held.
type claim struct {
	budget  *budget
	express bool // written by the request's goroutine only
	bodies  atomic.Int32
}

func (c *claim) reserve(n int64) bool {
	if c.budget.reserve(n) {
		return true
	}
	if !c.express && !c.budget.express.CompareAndSwap(false, true) {
		return false
	}
	c.express = true
	c.budget.used.Add(n)
	return true
}

// drop ends the claim with its last body.
func (c *claim) drop() {
	if c.bodies.Add(-1) == 0 && c.express {
		c.budget.express.Store(false)
	}
}

const (
	// minBuffer is what a body begins with, maxKept the largest buffer that waits to be used again, and keptBuffers how many do.
	minBuffer   = 64 << 10
	maxKept     = 2 << 20
	keptBuffers = 16
)

// body is the bytes of a request, shared by those who hold it.
type body struct {
	s       *Server
	claim   *claim
	buf     []byte
	holders atomic.Int32
	done    bool // the request's goroutine does not hold it any more
}

var (
	errNoRoom  = errors.New("no room in the budget")
	errTooLong = errors.New("longer than its bound")
)

func (s *Server) newBody(c *claim) *body {
	b := &body{s: s, claim: c}
	b.holders.Store(1)
	c.bodies.Add(1)
	return b
}

func (b *body) hold() { b.holders.Add(1) }

// end drops the body for the request's own goroutine, once.
func (b *body) end() {
	if !b.done {
		b.done = true
		b.drop()
	}
}

// drop gives the memory back when the last holder drops the body.
func (b *body) drop() {
	if b.holders.Add(-1) > 0 {
		return
	}
	b.s.budget.giveBack(int64(cap(b.buf)))
	b.s.keep(b.buf)
	b.buf = nil
	b.claim.drop()
}

// keep puts a buffer where grow finds it. A free list rather than a pool: new memory has to be cleared.
func (s *Server) keep(buf []byte) {
	source.Overwrite(buf)
	if cap(buf) < minBuffer || cap(buf) > maxKept {
		return
	}
	select {
	case s.buffers <- buf[:0]:
	default:
	}
}

// grow makes room for at least one more byte, twice as much as there was, but not more than limit in all.
func (b *body) grow(hint, limit int64) error {
	if cap(b.buf) == 0 {
		select {
		case kept := <-b.s.buffers:
			if !b.claim.reserve(int64(cap(kept))) {
				b.s.keep(kept)
				return errNoRoom
			}
			b.buf = kept
			return nil
		default:
		}
	}
	// A length that is claimed is believed up to a point: the memory comes with the bytes.
	size := max(minBuffer, min(hint, limit, maxKept), min(2*int64(cap(b.buf)), max(limit, int64(cap(b.buf))+1)))
	if !b.claim.reserve(size) {
		return errNoRoom
	}
	larger := append(make([]byte, 0, size), b.buf...)
	b.s.budget.giveBack(int64(cap(b.buf)))
	b.s.keep(b.buf)
	b.buf = larger
	return nil
}

// fill reads r to its end. It returns errTooLong when there is more than limit, and then the body holds limit bytes; errNoRoom; or what r
// returned. hint is how long r may be, or less than 0.
func (b *body) fill(r io.Reader, hint, limit int64) error {
	for {
		if len(b.buf) == cap(b.buf) {
			// One byte more than is allowed, to see the end.
			if err := b.grow(hint+1, limit+1); err != nil {
				return err
			}
		}
		room := b.buf[len(b.buf):min(int64(cap(b.buf)), limit+1)]
		n, err := r.Read(room)
		b.buf = b.buf[:len(b.buf)+n]
		if int64(len(b.buf)) > limit {
			b.buf = b.buf[:limit]
			return errTooLong
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
