package rules

import (
	"math/rand/v2"
	"testing"
)

// A node that was seen for ten minutes is missed by how often it spoke, one that was seen for less after an hour.
func TestSilenceOfANode(t *testing.T) {
	for _, c := range []struct {
		spoke, silent int64 // minutes
		want          bool
	}{{0, 600, false}, {1, 59, false}, {1, 60, true}, {9, 59, false}, {9, 60, true}, {10, 9, false}, {10, 20, true}, {60, 9, false}, {60, 10, true}} {
		n, begin := nodeTrack{}, stepOf(at(0))
		for m := range c.spoke {
			n.spoke(begin + m*stepsPerMinute)
		}
		if got := n.silent(begin+(c.spoke+c.silent)*stepsPerMinute, begin); got != c.want {
			t.Errorf("%d minutes, then silent for %d: %t", c.spoke, c.silent, got)
		}
	}
}

// Each step is the first of its kind once, in any order, among steps within ten minutes.
func TestFirstOfAStep(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 200 {
		var s seenSteps
		begin := stepOf(at(0))
		for range 3 {
			seen := map[int64]bool{}
			for range 100 {
				step := begin + r.Int64N(64)
				if got := s.first(step); got == seen[step] {
					t.Fatalf("step %d after %v: %t", step, seen, got)
				}
				seen[step] = true
			}
			begin += 64 + r.Int64N(1000)
		}
	}
}
