package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// logLine is a line of a log, decoded.
type logLine struct {
	events []audit.Event
	counts audit.Counts
}

// capture is the log of a real cluster.
func capture(t testing.TB) []logLine {
	t.Helper()
	f, err := os.Open("../internal/demo/capture/audit.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	log, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	var lines []logLine
	dec := audit.Decoder{Want: audit.Want{State: true}}
	for _, raw := range bytes.Split(bytes.TrimSpace(log), []byte("\n")) {
		var l logLine
		l.counts = dec.Chunk(raw, 1, func(ev *audit.Event) { l.events = append(l.events, *ev) }, func(m audit.Malformed) { t.Fatal(m) })
		lines = append(lines, l)
	}
	return lines
}

func batchOf(lines []logLine) *source.Batch {
	b := &source.Batch{Received: time.Now()}
	for i := range lines {
		b.Events = append(b.Events, lines[i].events...)
		b.Counts.Add(lines[i].counts)
	}
	return b
}

func loaded(t testing.TB, journal string) *cluster.State {
	t.Helper()
	state := cluster.NewState()
	if err := state.Load([]string{journal}, nil); err != nil {
		t.Fatal(err)
	}
	return state
}

func judgeOf(t testing.TB, state *cluster.State, mode string) *Judge {
	t.Helper()
	features, err := nodeauthz.FeaturesFor("")
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseMode(mode)
	if err != nil {
		t.Fatal(err)
	}
	auth := nodeauthz.NewAuthorizer(state.Graph, features, 150*time.Millisecond)
	return &Judge{Node: auth, RBAC: state.RBAC, State: NewView(state, auth), Rules: rules.All(), Memory: rules.NewMemory(), Mode: m}
}

const captureJournal = "../internal/demo/capture/journal.jsonl.gz"

// analyzed is what analyze makes of the lines.
func analyzed(t testing.TB, lines []logLine, mode string, fromAudit bool) *tally.Tally {
	t.Helper()
	state := loaded(t, captureJournal)
	judge := judgeOf(t, state, mode)
	sum := tally.New()
	var entries Entries
	var feed StateSink
	if fromAudit {
		feed = state
	}
	s := NewStream(judge, feed, Options{Skew: 150 * time.Millisecond}, func(j *Judgement) error {
		sum.Add(entries.Of(j))
		return nil
	})
	b := batchOf(lines)
	if err := s.Batch(&Batch{Events: b.Events}); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	return sum
}

// same compares what must be equal: verdicts, agreement, nodes, and findings but for which auditIDs are their examples.
func same(t *testing.T, want, got *tally.Tally) {
	t.Helper()
	strip := func(s *tally.Tally) map[tally.Key]tally.Group {
		out := map[tally.Key]tally.Group{}
		for k, g := range s.Groups {
			c := *g
			c.AuditIDs, c.Reason, c.Params = nil, "", nil
			out[k] = c
		}
		return out
	}
	if diff := cmp.Diff(want.Sums, got.Sums); diff != "" {
		t.Errorf("sums (-analyze +engine):\n%s", diff)
	}
	if diff := cmp.Diff(want.Nodes, got.Nodes); diff != "" {
		t.Errorf("nodes (-analyze +engine):\n%s", diff)
	}
	if diff := cmp.Diff(strip(want), strip(got)); diff != "" {
		t.Errorf("findings (-analyze +engine):\n%s", diff)
	}
	if diff := cmp.Diff(want.Ambient, got.Ambient); diff != "" {
		t.Errorf("access of any authenticated user (-analyze +engine):\n%s", diff)
	}
	if diff := cmp.Diff(want.Admission, got.Admission); diff != "" {
		t.Errorf("admission (-analyze +engine):\n%s", diff)
	}
}

// harness runs engines over one store, one after the other.
type harness struct {
	t         *testing.T
	store     *modelStore
	mode      string
	fromAudit bool
	state     *cluster.State
	opt       EngineOptions
}

// start starts an engine as a process of its own. kill ends it as kill -9 would: nothing is stored any more; stop asks it to end.
func (h *harness) start() (e *Engine, kill, stop func()) {
	h.t.Helper()
	if h.state == nil || h.fromAudit {
		h.state = loaded(h.t, captureJournal) // a process that does not feed it may share it
	}
	state := h.state
	judge := judgeOf(h.t, state, h.mode)
	killed := false
	p := process{h.store, &killed}
	opt := h.opt
	opt.Judge, opt.Store, opt.Skew, opt.Log, opt.Ledger = judge, p, 150*time.Millisecond, zerolog.Nop(), evidence.New()
	if opt.Detectors == nil {
		opt.Detectors = newDetectors() // in a log as short as the capture they find nothing, and take part in every commit
	}
	if h.fromAudit {
		opt.State = state
	}
	e, err := NewEngine(context.Background(), opt)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = e.Run(ctx) // an engine that was killed says that it could not store
	}()
	return e, func() {
			h.store.mu.Lock()
			killed = true
			h.store.mu.Unlock()
			cancel()
			<-done
		}, func() {
			cancel()
			<-done
		}
}

// tail is a source with positions: it resumes from what is stored. It returns when everything is, or ctx ends.
func tail(ctx context.Context, t *testing.T, e *Engine, name string, lines []logLine, rnd *rand.Rand) bool {
	return tailUnder(ctx, t, e, name, 0, lines, rnd)
}

// tailUnder is tail under a fence.
func tailUnder(ctx context.Context, t *testing.T, e *Engine, name string, fence int64, lines []logLine, rnd *rand.Rand) bool {
	pos, err := e.Open(ctx, name, fence)
	if err != nil {
		return false
	}
	at := 0
	if pos != "" {
		if at, err = strconv.Atoi(pos); err != nil {
			t.Errorf("position %q", pos)
			return false
		}
	}
	stored := make(chan error, len(lines)+1)
	waiting := 0
	for at < len(lines) {
		n := min(1+rnd.IntN(200), len(lines)-at)
		b := batchOf(lines[at : at+n])
		at += n
		b.Lane, b.Position, b.Behind, b.Wait = name, strconv.Itoa(at), at < len(lines), true
		if err := e.Take(ctx, b, func(err error) { stored <- err }); err != nil {
			return false
		}
		waiting++
	}
	for ; waiting > 0; waiting-- {
		select {
		case err := <-stored:
			if err != nil {
				return false
			}
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func TestEngineEqualsAnalyze(t *testing.T) {
	lines := capture(t)
	for _, mode := range []string{"Node,RBAC", "auto"} {
		for _, fromAudit := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s audit=%t", mode, fromAudit), func(t *testing.T) {
				t.Parallel()
				h := &harness{t: t, store: newModelStore(), mode: mode, fromAudit: fromAudit}
				h.opt = EngineOptions{Settle: 20 * time.Millisecond, CommitEvery: time.Millisecond}
				e, _, stop := h.start()
				if !tail(t.Context(), t, e, "file:a", lines, rand.New(rand.NewPCG(1, 2))) {
					t.Fatal("not stored")
				}
				stop()
				same(t, analyzed(t, lines, mode, fromAudit), h.store.sum)
				sameEvidence(t, lines, h.store)
				if got := h.store.sum.Events; got.Read != int64(len(lines)) || got.Malformed != 0 || got.Node == 0 {
					t.Errorf("events %+v", got)
				}
			})
		}
	}
}

// Where all requests have one auditID and times are whole seconds, what was another request for analyze is one for run, too.
func TestEngineEqualsAnalyzeWithOneAuditID(t *testing.T) {
	lines := slices.Clone(capture(t))
	for i := range lines {
		lines[i].events = slices.Clone(lines[i].events)
		for j := range lines[i].events {
			ev := &lines[i].events[j]
			ev.AuditID, ev.RequestReceived, ev.StageTime = "same", ev.RequestReceived.Truncate(time.Second), ev.StageTime.Truncate(time.Second)
		}
	}
	h := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
	h.opt = EngineOptions{Settle: 20 * time.Millisecond, CommitEvery: time.Millisecond}
	e, _, stop := h.start()
	if !tail(t.Context(), t, e, "file:a", lines, rand.New(rand.NewPCG(1, 2))) {
		t.Fatal("not stored")
	}
	stop()
	same(t, analyzed(t, lines, h.mode, false), h.store.sum)
	if got := h.store.sum.Events; got.Duplicates == 0 || 2*got.Duplicates > got.Node {
		t.Errorf("%d of %d events count as duplicates", got.Duplicates, got.Node)
	}
}

// Killed at any moment and started again, it has the same totals in the end.
func TestEngineKilled(t *testing.T) {
	lines := capture(t)
	want := analyzed(t, lines, "Node,RBAC", false)
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 7))
			h := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
			h.opt = EngineOptions{Settle: 5 * time.Millisecond, CommitEvery: time.Millisecond}
			const kills = 25
			for n := 0; ; n++ {
				h.store.mu.Lock()
				h.store.died = make(chan struct{})
				if h.store.lives = 0; n < kills {
					h.store.lives = 1 + rnd.IntN(4)
				}
				died := h.store.died
				h.store.mu.Unlock()
				e, kill, stop := h.start()
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					select {
					case <-died:
						kill()
						cancel()
					case <-ctx.Done():
					}
				}()
				all := tail(ctx, t, e, "file:a", lines, rnd)
				cancel()
				if all {
					stop()
					break
				}
				kill()
			}
			same(t, want, h.store.sum)
			sameEvidence(t, lines, h.store)
			if got := h.store.sum.Events; got.Read != int64(len(lines)) {
				t.Errorf("after %d kills events %+v, want %d read", kills, got, len(lines))
			}
		})
	}
}

// A webhook's client sends batches at once and in any order, each until the answer says that it was stored; the process is killed meanwhile.
func TestEngineWithRetriesAndKills(t *testing.T) {
	lines := capture(t)
	want := analyzed(t, lines, "Node,RBAC", false)
	rnd := rand.New(rand.NewPCG(3, 9))
	h := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
	h.opt = EngineOptions{Settle: 100 * time.Millisecond, CommitEvery: time.Millisecond}

	var mu sync.Mutex
	var current *Engine
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	restart := func() (kill func()) {
		e, kill, _ := h.start()
		if _, err := e.Open(ctx, "webhook:a", 0); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		current = e
		mu.Unlock()
		return kill
	}
	kill := restart()
	var batches [][]logLine
	for at := 0; at < len(lines); {
		n := min(1+rnd.IntN(100), len(lines)-at)
		batches = append(batches, lines[at:at+n])
		at += n
	}
	// Neighbours change places, and some come twice.
	for i := 0; i+3 < len(batches); i += 3 {
		rnd.Shuffle(3, func(a, b int) { batches[i+a], batches[i+b] = batches[i+b], batches[i+a] })
	}
	for range len(batches) / 5 {
		i := rnd.IntN(len(batches))
		batches = slices.Insert(batches, i, batches[i])
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 40)
	for _, lines := range batches {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			for ctx.Err() == nil {
				mu.Lock()
				e := current
				mu.Unlock()
				b := batchOf(lines)
				b.Lane = "webhook:a"
				stored := make(chan error, 1)
				if e.Take(ctx, b, func(err error) { stored <- err }) != nil || <-stored != nil {
					time.Sleep(time.Millisecond) // the next try
					continue
				}
				return
			}
		})
	}
	finished := make(chan struct{})
	go func() {
		wg.Wait()
		close(finished)
	}()
	for kills := 0; ; kills++ {
		after := time.Duration(rnd.IntN(150)) * time.Millisecond
		if kills >= 10 {
			after = time.Minute
		}
		select {
		case <-finished:
			kill()
			// What a client got an answer for is stored; the order in which requests were judged may differ, and with it who was first.
			if diff := cmp.Diff(want.Sums, h.store.sum.Sums); diff != "" {
				t.Errorf("sums (-analyze +engine):\n%s", diff)
			}
			if diff := cmp.Diff(want.Nodes, h.store.sum.Nodes); diff != "" {
				t.Errorf("nodes (-analyze +engine):\n%s", diff)
			}
			sameEvidence(t, lines, h.store)
			return
		case <-time.After(after):
			kill()
			kill = restart()
		}
	}
}

// Two processes take a lane from each other: what the one that lost it had not stored, the other one counts.
func TestEngineFenced(t *testing.T) {
	lines := capture(t)
	want := analyzed(t, lines, "Node,RBAC", false)
	h := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
	h.opt = EngineOptions{Settle: 5 * time.Millisecond, CommitEvery: time.Millisecond}
	one, _, stopOne := h.start()
	two, _, stopTwo := h.start()
	engines := []*Engine{one, two}
	half := len(lines) / 2
	parts := map[string][]logLine{"kafka:a/0": lines[:half], "kafka:a/1": lines[half:]}
	read := func(ctx context.Context, e *Engine, name string, fence int64, lines []logLine, stop int) error {
		pos, err := e.Open(ctx, name, fence)
		if err != nil {
			return err
		}
		at, _ := strconv.Atoi(pos)
		var last chan error
		for i := 0; at < len(lines) && i < stop; i++ {
			n := min(100, len(lines)-at)
			b := batchOf(lines[at : at+n])
			at += n
			b.Lane, b.Position, b.Behind, b.Wait = name, strconv.Itoa(at), at < len(lines), true
			done := make(chan error, 1)
			if err := e.Take(ctx, b, func(err error) { done <- err }); err != nil {
				return err
			}
			last = done
		}
		if at >= len(lines) && last != nil {
			return <-last
		}
		return nil
	}
	for round := range int64(20) {
		for i, name := range []string{"kafka:a/0", "kafka:a/1"} {
			e := engines[(int(round)+i)%2]
			if round%3 == 0 {
				e.Close(name) // it may have it from before
			}
			err := read(t.Context(), e, name, round+1, parts[name], 4)
			if err != nil && !errors.Is(err, source.ErrFenced) && !errors.Is(err, source.ErrClosed) && round%3 != 0 {
				e.Close(name)
			}
		}
	}
	for i, name := range []string{"kafka:a/0", "kafka:a/1"} {
		e := engines[i]
		e.Close(name)
		if err := read(t.Context(), e, name, 100, parts[name], 1<<30); err != nil {
			t.Fatal(name, err)
		}
	}
	stopOne()
	stopTwo()
	if diff := cmp.Diff(want.Sums, h.store.sum.Sums); diff != "" {
		t.Errorf("sums (-analyze +engine):\n%s", diff)
	}
	sameEvidence(t, lines, h.store)
	if got := h.store.sum.Events.Read; got != int64(len(lines)) {
		t.Errorf("%d events read of %d", got, len(lines))
	}
}

// While nothing can be stored nothing is acknowledged, what comes in is bounded, and afterwards nothing is missing.
func TestEngineWithoutStore(t *testing.T) {
	lines := capture(t)
	h := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
	h.opt = EngineOptions{Settle: time.Millisecond, CommitEvery: time.Millisecond, MaxBytes: 1 << 20}
	full := true
	h.store.fail = func() error {
		if full {
			return errors.New("no space left on device")
		}
		return nil
	}
	e, _, stop := h.start()
	defer stop()
	if _, err := e.Open(t.Context(), "webhook:a", 0); err != nil {
		t.Fatal(err)
	}
	var retry [][]logLine
	stored := make(chan error, len(lines))
	taken, busy := 0, 0
	for at := 0; at < len(lines); at += 50 {
		part := lines[at:min(at+50, len(lines))]
		b := batchOf(part)
		b.Lane = "webhook:a"
		switch err := e.Take(t.Context(), b, func(err error) { stored <- err }); {
		case err == nil:
			taken++
		case errors.Is(err, source.ErrBusy):
			busy++
			retry = append(retry, part)
		default:
			t.Fatal(err)
		}
	}
	if taken == 0 || busy == 0 || len(stored) > 0 {
		t.Fatalf("%d taken, %d refused, %d acknowledged", taken, busy, len(stored))
	}
	h.store.mu.Lock()
	full = false
	h.store.mu.Unlock()
	for len(retry) > 0 {
		b := batchOf(retry[0])
		b.Lane = "webhook:a"
		if err := e.Take(t.Context(), b, func(err error) { stored <- err }); err == nil {
			taken++
			retry = retry[1:]
		} else if err := <-stored; err != nil { // room comes with what is stored
			t.Fatal(err)
		} else {
			taken--
		}
	}
	for ; taken > 0; taken-- {
		if err := <-stored; err != nil {
			t.Fatal(err)
		}
	}
	if got := h.store.sum.Events.Read; got != int64(len(lines)) {
		t.Errorf("%d events of %d", got, len(lines))
	}
	if h := e.Stats().Held; h != 0 {
		t.Errorf("%d bytes are held though everything is stored", h)
	}
}
