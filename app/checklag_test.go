package app

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestResolved holds what is resolved of refusals against a look at all of them, in whatever order their times come.
func TestResolved(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var of refusals
		var want []bool
		for range 60 {
			at := time.Unix(r.Int64N(20), 0)
			if r.IntN(3) > 0 {
				of.all, want = append(of.all, refusal{at: at}), append(want, false)
				continue
			}
			of.resolve(at)
			for i := range want {
				want[i] = want[i] || of.all[i].at.Before(at)
			}
		}
		for i, is := range want {
			if of.all[i].resolved != is {
				t.Fatalf("seed %d: refusal %d is resolved: %t, want %t", seed, i, of.all[i].resolved, is)
			}
		}
	}
}
