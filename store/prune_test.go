package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/tally"
)

// pruner prunes as if so much time passed between.
type pruner struct {
	s     *Store
	clock time.Time
}

func newPruner(s *Store) *pruner {
	p := &pruner{s: s, clock: start}
	s.aging.elapsed = func() time.Time { return p.clock }
	return p
}

func (p *pruner) at(t testing.TB, now time.Time, passed time.Duration) {
	t.Helper()
	p.clock = p.clock.Add(passed)
	ok(t, p.s.Prune(context.Background(), now))
}

func count(t testing.TB, s *Store, what string) (n int64) {
	t.Helper()
	ctx := context.Background()
	ok(t, s.db.read(ctx, func(r reader) error {
		return r.each(ctx, `SELECT count(*) FROM `+what, nil, func(scan func(...any) error) error { return scan(&n) })
	}))
	return n
}

func TestRequestsAreForgotten(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		p := newPruner(s)
		must(s.Acquire(ctx, "fast", 0, 0))(t)
		must(s.Acquire(ctx, "slow", 0, 0))(t)
		put := func(lane string, n int, when, now time.Time) {
			t.Helper()
			c := commit(lane, 0, "1", requests(n, n+10, when)...)
			c.At = now
			ok(t, s.Commit(ctx, c))
		}
		f := func(why string, want int64) {
			t.Helper()
			if n := count(t, s, "seen"); n != want {
				t.Errorf("%s: %d requests are known, want %d", why, n, want)
			}
		}
		put("slow", 0, at(0), at(0))
		put("fast", 10, at(3*time.Hour), at(3*time.Hour))
		p.at(t, at(3*time.Hour), 0)
		p.at(t, at(3*time.Hour), time.Hour)
		f("a lane is behind", 20)
		put("slow", 20, at(2*time.Hour+59*time.Minute), at(3*time.Hour))
		p.at(t, at(3*time.Hour), 20*time.Minute)
		f("it has caught up, but not for long", 30)
		p.at(t, at(3*time.Hour), 5*time.Minute)
		f("nor for ten minutes", 30)
		p.at(t, at(3*time.Hour), 6*time.Minute)
		f("for ten minutes", 20)

		// The clock and the log jump ahead by a year, and back again.
		year := 365 * 24 * time.Hour
		put("fast", 30, at(year), at(year))
		put("slow", 40, at(year), at(year))
		p.at(t, at(year), time.Hour)
		put("fast", 50, at(3*time.Hour+time.Minute), at(3*time.Hour))
		p.at(t, at(3*time.Hour), time.Hour)
		f("after a jump ahead and back", 50)
		again := commit("slow", 0, "", requests(20, 30, at(2*time.Hour+59*time.Minute))...)
		again.At = at(3 * time.Hour)
		ok(t, s.Commit(ctx, again))
		for _, e := range again.Lanes[0].Entries {
			if !e.Duplicate {
				t.Errorf("%x counted again", e.ID)
			}
		}

		// The slow lane stands still for more than a day.
		put("fast", 60, at(40*time.Hour), at(40*time.Hour))
		p.at(t, at(40*time.Hour), time.Hour)
		p.at(t, at(40*time.Hour), time.Hour)
		f("a lane stands still, and what is of next year is gone", 10)
	})
}

func TestManyRequestsAreForgotten(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		p := newPruner(s)
		must(s.Acquire(ctx, "a", 0, 0))(t)
		var entries []tally.Entry
		for n := range 3 * seenAtOnce {
			entries = append(entries, request(n, at(time.Duration(n/1000)*time.Second)))
		}
		c := commit("a", 0, "1", entries...)
		c.Lanes[0].Opened = []tally.Opened{{ID: id(1), Until: at(0)}, {ID: id(2), Until: at(5 * time.Hour)}, {ID: id(3)}}
		ok(t, s.Commit(ctx, c))
		c = commit("a", 0, "1", request(-1, at(time.Hour+10*time.Second)))
		c.At = at(time.Hour)
		ok(t, s.Commit(ctx, c))
		for range 3 {
			p.at(t, at(2*time.Hour), time.Hour)
		}
		// Those of ten seconds, of a thousand each, are older than an hour.
		if n := count(t, s, "seen"); n != 3*seenAtOnce-10_000+1 {
			t.Errorf("%d requests are known", n)
		}
		c = commit("a", 0, "1", request(-2, at(5*time.Hour)))
		ok(t, s.Commit(ctx, c))
		for range 3 {
			p.at(t, at(5*time.Hour), time.Hour)
		}
		if n, o := count(t, s, "seen"), count(t, s, "opened"); n != 1 || o != 2 {
			t.Errorf("%d requests are known, %d are open", n, o)
		}
		if n := all(t, s).Sums.Allow; n != 3*seenAtOnce+2 {
			t.Errorf("%d requests", n)
		}
	})
}

// What is summed up by the day adds up to the same, and what is old is gone.
func TestRetention(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{Retention: 20 * 24 * time.Hour, Hourly: 48 * time.Hour})
		p := newPruner(s)
		must(s.Acquire(ctx, "a", 0, 0))(t)
		r := rand.New(rand.NewPCG(3, 3))
		entries := random(r, 1500)
		day0 := start.Truncate(24 * time.Hour)
		want := map[bool]*tally.Tally{false: tally.New(), true: tally.New()}
		put := func(entries []tally.Entry) {
			c := commit("a", 0, "1", entries...)
			c.Lanes[0].Events.Read = int64(len(entries))
			c.Lanes[0].Latest = entries[0].Time
			ok(t, s.Commit(ctx, c))
		}
		for i := 0; i < len(entries); i += 50 {
			hours := r.IntN(30 * 24)
			for j := range entries[i : i+50] {
				e := &entries[i+j]
				e.Time = day0.Add(time.Duration(hours)*time.Hour + time.Duration(j)*time.Minute/2)
				if e.Disagreement != nil {
					e.Disagreement.Time = e.Time
				}
				old := hours < 10*24
				want[old].Add(e)
			}
			want[hours < 10*24].Events.Read += 50
			put(entries[i : i+50])
		}
		end := request(1, day0.Add(30*24*time.Hour))
		want[false].Add(&end)
		want[false].Events.Read++
		put([]tally.Entry{end})
		sum := tally.New()
		for _, w := range want {
			sum.Merge(clone(w))
		}
		equal(t, sum, all(t, s))
		// The clock is a year ahead: that changes nothing.
		for range 2 {
			p.at(t, at(365*24*time.Hour), time.Hour)
		}
		equal(t, clone(want[false]), all(t, s))
		if n := count(t, s, "hours WHERE hour % 24 <> 0"); n > 48 {
			t.Errorf("%d hours are not summed up", n)
		}
		// What comes late is added.
		late := request(2, day0.Add(15*24*time.Hour+7*time.Hour))
		want[false].Add(&late)
		want[false].Events.Read++
		put([]tally.Entry{late})
		for range 2 {
			p.at(t, at(0), time.Hour) // and now it is behind
			p.at(t, day0.Add(30*24*time.Hour), time.Hour)
		}
		equal(t, clone(want[false]), all(t, s))
		for _, table := range []string{"nodes", "findings", "ambient", "admission", "notes"} {
			if n := count(t, s, table+" WHERE hour < "+fmt.Sprint(s.stepOf(day0)+10*24)); n != 0 {
				t.Errorf("%d old rows of %s", n, table)
			}
		}
	})
}

func clone(t *tally.Tally) *tally.Tally {
	out := tally.New()
	one := *t
	out.Merge(&one)
	return out
}

// Rules' memory is bounded: what was put last stays.
func TestMemoryIsBounded(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		p := newPruner(s)
		must(s.Acquire(ctx, "a", 0, 0))(t)
		const most, more = 1000, 10
		s.maxMemory = most
		for i := range 4 {
			c := commit("a", 0, "1", request(i, at(time.Duration(i)*time.Hour)))
			c.At = at(time.Duration(i) * time.Minute)
			for n := range (most + 2*more) / 4 {
				c.Memory = append(c.Memory, tally.Remembered{Kind: "k", Key: fmt.Sprint(i, "/", n)})
			}
			ok(t, s.Commit(ctx, c))
		}
		for range 2 {
			p.at(t, at(time.Hour), time.Hour)
		}
		m := must(s.Memory(ctx))(t)
		if len(m) != most || strings.HasPrefix(m[len(m)-1].Key, "0/") || !strings.HasPrefix(m[0].Key, "0/") {
			t.Errorf("%d entries", len(m))
		}
	})
}

// What an API server with a wrong clock dates in the future does not stay, and what is of now stays, also where this clock was wrong for a while.
func TestAttack21Future(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		s.foldEvery = 0
		p := newPruner(s)
		must(s.Acquire(ctx, "a", 0, 0))(t)
		year := 365 * 24 * time.Hour
		put := func(n int, when, now time.Time) {
			t.Helper()
			c := commit("a", 0, "1", requests(n, n+10, when)...)
			c.At = now
			ledger := evidence.New()
			renew(ledger, "worker-1", when)
			c.Evidence = ledger.AppendChanges(nil)
			ok(t, s.Commit(ctx, c))
		}
		f := func(why string, want int64) {
			t.Helper()
			if seen, tallied, hours := count(t, s, "seen"), all(t, s).Sums.Allow, count(t, s, "(SELECT DISTINCT hour FROM evidence) AS hours"); seen != 10*want || tallied != 10*want || hours != want {
				t.Errorf("%s: %d IDs, %d requests and %d hours of evidence, want %d", why, seen, tallied, hours, want)
			}
		}
		put(0, at(0), at(0))
		put(10, at(year), at(time.Minute))
		put(20, at(20*time.Hour), at(2*time.Minute))
		p.at(t, at(3*time.Minute), time.Minute)
		f("at once", 3)
		p.at(t, at(4*time.Minute), 11*time.Minute)
		f("what is of next year is gone", 2)
		p.at(t, at(-year), 11*time.Minute)
		p.at(t, at(-year), 11*time.Minute)
		f("nothing else is when the clock is set back for good", 2)
	})
}
