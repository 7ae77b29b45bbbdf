package nodeauthz

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBoundaryOf(t *testing.T) {
	f := func(slop time.Duration, want uint32) {
		t.Helper()
		b := boundaryOf(Stamp{Time: at(5), Slop: slop, Source: SourceWatch})
		if b.slop != want || !b.set || b.at != at(5).UnixNano() {
			t.Errorf("slop %s became %+v, want %dms", slop, b, want)
		}
	}
	f(0, 0)
	f(-time.Hour, 0)
	f(1, 1) // rounded up: an estimate must not get narrower than it is
	f(time.Millisecond, 1)
	f(time.Millisecond+1, 2)
	f(time.Second, 1000)
	f(60*24*time.Hour, math.MaxUint32)
	if (Stamp{Time: at(0)}).IsZero() || !(Stamp{Slop: 1, Source: SourceAudit}).IsZero() {
		t.Error("a stamp is zero if its time is")
	}
}

func TestSaturatingAdd(t *testing.T) {
	for _, c := range [][3]int64{
		{1, 2, 3}, {1, -2, -1}, {maxTime, 1, maxTime}, {maxTime - 1, 5, maxTime}, {minTime, -1, minTime}, {minTime + 1, -5, minTime},
		{maxTime, -1, maxTime - 1}, {minTime, 1, minTime + 1}, {maxTime, minTime, -1},
	} {
		if got := satAdd(c[0], c[1]); got != c[2] {
			t.Errorf("%d + %d = %d, want %d", c[0], c[1], got, c[2])
		}
	}
	if b := (boundary{at: maxTime - 1, slop: 1000, set: true}); b.late() != maxTime {
		t.Errorf("the end of an estimate at the end of time is %d", b.late())
	}
}

// Times that nanoseconds since 1970 cannot hold are the nearest that they can; a log may name any.
func TestTimesOutOfRange(t *testing.T) {
	for want, when := range map[int64]time.Time{
		minTime: {}, maxTime - 1: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), 0: time.Unix(0, 0), -1: time.Unix(0, -1),
	} {
		if got := unixNano(when); got != want {
			t.Errorf("%s is %d, want %d", when, got, want)
		}
	}
	g := covered()
	g.SetPod(named("1", "n1", "db"), Stamp{Source: SourceWatch})
	g.DeletePod("shop", "web", "1", Stamp{Time: time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC), Slop: time.Hour, Source: SourceWatch})
	a := authorizerOver(t, g, time.Second)
	if got := timeline(t, a, "n1", "get secrets shop/db"); got != "allow 0-" {
		t.Errorf("alive from the beginning to the end of time: %q", got)
	}
	for _, when := range []time.Time{{}, time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		ex := a.Explain(ask(t, "n1", "get secrets shop/none"), when)
		if want := map[bool]Verdict{true: Unknown, false: Deny}[when.IsZero()]; ex.Verdict != want {
			t.Errorf("at %s: %+v", when, ex)
		}
	}
}

// How estimates of one change replace each other, whichever comes first.
func TestBetterEstimates(t *testing.T) {
	const ms = time.Millisecond
	// From the best to the worst.
	order := []Stamp{
		{Time: at(5000), Source: SourceAudit}, {Time: at(6000), Source: SourceAudit}, {Time: at(1000), Lag: time.Second, Source: SourceAudit},
		{Time: at(900), Lag: 3 * time.Second, Source: SourceAudit}, {Time: at(1000), Slop: 3 * ms, Source: SourceAudit},
		{Time: at(1900), Source: SourceWatch}, {Time: at(2000), Source: SourceWatch}, {Time: at(1000), Slop: 10 * ms, Source: SourceWatch},
		{Time: at(1500), Slop: time.Second, Source: SourceWatch},
		{Time: at(1000), Source: SourceObject}, {Time: at(0), Slop: time.Second, Source: SourceObject}, {Time: at(3000), Slop: time.Second, Source: SourceObject},
	}
	for i := range order {
		for j := range order {
			x, y := boundaryOf(order[i]), boundaryOf(order[j])
			if got, want := x.betterThan(y), i < j; got != want {
				t.Errorf("%+v better than %+v: %t", order[i], order[j], got)
			}
			if order[i].Source == SourceAudit != (order[j].Source == SourceAudit) {
				continue // they may be mixed
			}
			b := y
			if changed := b.refine(x, 1); changed != (i < j) {
				t.Errorf("%+v by %+v: changed %t", order[j], order[i], changed)
			}
			if want := boundaryOf(order[min(i, j)]); b != want {
				t.Errorf("%+v by %+v: %+v, want %+v", order[j], order[i], b, want)
			}
		}
	}
	var none boundary
	first := boundaryOf(order[len(order)-1])
	if first.betterThan(none) != true || none.betterThan(first) || none.betterThan(none) {
		t.Error("any estimate is better than none")
	}
	if b := none; !b.refine(first, 1) || b != first || b.refine(none, 1) || b != first {
		t.Errorf("none, refined by one and by none: %+v", b)
	}
}

// The graph of the API server is fed by a watch: where both its delivery and the request are known, the edge changed between.
func TestMixingAuditAndWatch(t *testing.T) {
	f := func(share float64, watch int, want int, mixed bool) {
		t.Helper()
		w, a := boundaryOf(watched(at(watch))), boundaryOf(audited(at(1000)))
		end := boundaryOf(audited(at(want)))
		end.mixed = mixed
		for _, order := range [][2]boundary{{w, a}, {a, w}} {
			b := order[0]
			b.refine(order[1], share)
			if diff := cmp.Diff(end, b, cmp.AllowUnexported(boundary{})); diff != "" {
				t.Errorf("watched at %d, share %v, beginning with %+v (-want +got):\n%s", watch, share, order[0], diff)
			}
			// All may come again, in any order.
			for _, again := range []boundary{a, w, w, a} {
				if b.refine(again, share) || b != end {
					t.Errorf("watched at %d: %+v given again made it %+v", watch, again, b)
				}
			}
			if b.refine(boundaryOf(ownStamp(at(900))), share) {
				t.Errorf("watched at %d: the object's own word changed %+v", watch, b)
			}
		}
	}
	f(shareOfBeginning, 1010, 1010, true)
	f(shareOfEnd, 1010, 1005, true)
	f(0.25, 1400, 1100, true)
	f(shareOfBeginning, 2000, 2000, true)
	f(shareOfBeginning, 2001, 1000, false) // another clock, or a relist
	f(shareOfBeginning, 1000, 1000, false)
	f(shareOfEnd, 990, 1000, false) // a watcher cannot see it before it is
}

func TestLives(t *testing.T) {
	from, to := boundaryOf(ownStamp(at(1000))), boundaryOf(Stamp{Time: at(5000), Slop: 10 * time.Millisecond, Source: SourceWatch})
	ns := func(ms int) int64 { return at(ms).UnixNano() }
	for _, c := range []struct {
		life
		span
	}{
		{life{}, span{minTime, maxTime, minTime, maxTime}},
		{life{from: from}, span{ns(1000), maxTime, ns(2000), maxTime}},
		{life{to: to}, span{minTime, ns(5010), minTime, ns(5000)}},
		{life{from, to}, span{ns(1000), ns(5010), ns(2000), ns(5000)}},
	} {
		if got := c.life.span(); got != c.span {
			t.Errorf("%+v spans %+v, want %+v", c.life, got, c.span)
		}
	}
	one, two := span{1, 10, 3, 8}, span{2, 12, 2, 6}
	if got := one.and(two); got != (span{2, 10, 3, 6}) || two.and(one) != got {
		t.Errorf("both: %+v", got)
	}
}

// answeredLate is a change whose request was answered four seconds after it came.
func answeredLate(ms int) Stamp {
	return Stamp{Time: at(ms), Lag: 3500 * time.Millisecond, Source: SourceAudit}
}
