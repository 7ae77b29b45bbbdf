package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/tally"
)

// renew shows the ledger that a kubelet renews its node's Lease.
func renew(l *evidence.Ledger, node string, when time.Time) {
	l.Observe(&audit.Event{
		Stage: audit.StageResponseComplete, Verb: "update", Code: 200, RequestReceived: when, StageTime: when, Decision: "allow",
		User:      audit.User{Username: "system:node:" + node, Groups: []string{"system:nodes"}},
		ObjectRef: audit.ObjectRef{APIGroup: "coordination.k8s.io", Resource: "leases", Namespace: "kube-node-lease", Name: node},
	}, evidence.Origin{Node: node, Kubelet: true})
}

func recordsOf(t testing.TB, l *evidence.Ledger) map[string]string {
	t.Helper()
	out := map[string]string{}
	ok(t, l.Records(func(k evidence.Key, v []byte) error {
		out[fmt.Sprintf("%d %d %q", k.Kind, k.Hour, k.Name)] = fmt.Sprintf("%x", v)
		return nil
	}))
	return out
}

// sameEvidence wants all that is stored to be what the ledger has.
func sameEvidence(t testing.TB, want *evidence.Ledger, s *Store) {
	t.Helper()
	got := must(s.Evidence(context.Background(), time.Time{}, time.Time{}))(t)
	if diff := cmp.Diff(recordsOf(t, want), recordsOf(t, got)); diff != "" {
		t.Fatalf("evidence (-want +got):\n%s", diff)
	}
}

// evidenceCommit is a commit that adds what the ledger saw.
func evidenceCommit(lane string, position int, l *evidence.Ledger) *tally.Commit {
	return &tally.Commit{
		At: at(0), Evidence: l.AppendChanges(nil), Lanes: []tally.LaneCommit{{Lane: lane, Position: strconv.Itoa(position), Latest: at(0)}},
	}
}

// Several stores, each fed a part of what happens, in any order, some of it twice, merging now and then, opened anew in between, hold what one ledger
// would. A PostgreSQL database is written to by all of them at once.
func TestEvidenceMerges(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx, writers := context.Background(), 1
		if strings.HasPrefix(at_.where, "postgres") {
			writers = 4
		}
		names := append(slices.DeleteFunc(hostileNames(), func(s string) bool { return s == "" }), "worker-2", "worker-3")
		want := evidence.New()
		type happening struct {
			node string
			when time.Time
		}
		var all []happening
		r := rand.New(rand.NewPCG(3, 4))
		for range 3000 {
			h := happening{names[r.IntN(len(names))], at(time.Duration(r.IntN(3*3600)) * time.Second)}
			all = append(all, h)
			renew(want, h.node, h.when)
		}
		var group sync.WaitGroup
		for n := range writers {
			seed := uint64(n)
			group.Go(func() {
				r := rand.New(rand.NewPCG(seed, 9))
				var mine []happening
				for i := range all {
					if i%writers == n || r.IntN(4) == 0 {
						mine = append(mine, all[i])
					}
				}
				r.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
				lane, l := "webhook:"+strconv.Itoa(n), evidence.New()
				var s *Store
				for at := 0; at < len(mine); at += 50 {
					if s == nil {
						s = at_.open(t, Options{})
						if s.foldEvery = time.Nanosecond; r.IntN(2) == 0 {
							s.foldEvery = time.Hour // but for the first time
						}
						must(s.Acquire(ctx, lane, 0, 0))(t)
					}
					for _, h := range mine[at:min(at+50, len(mine))] {
						renew(l, h.node, h.when)
					}
					if err := s.Commit(ctx, evidenceCommit(lane, at, l)); err != nil {
						t.Error(err)
						return
					}
					if r.IntN(5) == 0 { // the process ends, and another one knows nothing
						_ = s.Close()
						s, l = nil, evidence.New()
					}
				}
				if s != nil {
					_ = s.Close()
				}
			})
		}
		group.Wait()
		s := at_.open(t, Options{})
		sameEvidence(t, want, s)
		must(s.Acquire(ctx, "webhook:0", 0, 0))(t)
		ok(t, s.Commit(ctx, evidenceCommit("webhook:0", 0, evidence.New())))
		if n := count(t, s, "evidence_new"); n != 0 {
			t.Errorf("what %d commits added is not merged", n)
		}
		sameEvidence(t, want, s)
		if n, want := count(t, s, "evidence"), len(recordsOf(t, want)); n != int64(want) {
			t.Errorf("%d rows, want %d", n, want)
		}
	})
}

// A commit that is refused adds nothing; neither does one of which a part cannot be read, which is refused.
func TestEvidenceOfARefusedCommit(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		a, l := at_.open(t, Options{}), evidence.New()
		must(a.Acquire(ctx, "kafka:a/0", 2, 0))(t)
		renew(l, "worker-1", at(0))
		c := evidenceCommit("kafka:a/0", 1, l)
		c.Lanes[0].Fence = 1
		if err := a.Commit(ctx, c); err == nil {
			t.Fatal("a commit under an old fence is stored")
		}
		sameEvidence(t, evidence.New(), a)
		c.Lanes[0].Fence = 2
		broken := *c
		broken.Evidence = c.Evidence[:len(c.Evidence)-1]
		a.foldEvery = 0
		if err := a.Commit(ctx, &broken); err == nil {
			t.Fatal("what is cut is stored")
		}
		sameEvidence(t, evidence.New(), a)
		ok(t, a.Commit(ctx, c))
		sameEvidence(t, l, a)
	})
}

// The hours asked for come with the one before.
func TestEvidenceOfAWindow(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s, l := at_.open(t, Options{}), evidence.New()
		must(s.Acquire(ctx, "file:a", 0, 0))(t)
		for h := range 6 {
			renew(l, "worker-1", at(time.Duration(h)*time.Hour))
			if s.foldEvery = time.Hour; h == 3 {
				s.foldEvery = 0 // some hours are merged, others are not
			}
			ok(t, s.Commit(ctx, evidenceCommit("file:a", h, l)))
		}
		first := evidence.HourOf(at(0))
		f := func(from, to time.Time, want ...evidence.Hour) {
			t.Helper()
			got := must(s.Evidence(ctx, from, to))(t)
			var hours []evidence.Hour
			for h := first - 2; h < first+9; h++ {
				if got.Node("worker-1", h) != nil {
					hours = append(hours, h-first)
				}
			}
			if diff := cmp.Diff(want, hours); diff != "" {
				t.Errorf("from %v to %v (-want +got):\n%s", from, to, diff)
			}
		}
		begin := func(h evidence.Hour) time.Time { return (first + h).Start() }
		f(time.Time{}, time.Time{}, 0, 1, 2, 3, 4, 5)
		f(begin(2), begin(4), 1, 2, 3)
		f(begin(2).Add(time.Minute), begin(4).Add(1), 1, 2, 3, 4)
		f(begin(5), time.Time{}, 4, 5)
		f(time.Time{}, begin(1), 0)
	})
}

// Hours go when their counts go.
func TestEvidenceIsForgotten(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s, l := at_.open(t, Options{Retention: 3 * time.Hour, Step: time.Minute}), evidence.New()
		must(s.Acquire(ctx, "file:a", 0, 0))(t)
		s.foldEvery = 0
		for h := range 6 {
			when := at(time.Duration(h) * time.Hour)
			renew(l, "worker-1", when)
			c := evidenceCommit("file:a", h, l)
			c.Lanes[0].Entries, c.Lanes[0].Latest = requests(10*h, 10*h+1, when), when
			ok(t, s.Commit(ctx, c))
		}
		p := newPruner(s)
		for range 3 {
			p.at(t, at(6*time.Hour), time.Hour)
		}
		got := must(s.Evidence(ctx, time.Time{}, time.Time{}))(t)
		for h := range evidence.Hour(6) {
			if there := got.Node("worker-1", evidence.HourOf(at(0))+h) != nil; there != (h >= 2) {
				t.Errorf("hour %d: %t", h, there)
			}
		}
	})
}

// A store of before has no ledger: it gets one, and keeps what it has.
func TestEvidenceInAnOldStore(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		old := slices.IndexFunc(migrations, func(v migration) bool {
			return strings.Contains(strings.Join(v.statements, ""), "TABLE evidence ")
		})
		var db engine
		var err error
		if strings.HasPrefix(at_.where, "postgres") {
			db, err = openShared(ctx, at_.where, Options{}, migrations[:old])
		} else {
			db, err = openEmbedded(ctx, at_.where, Options{}.Log, migrations[:old])
		}
		ok(t, err)
		ok(t, db.write(ctx, false, func(w tx) error {
			return w.exec(ctx, `INSERT INTO facts (instance, body, at) VALUES ($1, $2, $3)`, "a", []byte("{}"), int64(1))
		}))
		ok(t, db.close())
		s, l := at_.open(t, Options{}), evidence.New()
		sameEvidence(t, l, s)
		must(s.Acquire(ctx, "file:a", 0, 0))(t)
		renew(l, "worker-1", at(0))
		ok(t, s.Commit(ctx, evidenceCommit("file:a", 1, l)))
		sameEvidence(t, l, s)
		if n := len(must(s.Facts(ctx))(t)); n != 1 {
			t.Errorf("%d facts of before", n)
		}
	})
}
