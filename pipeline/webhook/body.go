package webhook

import (
	"context"
	"errors"
	"io"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nodetrail/nodetrail/pipeline/source"
)

// budget bounds the memory of everything in flight. One request at a time may overdraw it: without that, requests that each hold a part
// of it could keep each other from ever getting the rest. Safe for concurrent use.
type budget struct {
	max int64
	// begin is up to how much of max a request may take that holds nothing: what is left is for those that have begun.
	begin int64
	// express is held by the request that may overdraw.
	express atomic.Bool

	mu    sync.Mutex
	spent int64
	queue []*turn // of requests that hold nothing yet, in the order in which they came
}

// turn is a request's place in the queue.
type turn struct {
	n     int64
	ready chan struct{}
}

// used is how many bytes are taken.
func (b *budget) used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent
}

// reserve takes n bytes, if there are so many.
func (b *budget) reserve(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spent+n > b.max {
		return false
	}
	b.spent += n
	return true
}

// overdraw takes n bytes whether they are there or not.
func (b *budget) overdraw(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent += n
}

// fits reports whether a request that holds nothing may take n bytes.
func (b *budget) fits(n int64) bool { return b.spent == 0 || b.spent+n <= b.begin }

// await takes n bytes for a request that holds nothing, when it is its turn and there are so many. It reports whether it did before ctx ended.
func (b *budget) await(ctx context.Context, n int64) bool {
	t := &turn{n: n, ready: make(chan struct{})}
	b.mu.Lock()
	b.queue = append(b.queue, t)
	b.next()
	b.mu.Unlock()
	select {
	case <-t.ready:
		return true
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.queue, t)
	if at < 0 {
		return true // at the same time
	}
	b.queue = slices.Delete(b.queue, at, at+1)
	b.next()
	return false
}

// giveBack gives n bytes back.
func (b *budget) giveBack(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent -= n
	b.next()
}

// next lets those have their turn who fit.
func (b *budget) next() {
	for len(b.queue) > 0 && b.fits(b.queue[0].n) {
		t := b.queue[0]
		b.queue = slices.Delete(b.queue, 0, 1)
		b.spent += t.n
		close(t.ready)
	}
}

// claim is what one request takes of the budget, for as long as anything of it is held.
type claim struct {
	budget  *budget
	express bool // written by the request's goroutine only
	bodies  atomic.Int32
	// ahead is what was taken before the first buffer.
	ahead int64
}

// await takes what the first buffer of a body will need, of so many bytes or less than 0, and waits for it for a while.
func (c *claim) await(ctx context.Context, hint, limit int64) bool {
	ctx, cancel := context.WithTimeout(ctx, roomWait)
	defer cancel()
	n := firstSize(hint, limit)
	if !c.budget.await(ctx, n) && !c.reserve(n) {
		return false
	}
	c.ahead = n
	return true
}

// settle takes n bytes, which are at least as many as were taken ahead, in place of those.
func (c *claim) settle(n int64) bool {
	ahead := c.ahead
	c.ahead = 0
	if c.reserve(n - ahead) {
		return true
	}
	c.budget.giveBack(ahead)
	return false
}

func (c *claim) reserve(n int64) bool {
	if c.budget.reserve(n) {
		return true
	}
	if !c.express && !c.budget.express.CompareAndSwap(false, true) {
		return false
	}
	c.express = true
	c.budget.overdraw(n)
	return true
}

// drop ends the claim with its last body.
func (c *claim) drop() {
	if c.bodies.Add(-1) == 0 && c.express {
		c.budget.express.Store(false)
	}
}

// roomWait is how long a request waits for memory before it is turned away: about as long as its sender is then asked to wait. API servers send in bursts, and
// what is acknowledged at once comes back at once.
const roomWait = retryAfter * time.Second

const (
	// minBuffer is what a body begins with, maxKept the largest buffer that waits to be used again.
	minBuffer = 64 << 10
	maxKept   = 2 << 20
)

// buffers are those that wait to be used again. Together with those in use they are within the budget, so that a load of any size takes the memory
// that its bound says: if they were left to the garbage collector, what was freed since its last round would come on top. Safe for concurrent use.
type buffers struct {
	mu   sync.Mutex
	idle [][]byte // the one that was used last at the end
	size int64
	// least is how many were idle all the time since trimmed.
	least   int
	trimmed time.Time
}

// idleFor is after how long buffers that were not needed are left to the garbage collector: after an overload, nearly all of them.
const idleFor = 10 * time.Second

// take returns a buffer of at least so many bytes and at most twice as many, nil if there is none.
func (f *buffers) take(size int64) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, buf := range slices.Backward(f.idle) {
		if n := int64(cap(buf)); n >= size && n <= 2*size {
			f.idle = slices.Delete(f.idle, i, i+1)
			f.size -= n
			f.least = min(f.least, len(f.idle))
			return buf
		}
	}
	return nil
}

// put keeps a buffer.
func (f *buffers) put(buf []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle = append(f.idle, buf[:0])
	f.size += int64(cap(buf))
}

// trim leaves those to the garbage collector that were not needed for idleFor.
func (f *buffers) trim(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.trimmed) < idleFor {
		return
	}
	if !f.trimmed.IsZero() {
		f.drop(f.least)
	}
	f.least, f.trimmed = len(f.idle), now
}

// drop drops the n that were not used for longest.
func (f *buffers) drop(n int) {
	for _, buf := range f.idle[:n] {
		f.size -= int64(cap(buf))
	}
	f.idle = slices.Delete(f.idle, 0, n)
	f.least = max(0, f.least-n)
}

// shrink leaves buffers to the garbage collector, those that were not used for longest, until the rest is not more than so many bytes.
func (f *buffers) shrink(most int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for size := f.size; n < len(f.idle) && size > most; n++ {
		size -= int64(cap(f.idle[n]))
	}
	f.drop(n)
}

// sizeOf is the size of a buffer for n bytes: one of four in each power of two, so that buffers of bodies that differ a little are of use to each other.
func sizeOf(n int64) int64 {
	step := max(int64(1)<<bits.Len64(uint64(n-1))>>3, 1)
	return (n + step - 1) / step * step
}

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

// keep puts a buffer where grow finds it: new memory has to be cleared, and collected.
func (s *Server) keep(buf []byte) {
	source.Overwrite(buf)
	if cap(buf) < minBuffer || cap(buf) > maxKept {
		return
	}
	s.buffers.put(buf)
	s.buffers.shrink(s.budget.max - s.budget.used())
	s.buffers.trim(s.opt.now())
}

// firstSize is the size of a body's first buffer. A length that is claimed is believed up to a point: the memory comes with the bytes.
func firstSize(hint, limit int64) int64 { return sizeOf(max(minBuffer, min(hint+1, limit+1, maxKept))) }

// grow makes room for at least one more byte, twice as much as there was, but not more than limit in all, rounded up.
func (b *body) grow(hint, limit int64) error {
	has := int64(cap(b.buf))
	size := max(firstSize(hint, limit), sizeOf(min(2*has, max(limit+1, has+1))))
	larger := b.s.buffers.take(size)
	if larger != nil {
		size = int64(cap(larger))
	}
	if !b.claim.settle(size) {
		if larger != nil {
			b.s.buffers.put(larger)
		}
		return errNoRoom
	}
	if larger == nil {
		b.s.buffers.shrink(b.s.budget.max - b.s.budget.used())
		larger = make([]byte, 0, size)
	}
	larger = append(larger, b.buf...)
	if has > 0 {
		b.s.budget.giveBack(has)
		b.s.keep(b.buf)
	}
	b.buf = larger
	return nil
}

// fill reads r to its end. It returns errTooLong when there is more than limit, and then the body holds limit bytes; errNoRoom; or what r
// returned. hint is how long r may be, or less than 0.
func (b *body) fill(r io.Reader, hint, limit int64) error {
	for {
		if len(b.buf) == cap(b.buf) {
			// One byte more than is allowed, to see the end.
			if err := b.grow(hint, limit); err != nil {
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
