package app

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
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

// Two and three analyzers that share a PostgreSQL, each with the nodes of its partitions, find what Analyze finds in the whole log: in single requests,
// and in the requests of one node together. What looks at all nodes is not compared: each analyzer looks at its own.
func TestAttack22SeveralAnalyzersFindTheSame(t *testing.T) {
	d, _ := days.Attack(cleanDay(t, days.Options{Span: 30 * time.Minute, Servers: 2, Nodes: 6}), 3, 300)
	s := &scenario.Scenario{Name: t.Name(), Path: t.Name(), State: d.Journal(), Log: d.Log()}
	want := groupsOf(analyzedTally(t, s))
	server := postgres.Shared(t)
	for n := 1; n <= 3; n++ {
		schema := fmt.Sprintf("analyzers%d", n)
		var group sync.WaitGroup
		for i, events := range partitions(t, d, n) {
			db := opened(t)(store.OpenPostgres(t.Context(), server.DSN(), store.Options{Schema: schema}))
			group.Go(func() { analyzePart(t, s, db, fmt.Sprintf("kafka:audit/%d", i), events) })
		}
		group.Wait()
		db := opened(t)(store.OpenPostgres(t.Context(), server.DSN(), store.Options{Schema: schema}))
		got, err := db.Tally(t.Context(), time.Time{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if len(want) < 100 {
			t.Fatalf("only %d groups", len(want))
		}
		if diff := cmp.Diff(want, groupsOf(got)); diff != "" {
			t.Errorf("%d analyzers (-analyze +stored):\n%s", n, diff)
		}
	}
}

// partitions are a day's events by the node, as the gateway's keys divide them.
func partitions(t *testing.T, d *days.Day, n int) [][]audit.Event {
	t.Helper()
	out := make([][]audit.Event, n)
	(&audit.Decoder{}).Chunk(d.Log(), 1, func(ev *audit.Event) {
		h := fnv.New32a()
		h.Write([]byte(ev.User.Username))
		i := int(h.Sum32()) % n
		out[i] = append(out[i], *ev.Clone())
	}, func(m audit.Malformed) { t.Fatal(m) })
	return out
}

func analyzePart(t *testing.T, s *scenario.Scenario, db *store.Store, lane string, events []audit.Event) {
	features, err := nodeauthz.FeaturesFor("")
	if err != nil {
		t.Error(err)
		return
	}
	state, err := s.Cluster()
	if err != nil {
		t.Error(err)
		return
	}
	mode, _ := pipeline.ParseMode("Node,RBAC")
	setup := judging.New(state, judging.Options{Features: features, Skew: time.Second, Mode: mode, Rules: rules.All()})
	detectors := rules.NewDetectors(rules.All(), rules.DetectorOptions{})
	var later atomic.Int64
	e, err := pipeline.NewEngine(t.Context(), pipeline.EngineOptions{
		Now:   func() time.Time { return time.Now().Add(time.Duration(later.Load())) },
		Judge: setup.Judge, Detectors: detectors, Store: db, Settle: time.Millisecond, CommitEvery: 10 * time.Millisecond, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Error(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
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
	later.Store(int64(time.Hour)) // the log is silent: what came in is judged
	if err := e.Do(ctx, func() {}); err != nil {
		t.Error(err)
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

// groupsOf are the groups of findings, but for those of rules that compare a node with the others.
func groupsOf(all *tally.Tally) map[string]string {
	out := map[string]string{}
	for k, g := range all.Groups {
		if k.Rule == rules.DenySpike || k.Rule == rules.CoverageGap {
			continue
		}
		out[fmt.Sprintf("%+v", k)] = fmt.Sprint(g.Count, g.Severity, g.Allowed, g.Wide, g.Reason, g.First.UTC(), g.Last.UTC())
	}
	return out
}
