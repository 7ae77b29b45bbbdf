package rules

import (
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// A set has what was added, each once, and nothing else.
func TestIDSet(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	s := newIDSet(0)
	for _, n := range []int{0, 1, 10, 1000} {
		s.clear()
		want := map[uint64]bool{}
		for range n {
			id := 1 + rnd.Uint64N(2000)
			if rnd.IntN(2) == 0 {
				id <<= 50 // the low bits alike
			}
			s.add(id)
			want[id] = true
		}
		var all []uint64
		for id := range want {
			all = append(all, id)
			if !s.has(id) {
				t.Errorf("%d is not in it", id)
			}
		}
		slices.Sort(all)
		if diff := gocmp.Diff(all, slices.Sorted(s.all)); diff != "" || s.len != len(all) {
			t.Errorf("%d (-want +got):\n%s", s.len, diff)
		}
		for range n {
			if id := rnd.Uint64(); s.has(id) != want[id] {
				t.Errorf("%d is in it", id)
			}
		}
	}
	s.add(0)
	if !s.has(0) {
		t.Error("0 is not in it")
	}
}
