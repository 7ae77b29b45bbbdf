package webhook

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
		if idle != s.buffers.size || s.budget.used() != sum || sum+idle > s.budget.max+express {
			t.Fatalf("%d bytes are in use (%d), %d wait (%d), the bound is %d", sum, s.budget.used(), idle, s.buffers.size, s.budget.max)
		}
	}
	if again == 0 {
		t.Error("no buffer was used again")
	}
	for _, b := range held {
		b.drop()
	}
	if n := s.budget.used(); n != 0 {
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

// A body is read when there is memory for it, and that is waited for. After a while one request is let in all the same, and others are asked to come again.
func TestBodiesWaitForMemory(t *testing.T) {
	for name, c := range map[string]struct {
		free    time.Duration // until memory is given back
		express bool          // another one is let in all the same
		code    int
		after   time.Duration
	}{
		"given back": {roomWait / 2, true, http.StatusOK, roomWait / 2},
		"in vain":    {2 * roomWait, true, http.StatusTooManyRequests, roomWait},
		"overdrawn":  {2 * roomWait, false, http.StatusOK, roomWait},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := New(Options{Listen: "127.0.0.1:0", Letters: &letterBox{}})
				if err != nil {
					t.Fatal(err)
				}
				s.budget.express.Store(c.express)
				s.budget.overdraw(s.budget.max)
				began := time.Now()
				var read time.Duration
				body := &watched{Reader: strings.NewReader(list(event("a"))), seen: func() { read = time.Since(began) }}
				go func() {
					time.Sleep(c.free)
					s.budget.giveBack(s.budget.max)
				}()
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/audit", body)
				r.ProtoMajor = 2
				w := httptest.NewRecorder()
				s.Handler(&instant{}).ServeHTTP(w, r)
				wants := c.after
				if c.code != http.StatusOK {
					wants = 0 // never
				}
				if w.Code != c.code || read != wants || time.Since(began) != c.after || (w.Code == http.StatusOK) != (w.Header().Get("Retry-After") == "") {
					t.Errorf("answered %d after %s, first read after %s", w.Code, time.Since(began), read)
				}
				time.Sleep(c.free)
				if n := s.budget.used(); n != 0 {
					t.Errorf("%d bytes stay behind", n)
				}
			})
		})
	}
}

// Requests get memory in the order in which they came. One that gives up lets the next ones pass.
func TestMemoryInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &budget{max: 100, begin: 50}
		b.overdraw(45)
		var mu sync.Mutex
		var got []string
		wait := func(name string, n int64, most time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), most)
			go func() {
				defer cancel()
				if !b.await(ctx, n) {
					name = "not " + name
				}
				mu.Lock()
				defer mu.Unlock()
				got = append(got, name)
			}()
			synctest.Wait()
		}
		wait("impatient", 40, time.Second)
		wait("large", 40, time.Minute)
		wait("small", 3, time.Minute)
		if !b.reserve(55) || b.reserve(1) {
			t.Error("what waits must not take what those need who have begun")
		}
		b.giveBack(55)
		time.Sleep(time.Second)
		synctest.Wait()
		b.giveBack(34)
		synctest.Wait()
		if want := []string{"not impatient"}; !slices.Equal(got, want) {
			t.Fatalf("%q, not %q: the small one must not overtake", got, want)
		}
		b.giveBack(4)
		synctest.Wait()
		if want := []string{"not impatient", "large", "small"}; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Fatalf("%q, not %q", got, want)
		}
		b.giveBack(10)
		wait("late", 40, time.Second)
		wait("next", 3, time.Minute)
		time.Sleep(time.Second)
		synctest.Wait()
		if got[len(got)-1] != "next" || b.used() != 43 || len(b.queue) != 0 {
			t.Errorf("%q, %d bytes are used, %d wait", got, b.used(), len(b.queue))
		}
	})
}

// Whatever the order in which requests come, give up and end, nothing is lost, and nobody waits while there is room.
func TestMemoryAtRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &budget{max: 1000, begin: 500}
		var all sync.WaitGroup
		var in, out atomic.Int64
		for seed := range uint64(200) {
			all.Go(func() {
				r := rand.New(rand.NewPCG(26, seed))
				for range 50 {
					time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(100))*time.Millisecond)
					n := 1 + r.Int64N(900)
					if b.await(ctx, n) {
						in.Add(1)
						if more := r.Int64N(100); b.reserve(more) {
							n += more
						}
						time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
						b.giveBack(n)
					} else {
						out.Add(1)
					}
					cancel()
					if used := b.used(); used < 0 || used > b.max {
						t.Errorf("%d bytes are used", used)
					}
				}
			})
		}
		all.Wait()
		if b.used() != 0 || len(b.queue) != 0 || in.Load() == 0 || out.Load() == 0 {
			t.Errorf("%d bytes are used, %d wait, after %d requests that got in and %d that did not", b.used(), len(b.queue), in.Load(), out.Load())
		}
	})
}

// watched is a body that tells when it is read first.
type watched struct {
	io.Reader
	seen func()
	read bool
}

func (w *watched) Read(p []byte) (int, error) {
	if !w.read {
		w.read = true
		w.seen()
	}
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
