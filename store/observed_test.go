package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
		entries[i].Observation = rules.AppendObservation(nil, r, time.Time{})
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
		if o := must(s.Observations(ctx, nil))(t); len(o.Lanes) != 1 || o.Lanes[0].Name != "kafka:audit/0" || !o.Lanes[0].Shared || o.More {
			t.Errorf("%+v", o)
		}
		// Only who has the lease deletes, and with what it remembers or not at all.
		lease, err := s.Lease(ctx, tally.OverTimeLane, time.Time{})
		if ok(t, err); !lease.Held {
			t.Fatal("nobody has the lease")
		}
		take := &tally.Commit{At: at(0), Lanes: []tally.LaneCommit{{Lane: tally.OverTimeLane, Fence: lease.Fence}}, OverTime: &tally.OverTime{
			Memory: []tally.Remembered{{Kind: "k", Value: []byte("v")}}, Taken: []tally.RowID{all[0].RowID},
		}}
		wrong := *take
		wrong.Lanes = []tally.LaneCommit{{Lane: tally.OverTimeLane, Fence: lease.Fence - 1}}
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

// Whoever stored them, the rows of a lane come in the order in which they were stored, and those of before a lane changed hands before those of after.
func TestObservationsAreInOrder(t *testing.T) {
	at_, ctx := sharedSite(t), context.Background()
	for range 4 { // whichever of the writers is the first by name
		var all [3]*Store
		for i := range all {
			all[i] = at_.open(t, Options{})
		}
		fence := int64(0)
		for range 3 {
			for i, s := range all {
				fence++
				must(s.Acquire(ctx, "kafka:audit/0", fence, 0))(t)
				for range []int{10, maxObserved - 50, 20}[i] {
					c := commit("kafka:audit/0", fence, "1")
					c.Lanes[0].Reached = at(time.Second)
					ok(t, s.Commit(ctx, c))
				}
			}
		}
		after, last, n := map[string]int64{}, int64(-1), 0
		for more := true; more; {
			got := must(all[0].Observations(ctx, after))(t)
			for _, row := range got.Rows {
				if row.Number <= last {
					t.Fatalf("row %d comes after row %d", row.Number, last)
				}
				last, after[row.Writer] = row.Number, row.Number
				n++
			}
			more = got.More
		}
		if n != 3*(10+maxObserved-50+20) {
			t.Fatalf("%d rows", n)
		}
		at_ = sharedSite(t)
	}
}

// A lane that was announced is known before anybody has it, and how far the log is reaches everybody from who has the lease.
func TestAnnouncedLanes(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		_, alone := s.db.(*embedded)
		known := func() string {
			text := ""
			for _, l := range must(s.Observations(ctx, nil))(t).Lanes {
				text += fmt.Sprintf("%s %t, ", l.Name, l.Shared)
			}
			return text
		}
		ok(t, s.Announce(ctx, []string{"kafka:audit/1", "kafka:audit/0"}))
		must(s.Acquire(ctx, "file:a", 0, 0))(t)
		want := "file:a false, kafka:audit/0 true, kafka:audit/1 true, "
		if alone {
			want = "file:a false, "
		}
		if got := known(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		must(s.Acquire(ctx, "kafka:audit/0", 1, 0))(t)
		ok(t, s.Commit(ctx, commit("kafka:audit/0", 1, "7")))
		ok(t, s.Announce(ctx, []string{"kafka:audit/0"}))
		if l := must(s.Acquire(ctx, "kafka:audit/0", 1, 0))(t); l.Position != "7" {
			t.Errorf("announcing a lane changed its position to %q", l.Position)
		}
		if lease := must(s.Lease(ctx, tally.OverTimeLane, at(time.Minute)))(t); !lease.Held || !lease.Frontier.Equal(at(time.Minute)) {
			t.Errorf("%+v", lease)
		}
		if alone {
			return
		}
		other := at_.open(t, Options{})
		if lease := must(other.Lease(ctx, tally.OverTimeLane, at(time.Hour)))(t); lease.Held || !lease.Frontier.Equal(at(time.Minute)) {
			t.Errorf("%+v", lease)
		}
		if lease := must(s.Lease(ctx, tally.OverTimeLane, time.Time{}))(t); !lease.Held || !lease.Frontier.Equal(at(time.Minute)) {
			t.Errorf("%+v", lease)
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
		lease, err := s.Lease(ctx, "x", time.Time{})
		ok(t, err)
		return lease.Fence, lease.Held
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
			if lease, err := s.Lease(ctx, tally.OverTimeLane, time.Time{}); err != nil || !lease.Held {
				t.Fatal(lease, err)
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
		lease, err := s.Lease(ctx, tally.OverTimeLane, time.Time{})
		if ok(t, err); !lease.Held {
			t.Fatal("it waits")
		}
		fences = append(fences, lease.Fence)
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

// A store of version 6 of the schema, in which each lane had a memory of its own, is opened and continued: its lanes and other memory stay.
func TestStoreWithoutObservations(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		var db engine
		var err error
		if strings.HasPrefix(at_.where, "postgres") {
			db, err = openShared(ctx, at_.where, Options{}, migrations[:6])
		} else {
			db, err = openEmbedded(ctx, at_.where, Options{}.Log, migrations[:6])
		}
		ok(t, err)
		ok(t, db.write(ctx, false, func(w tx) error {
			for i, kind := range []string{"lane:kafka:audit/0:watermark", "mode"} {
				if err := w.exec(ctx, `INSERT INTO memory (kind, id, key, value, at) VALUES ($1, $2, $3, $4, $5)`, kind, []byte{byte(i)}, []byte{}, []byte("x"), int64(1)); err != nil {
					return err
				}
			}
			return w.exec(ctx, `INSERT INTO lanes (lane, fence, owner, position, latest, updated) VALUES ($1, $2, $3, $4, $5, $6)`,
				"kafka:audit/0", int64(5), []byte("somebody"), []byte("42"), at(0).UnixNano(), at(0).UnixNano())
		}))
		ok(t, db.close())
		s := at_.open(t, Options{})
		if all := must(s.Memory(ctx))(t); len(all) != 1 || all[0].Kind != "mode" {
			t.Errorf("%+v", all)
		}
		if l := must(s.Acquire(ctx, "kafka:audit/0", 6, 0))(t); l.Position != "42" {
			t.Errorf("position %q", l.Position)
		}
		ok(t, s.Commit(ctx, commit("kafka:audit/0", 6, "43", observed(requests(0, 5, at(0))...)...)))
		if n := len(rowsOf(t, s, nil)); n != 1 {
			t.Errorf("%d rows", n)
		}
	})
}
