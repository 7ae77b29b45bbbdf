package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/tally"
)

// fakeClock is a clock that moves only when it is set, in either direction.
type fakeClock struct{ nanos atomic.Int64 }

func newFakeClock() *fakeClock {
	c := &fakeClock{}
	c.nanos.Store(time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *fakeClock) now() time.Time          { return time.Unix(0, c.nanos.Load()).UTC() }
func (c *fakeClock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

// operation is one event of a request as an audit log has it. Requests whose IDs differ by twins have all but the answer in common.
type operation struct {
	id    int
	stage string
}

const (
	twins = 48
	began = "RequestReceived"
	ended = "ResponseComplete"
)

func (o operation) auditID() string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", o.id%twins) }

func (o operation) request() (is tally.Seen) {
	(&audit.Decoder{}).Chunk([]byte(o.line()), 1, func(ev *audit.Event) { is = tally.Seen{ID: idOf(ev), Answer: answerOf(ev)} }, func(audit.Malformed) {})
	return is
}

// requestsOf counts the requests that the operations are of by the first of their IDs: one for each answer, or one without.
func requestsOf(all []operation) map[int]int {
	answers := map[int]map[int]bool{}
	for _, o := range all {
		id := o.id % twins
		if answers[id] == nil {
			answers[id] = map[int]bool{}
		}
		if o.stage == ended {
			answers[id][o.id/twins] = true
		}
	}
	n := map[int]int{}
	for id, of := range answers {
		n[id] = max(1, len(of))
	}
	return n
}

// line is the event as JSON. A third of the requests any node may make, of the others nothing is known.
func (o operation) line() string {
	code := 200 + o.id/twins*204
	o.id %= twins
	verb, resource, namespace, name := "get", "secrets", "ns", "s"+strconv.Itoa(o.id%5)
	uri := "/api/v1/namespaces/ns/secrets/" + name
	if o.id%3 == 0 {
		verb, resource, namespace, name, uri = "create", "nodes", "", "", "/api/v1/nodes"
	}
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC).Add(time.Duration(o.id) * 100 * time.Millisecond)
	switch o.id {
	case 7:
		at = time.Time{}.Add(time.Hour)
	case 11:
		at = time.Date(9998, 12, 31, 23, 59, 59, 0, time.UTC) // the latest that is read
	}
	response := ""
	if o.stage == ended {
		response = fmt.Sprintf(`,"responseStatus":{"code":%d},"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}`, code)
	}
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"%s","stage":"%s","requestURI":"%s","verb":"%s",`+
		`"user":{"username":"system:node:n%d","groups":["system:nodes","system:authenticated"]},"sourceIPs":["10.0.0.%d"],"userAgent":"kubelet/v1",`+
		`"objectRef":{"resource":"%s","namespace":"%s","name":"%s","apiVersion":"v1"},"requestReceivedTimestamp":"%s","stageTimestamp":"%s"%s}`,
		o.auditID(), o.stage, uri, verb, o.id%4, o.id%4, resource, namespace, name, at.Format(time.RFC3339Nano), at.Format(time.RFC3339Nano), response)
}

// model drives engines over one store, each until it is killed, and holds what they acknowledge against what is stored.
type model struct {
	t      testing.TB
	store  *modelStore
	clock  *fakeClock
	mode   string
	opt    EngineOptions
	logs   map[string][]operation // of lanes with positions
	events map[string][]operation // of all lanes, to be judged in the end

	e      *Engine
	kill   func()
	open   map[string]bool
	taken  map[string]int // how far the lane was read
	mu     sync.Mutex
	undone int
	lost   []string
}

func (m *model) start() {
	killed, opt := false, m.opt
	opt.Judge, opt.Ledger = judgeOf(m.t, cluster.NewState(), m.mode), evidence.New()
	opt.Store, opt.Skew, opt.Log, opt.Now = process{m.store, &killed}, 150*time.Millisecond, zerolog.Nop(), m.clock.now
	e, err := NewEngine(m.t.Context(), opt)
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(m.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = e.Run(ctx) // one that was killed says that it could not store
	}()
	m.e, m.open, m.taken = e, map[string]bool{}, map[string]int{}
	m.kill = func() {
		m.store.mu.Lock()
		killed = true
		m.store.mu.Unlock()
		cancel()
		m.within("the engine to end", func() { <-done })
	}
}

// within fails where f takes indefinitely.
func (m *model) within(what string, f func()) {
	m.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		m.t.Fatalf("waited in vain for %s", what)
	}
}

// openLane opens the lane unless it is open.
func (m *model) openLane(name string) {
	if m.open[name] {
		return
	}
	position, err := m.e.Open(m.t.Context(), name, 0)
	if err != nil {
		m.t.Fatalf("opening %s: %v", name, err)
	}
	m.open[name] = true
	m.taken[name], _ = strconv.Atoi(position)
}

func (m *model) closeLane(name string) {
	if m.open[name] {
		m.within("a lane to close", func() { m.e.Close(name) })
		m.open[name] = false
	}
}

// take gives events to the lane, in memory that is overwritten when it is given back.
func (m *model) take(name string, position string, behind bool, all []operation) error {
	var text bytes.Buffer
	for _, o := range all {
		text.WriteString(o.line() + "\n")
	}
	buf := text.Bytes()
	b := &source.Batch{
		Lane: name, Position: position, Behind: behind, Received: m.clock.now(),
		Release: func() {
			for i := range buf {
				buf[i] = 'X'
			}
		},
	}
	b.Counts = (&audit.Decoder{}).Chunk(buf, 1, func(ev *audit.Event) { b.Events = append(b.Events, *ev) }, func(bad audit.Malformed) { m.t.Fatal(bad) })
	if len(b.Events) != len(all) {
		m.t.Fatalf("%d events of %d", len(b.Events), len(all))
	}
	m.mu.Lock()
	m.undone++
	m.mu.Unlock()
	store := m.store
	err := m.e.Take(m.t.Context(), b, func(err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.undone--
		if err != nil {
			return
		}
		store.mu.Lock()
		defer store.mu.Unlock()
		for _, o := range all {
			if !store.stored(o) || !store.witnessed(o) {
				m.lost = append(m.lost, fmt.Sprintf("%s of %d by %s, or its evidence", o.stage, o.id, name))
			}
		}
	})
	if err != nil {
		m.mu.Lock()
		m.undone--
		m.mu.Unlock()
	}
	return err
}

// read gives the next n events of the lane's log to it.
func (m *model) read(name string, n int, behind bool) {
	m.openLane(name)
	log, at := m.logs[name], m.taken[name]
	n = min(n, len(log)-at)
	if n <= 0 {
		return
	}
	switch err := m.take(name, strconv.Itoa(at+n), behind, log[at:at+n]); {
	case err == nil:
		m.taken[name] = at + n
	case !errors.Is(err, source.ErrBusy):
		m.t.Fatalf("taking: %v", err)
	}
}

// poke lets the engine look at its clock.
func (m *model) poke() {
	m.within("the engine to look up", func() {
		if err := m.e.Do(m.t.Context(), func() {}); err != nil {
			m.t.Error(err)
		}
	})
}

// finish brings everything again that is not stored, until all is, and holds the sums against what they must be.
func (m *model) finish() {
	m.t.Helper()
	m.store.mu.Lock()
	m.store.fail, m.store.lives = nil, 0
	m.store.mu.Unlock()
	m.kill()
	m.start()
	for name := range m.logs {
		m.openLane(name)
	}
	m.openLane("webhook:w")
	retry := m.events["webhook:w"]
	for deadline := time.Now().Add(time.Minute); ; {
		for name := range m.logs {
			m.read(name, 10, false)
		}
		if n := min(10, len(retry)); n > 0 && m.take("webhook:w", "", false, retry[:n]) == nil {
			retry = retry[n:]
		}
		m.clock.advance(time.Second)
		m.poke()
		m.mu.Lock()
		undone := m.undone
		m.mu.Unlock()
		done := undone == 0 && len(retry) == 0 && m.e.Stats().Open == 0 && m.e.Stats().Waiting == 0
		for name, log := range m.logs {
			done = done && m.taken[name] == len(log)
		}
		if done {
			break
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("%d batches are not acknowledged: %+v", undone, m.e.Stats())
		}
	}
	// What was opened alone is stored after its batch was acknowledged.
	want, total := requestsOf(slices.Concat(slices.Collect(maps.Values(m.events))...)), 0
	for _, n := range want {
		total += n
	}
	for deadline := time.Now().Add(time.Minute); ; {
		m.store.mu.Lock()
		n, left := m.store.count(), len(m.store.opened)
		m.store.mu.Unlock()
		if n == total && left == 0 {
			break
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("%d requests are stored of %d, %d are open", n, total, left)
		}
		m.clock.advance(time.Second)
		m.poke()
	}
	m.kill()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.lost) > 0 {
		m.t.Fatalf("acknowledged and not stored: %v", m.lost)
	}
	var static, others int64
	for id, n := range want {
		if id%3 == 0 {
			static += int64(n)
		} else {
			others += int64(n)
		}
	}
	sum := m.store.sum
	if sum.Sums.Allow != static || sum.Sums.Unknown != others || sum.Sums.Deny != 0 {
		m.t.Errorf("%d allowed, %d unknown, %d denied; want %d, %d, 0", sum.Sums.Allow, sum.Sums.Unknown, sum.Sums.Deny, static, others)
	}
	if text := fmt.Sprint(sum.Nodes, sum.Ambient, sum.Disagreements, sum.Groups, m.store.memory); strings.Contains(text, "XX") {
		m.t.Errorf("something points into memory that was given back: %.200s", text)
	}
}

func newModel(t testing.TB) *model {
	return &model{
		t: t, store: newModelStore(), clock: newFakeClock(), mode: "auto", logs: map[string][]operation{}, events: map[string][]operation{},
		opt: EngineOptions{
			Settle: 200 * time.Millisecond, CommitEvery: time.Millisecond, WaitAtMost: 5 * time.Second, OpenFor: 20 * time.Second,
			MaxBytes: 128 << 10, MaxRequests: 64,
		},
	}
}

// play does what the bytes say.
func play(t testing.TB, script []byte) {
	m := newModel(t)
	m.start()
	next := 0
	at := func() int {
		if next >= len(script) {
			return 0
		}
		next++
		return int(script[next-1])
	}
	lanes := []string{"file:a", "file:b", "file:c"}
	for i, name := range lanes {
		for n := at() % 40; n > 0; n-- {
			o := operation{id: at() % (2 * twins), stage: ended}
			if o.id%5 == i {
				o.stage = began
			}
			m.logs[name] = append(m.logs[name], o)
		}
		m.events[name] = m.logs[name]
	}
	broken := false
	m.store.mu.Lock()
	m.store.fail = func() error {
		if broken {
			return errors.New("no space left on device")
		}
		return nil
	}
	m.store.mu.Unlock()
	jumps := []time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second, 6 * time.Second, 30 * time.Second, 5 * time.Hour, -5 * time.Hour, -time.Second}
	for next < len(script) {
		switch op := at(); op % 9 {
		case 0, 1, 2:
			m.read(lanes[op%3], 1+at()%12, op&16 != 0)
		case 3:
			m.openLane("webhook:w")
			var all []operation
			for n := 1 + at()%6; n > 0; n-- {
				o := operation{id: at() % (2 * twins), stage: ended}
				if o.id&1 != op>>4&1 {
					o.stage = began
				}
				all = append(all, o)
			}
			if err := m.take("webhook:w", "", false, all); err == nil {
				m.events["webhook:w"] = append(m.events["webhook:w"], all...)
			} else if !errors.Is(err, source.ErrBusy) {
				t.Fatal(err)
			}
		case 4:
			m.closeLane(append(lanes, "webhook:w")[at()%4])
		case 5:
			m.kill()
			m.start()
		case 6:
			m.store.mu.Lock()
			broken = !broken
			m.store.mu.Unlock()
		case 7:
			m.clock.advance(jumps[at()%len(jumps)])
			m.poke()
		case 8:
			m.poke()
		}
	}
	m.finish()
}

// Random scripts do what FuzzEngine says.
func TestRequestsWithOneIDInAnyOrder(t *testing.T) {
	for seed := range effort.Of(uint64(40), 8) {
		rnd := rand.New(rand.NewPCG(seed, 29))
		script := make([]byte, 100+rnd.IntN(400))
		for i := range script {
			script[i] = byte(rnd.Uint32())
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { play(t, script) })
	}
}

// Whatever is taken in, in whatever order and however often, while lanes come and go, the store fails, the clock jumps and the process is
// killed: what is acknowledged is stored, and each request counts once.
func FuzzEngine(f *testing.F) {
	f.Add([]byte("\x05abcde\x05fghij\x02kl\x00\x05\x01\x05\x02\x05\x07\x01\x05\x00\x05\x03\x03abc\x06\x08\x04\x00\x04\x03\x06\x08"))
	f.Add(bytes.Repeat([]byte{39, 1, 77, 3, 200, 16, 4, 7, 2, 8, 0, 33, 5, 6, 8, 40, 6}, 20))
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 1000 {
			return
		}
		play(t, script)
	})
}
