package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReadMerged is about several API servers: their events come in the order of time, in batches that are not too small.
func TestReadMerged(t *testing.T) {
	const n = 12_000
	r := rand.New(rand.NewPCG(1, 2))
	logs := make([]strings.Builder, 3)
	var want []string
	for i := range n {
		id := fmt.Sprintf("%06d", i)
		want = append(want, id)
		logs[r.IntN(3)].WriteString(event(id, i) + "\n")
	}
	dir := files(t, "a/audit.log", logs[0].String(), "b/audit.log", gz(t, logs[1].String()), "c/audit.log", zst(t, logs[2].String()))
	g := readAll(t, Options{}, filepath.Join(dir, "c"), filepath.Join(dir, "a"), filepath.Join(dir, "b"))
	if g.looked == 0 || g.looked == n {
		t.Errorf("%d of %d events have looks, want some", g.looked, n)
	}
	if diff := cmp.Diff(want, g.ids); diff != "" {
		t.Errorf("(-want +got):\n%.2000s", diff)
	}
	if g.batches > n/100 {
		t.Errorf("%d batches for %d events", g.batches, n)
	}
}

// TestReadRotated is about the pieces of one log, hundreds of them, with names that say nothing of their order.
func TestReadRotated(t *testing.T) {
	const pieces = 300
	var all []string
	for i := range pieces {
		name := fmt.Sprintf("audit-%04x.log", (i*7919)%65536)
		text := events(fmt.Sprintf("%04d-", i), 20, 20*i, 1, 0)
		if i%3 == 0 {
			text = gz(t, text)
		}
		all = append(all, name, text)
	}
	before := runtime.NumGoroutine()
	dir := files(t, all...)
	g := readAll(t, Options{}, dir)
	if len(g.ids) != 20*pieces || !slices.IsSorted(g.ids) {
		t.Errorf("%d events, sorted %t", len(g.ids), slices.IsSorted(g.ids))
	}
	settled(t, before)
}

// TestReadRotatedOneByOne holds that a file is opened only when its first event is due.
func TestReadRotatedOneByOne(t *testing.T) {
	const pieces = 30
	var all []string
	for i := range pieces {
		all = append(all, fmt.Sprintf("%02d.log", i), events(fmt.Sprintf("%02d-", i), 1000, 3000*i, 1, 0))
	}
	inputs, err := Expand([]string{files(t, all...)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	before := runtime.NumGoroutine()
	if _, err := Read(t.Context(), inputs, Options{Workers: 2}, func(b Batch) error {
		most = max(most, runtime.NumGoroutine()-before)
		b.Release()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if most > 8 { // two workers, and a reader or two
		t.Errorf("%d goroutines at once", most)
	}
}

// TestReadCopies is about the same events in several files, such as one compressed next to the plain: they come one after the other, so
// that whoever remembers only the latest still sees that they are the same.
func TestReadCopies(t *testing.T) {
	text := events("a", 9000, 0, 1, 0)
	dir := files(t, "audit.log", text, "audit.log.gz", gz(t, text))
	var want []string
	for _, id := range idsOf(text) {
		want = append(want, id, id)
	}
	if diff := cmp.Diff(want, readAll(t, Options{}, dir).ids); diff != "" {
		t.Errorf("(-want +got):\n%.2000s", diff)
	}
}

// Without times there is no order but that of the files.
func TestReadTimeless(t *testing.T) {
	strip := func(text string) string {
		return strings.NewReplacer("requestReceivedTimestamp", "x", "stageTimestamp", "y").Replace(text)
	}
	dir := files(t, "b.log", strip(events("b", 5, 0, 1, 0)), "a.log", strip(events("a", 5, 0, 1, 0)), "c.log", events("c", 5, 0, 1, 0))
	g := readAll(t, Options{}, dir)
	slices.Sort(g.ids)
	if want := idsOf(events("a", 5, 0, 1, 0) + events("b", 5, 0, 1, 0) + events("c", 5, 0, 1, 0)); !slices.Equal(g.ids, want) {
		t.Errorf("got %q", g.ids)
	}
}

// TestReadStopped is about an end before the end: by the one who takes the batches, or by the context. Nothing runs on.
func TestReadStopped(t *testing.T) {
	text := events("a", 8000, 0, 1, 0)
	dir := files(t, "a.log", text, "b.log", gz(t, text), "c.log", events("c", 10, 1_000_000, 1, 0))
	inputs, err := Expand([]string{dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	stop := errors.New("stop")
	for _, at := range []int{1, 2, 7} {
		n := 0
		if _, err := Read(t.Context(), inputs, Options{}, func(b Batch) error {
			if n++; n == at {
				return stop
			}
			b.Release()
			return nil
		}); !errors.Is(err, stop) || n != at {
			t.Errorf("stopped at batch %d: batch %d, error %v", at, n, err)
		}
		settled(t, before)

		ctx, cancel := context.WithCancel(t.Context())
		n = 0
		if _, err := Read(ctx, inputs, Options{}, func(Batch) error { // nothing is released
			if n++; n == at {
				cancel()
			}
			return nil
		}); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at batch %d: error %v", at, err)
		}
		cancel()
		settled(t, before)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, inputs, Options{}, func(Batch) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: error %v", err)
	}
	settled(t, before)
}

// TestReadWaiting is about input that does not come: the context ends the waiting, and the goroutine goes once there is no more to wait for.
func TestReadWaiting(t *testing.T) {
	before := runtime.NumGoroutine()
	f := func(name string, input string, stdin io.Reader, release func()) {
		t.Helper()
		inputs, err := Expand([]string{input}, stdin)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := Read(ctx, inputs, Options{}, func(Batch) error { return nil })
			ended <- err
		}()
		runtime.Gosched()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v", name, err)
		}
		release()
		settled(t, before)
	}
	r, w := io.Pipe()
	f("standard input", "-", r, func() { _ = w.Close() })

	fifo := filepath.Join(t.TempDir(), "fifo.log")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	f("a pipe that nobody writes to", fifo, nil, func() {
		// For reading, too: then it does not matter whether the goroutine waits already, or only begins to.
		fd, err := syscall.Open(fifo, syscall.O_RDWR|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Close(fd) })
	})
}

func BenchmarkRead(b *testing.B) {
	text := events("a", 50_000, 0, 1, 1200)
	dir := files(b, "a.log", text)
	inputs, err := Expand([]string{dir}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read(b.Context(), inputs, Options{}, func(batch Batch) error {
			batch.Release()
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
}
