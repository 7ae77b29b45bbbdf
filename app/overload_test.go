package app

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/pipeline/webhook"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
)

// heldStore is a store in which a commit waits until it is let go.
type heldStore struct {
	tally.Store
	free chan struct{}
}

func (s *heldStore) Commit(ctx context.Context, c *tally.Commit) error {
	select {
	case <-s.free:
		return s.Store.Commit(ctx, c)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestOverload holds the store while many senders post what is far more than the bounds: each is asked to retry, the memory stays
// within its bounds, and when the store is let go everything that is sent again is taken, and counts once.
func TestOverload(t *testing.T) {
	batches := effort.Of[int64](400, 100)
	const (
		each        = 20
		engineBytes = 1 << 20
		maxInFlight = 16
	)
	db, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "nodetrail.db"), store.Options{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	held := &heldStore{db, make(chan struct{})}
	engine := startEngine(t, held, engineBytes)
	srv, err := webhook.New(webhook.Options{
		Listen: "127.0.0.1:0", Letters: noLetters{}, MaxInFlight: maxInFlight, MaxBodyBytes: 64 << 10, CommitTimeout: 2 * time.Second, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Open(t.Context(), srv.Lane(), 0); err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(srv.Handler(engine))
	defer front.Close()

	var answers [600]atomic.Int64
	post := func(batch int) int {
		r, err := http.Post(front.URL+"/audit", "application/json", strings.NewReader(nodeEvents(batch, each)))
		if err != nil {
			t.Error(err)
			return 0
		}
		if err := r.Body.Close(); err != nil {
			t.Error(err)
		}
		again := r.StatusCode == http.StatusTooManyRequests || r.StatusCode == http.StatusServiceUnavailable
		if again != (r.Header.Get("Retry-After") != "") {
			t.Errorf("answered %d with Retry-After %q", r.StatusCode, r.Header.Get("Retry-After"))
		}
		if n := engine.Stats().Held; n > engineBytes {
			t.Errorf("the engine holds %d bytes, its bound is %d", n, engineBytes)
		}
		answers[r.StatusCode].Add(1)
		return r.StatusCode
	}
	// all has every batch posted, by many at once.
	all := func(f func(batch int)) {
		var wg sync.WaitGroup
		next := atomic.Int64{}
		for range 4 * maxInFlight {
			wg.Go(func() {
				for n := next.Add(1) - 1; n < batches && !t.Failed(); n = next.Add(1) - 1 {
					f(int(n))
				}
			})
		}
		wg.Wait()
	}
	all(func(batch int) { post(batch) })
	if taken, late, busy := answers[200].Load(), answers[503].Load(), answers[429].Load(); taken != 0 || late == 0 || busy == 0 || late+busy != batches {
		t.Fatalf("while the store was held: %d taken, %d late, %d turned away of %d", taken, late, busy, batches)
	}
	if s := srv.Stats(); s.Requests["busy"] != answers[429].Load() || s.Requests["late"] != answers[503].Load() {
		t.Errorf("%+v", s)
	}
	close(held.free)
	all(func(batch int) {
		for post(batch) != http.StatusOK && !t.Failed() { // each answer has come before it is sent again
			continue
		}
	})
	sum, err := db.Tally(t.Context(), time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if got := sum.Sums.Allow + sum.Sums.Deny + sum.Sums.Unknown; got != batches*each {
		t.Errorf("%d requests are stored, want %d", got, batches*each)
	}
	// What was answered late was stored all the same: it is distinguished from what is new.
	if got := sum.Events.Read - sum.Events.Duplicates; got != batches*each {
		t.Errorf("%d events are stored, want %d: %+v", got, batches*each, sum.Events)
	}
	engine.Close(srv.Lane())
	if n, m := engine.Stats().Held, srv.Stats().InFlightBytes; n != 0 || m != 0 {
		t.Errorf("afterwards the engine holds %d bytes and the webhook %d", n, m)
	}
}

type noLetters struct{}

// Put implements source.Letters.
func (noLetters) Put(...source.Letter) error { return nil }

// nodeEvents is an EventList of requests that no other batch has.
func nodeEvents(batch, n int) string {
	var b strings.Builder
	b.WriteString(`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"level":"Metadata","auditID":"%08d-%04d","stage":"ResponseComplete","requestURI":"/api/v1/nodes/worker-1","verb":"get",`+
			`"user":{"username":"system:node:worker-1","groups":["system:nodes","system:authenticated"]},"objectRef":{"resource":"nodes","name":"worker-1","apiVersion":"v1"},`+
			`"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-21T06:03:57.603813Z","stageTimestamp":"2026-11-21T06:03:57.605218Z"}`, batch, i)
	}
	b.WriteString(`]}`)
	return b.String()
}

// startEngine starts an engine, which ends with the test.
func startEngine(t *testing.T, s tally.Store, maxBytes int64) *pipeline.Engine {
	t.Helper()
	features, err := nodeauthz.FeaturesFor("")
	if err != nil {
		t.Fatal(err)
	}
	mode, err := pipeline.ParseMode("Node,RBAC")
	if err != nil {
		t.Fatal(err)
	}
	setup := judging.New(cluster.NewState(), judging.Options{Features: features, Skew: time.Second, Mode: mode, Rules: rules.All()})
	engine, err := pipeline.NewEngine(t.Context(), pipeline.EngineOptions{
		Judge: setup.Judge, Store: s, Settle: time.Millisecond, CommitEvery: time.Millisecond, MaxBytes: maxBytes, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return engine
}
