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
	}{
		{"the first", []step{{0, ab}}, 0, [][]string{ab}},
		{"a host name alone is none", []step{{0, []string{"host"}}, {time.Hour, ab}}, time.Hour, [][]string{ab}},
		{"an added one that is new", []step{{0, a}, {time.Hour, ab}}, time.Hour + 9*time.Minute, [][]string{a}},
		{"an added one that stayed", []step{{0, a}, {time.Hour, ab}}, time.Hour + 10*time.Minute, [][]string{a, ab}},
		{"one that was taken back", []step{{0, a}, {time.Hour, ab}, {time.Hour + 9*time.Minute, a}}, 9 * time.Hour, [][]string{a}},
		{"one that left after a while", []step{{0, a}, {time.Hour, ab}, {2 * time.Hour, a}}, 9 * time.Hour, [][]string{a, ab, a}},
		{"one in place of another", []step{{0, a}, {time.Hour, b}}, 2 * time.Hour, [][]string{a, b}},
		{"many in minutes", []step{{0, a}, {time.Hour, b}, {time.Hour + 2*time.Minute, ab}, {time.Hour + 4*time.Minute, b}, {time.Hour + 6*time.Minute, a}}, 9 * time.Hour, [][]string{a}},
	} {
		n := newNodes()
		for _, s := range c.steps {
			n.locateAll("worker", s.has, from.Add(s.after).UnixNano())
		}
		if diff := cmp.Diff(c.want, n.AddressSets("worker", from.Add(c.at))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
