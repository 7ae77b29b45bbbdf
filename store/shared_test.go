package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/pgtest"
	"github.com/nodetrail/nodetrail/tally"
)

// Analyzers that commit the same requests at the same time, in other orders, on lanes of their own, count each once and never stand in
// each other's way for good.
func TestManyAnalyzers(t *testing.T) {
	at_, ctx := sharedSite(t), context.Background()
	entries := random(rand.New(rand.NewPCG(5, 5)), 1500)
	want := tally.New()
	counted := 0
	for i := range entries {
		want.Add(&entries[i])
		if entries[i].IsNode || len(entries[i].Findings) > 0 {
			counted++
		}
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	fresh := 0
	for n := range 4 {
		s := at_.open(t, Options{})
		lane := "kafka:audit/" + strconv.Itoa(n)
		must(s.Acquire(ctx, lane, 1, 0))(t)
		group.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 9))
			mine := append([]tally.Entry{}, entries...)
			r.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
			for len(mine) > 0 {
				k := min(len(mine), 1+r.IntN(100))
				c := &tally.Commit{At: at(0), Instance: lane, Facts: []byte("{}"), Lanes: []tally.LaneCommit{{
					Lane: lane, Fence: 1, Position: strconv.Itoa(len(mine)), Entries: mine[:k], Events: tally.Events{Read: int64(k)},
				}}}
				c.Memory = []tally.Remembered{{Kind: "first", Key: "x", Value: []byte(lane), First: true}, {Kind: "last", Key: "x", Value: []byte(lane)}}
				if err := s.Commit(ctx, c); err != nil {
					t.Error(err)
					return
				}
				if r.IntN(4) == 0 {
					if err := s.Prune(ctx, at(0)); err != nil {
						t.Error(err)
					}
				}
				mu.Lock()
				for i := range mine[:k] {
					if e := &mine[i]; !e.Duplicate && (e.IsNode || len(e.Findings) > 0) {
						fresh++
					}
				}
				mu.Unlock()
				mine = mine[k:]
			}
		})
	}
	group.Wait()
	if fresh != counted {
		t.Errorf("%d requests were new to somebody, want %d", fresh, counted)
	}
	want.Events.Read = 4 * 1500
	equal(t, want, all(t, at_.open(t, Options{})))
}

// An analyzer that stands still while another takes over its lanes can commit nothing afterwards, not even what it had begun.
func TestStalledAnalyzer(t *testing.T) {
	at_, ctx := sharedSite(t), context.Background()
	a, b := at_.open(t, Options{}), at_.open(t, Options{})
	must(a.Acquire(ctx, "kafka:audit/0", 7, 0))(t)
	ok(t, a.Commit(ctx, commit("kafka:audit/0", 7, "10", requests(0, 10, at(0))...)))

	// It holds the lane's lock: who takes over waits until it is done, and resumes from there.
	begun, done := make(chan struct{}), make(chan error, 1)
	taken := make(chan *tally.Lane, 1)
	go func() {
		<-begun
		l, err := b.Acquire(ctx, "kafka:audit/0", 8, 0)
		done <- err
		taken <- l
	}()
	c := commit("kafka:audit/0", 7, "20", requests(10, 20, at(0))...)
	_ = a.turn.take(context.Background())
	err := a.write(ctx, "storing a batch", func(w tx) error {
		work := &work{s: a, c: c, w: w}
		if err := work.own(ctx); err != nil {
			return err
		}
		close(begun)
		if err := work.dedupe(ctx); err != nil {
			return err
		}
		if err := work.lanes(ctx); err != nil {
			return err
		}
		return work.counts(ctx)
	})
	a.turn.give()
	ok(t, err)
	ok(t, <-done)
	if l := <-taken; l.Position != "20" {
		t.Errorf("the lane resumes at %q", l.Position)
	}
	var fenced *tally.FencedError
	if err := a.Commit(ctx, commit("kafka:audit/0", 7, "30", requests(20, 30, at(0))...)); !errors.As(err, &fenced) {
		t.Errorf("the stalled one commits: %v", err)
	}
	ok(t, b.Commit(ctx, commit("kafka:audit/0", 8, "30", requests(20, 30, at(0))...)))
	if n := all(t, b).Sums.Allow; n != 30 {
		t.Errorf("%d requests", n)
	}
}

// An analyzer that stands still in the middle of a commit holds up who takes over for a bounded time only.
func TestAnalyzerStallsInACommit(t *testing.T) {
	server.Shared(t)
	ctx, dsn := context.Background(), schemaDSN(server.Shared(t).DSN())
	b := must(OpenPostgres(ctx, dsn, Options{}))(t)
	defer b.Close()
	a := must(OpenPostgres(ctx, dsn+"&idle_in_transaction_session_timeout=2000", Options{}))(t)
	defer a.Close()
	must(a.Acquire(ctx, "kafka:audit/0", 1, 0))(t)
	_ = a.turn.take(context.Background())
	defer a.turn.give()
	runs := 0
	err := a.write(ctx, "storing a batch", func(w tx) error {
		runs++
		work := &work{s: a, c: commit("kafka:audit/0", 1, "10", requests(0, 10, at(0))...), w: w}
		for _, step := range []func(context.Context) error{work.own, work.dedupe, work.lanes, work.counts} {
			if err := step(ctx); err != nil {
				return err
			}
		}
		must(b.Acquire(ctx, "kafka:audit/0", 2, 0))(t) // it waits until the server has ended the other's session
		return nil
	})
	var fenced *tally.FencedError
	if !errors.As(err, &fenced) || runs != 2 {
		t.Errorf("after %d runs: %v", runs, err)
	}
	ok(t, b.Commit(ctx, commit("kafka:audit/0", 2, "10", requests(0, 10, at(0))...)))
	if n := all(t, b).Sums.Allow; n != 10 {
		t.Errorf("%d requests", n)
	}
}

// The server crashes and comes back while commits continue: each commit that returns is stored once, whether its answer was lost or not.
func TestServerRestarts(t *testing.T) {
	server.Shared(t) // says whether there is a PostgreSQL
	srv, err := pgtest.Start(pgtest.Set("fsync", "on"), pgtest.Set("full_page_writes", "on"))
	ok(t, err)
	defer func() { ok(t, srv.Stop()) }()
	ctx := context.Background()
	s := must(OpenPostgres(ctx, srv.DSN(), Options{}))(t)
	defer s.Close()
	must(s.Acquire(ctx, "file:a", 0, 0))(t)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	commits := 0
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if err := s.Commit(ctx, killed(commits)); err != nil {
				stopped <- err
				return
			}
			commits++
		}
	}()
	for range 5 {
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond) // anywhere in a commit
		ok(t, srv.Restart())
	}
	close(stop)
	ok(t, <-stopped)
	sum := all(t, s)
	if sum.Sums.Allow != int64(10*commits) || sum.Events.Read != int64(10*commits) {
		t.Errorf("%d commits, %d requests, %d events", commits, sum.Sums.Allow, sum.Events.Read)
	}
	t.Logf("%d commits", commits)
}

// The answer to a commit is lost, whether it was stored or not: it counts once.
func TestLostAnswer(t *testing.T) {
	at_, ctx := sharedSite(t), context.Background()
	s := at_.open(t, Options{})
	must(s.Acquire(ctx, "file:a", 0, 0))(t)
	p := s.db.(*shared)
	for _, stored := range []bool{true, false} {
		p.done++
		runs := 0
		f := func(w tx) error {
			runs++
			return w.exec(ctx, `INSERT INTO meta (name, value) VALUES ('runs', 1) ON CONFLICT (name) DO UPDATE SET value = meta.value + 1`)
		}
		unsure := false
		if stored {
			ok(t, p.attempt(ctx, false, &unsure, f))
		}
		unsure = true
		ok(t, p.attempt(ctx, false, &unsure, f))
		if runs != 1 || unsure {
			t.Errorf("stored %t: it ran %d times, unsure %t", stored, runs, unsure)
		}
	}
	if n := count(t, s, "meta WHERE name = 'runs' AND value = 2"); n != 1 {
		t.Error("it counted otherwise than twice")
	}
}
