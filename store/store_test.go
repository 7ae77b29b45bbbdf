package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/tally"
)

func TestLaneGoesOnWhereItWas(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		lane := must(s.Acquire(ctx, "file:a", 0, 10))(t)
		if diff := cmp.Diff(&tally.Lane{}, lane); diff != "" {
			t.Errorf("a new lane (-want +got):\n%s", diff)
		}
		position := "{\"offset\":12,\"x\":\"\x00\xff\"}"
		ok(t, s.Commit(ctx, commit("file:a", 0, position, request(1, at(0)), request(2, at(time.Second)))))
		ok(t, s.Commit(ctx, commit("file:a", 0, "", request(3, at(-time.Minute)))))
		ok(t, s.Close())

		s = at_.open(t, Options{})
		lane = must(s.Acquire(ctx, "file:a", 0, 2))(t)
		if diff := cmp.Diff(&tally.Lane{Position: position, Latest: at(time.Second), Recent: []tally.Seen{{ID: id(2)}, {ID: id(1)}}}, lane); diff != "" {
			t.Errorf("the lane (-want +got):\n%s", diff)
		}
		if lane = must(s.Acquire(ctx, "file:b", 0, 0))(t); lane.Position != "" || lane.Recent != nil {
			t.Errorf("another lane: %+v", lane)
		}
	})
}

func TestEachRequestCountsOnce(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		for _, l := range []string{"a", "b"} {
			must(s.Acquire(ctx, l, 0, 0))(t)
		}
		first := commit("a", 0, "1", requests(0, 100, at(0))...)
		ok(t, s.Commit(ctx, first))
		// Some of them again in another lane, some new ones twice, one with another time.
		again := append(requests(90, 120, at(0)), requests(110, 120, at(0))...)
		again = append(again, request(0, at(time.Second)))
		second := commit("b", 0, "1", again...)
		ok(t, s.Commit(ctx, second))
		var got []bool
		for _, e := range second.Lanes[0].Entries {
			got = append(got, e.Duplicate)
		}
		want := make([]bool, 41)
		for i := range want {
			want[i] = i < 10 || i >= 30 && i < 40
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("duplicates (-want +got):\n%s", diff)
		}
		for _, e := range first.Lanes[0].Entries {
			if e.Duplicate {
				t.Errorf("%x is marked", e.ID)
			}
		}
		if n := all(t, s).Sums.Allow; n != 121 {
			t.Errorf("%d requests", n)
		}
	})
}

// Of what no entry tells anything, nothing is kept.
func TestEntriesThatCountForNothing(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		must(s.Acquire(ctx, "a", 0, 0))(t)
		ok(t, s.Commit(ctx, commit("a", 0, "1", tally.Entry{ID: id(1), Time: at(0)})))
		if l := must(s.Acquire(ctx, "a", 0, 10))(t); l.Recent != nil {
			t.Errorf("kept %x", l.Recent)
		}
		if n := all(t, s); len(n.Nodes) != 0 || !n.From.IsZero() {
			t.Errorf("counted %+v", n)
		}
		ok(t, s.Commit(ctx, &tally.Commit{At: at(0)}))
	})
}

func TestFences(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		other := s
		if strings.HasPrefix(at_.where, "postgres") {
			other = at_.open(t, Options{})
		}
		must(s.Acquire(ctx, "kafka:a/0", 5, 0))(t)
		must(s.Acquire(ctx, "kafka:a/1", 5, 0))(t)
		ok(t, s.Commit(ctx, commit("kafka:a/0", 5, "10", request(1, at(0)))))
		must(other.Acquire(ctx, "kafka:a/0", 6, 0))(t)

		both := commit("kafka:a/1", 5, "20", request(2, at(0)))
		both.Lanes = append(both.Lanes, commit("kafka:a/0", 5, "11", request(3, at(0))).Lanes...)
		both.Memory, both.Facts = []tally.Remembered{{Kind: "k", Key: "k"}}, []byte("{}")
		var fenced *tally.FencedError
		if err := s.Commit(ctx, both); !errors.As(err, &fenced) || !cmp.Equal(fenced.Lanes, []string{"kafka:a/0"}) {
			t.Fatalf("the commit was not refused: %v", err)
		}
		if n := all(t, s).Sums.Allow; n != 1 {
			t.Errorf("%d requests are counted", n)
		}
		if m := must(s.Memory(ctx))(t); m != nil {
			t.Errorf("memory %v", m)
		}
		if _, err := s.Acquire(ctx, "kafka:a/0", 5, 0); !errors.Is(err, source.ErrFenced) {
			t.Errorf("acquired under a lower fence: %v", err)
		}
		both.Lanes = both.Lanes[:1]
		ok(t, s.Commit(ctx, both))
		ok(t, other.Commit(ctx, commit("kafka:a/0", 6, "11", request(3, at(0)))))
		if l := must(other.Acquire(ctx, "kafka:a/0", 6, 0))(t); l.Position != "11" {
			t.Errorf("position %q", l.Position)
		}
		if err := s.Commit(ctx, commit("never acquired", 0, "1")); !errors.As(err, &fenced) {
			t.Errorf("a lane that was not acquired: %v", err)
		}
	})
}

// Under one fence the last to acquire a lane owns it, but under none, where lanes of one name stand next to each other.
func TestEqualFences(t *testing.T) {
	at_, ctx := sharedSite(t), context.Background()
	a, b := at_.open(t, Options{}), at_.open(t, Options{})
	for _, s := range []*Store{a, b} {
		must(s.Acquire(ctx, "webhook:x", 0, 0))(t)
		must(s.Acquire(ctx, "kafka:x/0", 3, 0))(t)
	}
	var fenced *tally.FencedError
	for _, s := range []*Store{a, b} {
		ok(t, s.Commit(ctx, commit("webhook:x", 0, "", request(1, at(0)))))
	}
	if err := a.Commit(ctx, commit("kafka:x/0", 3, "1", request(2, at(0)))); !errors.As(err, &fenced) {
		t.Errorf("the first owner still commits: %v", err)
	}
	ok(t, b.Commit(ctx, commit("kafka:x/0", 3, "1", request(2, at(0)))))
	if n := all(t, a).Sums.Allow; n != 2 {
		t.Errorf("%d requests", n)
	}
}

func TestOpenedRequests(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		must(s.Acquire(ctx, "a", 0, 0))(t)
		c := commit("a", 0, "1")
		c.Lanes[0].Opened = []tally.Opened{
			{ID: id(1), Event: []byte(`{"x":"\u0000"}`), Until: at(time.Minute)}, {ID: id(2), Event: []byte(`{}`), Until: at(2 * time.Minute)},
		}
		ok(t, s.Commit(ctx, c))
		c = commit("a", 0, "2")
		c.Lanes[0].Opened = []tally.Opened{{ID: id(3)}, {ID: id(2), Event: []byte(`{"y":1}`), Until: at(3 * time.Minute)}}
		c.Lanes[0].Resolved = []tally.ID{id(1), id(9), id(3), id(1)}
		ok(t, s.Commit(ctx, c))
		want := []tally.Opened{{ID: id(2), Event: []byte(`{"y":1}`), Until: at(3 * time.Minute)}}
		if diff := cmp.Diff(want, must(s.Acquire(ctx, "a", 0, 0))(t).Opened); diff != "" {
			t.Errorf("opened (-want +got):\n%s", diff)
		}
	})
}

func TestMemoryAndFacts(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		put := func(when time.Duration, m ...tally.Remembered) {
			t.Helper()
			c := &tally.Commit{Memory: m, At: at(when), Instance: "i\x00", Facts: []byte(fmt.Sprintf(`{"n":%d}`, when))}
			ok(t, s.Commit(ctx, c))
		}
		long := strings.Repeat("\xff", 5000)
		put(1, tally.Remembered{Kind: "address", Key: long, Value: []byte{0, 1}},
			tally.Remembered{Kind: "certificate", Key: "c\x00", Value: []byte("worker-1"), First: true},
			tally.Remembered{Kind: "certificate", Key: "c\x00", Value: []byte("worker-2"), First: true})
		put(2, tally.Remembered{Kind: "address", Key: long, Value: nil}, tally.Remembered{Kind: "address", Key: long, Value: []byte("last")},
			tally.Remembered{Kind: "certificate", Key: "c\x00", Value: []byte("worker-3"), First: true})
		ok(t, s.Commit(ctx, &tally.Commit{Instance: "i\x00", At: at(0)}))
		want := []tally.Remembered{
			{Kind: "certificate", Key: "c\x00", Value: []byte("worker-1")}, {Kind: "address", Key: long, Value: []byte("last")},
		}
		if diff := cmp.Diff(want, must(s.Memory(ctx))(t)); diff != "" {
			t.Errorf("memory (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]json.RawMessage{"i\x00": json.RawMessage(`{"n":2}`)}, must(s.Facts(ctx))(t)); diff != "" {
			t.Errorf("facts (-want +got):\n%s", diff)
		}
	})
}

func TestAlerts(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		a := Alert{Key: "a\x00", First: at(0), Last: at(1), Payload: json.RawMessage(`{"a":1}`)}
		b := Alert{Key: "b", First: at(1), Payload: json.RawMessage(`{}`)}
		c := Alert{Key: "c", First: at(2), Last: at(3)}
		ok(t, s.PutAlerts(ctx, []Alert{c, a, b}, nil))
		a.Last, c.Payload = at(5), json.RawMessage("{}")
		ok(t, s.PutAlerts(ctx, []Alert{{Key: "a\x00"}, a, c}, []string{"b", "x", "b"}))
		if diff := cmp.Diff([]Alert{a, c}, must(s.Alerts(ctx))(t)); diff != "" {
			t.Errorf("alerts (-want +got):\n%s", diff)
		}
	})
}

// Whatever comes, in whatever order and however often, adds up to what a tally in memory does.
func TestAddsUp(t *testing.T) {
	for seed := range effort.Of(uint64(6), 2) {
		both(t, func(t *testing.T, at_ *site) { addsUp(t, at_, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func addsUp(t *testing.T, at_ *site, r *rand.Rand) {
	ctx := context.Background()
	s := at_.open(t, Options{})
	lanes := []string{"a", "b", "c\x00\xff" + strings.Repeat("x", 4000)}
	acquire := func() {
		for _, l := range lanes {
			must(s.Acquire(ctx, l, 1, 0))(t)
		}
	}
	acquire()
	entries := random(r, 600)
	want := tally.New()
	for i := range entries {
		want.Add(&entries[i])
	}
	// Each comes once at least, some up to three times.
	again := append([]tally.Entry{}, entries...)
	for range 2 {
		for i := range entries {
			if r.IntN(3) == 0 {
				again = append(again, entries[i])
			}
		}
	}
	r.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
	more, duplicates := len(again)-len(entries), 0
	for len(again) > 0 {
		c := &tally.Commit{At: at(0)}
		for _, l := range lanes {
			n := min(len(again), r.IntN(80))
			one := tally.LaneCommit{Lane: l, Fence: 1, Position: "x", Entries: append([]tally.Entry{}, again[:n]...)}
			one.Events = tally.Events{Read: int64(n), Judged: 1, Node: 2, Duplicates: 3, Skipped: 5}
			if r.IntN(2) == 0 {
				one.Latest = at(time.Duration(r.IntN(3)) * time.Hour)
			}
			if len(want.Events.MalformedAt) < tally.MaxMalformed {
				one.Events.Malformed = 1
				one.Events.MalformedAt = []tally.Place{{File: hostileNames()[r.IntN(5)], Line: len(again)*10 + len(c.Lanes), Cause: "x"}}
			}
			again = again[n:]
			want.Events.Add(&one.Events)
			c.Lanes = append(c.Lanes, one)
		}
		ok(t, s.Commit(ctx, c))
		for _, l := range c.Lanes {
			for _, e := range l.Entries {
				if e.Duplicate {
					duplicates++
				}
			}
		}
		// Now and then another process continues.
		if r.IntN(10) == 0 {
			ok(t, s.Close())
			s = at_.open(t, Options{})
			acquire()
		}
	}
	// Of what counts for nothing no duplicates are known.
	if duplicates == 0 || duplicates > more {
		t.Errorf("%d duplicates, want at most %d", duplicates, more)
	}
	equal(t, want, all(t, s))
}

func TestWindows(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		must(s.Acquire(ctx, "a", 0, 0))(t)
		hour := start.Truncate(time.Hour)
		for n := range 10 {
			ok(t, s.Commit(ctx, commit("a", 0, "1", request(n, hour.Add(time.Duration(n)*time.Hour)))))
		}
		early, late := request(98, time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC)), request(99, time.Date(9999, 12, 31, 23, 59, 59, 999, time.UTC))
		ok(t, s.Commit(ctx, commit("a", 0, "1", early, late, request(97, time.Time{}))))
		f := func(from, to time.Duration, want int64) {
			t.Helper()
			if got := must(s.Tally(ctx, hour.Add(from), hour.Add(to)))(t).Sums.Allow; got != want {
				t.Errorf("from %v to %v: %d, want %d", from, to, got, want)
			}
		}
		f(0, 10*time.Hour, 10)
		f(0, time.Hour, 1)
		f(0, time.Hour+1, 2)
		f(30*time.Minute, 90*time.Minute, 2)
		f(time.Hour, time.Hour, 0)
		f(-time.Hour, 0, 0)
		if n := all(t, s).Sums.Allow; n != 13 {
			t.Errorf("%d in all", n)
		}
		if got := must(s.Tally(ctx, hour, time.Time{}))(t); got.Sums.Allow != 11 || got.From != hour {
			t.Errorf("from an hour on: %d from %v", got.Sums.Allow, got.From)
		}
	})
}

// Names that a hostile client makes do not fill the disk: beyond the bound they count together, as in a tally.
func TestBounds(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{MaxGroups: 20})
		must(s.Acquire(ctx, "a", 0, 0))(t)
		r := rand.New(rand.NewPCG(1, 1))
		want := tally.New()
		for round := range 12 {
			entries := random(r, 200)
			for i := range entries {
				e := &entries[i]
				e.Time = at(0)
				e.Node = fmt.Sprintf("node-%d", r.IntN(100*(round+1)))
				for j := range e.Findings {
					e.Findings[j].Key.Node = e.Node
				}
				want.Add(e)
			}
			c := commit("a", 0, "1", entries...)
			c.Lanes[0].Events.MalformedAt = []tally.Place{{File: "f", Line: 2 * round}, {File: "f", Line: 2*round + 1}}
			ok(t, s.Commit(ctx, c))
			if round%4 == 3 {
				ok(t, s.Close())
				s = at_.open(t, Options{MaxGroups: 20})
			}
		}
		got := all(t, s)
		if len(got.Nodes) != 21 || got.Nodes[tally.Others] == nil {
			t.Errorf("%d nodes", len(got.Nodes))
		}
		// Three rules of four severities are twelve classes of allowed groups; a group that becomes worse gives its room back when the store is opened again.
		if n := len(got.Groups); n < 12*20 || n > 12*(20+2)*3/2 {
			t.Errorf("%d groups", n)
		}
		var findings, groups, requests, nodes, excess, nodesExcess int64
		for k, g := range got.Groups {
			groups += g.Count
			if g.Wide != (k.Verb == "") || g.Wide && (g.Reason != "" || g.Params != nil) {
				t.Errorf("%+v: %+v", k, g)
			}
			if len(g.AuditIDs) > tally.MaxAuditIDs || len(g.AuditIDs) == 0 {
				t.Errorf("%d audit IDs", len(g.AuditIDs))
			}
		}
		for _, g := range want.Groups {
			findings += g.Count
		}
		for _, n := range got.Nodes {
			nodes, nodesExcess = nodes+n.Requests, nodesExcess+n.Excess
		}
		for _, n := range want.Nodes {
			requests, excess = requests+n.Requests, excess+n.Excess
		}
		if findings != groups || requests != nodes || excess != nodesExcess {
			t.Errorf("%d findings, want %d; %d requests, want %d; %d that need RBAC, want %d", groups, findings, nodes, requests, nodesExcess, excess)
		}
		if len(got.Events.MalformedAt) != tally.MaxMalformed || len(got.Ambient) != len(want.Ambient) {
			t.Errorf("%d places, %d accesses of any authenticated user", len(got.Events.MalformedAt), len(got.Ambient))
		}
		if diff := cmp.Diff(want.Sums, got.Sums); diff != "" {
			t.Errorf("sums (-want +got):\n%s", diff)
		}
	})
}

func TestManyDisagreementsAndAmbient(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		must(s.Acquire(ctx, "a", 0, 0))(t)
		want := tally.New()
		for round := range 4 {
			var entries []tally.Entry
			for n := range 400 {
				e := request(round*400+n, at(time.Duration(n)))
				e.Observed = nodeauthz.Deny
				e.Disagreement = &tally.Disagreement{AuditID: fmt.Sprint(n), Time: e.Time}
				e.Ambient = &tally.AmbientKey{Resource: fmt.Sprint("r", n+round), Verb: "get"}
				entries = append(entries, e)
				want.Add(&e)
			}
			ok(t, s.Commit(ctx, commit("a", 0, "1", entries...)))
		}
		got := all(t, s)
		// IDs and times repeat here: those are listed once.
		if n := int64(len(got.Disagreements)) + got.Sums.DisagreeMore; n > 1600 || len(got.Disagreements) > tally.MaxDisagree {
			t.Errorf("%d disagreements, %d listed", n, len(got.Disagreements))
		}
		if diff := cmp.Diff(want.Sums, got.Sums, cmpopts.IgnoreFields(tally.Sums{}, "DisagreeMore")); diff != "" {
			t.Errorf("sums (-want +got):\n%s", diff)
		}
		total := int64(0)
		for _, n := range got.Ambient {
			total += n
		}
		if total != 1600 || len(got.Ambient) > tally.MaxAmbient {
			t.Errorf("%d accesses of any authenticated user in %d", total, len(got.Ambient))
		}
	})
}
