package rules

import (
	"maps"
	"math/rand/v2"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// A map has what was added, each with its latest value, and nothing else.
func TestIDMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	m := newIDMap[int](0)
	for _, n := range []int{0, 1, 10, 1000} {
		m.clear()
		want := map[uint64]int{}
		for i := range n {
			id := 1 + rnd.Uint64N(2000)
			if rnd.IntN(2) == 0 {
				id <<= 50 // the low bits alike
			}
			m.add(id, i)
			want[id] = i
		}
		for id, value := range want {
			if !m.has(id) || m.get(id) != value {
				t.Errorf("%d has %d, not %d", id, m.get(id), value)
			}
		}
		if diff := gocmp.Diff(want, maps.Collect(m.all)); diff != "" || m.len != len(want) {
			t.Errorf("%d (-want +got):\n%s", m.len, diff)
		}
		for range n {
			id := rnd.Uint64()
			if _, is := want[id]; m.has(id) != is || m.get(id) != want[id] {
				t.Errorf("%d is in it", id)
			}
		}
	}
	m.add(0, 7)
	if !m.has(0) || m.get(0) != 7 {
		t.Error("0 is not in it")
	}
}
