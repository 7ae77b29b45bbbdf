package alertmanager

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/sinks"
)

// patience is how long a very slow machine may take.
const patience = 2 * time.Minute

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// start is when all tests begin.
var start = time.Date(2026, 11, 21, 6, 40, 0, 0, time.UTC)

// clock stands still unless a test moves it.
type clock struct {
	mu      sync.Mutex
	now     time.Time
	waiting map[int]waiter
	n       int
}

type waiter struct {
	at time.Time
	c  chan time.Time
}

func newClock() *clock { return &clock{now: start, waiting: map[int]waiter{}} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) At(t time.Time) (<-chan time.Time, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := waiter{t, make(chan time.Time, 1)}
	if !t.After(c.now) {
		w.c <- c.now
		return w.c, func() {}
	}
	id := c.n
	c.n++
	c.waiting[id] = w
	return w.c, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, id)
	}
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for id, w := range c.waiting {
		if !w.at.After(c.now) {
			w.c <- c.now
			delete(c.waiting, id)
		}
	}
}

func (c *clock) parked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

// manager is an Alertmanager: it judges requests as that of api/v2/api.go does, and keeps alerts as provider/mem does.
type manager struct {
	t     testing.TB
	clock *clock
	srv   *httptest.Server

	mu     sync.Mutex
	down   bool
	hang   chan struct{}
	poison string // in an annotation, of alerts that it refuses
	auth   string // the header Authorization that it wants
	posts  int
	log    []received
	alerts map[string]received
}

type received struct {
	alertJSON
	at    time.Time
	posts int
}

func (r *received) firing() bool { return r.EndsAt.After(r.at) }

func newManager(t testing.TB, c *clock) *manager {
	m := &manager{t: t, clock: c, alerts: map[string]received{}}
	m.srv = httptest.NewServer(m)
	t.Cleanup(m.srv.Close)
	return m
}

func (m *manager) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	m.mu.Lock()
	hang := m.hang
	m.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-req.Context().Done():
		}
		return
	}
	if err != nil {
		return // the client went away
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.down:
		panic(http.ErrAbortHandler) // as a connection that breaks
	case req.URL.Path != "/api/v2/alerts":
		http.Error(w, "path "+req.URL.Path+" was not found", http.StatusNotFound)
	case req.Method != http.MethodPost:
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	case m.auth != "" && req.Header.Get("Authorization") != m.auth:
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
	case req.Header.Get("Content-Type") != "application/json":
		http.Error(w, "unsupported media type", http.StatusUnsupportedMediaType)
	default:
		if err := m.take(body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}
}

// take keeps the alerts that are valid, also where others are not.
func (m *manager) take(body []byte) error {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	var all []alertJSON
	if err := d.Decode(&all); err != nil || !utf8.Valid(body) {
		m.t.Errorf("not alerts: %v", err)
		return fmt.Errorf("parsing alerts body failed: %w", err)
	}
	m.posts++
	var refused error
	for _, a := range all {
		if err := m.valid(&a); err != nil {
			refused = err
			continue
		}
		r := received{alertJSON: a, at: m.clock.Now(), posts: m.posts}
		m.log = append(m.log, r)
		id := fmt.Sprint(a.Labels)
		// Of times that overlap the earliest beginning stays; an end that was sent, or else the latest, rules.
		if was, known := m.alerts[id]; known && a.StartsAt.After(was.StartsAt) && a.StartsAt.Before(was.EndsAt) {
			r.StartsAt = was.StartsAt
		}
		m.alerts[id] = r
	}
	return refused
}

func (m *manager) valid(a *alertJSON) error {
	for kind, set := range map[string]map[string]string{"label": a.Labels, "annotation": a.Annotations} {
		for name, value := range set {
			if !isLabelName(name) || !utf8.ValidString(value) || value == "" {
				m.t.Errorf("%s %q=%q", kind, name, value)
				return fmt.Errorf("invalid %s set: %q=%q", kind, name, value)
			}
			if m.poison != "" && strings.Contains(value, m.poison) {
				return fmt.Errorf("invalid %s set: %q=%q", kind, name, value)
			}
		}
	}
	if _, err := url.ParseRequestURI(a.GeneratorURL); err != nil {
		m.t.Error(err)
		return fmt.Errorf("generatorURL must be of type uri: %w", err)
	}
	switch {
	case len(a.Labels) == 0:
		m.t.Error("no labels")
		return fmt.Errorf("at least one label pair required")
	case a.StartsAt.IsZero() || a.EndsAt.Before(a.StartsAt):
		m.t.Errorf("from %s to %s", a.StartsAt, a.EndsAt)
		return fmt.Errorf("start time must be before end time")
	}
	return nil
}

func (m *manager) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// has is what it would show now: the alerts that fire and those that are over, by rule and node.
func (m *manager) has() (firing, over []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	for _, a := range m.alerts {
		name := a.Labels["alertname"] + " " + a.Labels["node"]
		if a.EndsAt.After(now) {
			firing = append(firing, name)
		} else {
			over = append(over, name)
		}
	}
	slices.Sort(firing)
	slices.Sort(over)
	return firing, over
}

func (m *manager) received() []received {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.log)
}

// memory is a store.
type memory struct {
	mu       sync.Mutex
	findings map[string]sinks.Finding // by ID and hour
	alerts   map[string]Kept
	fail     bool
	reads    int
}

func newMemory() *memory {
	return &memory{findings: map[string]sinks.Finding{}, alerts: map[string]Kept{}}
}

// add stores a finding as a commit does, before it is given to sinks.
func (m *memory) add(all ...sinks.Finding) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range all {
		k := f.ID + f.Last.Truncate(time.Hour).String()
		if was, known := m.findings[k]; known {
			f.First, f.Count = was.First, f.Count+was.Count
		}
		m.findings[k] = f
	}
}

func (m *memory) Recent(_ context.Context, since time.Time) ([]sinks.Finding, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if m.fail {
		return nil, fmt.Errorf("the store is away")
	}
	var out []sinks.Finding
	for _, f := range m.findings {
		if !f.Last.Before(since.Truncate(time.Hour)) {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b sinks.Finding) int { return b.Last.Compare(a.Last) })
	return out, nil
}

func (m *memory) Kept(_ context.Context, prefix string) ([]Kept, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Kept
	for k, a := range m.alerts {
		if strings.HasPrefix(k, prefix) {
			out = append(out, a)
		}
	}
	return out, nil
}

func (m *memory) Keep(_ context.Context, put []Kept, gone []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range gone {
		delete(m.alerts, k)
	}
	for _, a := range put {
		m.alerts[a.Key] = a
	}
	return nil
}

func (m *memory) kept() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.alerts)
}

// bench is a sink under test.
type bench struct {
	t     *testing.T
	clock *clock
	store *memory
	peers []*manager
	sinks []*Sink
}

func newBench(t *testing.T, peers int) *bench {
	b := &bench{t: t, clock: newClock(), store: newMemory()}
	for range peers {
		b.peers = append(b.peers, newManager(t, b.clock))
	}
	return b
}

// begin starts a sink, and waits until it has read the store.
func (b *bench) begin(change ...func(*Options)) *Sink {
	b.t.Helper()
	o := Options{
		Recent: b.store.Recent, Keeper: b.store, Clock: b.clock, ExternalURL: "https://nodetrail.example", Log: zerolog.Nop(),
		Labels: map[string]string{"team": "platform"},
	}
	for _, p := range b.peers {
		o.URLs = append(o.URLs, p.srv.URL)
	}
	for _, f := range change {
		f(&o)
	}
	s, err := New(o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.sinks = append(b.sinks, s)
	b.t.Cleanup(func() { b.end(s) })
	b.settle()
	return s
}

// end closes a sink at once, as if it were killed.
func (b *bench) end(s *Sink) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Close(ctx)
	b.sinks = slices.DeleteFunc(b.sinks, func(o *Sink) bool { return o == s })
}

// settle waits until all goroutines of all sinks have done what they were woken for, and wait for the clock. Nothing that a test asserts after it
// depends on when a goroutine runs.
func (b *bench) settle() {
	b.t.Helper()
	n := 0
	for _, s := range b.sinks {
		n += 1 + len(s.peers)
	}
	parked := func() bool { return b.clock.parked() == n }
	// A peer that was woken counts as parked until it runs. Once all are parked nobody wakes one; once each has looked, who is parked waits.
	eventually(b.t, "everybody waits for the clock", func() bool { return parked() && b.looked() && parked() })
}

func (b *bench) looked() bool {
	for _, s := range b.sinks {
		s.mu.Lock()
		behind := s.book.hurry || s.keeping || slices.ContainsFunc(s.peers, func(p *peer) bool { return p.told && !p.pausing })
		s.mu.Unlock()
		if behind {
			return false
		}
	}
	return true
}

// pass lets time pass, in steps.
func (b *bench) pass(d time.Duration) {
	b.t.Helper()
	const step = 5 * time.Second
	b.settle()
	for ; d > 0; d -= step {
		b.clock.advance(min(step, d))
		b.settle()
	}
}

// find stores a finding and gives it to the sinks.
func (b *bench) find(s *Sink, f sinks.Finding) {
	b.t.Helper()
	b.store.add(f)
	s.Add([]sinks.Finding{f})
	b.settle()
}

// finding is one of now, minus ago.
func (b *bench) finding(node, name string, ago time.Duration) sinks.Finding {
	at := b.clock.Now().Add(-ago)
	return sinks.Finding{
		ID: "id-" + node + "-" + name, Cluster: "prod", Rule: "out-of-scope-secret-read", Severity: "critical", Node: node, Verb: "get",
		Resource: "secrets", Namespace: "shop", Name: name, UserAgent: "curl", Allowed: true, Authorized: true, Message: "get secret shop/" + name + " by node " + node,
		Count: 1, First: at, Last: at, AuditIDs: []string{"audit-" + name}, Runbook: "docs/rules/out-of-scope-secret-read.md",
		Binding: sinks.Binding{Kind: "ClusterRoleBinding", Name: "system:node"},
	}
}
