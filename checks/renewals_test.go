package checks

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
		{"a Node that renews 40 seconds too late", all(without(renewals("worker-2", noon, at(14, 1, 20))), lives(2, at(14, 0, 0), time.Time{})), []string{
			"unproven 2580/2584",
			"unproven renewals-missing worker-2 14:00:00-15:00:00 345/349",
			"passed loss-measured 14:00:00-15:00:00 1051/1055",
			"unproven renewals-missing-of-all 14:00:00-15:00:00 1051/1055",
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
