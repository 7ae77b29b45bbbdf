package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// observed are entries that detectors look at.
func observed(entries ...tally.Entry) []tally.Entry {
	for i := range entries {
		r := &rules.Request{Time: entries[i].Time, Node: "worker-1", IsNode: true}
		r.Event, r.Attrs = eventOf(i), attrsOf()
		entries[i].Observation = rules.AppendObservation(nil, r)
	}
	return entries
}

// rowsOf are the rows that are there, with how many bytes each has.
func rowsOf(t testing.TB, s *Store, after map[string]int64) []tally.ObservationRow {
	t.Helper()
	return must(s.Observations(context.Background(), after))(t).Rows
}

// What detectors look at of a request is stored once, with the request, and only as long as nobody has taken it in.
func TestObservations(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		must(s.Acquire(ctx, "kafka:audit/0", 1, 0))(t)
		c := commit("kafka:audit/0", 1, "1", observed(requests(0, 5, at(0))...)...)
		c.Lanes[0].Reached = at(time.Second)
		ok(t, s.Commit(ctx, c))
		one := rowsOf(t, s, nil)
		if len(one) != 1 {
			t.Fatalf("%d rows", len(one))
		}
		ok(t, s.Commit(ctx, commit("kafka:audit/0", 1, "2", observed(requests(0, 5, at(0))...)...)))
		if again := rowsOf(t, s, nil); len(again) != 1 {
			t.Fatalf("duplicates are stored: %d rows", len(again))
		}
		quiet := commit("kafka:audit/0", 1, "3")
		ok(t, s.Commit(ctx, quiet))
		quiet.Lanes[0].Reached = at(time.Minute)
		ok(t, s.Commit(ctx, quiet))
		all := rowsOf(t, s, nil)
		if len(all) != 2 || all[0].RowID != one[0].RowID || len(all[1].Body) >= len(all[0].Body) {
			t.Fatalf("%+v", all)
		}
		if news := rowsOf(t, s, map[string]int64{all[0].Writer: all[0].Number}); len(news) != 1 || news[0].RowID != all[1].RowID {
			t.Errorf("%+v", news)
		}
		// What is neither a node's nor a finding counts for nothing, and may still be looked at.
		birth := observed(request(99, at(0)))
		birth[0].IsNode, birth[0].Findings = false, nil
		before := s.added
		ok(t, s.Commit(ctx, commit("kafka:audit/0", 1, "4", birth...)))
		if s.added != before+1 {
			t.Error("a request of nobody is not stored")
		}
		if o := must(s.Observations(ctx, nil))(t); !slices.Equal(o.Lanes, []string{"kafka:audit/0"}) || o.More {
			t.Errorf("%+v", o)
		}
		// Only who has the lease deletes, and with what it remembers or not at all.
		fence, held, err := s.Lease(ctx, tally.OverTimeLane)
		if ok(t, err); !held {
			t.Fatal("nobody has the lease")
		}
		take := &tally.Commit{At: at(0), Lanes: []tally.LaneCommit{{Lane: tally.OverTimeLane, Fence: fence}}, OverTime: &tally.OverTime{
			Memory: []tally.Remembered{{Kind: "k", Value: []byte("v")}}, Taken: []tally.RowID{all[0].RowID},
		}}
		wrong := *take
		wrong.Lanes = []tally.LaneCommit{{Lane: tally.OverTimeLane, Fence: fence - 1}}
		var fenced *tally.FencedError
		if err := s.Commit(ctx, &wrong); !errors.As(err, &fenced) || len(rowsOf(t, s, nil)) != 3 {
			t.Errorf("under another fence: %v", err)
		}
		ok(t, s.Commit(ctx, take))
		if left := rowsOf(t, s, nil); len(left) != 2 || left[0].RowID != all[1].RowID {
			t.Errorf("%+v", left)
		}
		if m := must(s.Memory(ctx))(t); len(m) != 1 || m[0].Kind != "k" {
			t.Errorf("%+v", m)
		}
	})
}

// One store at a time has a lease: the next one gets it when it was given up, or when nobody has asked for it for ten seconds; and who had it can commit
// nothing more.
func TestLease(t *testing.T) {
	at_, ctx := sharedSite(t), context.Background()
	a, b := at_.open(t, Options{}), at_.open(t, Options{})
	now := time.Now()
	for _, s := range []*Store{a, b} {
		s.aging.elapsed = func() time.Time { return now }
	}
	lease := func(s *Store) (int64, bool) {
		t.Helper()
		fence, held, err := s.Lease(ctx, "x")
		ok(t, err)
		return fence, held
	}
	first, held := lease(a)
	if !held {
		t.Fatal("nobody has it")
	}
	for range 20 { // both ask every second
		now = now.Add(time.Second)
		if again, held := lease(a); !held || again != first {
			t.Fatal("it was kept, and is lost")
		}
		if _, held := lease(b); held {
			t.Fatal("two have it")
		}
	}
	for range 10 { // a is dead
		if _, held := lease(b); held {
			t.Fatal("it is taken too early")
		}
		now = now.Add(time.Second)
	}
	second, held := lease(b)
	if !held || second <= first {
		t.Fatalf("fence %d, %t", second, held)
	}
	var fenced *tally.FencedError
	if err := a.Commit(ctx, &tally.Commit{At: at(0), Lanes: []tally.LaneCommit{{Lane: "x", Fence: first}}}); !errors.As(err, &fenced) {
		t.Errorf("who had it commits: %v", err)
	}
	ok(t, b.Commit(ctx, &tally.Commit{At: at(0), Lanes: []tally.LaneCommit{{Lane: "x", Fence: second}}}))
	if _, held := lease(a); held {
		t.Error("two have it")
	}
	ok(t, a.Resign(ctx, "x")) // it is not a's
	if _, held := lease(a); held {
		t.Error("it was given up by somebody else")
	}
	ok(t, b.Resign(ctx, "x"))
	if third, held := lease(a); !held || third <= second {
		t.Errorf("given up: fence %d, %t", third, held)
	}
}

// Whoever asks for the lease, nothing that a page shows has changed.
func TestLeaseIsNoNews(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		before := must(s.Version(ctx))(t)
		for range 3 {
			if _, held, err := s.Lease(ctx, tally.OverTimeLane); err != nil || !held {
				t.Fatal(held, err)
			}
		}
		if after := must(s.Version(ctx))(t); after != before {
			t.Errorf("the version was %s and is %s", before, after)
		}
	})
}

// The embedded store is one process's, and a restart does not wait for the one before.
func TestLeaseOfOne(t *testing.T) {
	at_, ctx := embeddedSite(t), context.Background()
	fences := []int64{}
	for range 2 {
		s := at_.open(t, Options{})
		fence, held, err := s.Lease(ctx, tally.OverTimeLane)
		if ok(t, err); !held {
			t.Fatal("it waits")
		}
		fences = append(fences, fence)
		ok(t, s.Close())
	}
	if fences[1] <= fences[0] {
		t.Errorf("%v", fences)
	}
}

// Rows that nobody takes in do not stay for good.
func TestObservationsAreForgotten(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		now := time.Now()
		s.aging.elapsed = func() time.Time { return now }
		must(s.Acquire(ctx, "kafka:audit/0", 1, 0))(t)
		c := commit("kafka:audit/0", 1, "1", observed(requests(0, 5, at(0))...)...)
		c.At = now
		ok(t, s.Commit(ctx, c))
		for _, after := range []time.Duration{0, 30 * time.Minute, time.Hour, 3 * time.Hour, 4 * time.Hour} {
			base := now
			now = now.Add(time.Hour)
			ok(t, s.Prune(ctx, c.At.Add(after)))
			now = base.Add(time.Hour)
			if n := len(rowsOf(t, s, nil)); after <= time.Hour && n != 1 || after > 3*time.Hour && n != 0 {
				t.Errorf("after %v: %d rows", after, n)
			}
		}
	})
}

func eventOf(i int) *audit.Event {
	return &audit.Event{AuditID: fmt.Sprint(i), Verb: "get", Code: 200, UserAgent: "kubelet/v1", SourceIPs: []string{"10.0.0.1"}}
}

func attrsOf() *authorizer.AttributesRecord {
	return &authorizer.AttributesRecord{Verb: "get", Resource: "secrets", Namespace: "shop", Name: "db", ResourceRequest: true}
}
