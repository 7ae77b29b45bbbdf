package app

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/scenario"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
)

// Two and three analyzers that share a PostgreSQL, each with the nodes of its partitions, find what Analyze finds in the whole log: in single requests, in
// the requests of one node together, and in those of all nodes, which one of the analyzers judges for all.
func TestAttack22SeveralAnalyzersFindTheSame(t *testing.T) {
	d, _ := days.Attack(cleanDay(t, days.Options{Span: 30 * time.Minute, Servers: 2, Nodes: 6}), 3, 300)
	s := &scenario.Scenario{Name: t.Name(), Path: t.Name(), State: d.Journal(), Log: silenced(t, d.Log())}
	want := groupsOf(analyzedTally(t, s))
	if len(want) < 100 {
		t.Fatalf("only %d groups", len(want))
	}
	for _, rule := range []string{rules.DenySpike, rules.CoverageGap, "secret-enumeration", rules.CredentialMisuse} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(k string) bool { return strings.Contains(k, "Rule:"+rule) }) {
			t.Errorf("nothing of %s is in the log", rule)
		}
	}
	server := postgres.Shared(t)
	for n := 1; n <= 3; n++ {
		schema := fmt.Sprintf("analyzers%d", n)
		var group sync.WaitGroup
		parts := partitions(t, s.Log, n)
		f := &fleet{s: s, last: make(chan struct{})}
		f.fed.Add(n)
		for i := range n {
			f.lanes = append(f.lanes, fmt.Sprintf("kafka:audit/%d", i))
		}
		for i, events := range parts {
			db := opened(t)(store.OpenPostgres(t.Context(), server.DSN(), store.Options{Schema: schema}))
			group.Go(func() { f.analyze(t, db, f.lanes[i], events) })
		}
		db := opened(t)(store.OpenPostgres(t.Context(), server.DSN(), store.Options{Schema: schema}))
		diff := ""
		for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline) && !t.Failed(); time.Sleep(200 * time.Millisecond) {
			got, err := db.Tally(t.Context(), time.Time{}, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			if diff = cmp.Diff(want, groupsOf(got)); diff == "" {
				break
			}
		}
		close(f.last)
		group.Wait()
		if diff != "" {
			t.Errorf("%d analyzers (-analyze +stored):\n%s", n, diff)
		}
	}
}

// silenced is the log without what came in five of its minutes.
func silenced(t *testing.T, log []byte) (out []byte) {
	t.Helper()
	var begin time.Time
	for line := range bytes.Lines(log) {
		(&audit.Decoder{}).Chunk(line, 1, func(ev *audit.Event) {
			if begin.IsZero() {
				begin = ev.RequestReceived
			}
			if minute := ev.RequestReceived.Sub(begin) / time.Minute; minute < 15 || minute >= 20 {
				out = append(out, line...)
			}
		}, func(m audit.Malformed) { t.Fatal(m) })
	}
	return out
}

// partitions are a log's events by the node, as the gateway's keys divide them.
func partitions(t *testing.T, log []byte, n int) [][]audit.Event {
	t.Helper()
	out := make([][]audit.Event, n)
	(&audit.Decoder{}).Chunk(log, 1, func(ev *audit.Event) {
		h := fnv.New32a()
		h.Write([]byte(audit.PartitionKey(ev)))
		i := int(h.Sum32()) % n
		out[i] = append(out[i], *ev.Clone())
	}, func(m audit.Malformed) { t.Fatal(m) })
	return out
}

// fleet are analyzers of one store.
type fleet struct {
	s     *scenario.Scenario
	lanes []string
	fed   sync.WaitGroup
	last  chan struct{} // closed when nothing more is expected
}

func (f *fleet) analyze(t *testing.T, db *store.Store, lane string, events []audit.Event) {
	features, err := nodeauthz.FeaturesFor("")
	if err != nil {
		t.Error(err)
		return
	}
	state, err := f.s.Cluster()
	if err != nil {
		t.Error(err)
		return
	}
	mode, _ := pipeline.ParseMode("Node,RBAC")
	setup := judging.New(state, judging.Options{Features: features, Skew: time.Second, Mode: mode, Rules: rules.All()})
	var later atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	e, err := pipeline.NewEngine(t.Context(), pipeline.EngineOptions{
		Now: now, EndAfter: time.Millisecond,
		Judge: setup.Judge, Detectors: rules.NewDetectors(rules.All(), rules.DetectorOptions{}), Store: db, Settle: time.Millisecond,
		CommitEvery: 10 * time.Millisecond, LeaseEvery: 20 * time.Millisecond, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Error(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	if err := e.Announce(ctx, f.lanes); err != nil {
		t.Error(err)
	}
	if _, err := e.Open(ctx, lane, 1); err != nil {
		t.Error(err)
	}
	for len(events) > 0 {
		n := min(200, len(events))
		b := &source.Batch{Lane: lane, Received: time.Now(), Wait: true, Events: events[:n]}
		b.Counts.Read = int64(n)
		done := make(chan error, 1)
		if err := e.Take(ctx, b, func(err error) { done <- err }); err != nil {
			t.Error(err)
			break
		}
		if err := <-done; err != nil {
			t.Error(err)
			break
		}
		events = events[n:]
	}
	f.fed.Done()
	f.fed.Wait()
	select { // who judges has read what was stored last
	case <-f.last:
	case <-time.After(time.Second):
	}
	later.Store(int64(time.Hour)) // the log is silent: what came in is judged
	for ended := false; !ended; {
		if err := e.Take(ctx, &source.Batch{Lane: lane, Ended: now(), Wait: true}, func(error) {}); err != nil {
			t.Error(err)
		}
		select {
		case <-f.last:
			ended = true
		case <-time.After(50 * time.Millisecond):
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func analyzedTally(t *testing.T, s *scenario.Scenario) *tally.Tally {
	t.Helper()
	state, err := s.Cluster()
	if err != nil {
		t.Fatal(err)
	}
	out := tally.New()
	_, err = Analyze(t.Context(), AnalyzeOptions{
		Authorization: Authorization{Skew: time.Second, AuthorizationMode: "Node,RBAC"},
		Input:         Input{Logs: []string{"-"}, Stdin: bytes.NewReader(s.Log), NoBodies: true, Loaded: state},
		Counted:       func(e *tally.Entry) { own := e.Own(); out.Add(&own) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func groupsOf(all *tally.Tally) map[string]string {
	out := map[string]string{}
	for k, g := range all.Groups {
		out[fmt.Sprintf("%+v", k)] = fmt.Sprint(g.Count, g.Severity, g.Allowed, g.Wide, g.Reason, g.First.UTC(), g.Last.UTC())
	}
	return out
}
