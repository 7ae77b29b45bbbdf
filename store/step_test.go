package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/tally"
)

// Steps of any length add up to the same, and each of them to what a tally of it says.
func TestSteps(t *testing.T) {
	entries := random(rand.New(rand.NewPCG(3, 4)), effort.Of(400, 100))
	want := tally.New()
	for i := range entries {
		want.Add(&entries[i])
	}
	for _, step := range []time.Duration{0, time.Second, 10 * time.Second, time.Minute, time.Hour} {
		both(t, func(t *testing.T, at_ *site) {
			ctx, s := context.Background(), at_.open(t, Options{Step: step})
			if step > 0 && s.Step() != step || step == 0 && s.Step() != time.Hour {
				t.Errorf("the step is %s", s.Step())
			}
			must(s.Acquire(ctx, "file:a", 0, 0))(t)
			c := commit("file:a", 0, "1", entries...)
			ok(t, s.Commit(ctx, c))
			rows := map[tally.Key]int64{}
			got, steps, err := s.Window(ctx, time.Time{}, time.Time{}, func(when time.Time, k *tally.Key, g *tally.Group) {
				rows[*k] += g.Count
				if g.First.Before(when) || !g.First.Before(when.Add(s.Step())) {
					t.Errorf("a finding of %s is in the step of %s", g.First, when)
				}
			})
			ok(t, err)
			equal(t, want, got)
			groups := map[tally.Key]int64{}
			for k, g := range want.Groups {
				groups[k] = g.Count
			}
			if d := cmp.Diff(groups, rows); d != "" {
				t.Errorf("rows of findings (-want +got):\n%s", d)
			}
			var sum tally.Step
			for i, one := range steps {
				if i > 0 && !one.At.After(steps[i-1].At) || one.At.Truncate(s.Step()) != one.At {
					t.Errorf("a step at %s after one at %s", one.At, steps[max(0, i-1)].At)
				}
				add(&sum, &one)
				part := must(s.Tally(ctx, one.At, one.At.Add(s.Step())))(t)
				if part.Sums.Allow != one.Allow || part.Sums.Deny != one.Deny || part.Sums.Unknown != one.Unknown {
					t.Errorf("step %s has %+v, want %+v", one.At, one, part.Sums)
				}
			}
			excess := int64(0)
			for name, n := range want.Nodes {
				excess += n.Excess
				of := must(s.NodeSteps(ctx, name, time.Time{}, time.Time{}))(t)
				var node tally.Step
				for i := range of {
					add(&node, &of[i])
				}
				if node.Allow+node.Deny+node.Unknown != n.Requests || node.Deny != n.Deny || node.Unknown != n.Unknown || node.Excess != n.Excess {
					t.Errorf("node %q has %+v, want %+v", name, node, n)
				}
			}
			if sum.Allow != want.Sums.Allow || sum.Deny != want.Sums.Deny || sum.Unknown != want.Sums.Unknown || sum.Excess != excess {
				t.Errorf("the steps add up to %+v, want %+v and %d", sum, want.Sums, excess)
			}
			for k, g := range want.Groups {
				of := must(s.FindingSteps(ctx, &k, time.Time{}, time.Time{}))(t)
				n := int64(0)
				for _, one := range of {
					n += one.Excess + one.Deny
				}
				if n != g.Count {
					t.Errorf("the finding %+v has %d in its steps, want %d", k, n, g.Count)
				}
			}
			first, last, err := s.Range(ctx)
			ok(t, err)
			if !first.Equal(want.From) || !last.Equal(want.To) {
				t.Errorf("from %s to %s, want %s and %s", first, last, want.From, want.To)
			}
			for now, newest := range map[time.Time]time.Time{
				want.To: want.To, want.To.Add(1000 * time.Hour): want.To, // all requests are earlier
				want.From.Add(-1000 * time.Hour): want.To, // and all later: it is our clock that is wrong
			} {
				if got := must(s.Newest(ctx, now))(t); !got.Equal(newest) {
					t.Errorf("at %s the newest is of %s, want %s", now, got, newest)
				}
			}
			if none := must(s.NodeSteps(ctx, "no such node", time.Time{}, time.Time{}))(t); len(none) > 0 {
				t.Errorf("%v", none)
			}
		})
	}
}

// TestNewest: windows end with the last request that can be, whatever an API server's clock says.
func TestNewest(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx, s := context.Background(), at_.open(t, Options{})
		now := time.Date(2026, 11, 21, 6, 30, 0, 0, time.UTC)
		if got := must(s.Newest(ctx, now))(t); !got.IsZero() {
			t.Errorf("of an empty store %s", got)
		}
		must(s.Acquire(ctx, "file:a", 0, 0))(t)
		var entries []tally.Entry
		for i, at := range []time.Time{now.Add(-24 * time.Hour), now, now.Add(20 * time.Minute), now.Add(3 * time.Hour), time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)} {
			entries = append(entries, tally.Entry{ID: tally.IDOf(fmt.Sprint(i)), Time: at, IsNode: true, Node: "worker-1", Verdict: nodeauthz.Allow})
		}
		ok(t, s.Commit(ctx, commit("file:a", 0, "1", entries...)))
		if got, want := must(s.Newest(ctx, now))(t), now.Add(20*time.Minute); !got.Equal(want) {
			t.Errorf("the newest is of %s, want %s", got, want)
		}
	})
}

func add(to, one *tally.Step) {
	to.Allow += one.Allow
	to.Deny += one.Deny
	to.Unknown += one.Unknown
	to.Excess += one.Excess
}

// The length of a step is the store's, and cannot be any.
func TestStepStays(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		for _, bad := range []time.Duration{-time.Second, 7 * time.Second, 2 * time.Hour, time.Millisecond, 1500 * time.Millisecond} {
			if _, err := at_.try(Options{Step: bad}); !errors.Is(err, errStep) {
				t.Errorf("%s: %v", bad, err)
			}
		}
		s := at_.open(t, Options{Step: time.Minute})
		ok(t, s.Close())
		if _, err := at_.try(Options{Step: time.Hour}); err == nil || !strings.Contains(err.Error(), "counts by 1m0s") {
			t.Errorf("another step: %v", err)
		}
		for _, o := range []Options{{}, {Step: time.Minute}, {ReadOnly: true}, {ReadOnly: true, Step: time.Hour}} {
			s, err := at_.try(o)
			ok(t, err)
			if s.Step() != time.Minute {
				t.Errorf("%+v: the step is %s", o, s.Step())
			}
			ok(t, s.Close())
		}
	})
}

// Old steps become days, however long a step is.
func TestStepsBecomeDays(t *testing.T) {
	for _, step := range []time.Duration{10 * time.Minute, time.Hour} {
		both(t, func(t *testing.T, at_ *site) {
			ctx, s := context.Background(), at_.open(t, Options{Step: step, Hourly: 24 * time.Hour, Retention: 72 * time.Hour})
			must(s.Acquire(ctx, "file:a", 0, 0))(t)
			midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
			var entries []tally.Entry
			for i := range 5 * 24 * 6 {
				e := request(i, midnight.Add(time.Duration(i)*10*time.Minute))
				e.Verdict = nodeauthz.Unknown
				entries = append(entries, e)
			}
			ok(t, s.Commit(ctx, commit("file:a", 0, "1", entries...)))
			now := midnight.Add(5 * 24 * time.Hour)
			elapsed := time.Now()
			s.aging.elapsed = func() time.Time { return elapsed }
			for range 3 {
				ok(t, s.Prune(ctx, now))
				elapsed = elapsed.Add(holdBack + time.Second)
			}
			_, steps, err := s.Window(ctx, time.Time{}, time.Time{}, nil)
			ok(t, err)
			days, fine := 0, 0
			for _, one := range steps {
				switch one.Unknown {
				case 24 * 6:
					days++
				case int64(step / (10 * time.Minute)):
					fine++
				}
			}
			if days == 0 || fine < int(24*time.Hour/step)-1 || days+fine < len(steps)-1 {
				t.Errorf("by %s: %d days and %d of %d steps", step, days, fine, len(steps))
			}
			// A window that begins on a day that is kept as a whole has all of it, and one that begins on another day has its own steps alone.
			for from, begin := range map[time.Duration]time.Duration{58 * time.Hour: 48 * time.Hour, 106 * time.Hour: 106 * time.Hour} {
				sum := must(s.Tally(ctx, midnight.Add(from), time.Time{}))(t)
				if want := midnight.Add(begin); !sum.From.Equal(want) {
					t.Errorf("a window from %s begins at %s, want %s", midnight.Add(from), sum.From, want)
				}
			}
			nodes := must(s.NodeSteps(ctx, entries[0].Node, time.Time{}, time.Time{}))(t)
			if len(nodes) == 0 || nodes[0].Unknown == 0 {
				t.Errorf("of the node there is %v", nodes)
			}
		})
	}
}

// A store of before steps and verdicts by node is brought up to date, and keeps its hours.
func TestFirstSchema(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		open := func() (engine, error) {
			if strings.HasPrefix(at_.where, "postgres") {
				return openShared(ctx, at_.where, Options{}, migrations[:1])
			}
			return openEmbedded(ctx, at_.where, Options{}.Log, migrations[:1])
		}
		db, err := open()
		ok(t, err)
		ok(t, db.write(ctx, false, func(w tx) error {
			if err := w.exec(ctx, `INSERT INTO nodes (hour, node, requests, deny, excess) VALUES (500000, 'w1', 10, 3, 2)`); err != nil {
				return err
			}
			columns, values := "hour, first, last", "500000, 1800000000000000000, 1800000001000000000"
			for _, name := range sumNames() {
				columns, values = columns+", "+name, values+", 1"
			}
			return w.exec(ctx, `INSERT INTO hours (`+columns+`) VALUES (`+values+`)`)
		}))
		ok(t, db.close())
		s := at_.open(t, Options{})
		if s.Step() != time.Hour {
			t.Errorf("the step is %s", s.Step())
		}
		steps := must(s.NodeSteps(ctx, "w1", time.Time{}, time.Time{}))(t)
		want := []tally.Step{{At: time.Unix(500000*3600, 0).UTC(), Allow: 7, Deny: 3, Excess: 2}}
		if d := cmp.Diff(want, steps); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		ok(t, s.Close())
		if _, err := at_.try(Options{Step: time.Minute}); err == nil {
			t.Error("hours cannot become minutes")
		}
	})
}

// The version changes with what is stored, and only with that.
func TestVersion(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx, s := context.Background(), at_.open(t, Options{})
		must(s.Acquire(ctx, "file:a", 0, 0))(t)
		was := must(s.Version(ctx))(t)
		for i := range 5 {
			c := commit("file:a", 0, "1", request(i, at(0)))
			c.At = at(time.Duration(i) * time.Millisecond)
			if i == 3 {
				c.Lanes, c.Facts, c.Instance = nil, []byte(`{}`), "a"
				c.Memory = []tally.Remembered{{Kind: "k\x00", Key: "some\xff", Value: []byte("v")}}
			}
			ok(t, s.Commit(ctx, c))
			is := must(s.Version(ctx))(t)
			if is == was {
				t.Errorf("commit %d changes nothing in %s", i, is)
			}
			if again := must(s.Version(ctx))(t); again != is {
				t.Errorf("nothing was stored, and %s became %s", is, again)
			}
			was = is
		}
		if v := must(s.Remembered(ctx, "k\x00", "some\xff"))(t); string(v) != "v" {
			t.Errorf("remembered %q", v)
		}
		if v := must(s.Remembered(ctx, "k\x00", "other"))(t); v != nil {
			t.Errorf("remembered %q", v)
		}
	})
}
