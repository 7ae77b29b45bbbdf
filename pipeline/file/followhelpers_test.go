package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// stored is what outlives a follower: what it was acknowledged, and what happened to it.
type stored struct {
	mu        sync.Mutex
	positions map[string]string
	ids       map[string][]string // by lane
	counts    audit.Counts
	places    []source.Place
	answers   int // events that were too long for their responses alone
	gaps      []string
	behind    []bool // of each batch
	log       bytes.Buffer
}

func newStored() *stored { return &stored{positions: map[string]string{}, ids: map[string][]string{}} }

// Write takes log lines.
func (st *stored) Write(b []byte) (int, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.log.Write(b)
}

func (st *stored) logged(text string) int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return strings.Count(st.log.String(), text)
}

func (st *stored) lane(lane string) []string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.Clone(st.ids[lane])
}

func (st *stored) allGaps() []string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.Clone(st.gaps)
}

// session is a follower that runs, and the intake that it fills.
type session struct {
	*stored
	t      testing.TB
	follow *Follow
	cancel context.CancelFunc
	ended  chan error

	hold  chan struct{} // closed while batches are stored; else they wait
	queue chan waiting
	over  chan struct{}
	wg    sync.WaitGroup
	most  int // batches that are stored before the crash, all if it is 0
}

type waiting struct {
	b    *source.Batch
	done func(error)
}

func (st *stored) start(t testing.TB, opt FollowOptions, configure ...func(*session)) *session {
	t.Helper()
	if opt.Poll == 0 {
		opt.Poll = 2 * time.Millisecond
	}
	opt.Gap = func(lane, cause string) {
		st.mu.Lock()
		defer st.mu.Unlock()
		st.gaps = append(st.gaps, cause)
	}
	s := &session{stored: st, t: t, ended: make(chan error, 1), hold: make(chan struct{}), queue: make(chan waiting, 2), over: make(chan struct{})}
	close(s.hold)
	for _, c := range configure {
		c(s)
	}
	s.follow = NewFollow(opt, zerolog.New(st))
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.wg.Go(s.commit)
	go func() { s.ended <- s.follow.Run(ctx, s) }()
	t.Cleanup(s.crash)
	return s
}

func held(s *session) { s.hold = make(chan struct{}) }

// crash stops all at once: what waits is not stored.
func (s *session) crash() {
	if s.cancel == nil {
		return
	}
	close(s.over)
	s.wg.Wait()
	s.cancel()
	s.cancel = nil
	select {
	case err := <-s.ended:
		if err != nil && !errors.Is(err, context.Canceled) {
			s.t.Errorf("Run: %v", err)
		}
	case <-time.After(time.Minute):
		s.t.Error("Run does not end")
	}
}

func (s *session) Announce(context.Context, []string) error { return nil }

func (s *session) Open(_ context.Context, lane string, _ int64) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.positions[lane], nil
}

func (s *session) Close(string) {}

func (s *session) Take(ctx context.Context, b *source.Batch, done func(error)) error {
	select {
	case s.queue <- waiting{b, done}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *session) commit() {
	for n := 1; s.most == 0 || n <= s.most; n++ {
		select {
		case <-s.hold:
		case <-s.over:
			return
		}
		select {
		case w := <-s.queue:
			s.keep(w.b)
			w.done(nil)
			if w.b.Release != nil {
				w.b.Release()
			}
		case <-s.over:
			return
		}
	}
}

func (s *session) keep(b *source.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range b.Events {
		s.ids[b.Lane] = append(s.ids[b.Lane], strings.Clone(b.Events[i].AuditID))
		if b.Events[i].ResponseBytes > 0 {
			s.answers++
		}
	}
	s.positions[b.Lane] = b.Position
	s.counts.Add(b.Counts)
	s.places = append(s.places, b.Places...)
	s.behind = append(s.behind, b.Behind)
	if !b.Wait || b.Received.IsZero() {
		s.t.Errorf("batch of %s: wait %t, received %s", b.Lane, b.Wait, b.Received)
	}
}

// until polls for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it never came: %s", what)
		}
	}
}

// await waits until the lane has as many events as are wanted and compares them line by line.
func (st *stored) await(t testing.TB, lane string, want []string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for len(st.lane(lane)) < len(want) && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if diff := cmp.Diff(append([]string{}, want...), append([]string{}, st.lane(lane)...)); diff != "" {
		st.mu.Lock()
		defer st.mu.Unlock()
		t.Fatalf("%s (-want +got):\n%.3000s\ngaps %q\nlog:\n%s", lane, diff, st.gaps, st.log.String())
	}
}

// writer writes a log as an API server would.
type writer struct {
	t    testing.TB
	path string
	f    *os.File
	n    *int // events so far, of all logs of a test
	want []string
	size int  // of an event, as short as can be if 0
	now  bool // events have the times of their writing
}

func newWriter(t testing.TB, path string) *writer {
	w := &writer{t: t, path: path, n: new(int)}
	t.Cleanup(func() { _ = w.f.Close() })
	return w
}

// lane is the log's.
func (w *writer) lane() string { return "file:" + w.path }

// make are the lines of n new events.
func (w *writer) make(n int) string {
	var b strings.Builder
	for range n {
		*w.n++
		id := fmt.Sprintf("%08d", *w.n)
		w.want = append(w.want, id)
		ms := *w.n
		if w.now {
			ms = int(time.Since(day).Milliseconds())
		}
		b.WriteString(sized(id, ms, w.size) + "\n")
	}
	return b.String()
}

func (w *writer) open() {
	w.t.Helper()
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	check(w.t, err)
	_ = w.f.Close()
	w.f = f
}

func (w *writer) text(s string) {
	w.t.Helper()
	if w.f == nil {
		w.open()
	}
	_, err := io.WriteString(w.f, s)
	check(w.t, err)
}

// lines appends n events.
func (w *writer) lines(n int) {
	w.t.Helper()
	w.text(w.make(n))
}

// file writes n events into a file next to the log.
func (w *writer) file(name string, n int) {
	w.t.Helper()
	text := w.make(n)
	if strings.HasSuffix(name, ".gz") {
		text = gz(w.t, text)
	}
	check(w.t, os.WriteFile(w.beside(name), []byte(text), 0o600))
}

func (w *writer) beside(name string) string { return filepath.Join(filepath.Dir(w.path), name) }

func (w *writer) rename(from, to string) {
	w.t.Helper()
	check(w.t, os.Rename(w.beside(from), w.beside(to)))
}

// compress does what gzip does: the plain file goes when the other is whole.
func (w *writer) compress(name string) {
	w.t.Helper()
	b, err := os.ReadFile(w.beside(name))
	check(w.t, err)
	check(w.t, os.WriteFile(w.beside(name+".gz"), []byte(gz(w.t, string(b))), 0o600))
	check(w.t, os.Remove(w.beside(name)))
}

func (w *writer) copy(from, to string) {
	w.t.Helper()
	b, err := os.ReadFile(w.beside(from))
	check(w.t, err)
	check(w.t, os.WriteFile(w.beside(to), b, 0o600))
}

func (w *writer) truncate() {
	w.t.Helper()
	check(w.t, os.Truncate(w.path, 0))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func logIn(t testing.TB) *writer { return newWriter(t, filepath.Join(t.TempDir(), "audit.log")) }

func following(w *writer) FollowOptions { return FollowOptions{Paths: []string{w.path}} }
