package checks

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/evidence"
)

// What explains that a renewal is not in the log, at the very ends of what does.
func TestWhatExplainsRenewals(t *testing.T) {
	const grace = 50 * time.Second
	end := at(14, 30, 0)
	for _, c := range []struct {
		name   string
		at     time.Time
		change func(*gaps)
		want   hourLoss
	}{
		{"nothing", at(14, 0, 0), func(*gaps) {}, hourLoss{}},
		{"not Ready", at(14, 0, 0), func(g *gaps) { g.blind = []Span{{at(14, 0, 0), at(14, 1, 0)}} }, hourLoss{notReady: 1}},
		{"Ready again", at(14, 1, 0), func(g *gaps) { g.blind = []Span{{at(14, 0, 0), at(14, 1, 0)}} }, hourLoss{}},
		{"the grace period before the Node went", end.Add(-grace), func(g *gaps) { g.vanishes = true }, hourLoss{vanished: 1}},
		{"sooner than that", end.Add(-grace - 1), func(g *gaps) { g.vanishes = true }, hourLoss{}},
		{"the Node stayed", end.Add(-grace), func(*gaps) {}, hourLoss{}},
		{"Ready for less than a minute", at(14, 0, 0), func(g *gaps) { g.ready = []Span{{at(14, 59, 0).Add(1), at(15, 30, 0)}} }, hourLoss{brief: 1}},
		{"Ready for a minute", at(14, 0, 0), func(g *gaps) { g.ready = []Span{{at(14, 59, 0), at(15, 30, 0)}} }, hourLoss{}},
		{"Ready in the hour before", at(14, 0, 0), func(g *gaps) { g.ready = []Span{{at(13, 0, 0), at(14, 0, 59)}} }, hourLoss{brief: 1}},
		{"an API server starts", at(14, 0, 0), func(g *gaps) { g.c.outages = []Span{{at(14, 0, 0), at(14, 0, 1)}} }, hourLoss{restart: 1}},
		{"an API server has started", at(14, 0, 1), func(g *gaps) { g.c.outages = []Span{{at(14, 0, 0), at(14, 0, 1)}} }, hourLoss{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := gaps{c: &coverage{in: &Input{}}, life: Span{at(13, 0, 0), end}, ready: []Span{{at(13, 0, 0), end}}}
			g.c.in.NodeGrace = grace
			c.change(&g)
			var got hourLoss
			if is := g.explained(c.at, &got); is != (c.want != hourLoss{}) || got != c.want {
				t.Errorf("%t, %+v, want %+v", is, got, c.want)
			}
		})
	}
}

// What is missing of nodes, and in which hour the most of all of them.
func TestRenewalsThatAreMissing(t *testing.T) {
	quarter := func(who ...string) func(*Input) {
		return without(func(t *tick) bool {
			for i, w := range who {
				if from := at(13+i, 0, 0); renewals(w, from, from.Add(15*time.Minute))(t) {
					return true
				}
			}
			return false
		})
	}
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   []string
	}{
		{"none", func(*Input) {}, []string{"passed 3177/3177", "passed loss-measured 12:00:00-13:00:00 708/708"}},
		{"of one node", quarter("worker-1"), []string{
			"unproven 3089/3177",
			"unproven renewals-missing worker-1 13:00:00-14:00:00 264/352",
			"passed loss-measured 13:00:00-14:00:00 969/1057",
			"unproven renewals-missing-of-all 13:00:00-14:00:00 969/1057",
		}},
		{"of two nodes, one after the other", quarter("worker-1", "worker-2"), []string{
			"unproven 3001/3177",
			"unproven renewals-missing worker-1 13:00:00-14:00:00 264/352",
			"unproven renewals-missing worker-2 14:00:00-15:00:00 265/353",
			"passed loss-measured 13:00:00-14:00:00 969/1057",
			"unproven renewals-missing-of-all 13:00:00-15:00:00 1940/2116",
		}},
		{"of one node, and so much may be lost", all(quarter("worker-1"), func(in *Input) { in.MaxLoss = 0.25 }), []string{"passed 3089/3177", "passed loss-measured 13:00:00-14:00:00 969/1057"}},
		{"of all nodes in the last hour", without(func(t *tick) bool { return t.renews() && t.o.Node != "" && t.time().After(at(15, 10, 0)) }), []string{
			"unproven 3000/3176",
			"unproven renewals-missing worker-0 15:00:00-16:00:00 59/118",
			"unproven renewals-missing worker-1 15:00:00-16:00:00 59/117",
			"unproven renewals-missing worker-2 15:00:00-16:00:00 58/117",
			"passed loss-measured 15:00:00-16:00:00 176/352",
			"unproven renewals-missing-of-all 15:00:00-16:00:00 176/352",
		}},
		{"of all nodes in the last hour, and so much may be lost", all(without(func(t *tick) bool { return t.renews() && t.o.Node != "" && t.time().After(at(15, 10, 0)) }), func(in *Input) { in.MaxLoss = 0.51 }),
			[]string{"passed 3000/3176", "passed loss-measured 15:00:00-16:00:00 176/352"}},
		{"a Node of half the window", all(without(renewals("worker-2", noon, at(14, 0, 39))), lives(2, at(14, 0, 0), time.Time{})), []string{"passed 2584/2584", "passed loss-measured 12:00:00-13:00:00 472/472"}},
		{"a Node that renews a minute too late", all(without(renewals("worker-2", noon, at(14, 1, 40))), lives(2, at(14, 0, 0), time.Time{})), []string{
			"unproven 2579/2584",
			"unproven renewals-missing worker-2 14:00:00-15:00:00 344/349",
			"passed loss-measured 14:00:00-15:00:00 1050/1055",
			"unproven renewals-missing-of-all 14:00:00-15:00:00 1050/1055",
		}},
		{"a Node that is silent in its second life", all(without(renewals("worker-2", at(14, 0, 0), at(23, 0, 0))), func(in *Input) {
			in.Nodes[2].Lives = []Span{{at(1, 0, 0), at(13, 0, 0)}, {From: at(14, 0, 0)}}
		}), []string{
			"unproven 2354/2820",
			"unproven renewals-missing worker-2 14:00:00-16:00:00 0/466",
			"passed loss-measured 15:00:00-16:00:00 236/353",
			"unproven renewals-missing-of-all 14:00:00-16:00:00 942/1408",
		}},
		{"no renewals of a Node at all", without(func(t *tick) bool { return t.renews() && t.who() == "worker-2" }), []string{
			"unproven 2118/3176",
			"unproven renewals-missing worker-2 12:00:00-16:00:00 0/1058",
			"passed loss-measured 13:00:00-14:00:00 704/1057",
			"unproven renewals-missing-of-all 12:00:00-16:00:00 2118/3176",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := clean()
			in.LeaseDuration, in.NodeGrace = 40*time.Second, 50*time.Second
			c.change(in)
			r := windowCovered(in)
			if diff := cmp.Diff(c.want, lines(&r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The cadence of an hour is measured by its own renewals, and counts if it is shorter than what the Lease says.
func TestCadences(t *testing.T) {
	const planned = 10 * time.Second
	steps := func(of ...int) (out []int64) { // so many of one slot, of two, and so on
		for i, n := range of {
			out = append(out, slices.Repeat([]int64{int64(i + 1)}, n)...)
		}
		return out
	}
	for _, c := range []struct {
		name     string
		steps    []int64
		want     float64 // in seconds
		tooShort bool
	}{
		{"no renewals", nil, 10.2, false},
		{"every ten seconds", steps(0, 10), 10.2, false},
		{"little faster", steps(3, 17), 10.2, false},
		{"faster", steps(4, 16), 9, false},
		{"much faster", steps(10, 10), 7.5, false},
		{"too fast", steps(11, 10), 5, true},
		{"too few to tell", steps(9), 10.2, false},
		{"few", steps(10), 5, true},
		{"half of them far apart", steps(0, 0, 10, 0, 0, 10), 10.2, false},
		{"faster, and many are missing", steps(6, 6, 0, 8), 7.5, false},
		{"faster, and some steps that are half as long again", steps(8, 5, 4), 8.824, false},
		{"slow", slices.Repeat([]int64{50}, 14), 10.2, false},
		{"slower than any that is measured", slices.Repeat([]int64{64}, 11), 10.2, false},
		{"fast after a silence", append([]int64{300}, steps(10)...), 5, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Nothing is known of the hours before and after, and the one after the next has renewals every ten seconds.
			x := coverage{w: window{first: 10}}
			if at := 11 * perHour; c.steps != nil {
				x.slots = append(x.slots, at)
				for _, step := range c.steps {
					at += step
					x.slots = append(x.slots, at)
				}
			}
			for i := range int64(12) {
				x.slots = append(x.slots, 13*perHour+2*i)
			}
			hours := make([]hourLoss, 5)
			got := x.cadences(hours, float64(planned))
			for i := range got {
				got[i] = math.Round(got[i]/float64(time.Millisecond)) / 1000
			}
			if diff := cmp.Diff([]float64{10.2, c.want, 10.2, 10.2, 10.2}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if want := []hourLoss{{}, {tooShort: c.tooShort}, {}, {}, {}}; !slices.Equal(hours, want) {
				t.Errorf("%+v, want %+v", hours, want)
			}
		})
	}
}

// Which renewals are missing in a life of a node, in the hours 13 and 14.
func TestGapsOfALife(t *testing.T) {
	type gap struct{ from, to time.Time }
	started := func(times ...time.Time) *evidence.Ledger {
		l := evidence.New()
		for _, at := range times {
			e := event("worker-1", "create", "", "nodes", "", "worker-1", at)
			e.ev.Code = 409
			l.Observe(&e.ev, e.o)
		}
		return l
	}
	for _, c := range []struct {
		name   string
		gaps   []gap // of renewals, which come every ten seconds otherwise
		starts []time.Time
		grace  time.Duration
		life   Span
		lease  time.Duration
		want   [2][4]int64 // in each hour: seen, missing, short and started
	}{
		{name: "nothing is missing", want: [2][4]int64{{360, 0, 0, 0}, {180, 0, 0, 0}}},
		{name: "40 seconds", gaps: []gap{{at(13, 10, 0), at(13, 10, 30)}}, want: [2][4]int64{{357, 3, 3, 0}, {180, 0, 0, 0}}},
		{name: "50 seconds", gaps: []gap{{at(13, 10, 0), at(13, 10, 40)}}, want: [2][4]int64{{356, 4, 0, 0}, {180, 0, 0, 0}}},
		{name: "50 seconds and 20", gaps: []gap{{at(13, 10, 0), at(13, 10, 40)}, {at(13, 20, 0), at(13, 20, 10)}}, want: [2][4]int64{{355, 5, 1, 0}, {180, 0, 0, 0}}},
		{name: "20 seconds, and 30 later", gaps: []gap{{at(13, 10, 0), at(13, 10, 10)}, {at(13, 20, 0), at(13, 20, 20)}}, want: [2][4]int64{{357, 3, 2, 0}, {180, 0, 0, 0}}},
		{name: "30 seconds, and 20 later", gaps: []gap{{at(13, 10, 0), at(13, 10, 20)}, {at(13, 20, 0), at(13, 20, 10)}}, want: [2][4]int64{{357, 3, 2, 0}, {180, 0, 0, 0}}},
		{name: "two minutes across the end of an hour", gaps: []gap{{at(13, 59, 0), at(14, 1, 0)}}, want: [2][4]int64{{354, 6, 0, 0}, {174, 6, 0, 0}}},
		{name: "40 seconds across it", gaps: []gap{{at(13, 59, 40), at(14, 0, 10)}}, want: [2][4]int64{{358, 2, 2, 0}, {179, 1, 0, 0}}},
		{name: "until a start", gaps: []gap{{at(13, 10, 0), at(13, 10, 40)}}, starts: []time.Time{at(13, 10, 41)}, want: [2][4]int64{{356, 0, 0, 4}, {180, 0, 0, 0}}},
		{name: "until a start, and longer than is noticed", gaps: []gap{{at(13, 10, 0), at(13, 10, 50)}}, starts: []time.Time{at(13, 10, 51)}, want: [2][4]int64{{355, 5, 0, 0}, {180, 0, 0, 0}}},
		{name: "until a start, and just longer than is noticed", gaps: []gap{{at(13, 10, 0), at(13, 10, 30)}}, starts: []time.Time{at(13, 10, 41)}, grace: 30 * time.Second, want: [2][4]int64{{357, 0, 0, 3}, {180, 0, 0, 0}}},
		{name: "from the beginning", gaps: []gap{{at(13, 0, 0), at(13, 2, 0)}}, want: [2][4]int64{{348, 11, 0, 0}, {180, 0, 0, 0}}},
		{name: "from the beginning until a start", gaps: []gap{{at(13, 0, 0), at(13, 0, 30)}}, starts: []time.Time{at(13, 0, 31)}, want: [2][4]int64{{357, 2, 2, 0}, {180, 0, 0, 0}}},
		{name: "to the end", gaps: []gap{{at(14, 28, 0), at(15, 0, 0)}}, want: [2][4]int64{{360, 0, 0, 0}, {168, 12, 0, 0}}},
		{name: "to the end after a start", gaps: []gap{{at(14, 29, 30), at(15, 0, 0)}}, starts: []time.Time{at(14, 29, 41)}, want: [2][4]int64{{360, 0, 0, 0}, {177, 3, 3, 0}}},
		{name: "from the beginning across it", gaps: []gap{{at(13, 50, 0), at(14, 1, 0)}}, life: Span{at(13, 58, 30), at(14, 30, 0)}, want: [2][4]int64{{0, 8, 0, 0}, {174, 6, 0, 0}}},
		{name: "to the end across it", gaps: []gap{{at(13, 58, 0), at(15, 0, 0)}}, life: Span{at(13, 0, 0), at(14, 1, 10)}, want: [2][4]int64{{348, 12, 0, 0}, {0, 6, 0, 0}}},
		{name: "70 seconds from the beginning, of a long Lease", gaps: []gap{{at(13, 50, 0), at(13, 51, 10)}}, life: Span{at(13, 50, 0), at(14, 30, 0)}, lease: 2 * time.Minute, want: [2][4]int64{{53, 2, 2, 0}, {180, 0, 0, 0}}},
		{name: "70 seconds to the end, of a long Lease", gaps: []gap{{at(13, 50, 0), at(15, 0, 0)}}, life: Span{at(13, 0, 0), at(13, 51, 0)}, lease: 2 * time.Minute, want: [2][4]int64{{300, 2, 2, 0}, {0, 0, 0, 0}}},
		{name: "70 seconds between two renewals, of a long Lease", gaps: []gap{{at(13, 50, 0), at(13, 51, 0)}}, lease: 2 * time.Minute, want: [2][4]int64{{354, 1, 1, 0}, {180, 0, 0, 0}}},
		{name: "always", gaps: []gap{{at(12, 0, 0), at(15, 0, 0)}}, want: [2][4]int64{{0, 352, 0, 0}, {0, 176, 0, 0}}},
		{name: "a life of ten seconds", life: Span{at(13, 0, 2), at(13, 0, 12)}, want: [2][4]int64{{1, 0, 0, 0}, {0, 0, 0, 0}}},
		{name: "one of eleven", life: Span{at(13, 0, 2), at(13, 0, 13)}, want: [2][4]int64{{2, 0, 0, 0}, {0, 0, 0, 0}}},
		{name: "no life", life: Span{at(15, 0, 0), at(15, 0, 0)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			grace := 50 * time.Second
			if c.grace != 0 {
				grace = c.grace
			}
			g := gaps{
				c:    &coverage{in: &Input{Options: Options{NodeGrace: grace}, Ledger: started(c.starts...)}, w: window{first: evidence.HourOf(at(13, 0, 0))}},
				node: "worker-1", hours: make([]hourLoss, 2), planned: []float64{10.2e9, 10.2e9}, lease: 40 * time.Second, life: Span{at(13, 0, 0), at(14, 30, 0)},
			}
			if !c.life.From.IsZero() {
				g.life = c.life
			}
			if c.lease != 0 {
				g.lease, g.planned = c.lease, []float64{float64(c.lease) / 4 * jitter, float64(c.lease) / 4 * jitter}
			}
			g.ready = []Span{g.life}
			var slots []int64
			for at := at(13, 0, 0); at.Before(at.Truncate(24 * time.Hour).Add(15 * time.Hour)); at = at.Add(10 * time.Second) {
				if !slices.ContainsFunc(c.gaps, func(x gap) bool { return Span{x.from, x.to}.Holds(at) }) {
					slots = append(slots, evidence.SlotOf(at))
				}
			}
			g.walk(slots)
			for i, h := range g.hours {
				if got := [4]int64{h.seen, h.missing, h.short, h.started}; got != c.want[i] {
					t.Errorf("hour %d: %v, want %v", 13+i, got, c.want[i])
				}
			}
		})
	}
}

// A log without Leases has thousands of missing renewals of each node: each hour is looked at once, not each renewal.
func TestNoLeases(t *testing.T) {
	life := Span{at(0, 0, 0), at(0, 0, 0).Add(24 * time.Hour)}
	ready := []Span{{life.From, at(20, 0, 0)}, {at(20, 59, 50), life.To}}
	var hours []hourLoss
	allocations := testing.AllocsPerRun(3, func() {
		hours = make([]hourLoss, 24)
		g := gaps{
			c: &coverage{in: &Input{Ledger: evidence.New()}, w: window{first: evidence.HourOf(life.From)}}, node: "worker-1", hours: hours,
			planned: slices.Repeat([]float64{10.2e9}, 24), lease: 40 * time.Second, life: life, ready: ready,
		}
		g.walk(nil)
	})
	if hours[19].missing < 300 || hours[20].missing != 0 || hours[20].brief < 300 || hours[21].missing < 300 {
		t.Errorf("around the hour in which the node was hardly Ready: %+v", hours[19:22])
	}
	if allocations > 200 {
		t.Errorf("%v allocations for 24 hours", allocations)
	}
}

// A start that the log has explains a gap before it, and one after it, of ten seconds, and only one gap.
func TestRestarted(t *testing.T) {
	l := evidence.New()
	e := event("worker-1", "create", "", "nodes", "", "worker-1", at(13, 37, 0))
	e.ev.Code = 409
	l.Observe(&e.ev, e.o)
	for _, c := range []struct {
		at   time.Time
		want bool
	}{
		{at(13, 34, 50).Add(-1), false}, {at(13, 34, 50), true}, {at(13, 37, 0), true}, {at(13, 40, 10).Add(-1), true}, {at(13, 40, 10), false},
	} {
		g := gaps{c: &coverage{in: &Input{Ledger: l}}, node: "worker-1"}
		if got := g.restarted(c.at); got != c.want {
			t.Errorf("%v: %t", c.at, got)
		}
		if g.restarted(c.at) {
			t.Errorf("%v: again", c.at)
		}
	}
}

// The first slot of a life is the one whose middle is in it.
func TestFirstSlot(t *testing.T) {
	for after, want := range map[time.Duration]time.Time{
		0: at(13, 0, 0), 2500 * time.Millisecond: at(13, 0, 0), 2500*time.Millisecond + 1: at(13, 0, 5), 4 * time.Second: at(13, 0, 5), 5 * time.Second: at(13, 0, 5),
	} {
		if got := evidence.SlotStart((&gaps{}).slotFrom(at(13, 0, 0).Add(after))); !got.Equal(want) {
			t.Errorf("%v: %v, want %v", after, got, want)
		}
	}
}
