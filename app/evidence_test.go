package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
)

func cleanDay(t *testing.T, o days.Options) *days.Day {
	t.Helper()
	d, err := days.Clean(11, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// analyzedEvidence is the ledger that Analyze makes of a day.
func analyzedEvidence(t *testing.T, d *days.Day) *evidence.Ledger {
	t.Helper()
	a, err := Analyze(t.Context(), AnalyzeOptions{
		Authorization: Authorization{Skew: time.Second, AuthorizationMode: "Node,RBAC"},
		Input:         Input{Logs: []string{"-"}, Stdin: bytes.NewReader(d.Log()), NoBodies: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	return a.Evidence
}

// generated is what the events of a day show, in words: a set.
func generated(d *days.Day) map[string]bool {
	out := map[string]bool{}
	add := func(format string, args ...any) { out[fmt.Sprintf(format, args...)] = true }
	slot := func(at time.Time) int { return (at.Minute()*60 + at.Second()) / 5 }
	kinds := map[string]bool{"pods": true, "nodes": true, "services": true, "csidrivers": true, "runtimeclasses": true}
	for _, e := range d.Events {
		h := e.Received.Unix() / 3600
		name, isNode := strings.CutPrefix(e.User.Username, "system:node:")
		writes := e.Verb == "update" || e.Verb == "patch" || e.Verb == "create"
		lease := e.Ref != nil && e.Ref.Resource == "leases" && writes && e.Code < 300
		switch {
		case e.Impersonated != nil || e.Ref == nil:
		case lease && isNode && e.Ref.Namespace == "kube-node-lease" && e.Ref.Name == name:
			add("%d %s renewed %d", h, name, slot(e.Received))
		case lease && !isNode && e.Ref.Namespace == "kube-node-lease":
			add("%d %s played in part %d", h, e.Ref.Name, e.Received.Minute()/5)
		case lease && e.User.Username == "system:apiserver" && strings.HasPrefix(e.Ref.Name, "apiserver-"):
			add("%d server %s renewed %d", h, e.Ref.Name, slot(e.Received))
			add("%d server %s is %s", h, e.Ref.Name, strings.TrimPrefix(strings.Fields(e.UserAgent)[0], "kube-apiserver/"))
		case !isNode || !strings.HasPrefix(e.UserAgent, "kubelet/"):
		case e.Verb == "watch" && kinds[e.Ref.Resource] && e.Code == 200:
			to := e.Received
			if e.Stage == days.StageComplete {
				to = e.Staged
			}
			for at := e.Received.Truncate(5 * time.Minute); !at.After(to); at = at.Add(5 * time.Minute) {
				add("%d %s watched %s in part %d", at.Unix()/3600, name, e.Ref.Resource, at.Minute()/5)
			}
		case e.Verb == "create" && e.Ref.Resource == "nodes" && e.Ref.Subresource == "" && (e.Code == 201 || e.Code == 409):
			add("%d %s started in part %d", h, name, e.Received.Minute()/5)
		}
	}
	return out
}

// told is the same of a ledger.
func told(l *evidence.Ledger, first, last evidence.Hour) map[string]bool {
	out := map[string]bool{}
	add := func(format string, args ...any) { out[fmt.Sprintf(format, args...)] = true }
	parts := func(p evidence.Parts, format string, args ...any) {
		for i := range 12 {
			if p>>i&1 == 1 {
				add(format+" in part %d", append(args, i)...)
			}
		}
	}
	for h := first; h <= last; h++ {
		for _, name := range l.Nodes(h, h) {
			n := l.Node(name, h)
			for slot := range n.Renewed.All() {
				add("%d %s renewed %d", h, name, slot)
			}
			for k := range evidence.Watches {
				parts(n.Watched[k], "%d %s watched %s", h, name, k)
			}
			parts(n.Foreign, "%d %s played", h, name)
			parts(n.Started, "%d %s started", h, name)
		}
		for _, name := range l.Servers(h, h) {
			for slot := range l.Server(name, h).Renewed.All() {
				add("%d server %s renewed %d", h, name, slot)
			}
			for _, v := range l.Server(name, h).Versions {
				add("%d server %s is %s", h, name, v)
			}
		}
	}
	return out
}

// What Analyze says of clean days by node, server and hour is what the days were made of.
func TestAnalyzeKeepsEvidence(t *testing.T) {
	for name, o := range map[string]days.Options{
		"plain": {Nodes: 2},
		"eventful": {
			Span: 5 * time.Hour, Servers: 3, Features: days.NotReady | days.ServerRestart | days.Upgrade | days.Join | days.Spot, Minor: 35,
		},
		"virtual nodes": {Span: 3 * time.Hour, Servers: 2, Features: days.VirtualNodes, Profile: "eks"},
	} {
		if name == "eventful" && effort.Of(false, true) {
			continue // the longest
		}
		t.Run(name, func(t *testing.T) {
			d := cleanDay(t, o)
			want := generated(d)
			got := told(analyzedEvidence(t, d), evidence.HourOf(d.From)-3, evidence.HourOf(d.To)+1)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-generated +ledger):\n%s", diff)
			}
			kinds := map[string]int{}
			for text := range want {
				for _, k := range []string{" renewed ", " server ", " watched ", " played ", " started "} {
					if strings.Contains(text, k) {
						kinds[k]++
					}
				}
			}
			if kinds[" renewed "] < 1000 || kinds[" watched "] < 100 || o.Profile == "" && kinds[" server "] < 1000 || o.Profile != "" && kinds[" played "] < 10 {
				t.Errorf("the day shows too little: %v", kinds)
			}
		})
	}
}

// mortalStore is a store as a process sees it that is killed by its last commit, before or after that is stored.
type mortalStore struct {
	*store.Store
	mu    sync.Mutex
	lives int
	dead  bool
	died  chan struct{}
}

var errDead = errors.New("the process is dead")

func (s *mortalStore) Commit(ctx context.Context, c *tally.Commit) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return errDead
	}
	if s.lives--; s.lives != 0 {
		return s.Store.Commit(ctx, c)
	}
	s.dead = true
	close(s.died)
	if len(c.Evidence)%2 == 0 {
		_ = s.Store.Commit(ctx, c) // it is stored, and nobody knows
	}
	return errDead
}

// analyzer is one of those that share a database, killed again and again.
type analyzer struct {
	t     *testing.T
	name  string
	store *store.Store
	rnd   *rand.Rand
	todo  [][]audit.Event
	kills int
}

// live runs an engine that knows nothing of before until it dies or all is acknowledged. Batches come again until they are.
func (a *analyzer) live(lives int) {
	features, err := nodeauthz.FeaturesFor("")
	if err != nil {
		a.t.Error(err)
		return
	}
	mode, _ := pipeline.ParseMode("Node,RBAC")
	s := &mortalStore{Store: a.store, lives: lives, died: make(chan struct{})}
	setup := judging.New(cluster.NewState(), judging.Options{Features: features, Skew: time.Second, Mode: mode})
	e, err := pipeline.NewEngine(a.t.Context(), pipeline.EngineOptions{
		Judge: setup.Judge, Store: s, Settle: time.Millisecond, CommitEvery: time.Millisecond, Log: zerolog.Nop(), Ledger: evidence.New(),
	})
	if err != nil {
		a.t.Error(err)
		return
	}
	ctx, stop := context.WithCancel(a.t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = e.Run(ctx) }) // what dies says that it could not store
	group.Go(func() {
		select {
		case <-s.died:
			a.kills++
			stop()
		case <-ctx.Done():
		}
	})
	defer group.Wait()
	defer stop()
	if _, err := e.Open(ctx, a.name, 0); err != nil {
		return
	}
	type result struct {
		batch int
		err   error
	}
	results, waiting := make(chan result, len(a.todo)), 0
	for i, events := range a.todo {
		if lives > 0 && i == 12 {
			break // so that it does not live long
		}
		b := &source.Batch{Lane: a.name, Received: time.Now(), Wait: true, Events: append([]audit.Event(nil), events...)}
		b.Counts.Read = int64(len(events))
		if e.Take(ctx, b, func(err error) { results <- result{i, err} }) != nil {
			break
		}
		waiting++
	}
	stored := map[int]bool{}
	for ; waiting > 0; waiting-- {
		r := <-results
		stored[r.batch] = r.err == nil
	}
	var left [][]audit.Event
	for i, events := range a.todo {
		if !stored[i] {
			left = append(left, events)
		}
	}
	a.todo = left
}

// batchesOf are the events of a day in batches of a few, neighbours out of order and some twice.
func batchesOf(t *testing.T, d *days.Day, rnd *rand.Rand) [][]audit.Event {
	t.Helper()
	var events []audit.Event
	(&audit.Decoder{Want: audit.Want{Aside: true}}).Chunk(d.Log(), 1, func(ev *audit.Event) { events = append(events, *ev.Clone()) }, func(m audit.Malformed) { t.Fatal(m) })
	for i := 0; i+20 < len(events); i += 20 {
		rnd.Shuffle(20, func(a, b int) { events[i+a], events[i+b] = events[i+b], events[i+a] })
	}
	var out [][]audit.Event
	for len(events) > 0 {
		n := min(1+rnd.IntN(150), len(events))
		out = append(out, events[:n])
		if rnd.IntN(5) == 0 {
			out = append(out, events[:n])
		}
		events = events[n:]
	}
	for i := 0; i+4 < len(out); i += 4 {
		rnd.Shuffle(4, func(a, b int) { out[i+a], out[i+b] = out[i+b], out[i+a] })
	}
	return out
}

// Two engines that share a store are given a day between them, some of it to both, twice and out of order, and are killed between their commits, in the
// middle of them, and before they say that they stored: what is stored in the end is what Analyze says, byte for byte.
func TestEnginesStoreTheEvidence(t *testing.T) {
	d := cleanDay(t, days.Options{Span: 2 * time.Hour, Servers: 2, Features: days.VirtualNodes | days.NotReady, Profile: "eks"})
	want := recordsOf(t, analyzedEvidence(t, d))
	path := filepath.Join(t.TempDir(), "nodetrail.db")
	for name, open := range map[string]func(t *testing.T) [2]*store.Store{
		"sqlite": func(t *testing.T) [2]*store.Store {
			s := opened(t)(store.OpenSQLite(t.Context(), path, store.Options{}))
			return [2]*store.Store{s, s}
		},
		"postgres": func(t *testing.T) (out [2]*store.Store) {
			for i := range out {
				out[i] = opened(t)(store.OpenPostgres(t.Context(), postgres.Shared(t).DSN(), store.Options{Schema: "evidence"}))
			}
			return out
		},
	} {
		t.Run(name, func(t *testing.T) {
			stores, rnd := open(t), rand.New(rand.NewPCG(7, 8))
			all := []*analyzer{{name: "webhook:a", rnd: rand.New(rand.NewPCG(1, 1))}, {name: "webhook:b", rnd: rand.New(rand.NewPCG(2, 2))}}
			for _, b := range batchesOf(t, d, rnd) {
				first := rnd.IntN(2)
				all[first].todo = append(all[first].todo, b)
				if rnd.IntN(6) == 0 {
					all[1-first].todo = append(all[1-first].todo, b)
				}
			}
			var group sync.WaitGroup
			for i, a := range all {
				a.t, a.store = t, stores[i]
				group.Go(func() {
					for n := 0; len(a.todo) > 0 && !t.Failed() && n < 1000; n++ {
						lives := 0 // it is not killed any more
						if n < 12 {
							lives = 1 + a.rnd.IntN(2)
						}
						a.live(lives)
					}
				})
			}
			group.Wait()
			for _, a := range all {
				if len(a.todo) > 0 || a.kills < 3 {
					t.Errorf("%s: %d batches are left, it was killed %d times", a.name, len(a.todo), a.kills)
				}
			}
			l, err := stores[0].Evidence(t.Context(), time.Time{}, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, recordsOf(t, l)); diff != "" {
				t.Errorf("evidence (-analyze +stored):\n%s", diff)
			}
		})
	}
}

func opened(t *testing.T) func(*store.Store, error) *store.Store {
	return func(s *store.Store, err error) *store.Store {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
}

func recordsOf(t *testing.T, l *evidence.Ledger) map[string]string {
	t.Helper()
	out := map[string]string{}
	if err := l.Records(func(k evidence.Key, v []byte) error {
		out[fmt.Sprintf("%d %d %s", k.Kind, k.Hour, k.Name)] = fmt.Sprintf("%x", v)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}
