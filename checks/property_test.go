package checks

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// There is no way to a yes but that every check of the question passed, or is waived: results are made up, left out, given twice, with states that their
// items belie.
func TestConcludeHasNoOtherPath(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	answers := map[Answer]int{}
	for round := range 20_000 {
		q := []Question{Ready, Confined}[r.IntN(2)]
		bad := r.IntN(4) // how likely something is wrong
		var results []Result
		failed, unproven, waived := false, false, false
		for _, c := range All() {
			own := c.Questions&q != 0
			n := 1
			if bad > 0 && r.IntN(40) == 0 {
				n = r.IntN(3)
			}
			unproven = unproven || own && n == 0
			for range n {
				x := Result{Check: c.Name, State: Passed}
				if r.IntN(30) < bad {
					x.State = []State{Waived, Failed, Unproven, State(9)}[r.IntN(4)]
				}
				for range r.IntN(3) {
					s := Passed
					if r.IntN(60) < bad {
						s = []State{Waived, Failed, Unproven, State(200)}[r.IntN(4)]
					}
					x.Evidence = append(x.Evidence, Item{State: s})
				}
				for _, s := range append([]State{x.State}, states(x.Evidence)...) {
					failed = failed || own && s == Failed
					waived = waived || own && s == Waived
					unproven = unproven || own && s != Failed && s != Waived && s != Passed
				}
				results = append(results, x)
			}
		}
		r.Shuffle(len(results), func(i, j int) { results[i], results[j] = results[j], results[i] })
		if r.IntN(5) == 0 {
			results = append(results, Result{Check: "no-such-check", State: Failed})
		}
		want := map[Question][]Answer{
			Ready:    {AnswerNotReady, AnswerNotEnough, AnswerReadyWaived, AnswerReady},
			Confined: {AnswerNotConfined, AnswerNotEnough, AnswerConfinedWaived, AnswerConfined},
		}[q]
		i := slices.Index([]bool{failed, unproven, waived, true}, true)
		v := Conclude(q, results, nil)
		if v.Answer != want[i] || v.Good(false) != (i == 3) || v.Good(true) != (i >= 2) {
			t.Fatalf("round %d, %s: %q, want %q: %+v", round, q, v.Answer, want[i], results)
		}
		if n := len(v.Passed) + len(v.Failed) + len(v.Unproven) + len(v.Waived); n != len(Of(q)) {
			t.Fatalf("%d checks of %d: %+v", n, len(Of(q)), v)
		}
		answers[v.Answer]++
	}
	if len(answers) != 7 {
		t.Errorf("the rounds came to %v only", answers)
	}
	for _, q := range []Question{0, Ready | Confined, 4} {
		if v := Conclude(q, nil, nil); v.Good(true) {
			t.Errorf("question %d is answered with %q", q, v.Answer)
		}
	}
}

func states(items []Item) (out []State) {
	for i := range items {
		out = append(out, items[i].State)
	}
	return out
}

// Without any one node-hour, server-hour or source-hour of the window the evidence does not suffice.
func TestEveryRecordIsNeeded(t *testing.T) {
	type record struct {
		k evidence.Key
		v []byte
	}
	var all []record
	in := clean()
	if err := in.Ledger.Records(func(k evidence.Key, v []byte) error {
		all = append(all, record{k, bytes.Clone(v)})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(all) != 4*(3+2+1) {
		t.Fatalf("%d records", len(all))
	}
	for _, without := range append(all, record{}) {
		in.Ledger = evidence.New()
		for _, r := range all {
			if r.k == without.k {
				continue
			}
			if err := in.Ledger.Put(r.k, r.v); err != nil {
				t.Fatal(err)
			}
		}
		v := Conclude(Ready, Run(in), nil)
		if want := without.v == nil; v.Good(true) != want {
			t.Errorf("without %+v: %q", without.k, v.Answer)
		}
	}
}

// Whatever renewals are missing: if it is more than the allowed loss of a node's hour, beyond one short gap, the hour is not covered; if it is no more than
// that of the node and of all, it is.
func TestLossIsMeasured(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 13))
	log := ticks(nil)
	passed, refused := 0, 0
	for round := range effort.Of(150, 40) {
		in := clean()
		type hour struct {
			node string
			h    int
		}
		total, gone, all, allGone := map[hour]int{}, map[hour]int{}, map[int]int{}, map[int]int{}
		share := []float64{0, 0.002, 0.005, 0.01, 0.02, 0.1}[r.IntN(6)]
		node, from := fmt.Sprintf("worker-%d", r.IntN(3)), at(12, 20, 0).Add(time.Duration(r.IntN(170))*time.Minute)
		to := from.Add(time.Duration(r.IntN(150)) * time.Second)
		block := r.IntN(2) == 0
		in.Ledger = ledger(log, func(e *tick) bool {
			if !e.renews() || e.o.Node == "" || e.time().Before(at(12, 20, 15)) || e.time().After(at(15, 19, 45)) {
				return false
			}
			k := hour{e.o.Node, e.time().Hour()}
			total[k]++
			all[k.h]++
			drop := r.Float64() < share
			if block {
				drop = e.o.Node == node && !e.time().Before(from) && e.time().Before(to)
			}
			if drop {
				gone[k]++
				allGone[k.h]++
			}
			return drop
		})
		const shortest, longest = 0, 3 // what a gap of a lease's duration hides
		must, may := false, true
		for k, n := range total {
			must = must || float64(gone[k]-longest) > 0.01*float64(n)+1
			may = may && float64(gone[k]-shortest) <= 0.01*float64(n)-1
		}
		for h, n := range all {
			must = must || float64(allGone[h]) > 0.01*float64(n)+1
			may = may && float64(allGone[h]) <= 0.01*float64(n)-1
		}
		res := resultOf(in, "window-covered")
		if must && res.State != Unproven || may && res.State != Passed {
			t.Errorf("round %d: %s, missing %v of %v", round, res.State, gone, total)
		}
		if must {
			refused++
		}
		if may {
			passed++
		}
	}
	if least := effort.Of(20, 4); passed < least || refused < least {
		t.Errorf("%d rounds must pass, %d must not", passed, refused)
	}
}

// The order of nodes, facts and events changes no state and no figure.
func TestOrderDoesNotMatter(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 17))
	for _, c := range windowCases()[:12] {
		in := clean()
		c.change(in)
		want := resultOf(in, c.check)
		r.Shuffle(len(in.Nodes), func(i, j int) { in.Nodes[i], in.Nodes[j] = in.Nodes[j], in.Nodes[i] })
		got := resultOf(in, c.check)
		if got.State != want.State || got.Expected != want.Expected || got.Seen != want.Seen || len(got.Evidence) != len(want.Evidence) {
			t.Errorf("%s: %+v, want %+v", c.name, got, want)
		}
	}
}

// What the ledger dropped is never taken for what was not there.
func TestOverflowIsUnproven(t *testing.T) {
	for what, checks := range map[evidence.Overflow][]string{
		evidence.OverNodes:   {"window-covered", "reads-logged"},
		evidence.OverServers: {"servers-seen"},
		evidence.OverSources: {"servers-seen", "node-authorizer-on"},
	} {
		in := clean()
		if err := in.Ledger.Put(evidence.Key{Kind: evidence.KindOverflow, Hour: evidence.HourOf(at(13, 0, 0))}, []byte{1, byte(what)}); err != nil {
			t.Fatal(err)
		}
		for _, name := range checks {
			if r := resultOf(in, name); r.State != Unproven || !codes(&r, Unproven)[CodeOverflow] {
				t.Errorf("%b: %s is %s", what, name, r.State)
			}
		}
	}
	in := clean()
	if err := in.Ledger.Put(evidence.Key{Kind: evidence.KindDropped, Hour: evidence.HourOf(at(12, 0, 0))}, []byte{1}); err != nil {
		t.Fatal(err)
	}
	if v := Conclude(Ready, Run(in), nil); v.Good(true) {
		t.Errorf("an hour was dropped: %q", v.Answer)
	}
}
