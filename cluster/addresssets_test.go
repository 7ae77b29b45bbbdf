package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// step is what a Node has from a time on.
type step struct {
	after time.Duration
	has   []string
}

// stepped are the addresses of a Node that was created then and had those of the steps; by the last one the clock turned out to have been behind by so much.
func stepped(steps []step, from time.Time, created int64, moved time.Duration) *Nodes {
	n := newNodes()
	for i, s := range steps {
		at := from.Add(s.after).UnixNano()
		if i == len(steps)-1 {
			n.moved(int64(moved), at)
		}
		n.locateAll("worker", s.has, at, created)
	}
	return n
}

// manySteps are those of a Node that has a new address in each hour.
func manySteps(n int) []step {
	steps := []step{{0, []string{"10.0.0.1", "host"}}}
	for i := 1; i <= n; i++ {
		steps = append(steps, step{time.Duration(i) * time.Hour, []string{fmt.Sprintf("10.9.0.%d", i), "host"}})
	}
	return steps
}

// What a Node has at once counts from the first, and later once it has stayed for ten minutes.
func TestAddressesSettle(t *testing.T) {
	from := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	a, ab, b := []string{"10.0.0.1", "host"}, []string{"10.0.0.1", "10.0.0.2", "host"}, []string{"10.0.0.2", "host"}
	for _, c := range []struct {
		name  string
		steps []step
		at    time.Duration
		want  [][]string
		moved time.Duration // by how much the clock turns out to have been behind at the last step
	}{
		{"the first", []step{{0, ab}}, 0, [][]string{ab}, 0},
		{"a host name alone is none", []step{{0, []string{"host"}}, {time.Hour, ab}}, time.Hour, [][]string{ab}, 0},
		{"an added one that is new", []step{{0, a}, {time.Hour, ab}}, time.Hour + 9*time.Minute, [][]string{a}, 0},
		{"an added one that stayed", []step{{0, a}, {time.Hour, ab}}, time.Hour + 10*time.Minute, [][]string{a, ab}, 0},
		{"one that was taken back", []step{{0, a}, {time.Hour, ab}, {time.Hour + 9*time.Minute, a}}, 9 * time.Hour, [][]string{a}, 0},
		{"one that left after a while", []step{{0, a}, {time.Hour, ab}, {2 * time.Hour, a}}, 9 * time.Hour, [][]string{a, ab, a}, 0},
		{"one in place of another", []step{{0, a}, {time.Hour, b}}, 2 * time.Hour, [][]string{a, b}, 0},
		{"many in minutes", []step{{0, a}, {time.Hour, b}, {time.Hour + 2*time.Minute, ab}, {time.Hour + 4*time.Minute, b}, {time.Hour + 6*time.Minute, a}}, 9 * time.Hour, [][]string{a}, 0},
		{"one that came later and stays", []step{{0, a}, {time.Hour, b}}, 30 * time.Minute, [][]string{a}, 0},
		{"one that came later and left", []step{{0, a}, {time.Hour, ab}, {2 * time.Hour, a}}, 30 * time.Minute, [][]string{a}, 0},
		{"one that came later and left, while it was new", []step{{0, a}, {time.Hour, ab}, {2 * time.Hour, a}}, time.Hour + 9*time.Minute, [][]string{a}, 0},
		{"one that came later and left, while it was there", []step{{0, a}, {time.Hour, ab}, {2 * time.Hour, a}}, time.Hour + 10*time.Minute, [][]string{a, ab}, 0},
		{"one that came later and left, and the first one again", []step{{0, a}, {time.Hour, ab}, {2 * time.Hour, a}}, 2*time.Hour + 9*time.Minute, [][]string{a, ab}, 0},
		{"many that came later", manySteps(3 * maxAddressSets), 30 * time.Minute, [][]string{a}, 0},
		{"many that came later, after the second", manySteps(3 * maxAddressSets), time.Hour + 10*time.Minute, [][]string{a, {"10.9.0.1", "host"}}, 0},
		{"one that was taken back while the clock moved", []step{{0, a}, {time.Hour, ab}, {80 * time.Minute, a}}, 9 * time.Hour, [][]string{a}, 19 * time.Minute},
		{"one that stayed while the clock moved", []step{{0, a}, {time.Hour, ab}, {80 * time.Minute, a}}, 9 * time.Hour, [][]string{a, ab, a}, 10 * time.Minute},
		{"one of less time than the clock moved", []step{{0, a}, {time.Hour, ab}, {80 * time.Minute, ab}}, 85 * time.Minute, [][]string{a}, time.Hour},
		{"one of a clock that moved back", []step{{0, a}, {time.Hour, ab}, {2 * time.Hour, ab}}, 2 * time.Hour, [][]string{a, ab}, -time.Hour},
	} {
		if diff := cmp.Diff(c.want, stepped(c.steps, from, 0, c.moved).AddressSets("worker", from.Add(c.at))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// The first addresses that a Node has count at once. What the next ones do not confirm within ten minutes does not count, because somebody else may have made the
// Node; if they confirm nothing, each of the first ones counts by itself.
func TestFirstAddressesAreConfirmed(t *testing.T) {
	from := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	a, ab, b, thief := []string{"10.0.0.1", "host"}, []string{"10.0.0.1", "10.0.0.2", "host"}, []string{"10.0.0.2", "host"}, []string{"10.0.0.1", "198.51.100.7", "host"}
	alone := func(addresses ...string) (out [][]string) {
		for _, s := range addresses {
			out = append(out, []string{s})
		}
		return out
	}
	for _, c := range []struct {
		name  string
		steps []step
		at    time.Duration
		want  [][]string
		moved time.Duration // by how much the clock turns out to have been behind before the last step
		age   time.Duration // of the Node at first
	}{
		{name: "corrected, and long ago", steps: append([]step{{0, a}, {time.Minute, b}}, manySteps(2 * maxAddressSets)[1:]...), at: 30 * time.Minute, want: append(alone("10.0.0.1"), b)},
		{name: "not taken back yet", steps: []step{{0, thief}}, want: [][]string{thief}},
		{name: "one too many, taken back", steps: []step{{0, thief}, {2 * time.Second, a}}, at: 3 * time.Second, want: [][]string{a}},
		{name: "one too many, taken back, later", steps: []step{{0, thief}, {2 * time.Second, a}}, at: 9 * time.Hour, want: [][]string{a}},
		{name: "one too many, written again", steps: []step{{0, thief}, {2 * time.Second, a}, {time.Minute, thief}, {2 * time.Minute, a}}, at: 9 * time.Hour, want: [][]string{a}},
		{name: "one too many, and another one", steps: []step{{0, thief}, {time.Second, append([]string{"198.51.100.8"}, thief...)}, {time.Minute, a}}, at: time.Hour, want: [][]string{a}},
		{name: "one too many, written otherwise", steps: []step{{0, []string{"::ffff:10.0.0.1", "198.51.100.7", "host"}}, {time.Second, a}}, at: time.Hour, want: [][]string{a}},
		{name: "one too many, and the clock moved", steps: []step{{0, thief}, {2 * time.Hour, a}}, at: 9 * time.Hour, want: [][]string{a}, moved: 2*time.Hour - time.Minute},
		{name: "taken back just before it settled", steps: []step{{0, thief}, {10*time.Minute - 1, a}}, at: 10 * time.Minute, want: [][]string{a}},
		{name: "one that left after a while", steps: []step{{0, ab}, {10 * time.Minute, a}}, at: time.Hour, want: [][]string{ab, a}},
		{name: "one that left, of an old Node", steps: []step{{0, ab}, {time.Minute, a}}, at: time.Hour, want: [][]string{ab, a}, age: 9 * time.Minute},
		{name: "a second one comes later", steps: []step{{0, a}, {time.Minute, ab}}, at: 5 * time.Minute, want: [][]string{a}},
		{name: "a second one came", steps: []step{{0, a}, {time.Minute, ab}}, at: 11 * time.Minute, want: [][]string{a, ab}},
		{name: "corrected", steps: []step{{0, a}, {time.Minute, b}}, at: 11 * time.Minute, want: append(alone("10.0.0.1"), b)},
		{name: "corrected, not settled", steps: []step{{0, a}, {time.Minute, b}}, at: 5 * time.Minute, want: append(alone("10.0.0.1"), nil)},
		{name: "corrected, of an old Node", steps: []step{{0, a}, {time.Minute, b}}, at: 5 * time.Minute, want: [][]string{a}, age: time.Hour},
		{name: "corrected, and back", steps: []step{{0, a}, {time.Minute, b}, {2 * time.Minute, a}}, at: 5 * time.Minute, want: [][]string{a}},
		{name: "other ones", steps: []step{{0, thief}, {2 * time.Second, b}}, at: time.Hour, want: append(alone("10.0.0.1", "198.51.100.7"), b)},
		{name: "other ones, and the clock moved", steps: []step{{0, thief}, {2 * time.Second, b}, {time.Minute, b}}, at: 9 * time.Hour, want: append(alone("10.0.0.1", "198.51.100.7"), b), moved: time.Hour},
	} {
		if diff := cmp.Diff(c.want, stepped(c.steps, from, from.Add(-c.age).UnixNano(), c.moved).AddressSets("worker", from.Add(c.at))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// However often the addresses of a Node change, only so many sets of them are kept: the latest ones, and the first two.
func TestAddressSetsAreBounded(t *testing.T) {
	from := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	steps := manySteps(3 * maxAddressSets)
	n := stepped(steps, from, 0, 0)
	want := [][]string{steps[0].has, steps[1].has}
	for _, s := range steps[len(steps)-maxAddressSets+2:] {
		want = append(want, s.has)
	}
	if diff := cmp.Diff(want, n.AddressSets("worker", from.Add(48*time.Hour))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := len(n.at["worker"]); got != maxAddressSets {
		t.Errorf("%d sets of addresses are kept, want %d", got, maxAddressSets)
	}
}
