package meter

import (
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	for _, x := range []struct {
		read, total int64
		elapsed     time.Duration
		want        string
	}{
		{0, 0, 0, "0 MB read, 0 MB/s"},
		{50e6, 0, 5 * time.Second, "50 MB read, 10 MB/s"},
		{0, 200e6, 5 * time.Second, "0 %, 0 of 200 MB, 0 MB/s"},
		{50e6, 200e6, 5 * time.Second, "25 %, 50 of 200 MB, 10 MB/s, 15s left"},
		{199_999_999, 200e6, 20 * time.Second, "99 %, 200 of 200 MB, 10 MB/s, 0s left"},
		{200e6, 200e6, 20 * time.Second, "100 %, 200 of 200 MB, 10 MB/s, 0s left"},
		{200e6 + 1, 200e6, 20 * time.Second, "200 MB read, 10 MB/s"},
		{36e8, 144e8, time.Hour, "25 %, 3600 of 14400 MB, 1 MB/s, 3h0m0s left"},
		{1, math.MaxInt64 / 200, time.Hour, "0 %, 0 of 46116860184 MB, 0 MB/s"},
	} {
		if got := line(x.read, x.total, x.elapsed); got != x.want {
			t.Errorf("%d of %d in %s: %q, want %q", x.read, x.total, x.elapsed, got, x.want)
		}
	}
	percent := regexp.MustCompile(`^(\d+) %`)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		read, total, elapsed := rng.Int64N(1<<rng.IntN(50)), rng.Int64N(1<<rng.IntN(50)), time.Duration(rng.Int64N(1<<rng.IntN(60)))
		said := line(read, total, elapsed)
		if m := percent.FindStringSubmatch(said); m != nil {
			if n, _ := strconv.ParseInt(m[1], 10, 64); n > 100 || n != int64(float64(read)/float64(total)*100) && n != read*100/total {
				t.Fatalf("%d of %d: %q", read, total, said)
			}
		}
		if strings.Contains(said, "-") || strings.Contains(said, "NaN") || strings.Contains(said, "Inf") || len(said) > 79 {
			t.Fatalf("%d of %d in %s: %q", read, total, elapsed, said)
		}
	}
}

// The meter shows what was read when the clock ticks, and clears its line at the end.
func TestClock(t *testing.T) {
	ticks, begin := make(chan time.Time), time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	lines := make(lineChan, 1)
	p := &Meter{w: lines, stop: make(chan struct{}), ended: make(chan struct{})}
	go p.show(begin, ticks)
	at := func(elapsed time.Duration, want string) {
		t.Helper()
		ticks <- begin.Add(elapsed)
		if got := <-lines; got != "\r\x1b[K"+want {
			t.Errorf("after %s: %q, want %q", elapsed, got, want)
		}
	}
	at(0, "0 MB read, 0 MB/s")
	p.Add(10e6)
	at(time.Second, "10 MB read, 10 MB/s")
	p.total.Store(40e6)
	p.Add(10e6)
	at(4*time.Second, "50 %, 20 of 40 MB, 5 MB/s, 4s left")
	p.Add(20e6)
	at(4*time.Second, "100 %, 40 of 40 MB, 10 MB/s, 0s left")
	p.Add(20e6) // the second time
	at(6*time.Second, "60 MB read, 10 MB/s")
	p.Done()
	if got := <-lines; got != "\r\x1b[K" {
		t.Errorf("at the end: %q", got)
	}
}

// lineChan is a terminal that is read write by write.
type lineChan chan string

func (c lineChan) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}

// The total is that of files alone: of standard input nobody knows it.
func TestExpect(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(log, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		paths []string
		want  int64
	}{{[]string{log, log}, 10}, {[]string{log, "-"}, 0}, {[]string{filepath.Dir(log)}, 0}, {[]string{log, log + ".1"}, 0}, {nil, 0}} {
		m := Start(io.Discard, false)
		m.Expect(x.paths)
		if got := m.total.Load(); got != x.want {
			t.Errorf("%q: %d bytes, want %d", x.paths, got, x.want)
		}
		m.Done()
	}
}
