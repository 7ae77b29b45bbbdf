package main

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/app"
)

func TestProgressLine(t *testing.T) {
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
		if got := progressLine(x.read, x.total, x.elapsed); got != x.want {
			t.Errorf("%d of %d in %s: %q, want %q", x.read, x.total, x.elapsed, got, x.want)
		}
	}
	percent := regexp.MustCompile(`^(\d+) %`)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		read, total, elapsed := rng.Int64N(1<<rng.IntN(50)), rng.Int64N(1<<rng.IntN(50)), time.Duration(rng.Int64N(1<<rng.IntN(60)))
		line := progressLine(read, total, elapsed)
		if m := percent.FindStringSubmatch(line); m != nil {
			if n, _ := strconv.ParseInt(m[1], 10, 64); n > 100 || n != int64(float64(read)/float64(total)*100) && n != read*100/total {
				t.Fatalf("%d of %d: %q", read, total, line)
			}
		}
		if strings.Contains(line, "-") || strings.Contains(line, "NaN") || strings.Contains(line, "Inf") || len(line) > 79 {
			t.Fatalf("%d of %d in %s: %q", read, total, elapsed, line)
		}
	}
}

// The meter shows what was read when the clock ticks, and clears its line at the end.
func TestProgressClock(t *testing.T) {
	ticks, begin := make(chan time.Time), time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	lines := make(lineChan, 1)
	p := &progress{w: lines, stop: make(chan struct{}), ended: make(chan struct{})}
	go p.show(begin, ticks)
	at := func(elapsed time.Duration, want string) {
		t.Helper()
		ticks <- begin.Add(elapsed)
		if got := <-lines; got != "\r\x1b[K"+want {
			t.Errorf("after %s: %q, want %q", elapsed, got, want)
		}
	}
	at(0, "0 MB read, 0 MB/s")
	p.add(10e6)
	at(time.Second, "10 MB read, 10 MB/s")
	p.total.Store(40e6)
	p.add(10e6)
	at(4*time.Second, "50 %, 20 of 40 MB, 5 MB/s, 4s left")
	p.add(20e6)
	at(4*time.Second, "100 %, 40 of 40 MB, 10 MB/s, 0s left")
	p.add(20e6) // the second time
	at(6*time.Second, "60 MB read, 10 MB/s")
	p.done()
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

// What is no terminal gets nothing, and the bytes that are read of files are those that they have, compressed or not.
func TestProgressReads(t *testing.T) {
	dir := t.TempDir()
	writeDay(t, dir)
	log := filepath.Join(dir, "audit.log")
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	journal, err := os.ReadFile(capture + "/audit.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{log}, {capture + "/audit.log.gz"}, {log, capture + "/audit.log.gz"}, {"-"}} {
		in := app.Input{Logs: args, Stdin: bytes.NewReader(text)}
		var b bytes.Buffer
		var read, total int64
		_, err := metered(streams{err: &b}, &in, func() (*app.Analysis, error) {
			add := in.Progress
			var meter progress
			in.Progress = func(n int) {
				add(n)
				meter.add(n)
			}
			begin := in.Begin
			in.Begin = func(logs []string) error {
				meter.expect(logs)
				return begin(logs)
			}
			a, err := app.Analyze(t.Context(), app.AnalyzeOptions{Input: in, Authorization: app.Authorization{Skew: app.DefaultSkew}})
			read, total = meter.bytes.Load(), meter.total.Load()
			return a, err
		})
		want := int64(0)
		for _, a := range args {
			switch a {
			case log, "-":
				want += int64(len(text))
			default:
				want += int64(len(journal))
			}
		}
		known := want
		if args[0] == "-" {
			known = 0
		}
		if err != nil || read != want || total != known || b.Len() > 0 {
			t.Errorf("%s: %d bytes of %d, want %d of %d, %q, %v", args, read, total, want, known, b.String(), err)
		}
	}
}
