package webhook

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// What is in use and what waits to be used again are within the bound together, whatever comes and goes in whatever order.
func TestBuffersAreWithinTheBound(t *testing.T) {
	const limit = 2 * maxKept
	now := time.Now()
	s := &Server{budget: budget{max: 16 << 20}, opt: Options{now: func() time.Time { now = now.Add(time.Second / 10); return now }}}
	rng := rand.New(rand.NewPCG(3, 4))
	var held []*body
	again := 0
	for range effort.Of(20_000, 2_000) {
		switch {
		case rng.IntN(2) == 0 && len(held) > 0:
			i := rng.IntN(len(held))
			held[i].drop()
			held = append(held[:i], held[i+1:]...)
		default:
			b := s.newBody(&claim{budget: &s.budget})
			n, idle := int(rng.Int64N(limit)>>rng.IntN(6)), len(s.buffers.idle)
			if b.fill(io.LimitReader(zeros{}, int64(n)), int64(rng.IntN(2*n+1)-1), limit) != nil {
				b.drop() // no room: the sender is asked to come again
				continue
			}
			if len(b.buf) != n {
				t.Fatalf("%d bytes of %d", len(b.buf), n)
			}
			if len(s.buffers.idle) < idle {
				again++
			}
			held = append(held, b)
		}
		sum, idle := int64(0), int64(0)
		for _, b := range held {
			sum += int64(cap(b.buf))
		}
		for _, buf := range s.buffers.idle {
			idle += int64(cap(buf))
		}
		express := int64(0)
		if s.budget.express.Load() { // one request may overdraw, and nothing waits then
			express = 4 * limit
		}
		if idle != s.buffers.size || s.budget.used.Load() != sum || sum+idle > s.budget.max+express {
			t.Fatalf("%d bytes are in use (%d), %d wait (%d), the bound is %d", sum, s.budget.used.Load(), idle, s.buffers.size, s.budget.max)
		}
	}
	if again == 0 {
		t.Error("no buffer was used again")
	}
	for _, b := range held {
		b.drop()
	}
	if n := s.budget.used.Load(); n != 0 {
		t.Errorf("%d bytes are still in use", n)
	}
}

// What an overload needed does not stay, what every minute needs does.
func TestBuffersAreLeftAfterAnOverload(t *testing.T) {
	now := time.Now()
	s := &Server{budget: budget{max: 64 << 20}, opt: Options{now: func() time.Time { return now }}}
	use := func(n int) {
		t.Helper()
		var held []*body
		for range n {
			b := s.newBody(&claim{budget: &s.budget})
			if err := b.fill(io.LimitReader(zeros{}, 300<<10), 300<<10, maxKept); err != nil {
				t.Fatal(err)
			}
			held = append(held, b)
		}
		for _, b := range held {
			b.drop()
		}
	}
	for second := range 60 {
		n := 4
		if second < 20 {
			n = 100
		}
		use(n)
		now = now.Add(time.Second)
		if idle := len(s.buffers.idle); second < 20 && idle < 100 || second > 45 && idle != 4 {
			t.Fatalf("after %d s %d buffers wait", second, idle)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestSizeOf(t *testing.T) {
	for n := int64(1); n < 1<<22; n += 1 + n/7 {
		if got := sizeOf(n); got < n || got > n+n/4+1 || sizeOf(got) != got {
			t.Errorf("%d: %d, and of that %d", n, got, sizeOf(got))
		}
	}
}

// crowdedStore takes nothing, and says so before.
type crowdedStore struct {
	instant
	crowded atomic.Bool
}

func (s *crowdedStore) Crowded() bool { return s.crowded.Load() }

// What would be refused is not read into memory.
func TestCrowded(t *testing.T) {
	s, err := New(Options{Listen: "127.0.0.1:0", Letters: &letterBox{}})
	if err != nil {
		t.Fatal(err)
	}
	in := &crowdedStore{}
	h := s.Handler(in)
	for _, crowded := range []bool{true, false} {
		in.crowded.Store(crowded)
		body := &watched{Reader: strings.NewReader(list(event("a"))), used: func() int64 { return s.budget.used.Load() }}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/audit", body)
		r.ProtoMajor = 2
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		want := http.StatusOK
		if crowded {
			want = http.StatusTooManyRequests
		}
		if w.Code != want || crowded == (body.reads > 0) || crowded == (body.most > 0) || crowded != (w.Header().Get("Retry-After") != "") {
			t.Errorf("crowded %t: answered %d after %d reads with %d bytes in use", crowded, w.Code, body.reads, body.most)
		}
	}
}

// watched is a body that sees what memory is in use while it is read.
type watched struct {
	io.Reader
	used  func() int64
	reads int
	most  int64
}

func (w *watched) Read(p []byte) (int, error) {
	w.reads++
	w.most = max(w.most, w.used())
	return w.Reader.Read(p)
}

// A body of many parts waits for each to be stored. Others are decoded meanwhile, however few processors there are.
func TestManyPartsHoldNobodyUp(t *testing.T) {
	s := start(t, Options{CommitTimeout: patience})
	c := client(t, nil, false)
	free := make(chan struct{})
	var held atomic.Int64
	many := cap(s.server.decoders) + 3
	s.store.set(nil, func() error {
		if held.Add(1) <= int64(many) {
			<-free
		}
		return nil
	})
	items, _ := ids("many", maxPart+1)
	codes := make(chan int, many)
	for range many {
		go func() { codes <- post(t, c, s.url, strings.NewReader(list(items...))).code }()
	}
	eventually(t, "all long bodies to wait", func() bool { return held.Load() == int64(many) })
	began := make(chan int, 1)
	go func() { began <- post(t, c, s.url, strings.NewReader(list(event("short")))).code }()
	select {
	case code := <-began:
		if code != http.StatusOK {
			t.Errorf("answered %d", code)
		}
	case <-time.After(patience):
		t.Error("the short body waits for the long ones")
	}
	close(free)
	for range many {
		if code := receive(t, "an answer", codes); code != http.StatusOK {
			t.Errorf("a long body: %d", code)
		}
	}
	if n := len(s.server.decoders); n != cap(s.server.decoders) {
		t.Errorf("%d decoders are left of %d", n, cap(s.server.decoders))
	}
}
