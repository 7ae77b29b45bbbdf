package webhook

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// patience is how long a test waits for what has to come.
const patience = 60 * time.Second

// eventually polls until ok, or fails the test.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain: %s", what)
		panic("not reached")
	}
}

// event is a node's event as kube-apiserver puts it into a list.
func event(id string) string {
	return `{"level":"Metadata","auditID":"` + id + `","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/shop/secrets/db","verb":"get",` +
		`"user":{"username":"system:node:worker-1","groups":["system:nodes","system:authenticated"]},"objectRef":{"resource":"secrets","namespace":"shop","name":"db","apiVersion":"v1"},` +
		`"requestReceivedTimestamp":"2026-11-21T06:03:57.603813Z","stageTimestamp":"2026-11-21T06:03:57.605218Z"}`
}

// other is an event that no rule needs.
func other(id string) string {
	return strings.Replace(event(id), `"system:node:worker-1","groups":["system:nodes","system:authenticated"]`, `"jane"`, 1)
}

func list(items ...string) string {
	return `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[` + strings.Join(items, ",") + "]}\n"
}

func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, text)
	if err := errors.Join(err, z.Close()); err != nil {
		panic(err)
	}
	return b.String()
}

// store is an intake that keeps the audit IDs it was given. It copies them when the batch is stored, so that memory given back too
// early shows.
type store struct {
	mu      sync.Mutex
	opened  []string
	closed  []string
	ids     []string
	raw     []RawEvent
	counts  audit.Counts
	batches int
	held    int
	// refuse, if it is not nil, says why a batch is not taken.
	refuse func() error
	// result, if it is not nil, gives what done is called with; it may wait.
	result func() error
}

func (s *store) Announce(context.Context, []string) error { return nil }

func (s *store) Open(_ context.Context, lane string, _ int64) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, lane)
	return "", nil
}

func (s *store) Close(lane string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = append(s.closed, lane)
}

func (s *store) hooks() (refuse, result func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refuse, s.result
}

func (s *store) set(refuse, result func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse, s.result = refuse, result
}

func (s *store) admit(done func(error), keep, release func()) error {
	refuse, result := s.hooks()
	if refuse != nil {
		if err := refuse(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.held++
	s.mu.Unlock()
	go func() {
		var err error
		if result != nil {
			err = result()
		}
		s.mu.Lock()
		if err == nil {
			keep()
		}
		s.mu.Unlock()
		release()
		done(err)
	}()
	return nil
}

func (s *store) Take(_ context.Context, b *source.Batch, done func(error)) error {
	return s.admit(done, func() {
		for i := range b.Events {
			s.ids = append(s.ids, strings.Clone(b.Events[i].AuditID))
		}
		s.counts.Add(b.Counts)
		s.batches++
	}, b.Release)
}

func (s *store) TakeRaw(_ context.Context, events []RawEvent, done func(error)) error {
	return s.admit(done, func() {
		for _, ev := range events {
			s.raw = append(s.raw, RawEvent{Key: strings.Clone(ev.Key), Value: bytes.Clone(ev.Value)})
		}
		s.batches++
	}, func() {})
}

// stored returns the audit IDs, sorted.
func (s *store) stored() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.ids))
}

func (s *store) total() audit.Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

func (s *store) empty(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ids) > 0 || len(s.raw) > 0 || s.batches > 0 || s.held > 0 {
		t.Errorf("something got in: %v %v in %d batches", s.ids, s.raw, s.batches)
	}
}

// letterBox keeps dead letters in memory.
type letterBox struct {
	mu      sync.Mutex
	letters []source.Letter
	fail    error
}

func (b *letterBox) Put(letters ...source.Letter) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return b.fail
	}
	for _, l := range letters {
		l.Data = bytes.Clone(l.Data)
		b.letters = append(b.letters, l)
	}
	return nil
}

func (b *letterBox) all() []source.Letter {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.letters)
}

// site is a server that runs.
type site struct {
	t       testing.TB
	server  *Server
	store   *store
	letters *letterBox
	wire    *wire
	url     string
	stop    func() error // ends Run and returns its error
}

// wire counts the bytes that the server has read from its connections.
type wire struct {
	net.Listener
	mu   sync.Mutex
	read int64
}

func (w *wire) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tap{Conn: conn, w: w}, nil
}

func (w *wire) total() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.read
}

type tap struct {
	net.Conn
	w *wire
}

func (c *tap) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.w.mu.Lock()
	c.w.read += int64(n)
	c.w.mu.Unlock()
	return n, err
}

func loopbackListener(t testing.TB) *wire {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return &wire{Listener: l}
}

// start runs a server with the options; it is stopped at the end of the test and must leave nothing behind.
func start(t testing.TB, opt Options) *site {
	t.Helper()
	return run(t, opt, func(ctx context.Context, s *site) error { return s.server.Run(ctx, s.store) })
}

func run(t testing.TB, opt Options, serve func(context.Context, *site) error) *site {
	t.Helper()
	s := &site{t: t, store: &store{}, letters: &letterBox{}, wire: loopbackListener(t)}
	opt.Listener = s.wire
	if opt.Letters == nil {
		opt.Letters = s.letters
	}
	var err error
	if s.server, err = New(opt); err != nil {
		t.Fatal(err)
	}
	scheme := "http://"
	if opt.CertFile != "" {
		scheme = "https://"
	}
	s.url = scheme + s.wire.Addr().String() + s.server.opt.Path
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, s) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		return receive(t, "the server's end", ended)
	})
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		s.idle()
		noGoroutines(t)
	})
	return s
}

// idle checks that all memory came back.
func (s *site) idle() {
	s.t.Helper()
	eventually(s.t, "the budget to be free", func() bool {
		st := s.server.Stats()
		return st.InFlight == 0 && st.InFlightBytes == 0 && st.Connections == 0
	})
}

// noGoroutines checks that none of the package's are left.
func noGoroutines(t testing.TB) {
	t.Helper()
	buf := make([]byte, 1<<20)
	eventually(t, "goroutines to end", func() bool {
		stacks := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
		return !slices.ContainsFunc(stacks[1:], func(stack string) bool {
			return strings.Contains(stack, "pipeline/webhook.(*Server)") || strings.Contains(stack, "pipeline/webhook.(*endpoint)") ||
				strings.Contains(stack, "net/http.(*conn).serve")
		})
	})
}

// client makes a client of its own connections.
func client(t testing.TB, conf *tls.Config, http2 bool) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: http2, DisableCompression: true, MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 2 * patience}
}

type reply struct {
	code   int
	header http.Header
	proto  string
}

// post sends a body and returns the answer.
func post(t testing.TB, c *http.Client, url string, body io.Reader, headers ...string) reply {
	t.Helper()
	r, err := tryPost(t, c, url, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryPost(t testing.TB, c *http.Client, url string, body io.Reader, headers ...string) (reply, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return reply{}, err
	}
	return reply{resp.StatusCode, resp.Header, resp.Proto}, nil
}

func (s *site) expect(what string, r reply, code int) {
	s.t.Helper()
	if r.code != code {
		s.t.Errorf("%s: answered %d, want %d", what, r.code, code)
	}
	retry := r.header.Get("Retry-After")
	if again := code == 429 || code == 503; again != (retry == "2") {
		s.t.Errorf("%s: answered %d with Retry-After %q", what, code, retry)
	}
}

func (s *site) requests(name string) int64 { return s.server.Stats().Requests[name] }

func tempFile(t testing.TB) string { return filepath.Join(t.TempDir(), "file") }

func ids(prefix string, n int) (items, names []string) {
	for i := range n {
		id := fmt.Sprintf("%s%05d", prefix, i)
		items, names = append(items, event(id)), append(names, id)
	}
	return items, names
}
