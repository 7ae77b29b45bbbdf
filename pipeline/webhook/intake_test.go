package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

func TestTake(t *testing.T) {
	s := start(t, Options{Name: "east"})
	c := client(t, nil, false)
	f := func(what, body string, want audit.Counts, ids []string, headers ...string) {
		t.Helper()
		before, at := s.store.total(), len(s.store.stored())
		s.expect(what, post(t, c, s.url, strings.NewReader(body), headers...), 200)
		before.Add(want)
		if d := cmp.Diff(before, s.store.total()); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
		got := s.store.stored()
		for _, id := range ids {
			if _, there := slices.BinarySearch(got, id); !there {
				t.Errorf("%s: %s is missing", what, id)
			}
		}
		if len(got)-at != len(ids) {
			t.Errorf("%s: %d events, want %d", what, len(got)-at, len(ids))
		}
	}
	f("a list", list(event("a"), other("b"), event("c")), audit.Counts{Read: 3, Skipped: 1}, []string{"a", "c"})
	f("gzip", zipped(list(event("d"))), audit.Counts{Read: 1}, []string{"d"}, "Content-Encoding", "gzip")
	f("another type", list(event("e")), audit.Counts{Read: 1}, []string{"e"}, "Content-Type", "text/plain; charset=x")
	f("nothing needed", list(other("x")), audit.Counts{Read: 1, Skipped: 1}, nil)
	f("an empty list", list(), audit.Counts{}, nil)
	f("nothing", "", audit.Counts{}, nil)
	items, names := ids("many", 3*maxPart+7)
	f("several parts", list(items...), audit.Counts{Read: int64(len(items))}, names)
	// A reader of no known length makes the body chunked.
	s.expect("chunked", post(t, c, s.url, io.MultiReader(strings.NewReader(list(event("chunked"))))), 200)
	if !slices.Contains(s.store.stored(), "chunked") {
		t.Error("chunked: the event is missing")
	}
	if len(s.letters.all()) != 0 {
		t.Errorf("dead letters: %+v", s.letters.all())
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	want := []string{"webhook:east"}
	if d := cmp.Diff([][]string{want, want}, [][]string{s.store.opened, s.store.closed}); d != "" {
		t.Errorf("lanes (-want +got):\n%s", d)
	}
	st := s.server.Stats()
	if st.Requests["stored"] != 8 || st.Events != int64(len(s.store.stored())) || st.Batches != int64(s.store.batches) || st.Bytes == 0 {
		t.Errorf("%+v", st)
	}
}

func TestState(t *testing.T) {
	s := start(t, Options{Want: audit.Want{State: true}})
	bound := strings.NewReplacer(`"verb":"get"`, `"verb":"create"`, `"resource":"secrets"`, `"resource":"pods","subresource":"binding"`).Replace(other("bound"))
	s.expect("state", post(t, client(t, nil, false), s.url, strings.NewReader(list(bound, other("x")))), 200)
	if d := cmp.Diff([]string{"bound"}, s.store.stored()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestDeadLetters(t *testing.T) {
	s := start(t, Options{MaxBodyBytes: minBodyBytes, MaxEventBytes: 600})
	c := client(t, nil, false)
	type letter struct {
		Cause, Data string
		Size        int64
	}
	f := func(what string, body io.Reader, taken int, letters []letter, headers ...string) {
		t.Helper()
		before, had := len(s.store.stored()), len(s.letters.all())
		malformed := s.store.total().Malformed
		s.expect(what, post(t, c, s.url, body, headers...), 200)
		if got := len(s.store.stored()) - before; got != taken {
			t.Errorf("%s: %d events were taken, want %d", what, got, taken)
		}
		var got []letter
		for _, l := range s.letters.all()[had:] {
			if l.Source != "webhook:audit" || l.Time.IsZero() {
				t.Errorf("%s: letter from %q at %v", what, l.Source, l.Time)
			}
			got = append(got, letter{l.Cause, string(l.Data), l.Size})
		}
		if d := cmp.Diff(letters, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
		if s.store.total().Malformed == malformed {
			t.Errorf("%s: it is not counted", what)
		}
	}
	text := strings.NewReader
	f("bad items", text(list(event("a"), `{"verb":1}`, event("b"), `7`)), 2,
		[]letter{{"value is not a string", `{"verb":1}`, 0}, {"value is not an object", "7", 0}})
	long := strings.Replace(event(strings.Repeat("x", 600)), `"level":"Metadata",`, "", 1)
	f("a long item", text(list(long, event("c"))), 1, []letter{{fmt.Sprintf("event of %d bytes exceeds the bound of 600", len(long)), long, 0}})
	f("a torn list", text(strings.TrimSuffix(list(event("d"), `{"verb":"get"}`), "\"}]}\n")), 1, []letter{{"unexpected end in a string", `{"verb":"get`, 0}})
	f("noise", text("noise\xff"), 0, []letter{{`not a JSON object but "noise\xff"`, "noise\xff", 0}})
	f("another kind", text(`{"kind":"Pod"}`), 0, []letter{{`kind "Pod" is not an audit event`, `{"kind":"Pod"}`, 0}})
	f("not gzip", text("{}"), 0, []letter{{"decompressing: unexpected EOF", "{}", 0}}, "Content-Encoding", "gzip")
	torn := zipped(list(event("z")))[:40]
	f("torn gzip", text(torn), 0, []letter{{"decompressing: unexpected EOF", torn, 0}}, "Content-Encoding", "gzip")
	f("another encoding", text("{}"), 0, []letter{{`content encoding "br" is not known`, "{}", 0}}, "Content-Encoding", "br")
	many := list(slices.Repeat([]string{"7"}, maxLetters+1)...)
	f("many bad items", text(many), 0, []letter{{"33 events of it are malformed, the first: value is not an object", many, 0}})
	bomb := zipped(strings.Repeat(" ", minBodyBytes+1))
	f("a gzip bomb", text(bomb), 0, []letter{{"body exceeds the bound of 65536 bytes when decompressed", bomb, 0}}, "Content-Encoding", "gzip")
	huge := strings.Repeat("x", 3*minBodyBytes)
	f("a chunked body that is too long", io.MultiReader(text(huge)), 0,
		[]letter{{"body of 196608 bytes exceeds the bound of 65536", huge[:minBodyBytes], int64(len(huge))}})
	huge = strings.Repeat("x", 2<<20)
	f("a body that is too long", text(huge), 0, []letter{{"body of 2097152 bytes exceeds the bound of 65536", huge[:minBodyBytes], int64(len(huge))}})
	st := s.server.Stats()
	if st.Requests["dead_letter"] != 9 || st.Requests["stored"] != 3 || st.Letters != int64(len(s.letters.all())) || st.Malformed != s.store.total().Malformed {
		t.Errorf("%+v", st)
	}
}

// Nothing is lost silently: without room for the dead letter there is no 200.
func TestDeadLetterFails(t *testing.T) {
	s := start(t, Options{})
	s.letters.fail = errors.New("no space left on device")
	c := client(t, nil, false)
	for _, body := range []string{"noise", list(event("a"), "7")} {
		s.expect(body, post(t, c, s.url, strings.NewReader(body)), 503)
	}
	if s.requests("failed") != 2 {
		t.Errorf("%+v", s.server.Stats())
	}
	s.letters.fail = nil
	s.expect("again", post(t, c, s.url, strings.NewReader("noise")), 200)
}

// The file itself, with a device that is always full.
func TestDeadLetterFile(t *testing.T) {
	full, err := source.OpenDeadLetter("/dev/full", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	s := start(t, Options{Letters: full})
	s.expect("full", post(t, client(t, nil, false), s.url, strings.NewReader("noise")), 503)
}

func TestPressure(t *testing.T) {
	s := start(t, Options{MaxInFlight: 2})
	c := client(t, nil, false)
	s.store.set(func() error { return fmt.Errorf("queue: %w", source.ErrBusy) }, nil)
	s.expect("the pipeline is busy", post(t, c, s.url, strings.NewReader(list(event("a")))), 429)
	if s.store.held != 0 {
		t.Error("the batch was taken")
	}
	// Two requests wait for the store; there is no place for a third one.
	free := make(chan struct{})
	s.store.set(nil, func() error { <-free; return nil })
	codes := make(chan int, 2)
	for i := range 2 {
		go func() { codes <- post(t, c, s.url, strings.NewReader(list(event(fmt.Sprint("held", i))))).code }()
	}
	eventually(t, "two requests to be in hand", func() bool { s.store.mu.Lock(); defer s.store.mu.Unlock(); return s.store.held == 2 })
	s.expect("all slots taken", post(t, c, s.url, strings.NewReader(list(event("b")))), 429)
	close(free)
	for range 2 {
		if code := receive(t, "an answer", codes); code != 200 {
			t.Errorf("answered %d", code)
		}
	}
	s.expect("afterwards", post(t, c, s.url, strings.NewReader(list(event("b")))), 200)
	if d := cmp.Diff([]string{"b", "held0", "held1"}, s.store.stored()); d != "" || s.requests("busy") != 2 {
		t.Errorf("%+v (-want +got):\n%s", s.server.Stats(), d)
	}
}

// The memory in flight is bounded, whatever comes; and a request that fits alone gets through in the end.
func TestMemory(t *testing.T) {
	opt := Options{MaxBodyBytes: 1 << 20, MaxInFlight: 32}
	opt.MaxInFlightBytes = opt.oneRequest() + opt.MaxBodyBytes
	s := start(t, opt)
	c := client(t, nil, false)
	// Tiny events take many times the body's memory.
	body := list(slices.Repeat([]string{`{"auditID":"x","user":{"username":"system:node:a"}}`}, 19_000)...)
	if int64(len(body)) > opt.MaxBodyBytes || int64(len(body))*2 < opt.MaxBodyBytes {
		t.Fatalf("%d bytes", len(body))
	}
	s.store.set(nil, func() error {
		if used := s.server.Stats().InFlightBytes; used > opt.MaxInFlightBytes {
			t.Errorf("%d bytes in flight", used)
		}
		return nil
	})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			text, headers := body, []string(nil)
			if i%2 == 0 {
				text, headers = zipped(body), []string{"Content-Encoding", "gzip"}
			}
			for end := time.Now().Add(patience); ; {
				r := post(t, c, s.url, strings.NewReader(text), headers...)
				if r.code == 200 {
					return
				}
				if r.code != 429 || time.Now().After(end) {
					t.Errorf("answered %d", r.code)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestStoreFails(t *testing.T) {
	s := start(t, Options{CommitTimeout: 50 * time.Millisecond})
	c := client(t, nil, false)
	body := list(event("a"))
	for _, err := range []error{errors.New("disk full"), source.ErrFenced, source.ErrClosed, context.Canceled} {
		s.store.set(nil, func() error { return err })
		s.expect("done with "+err.Error(), post(t, c, s.url, strings.NewReader(body)), 503)
		s.store.set(func() error { return err }, nil)
		s.expect("taken with "+err.Error(), post(t, c, s.url, strings.NewReader(body)), 503)
	}
	if s.requests("failed") != 8 || len(s.store.stored()) != 0 {
		t.Errorf("%+v", s.server.Stats())
	}
	free := make(chan struct{})
	s.store.set(nil, func() error { <-free; return nil })
	s.expect("too late", post(t, c, s.url, strings.NewReader(body)), 503)
	if used := s.server.Stats().InFlightBytes; s.requests("late") != 1 || used == 0 {
		t.Errorf("the pipeline's batch is not in the budget any more: %+v", s.server.Stats())
	}
	close(free)
	eventually(t, "the batch to be stored", func() bool { return len(s.store.stored()) == 1 })
}

// The sender does not wait: the batch is stored all the same, and nobody is left hanging.
func TestSenderLeaves(t *testing.T) {
	s := start(t, Options{})
	free := make(chan struct{})
	s.store.set(nil, func() error { <-free; return nil })
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(list(event("a"))))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		eventually(t, "the batch to be taken", func() bool { s.store.mu.Lock(); defer s.store.mu.Unlock(); return s.store.held == 1 })
		cancel()
	}()
	if resp, err := client(t, nil, false).Do(req); err == nil {
		t.Errorf("answered %d, %v", resp.StatusCode, resp.Body.Close())
	}
	eventually(t, "the server to notice", func() bool { return s.requests("gone") == 1 })
	close(free)
	eventually(t, "the batch to be stored", func() bool { return len(s.store.stored()) == 1 })
}

// Batches as an API server with retries makes them: at once, in any order, and again.
func TestShuffled(t *testing.T) {
	s := start(t, Options{})
	c := client(t, nil, false)
	var bodies []string
	var want []string
	for i := range 60 {
		items, names := ids(fmt.Sprintf("batch%d-", i), 1+i*7)
		bodies, want = append(bodies, list(items...)), append(want, names...)
	}
	bodies = append(bodies, bodies[:20]...)
	rng := rand.New(rand.NewPCG(1, 2))
	rng.Shuffle(len(bodies), func(i, j int) { bodies[i], bodies[j] = bodies[j], bodies[i] })
	attempt := 0
	s.store.set(func() error {
		s.store.mu.Lock()
		defer s.store.mu.Unlock()
		if attempt++; attempt%5 == 0 {
			return source.ErrBusy
		}
		return nil
	}, func() error {
		s.store.mu.Lock()
		defer s.store.mu.Unlock()
		if attempt++; attempt%7 == 0 {
			return errors.New("disk full")
		}
		return nil
	})
	work := make(chan string)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for body := range work {
				code := 0
				for try := 0; code != 200 && try < 1000; try++ {
					code = post(t, c, s.url, strings.NewReader(body)).code
				}
				if code != 200 {
					t.Errorf("answered %d in the end", code)
				}
			}
		})
	}
	for _, body := range bodies {
		work <- body
	}
	close(work)
	wg.Wait()
	slices.Sort(want)
	if d := cmp.Diff(want, slices.Compact(s.store.stored())); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A stop answers what is in hand when it is stored, and takes nothing new.
func TestStop(t *testing.T) {
	s := start(t, Options{CommitTimeout: patience})
	free := make(chan struct{})
	// Only the first waits: a batch that is taken before the server stops must not hold up the sender that looks for the end of the listener.
	var held atomic.Bool
	s.store.set(nil, func() error {
		if held.CompareAndSwap(false, true) {
			<-free
		}
		return nil
	})
	code := make(chan int, 1)
	go func() { code <- post(t, client(t, nil, false), s.url, strings.NewReader(list(event("a")))).code }()
	eventually(t, "the batch to be taken", func() bool { s.store.mu.Lock(); defer s.store.mu.Unlock(); return s.store.held == 1 })
	ended := make(chan error, 1)
	go func() { ended <- s.stop() }()
	eventually(t, "the listener to close", func() bool {
		_, err := tryPost(t, client(t, nil, false), s.url, strings.NewReader(list(event("late"))))
		return err != nil
	})
	if len(s.store.closed) != 0 {
		t.Error("the lane was closed while a request was in hand")
	}
	close(free)
	if got := receive(t, "an answer", code); got != 200 {
		t.Errorf("answered %d", got)
	}
	if err := receive(t, "the end", ended); err != nil {
		t.Error(err)
	}
	if !slices.Contains(s.store.stored(), "a") {
		t.Error("the batch in hand was lost")
	}
}

func TestRaw(t *testing.T) {
	f := func(t *testing.T, neededOnly bool, want []RawEvent) {
		s := run(t, Options{NeededOnly: neededOnly}, func(ctx context.Context, s *site) error { return s.server.RunRaw(ctx, s.store) })
		s.expect("raw", post(t, client(t, nil, false), s.url, strings.NewReader(list(event("a"), other("b"), "7"))), 200)
		s.expect("nothing", post(t, client(t, nil, false), s.url, strings.NewReader(list())), 200)
		if d := cmp.Diff(want, s.store.raw); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if letters := s.letters.all(); len(letters) != 1 || string(letters[0].Data) != "7" {
			t.Errorf("%+v", letters)
		}
		if len(s.store.opened) != 0 {
			t.Error("a gateway has no lane")
		}
	}
	a := RawEvent{Key: "worker-1", Value: []byte(event("a"))}
	t.Run("needed only", func(t *testing.T) { f(t, true, []RawEvent{a}) })
	t.Run("all", func(t *testing.T) { f(t, false, []RawEvent{a, {Key: "b", Value: []byte(other("b"))}}) })
}

// BenchmarkHandler is a batch of 400 events as an API server sends it, one in five a node's, from the header to the answer.
func BenchmarkHandler(b *testing.B) {
	var items []string
	for i := range 400 {
		if i%5 == 0 {
			items = append(items, event(fmt.Sprint(i)))
		} else {
			items = append(items, other(fmt.Sprint(i)))
		}
	}
	body := list(items...)
	server, err := New(Options{Listen: "127.0.0.1:0", Letters: &letterBox{}})
	if err != nil {
		b.Fatal(err)
	}
	handler := server.Handler(instant{})
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "/audit", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		handler.ServeHTTP(&answerWriter{header: http.Header{}}, req)
	}
	if st := server.Stats(); st.Requests["stored"] != int64(b.N) {
		b.Errorf("%+v", st)
	}
}

// instant is an intake that stores everything at once.
type instant struct{}

func (instant) Announce(context.Context, []string) error            { return nil }
func (instant) Open(context.Context, string, int64) (string, error) { return "", nil }
func (instant) Close(string)                                        {}
func (instant) Take(_ context.Context, batch *source.Batch, done func(error)) error {
	batch.Release()
	done(nil)
	return nil
}

// A padded event takes neither its batch along nor itself: it arrives with what decides about it, however long the body is, also through a gateway.
func TestAttack01PaddedEventsArrive(t *testing.T) {
	opt := Options{MaxBodyBytes: minBodyBytes, MaxEventBytes: 4096}
	padded := func(id string) string {
		return strings.Replace(event(id), "/secrets/db", "/secrets/db?"+strings.Repeat(`\u0026`, minBodyBytes/6), 1)
	}
	bodies := map[string]string{
		"the only one": list(padded("p")), "among others": list(event("a"), padded("p"), event("b"), padded("q"), other("x"), event("c")),
		"first and last": list(padded("p"), event("a"), padded("q")),
	}
	f := func(t *testing.T, raw bool, text, how string) {
		serve := start
		if raw {
			serve = func(t testing.TB, opt Options) *site {
				return run(t, opt, func(ctx context.Context, s *site) error { return s.server.RunRaw(ctx, s.store) })
			}
		}
		s := serve(t, opt)
		body, headers := io.Reader(strings.NewReader(text)), []string(nil)
		switch how {
		case "chunked":
			body = io.MultiReader(body)
		case "zipped":
			body, headers = strings.NewReader(zipped(text)), []string{"Content-Encoding", "gzip"}
		}
		s.expect("padded", post(t, client(t, nil, false), s.url, body, headers...), 200)
		got := s.store.stored()
		for _, ev := range s.store.raw {
			_, id, _ := strings.Cut(string(ev.Value), `"auditID":"`)
			got = append(got, id[:1])
		}
		slices.Sort(got)
		var want []string
		for _, id := range []string{"a", "b", "c", "p", "q", "x"} {
			if strings.Contains(text, `"auditID":"`+id+`"`) && (raw || id != "x") {
				want = append(want, id)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if n := len(s.letters.all()); n > 0 {
			t.Errorf("%d dead letters", n)
		}
	}
	for what, text := range bodies {
		for _, how := range []string{"sized", "chunked", "zipped"} {
			t.Run("analyzer, "+what+", "+how, func(t *testing.T) { f(t, false, text, how) })
			t.Run("gateway, "+what+", "+how, func(t *testing.T) { f(t, true, text, how) })
		}
	}
}
