package rules

import (
	"math/rand/v2"
	"testing"
	"time"
)

// One request far ahead of all others does not move time on. A second one does, to the earlier of the two.
func TestClock(t *testing.T) {
	const day = 24 * hour
	for name, c := range map[string]struct{ times, want []int }{
		"in order":                              {[]int{0, 10, hour + 10, hour + 9}, []int{0, 10, hour + 10, hour + 10}},
		"one ahead":                             {[]int{0, hour + 1, 10, 20}, []int{0, 0, 10, 20}},
		"a gap":                                 {[]int{0, day, day + 1, day + 2}, []int{0, 0, day, day + 2}},
		"a gap, not in order":                   {[]int{0, day + 1, day, day + 2}, []int{0, 0, day, day + 2}},
		"two gaps":                              {[]int{0, day, day + 1, 2 * day, 2*day + 1}, []int{0, 0, day, day, 2 * day}},
		"a gap after one far ahead":             {[]int{0, 9 * day, day, day + 1}, []int{0, 0, day, day + 1}},
		"one further ahead after a gap":         {[]int{0, day, day + 1, 9 * day, day + 2}, []int{0, 0, day, day, day + 2}},
		"a gap after time has come to one":      {[]int{0, hour + 1, hour, 2 * hour, day, day + 1}, []int{0, 0, hour, 2 * hour, 2 * hour, day}},
		"two of a clock that is ahead, at once": {[]int{0, day, day}, []int{0, 0, day}},
	} {
		var got clock
		for i, s := range c.times {
			if got.see(at(s)); !got.latest.Equal(at(c.want[i])) {
				t.Errorf("%s: after %d requests it is %s, want %s", name, i+1, got.latest, at(c.want[i]))
			}
		}
	}
}

// Time never goes back, and is always that of a request.
func TestClockDoesNotGoBack(t *testing.T) {
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var c clock
		seen := map[time.Time]bool{}
		now := at(0)
		for i := range 100 {
			if now = now.Add(time.Duration(rnd.IntN(90)) * time.Minute); rnd.IntN(10) == 0 {
				now = now.Add(time.Duration(rnd.IntN(30)) * time.Hour)
			}
			r := now.Add(-time.Duration(rnd.IntN(30)) * time.Minute)
			if rnd.IntN(5) == 0 {
				r = now.Add(time.Duration(rnd.IntN(100)) * time.Hour)
			}
			seen[r] = true
			was := c.latest
			if c.see(r); c.latest.Before(was) || !seen[c.latest] {
				t.Fatalf("seed %d: request %d at %s moves time from %s to %s", seed, i, r, was, c.latest)
			}
		}
	}
}
