package cluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What a Node has at once counts from the first, and later once it has stayed for ten minutes.
func TestAddressesSettle(t *testing.T) {
	from := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	a, ab, b := []string{"10.0.0.1", "host"}, []string{"10.0.0.1", "10.0.0.2", "host"}, []string{"10.0.0.2", "host"}
	type step struct {
		after time.Duration
		has   []string
	}
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
		{"one that was taken back while the clock moved", []step{{0, a}, {time.Hour, ab}, {80 * time.Minute, a}}, 9 * time.Hour, [][]string{a}, 19 * time.Minute},
		{"one that stayed while the clock moved", []step{{0, a}, {time.Hour, ab}, {80 * time.Minute, a}}, 9 * time.Hour, [][]string{a, ab, a}, 10 * time.Minute},
		{"one of less time than the clock moved", []step{{0, a}, {time.Hour, ab}, {80 * time.Minute, ab}}, 85 * time.Minute, [][]string{a}, time.Hour},
		{"one of a clock that moved back", []step{{0, a}, {time.Hour, ab}, {2 * time.Hour, ab}}, 2 * time.Hour, [][]string{a, ab}, -time.Hour},
	} {
		n := newNodes()
		for i, s := range c.steps {
			if i == len(c.steps)-1 {
				n.moved(int64(c.moved), from.Add(s.after).UnixNano())
			}
			n.locateAll("worker", s.has, from.Add(s.after).UnixNano())
		}
		if diff := cmp.Diff(c.want, n.AddressSets("worker", from.Add(c.at))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
