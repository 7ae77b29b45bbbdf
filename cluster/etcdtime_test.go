package cluster

import (
	"math"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

func TestEtcdTimes(t *testing.T) {
	// at is a time of an API server's in whole seconds; of and from are by others' clocks.
	at := func(rev, s int64) sighting {
		return sighting{at: etcdRevision{main: rev}, early: s * second, late: (s + 2) * second}
	}
	of := func(clock int32, rev, s int64) sighting {
		return sighting{at: etcdRevision{main: rev}, early: s * second, late: (s + 1) * second, clock: clock}
	}
	const never, ever = math.MinInt64 / second, math.MaxInt64 / second
	for name, c := range map[string]struct {
		all      []sighting
		rev      int64
		from, to int64 // in seconds
	}{
		"nothing":                                {nil, 5, never, ever},
		"between two":                            {[]sighting{at(1, 10), at(9, 20)}, 5, 10, 22},
		"at one":                                 {[]sighting{at(1, 10), at(5, 15), at(9, 20)}, 5, 15, 17},
		"after the last":                         {[]sighting{at(1, 10)}, 5, 10, ever},
		"not when it was written":                {[]sighting{at(1, 10), {at: etcdRevision{main: 9}, early: 15 * second}}, 5, 10, ever},
		"a server that is ahead, or writes late": {[]sighting{at(1, 10), at(2, 50), at(6, 12), at(9, 51)}, 5, 10, 53},
		"one Lease alone":                        {[]sighting{at(1, 10), of(1, 4, 14), of(1, 6, 16), at(9, 20)}, 5, 10, 22},
		"two Leases":                             {[]sighting{at(1, 10), of(1, 3, 14), of(2, 4, 15), of(1, 6, 16), of(2, 7, 17), at(9, 20)}, 5, 14, 18},
		"one that contradicts the servers":       {[]sighting{at(1, 10), of(1, 3, 44), of(2, 4, 15), of(3, 4, 15), of(1, 6, 16), of(2, 7, 17), at(9, 20)}, 5, 15, 22},
	} {
		from, to := newEtcdTimes(c.all).of(etcdRevision{main: c.rev})
		if from/second != c.from || to/second != c.to {
			t.Errorf("%s: %d to %d s, want %d to %d", name, from/second, to/second, c.from, c.to)
		}
	}
}

// Where nothing says when a change happened, it is unknown in all that time.
func TestEtcdWide(t *testing.T) {
	e := newEtcdDB(t, "key")
	e.compact(0)
	e.put("/registry/pods/shop/goes", proto(t, podJSON(t, "goes", "u1", "w1", "1m", "1m", "")))
	e.put("/registry/pods/shop/goes", nil)
	e.put("/registry/pods/shop/late", proto(t, podJSON(t, "late", "u2", "w1", "3m", "3m", "")))
	e.put("/registry/pods/shop/later", proto(t, podJSON(t, "later", "u3", "w1", "4m", "4m", "")))
	s := load(t, string(e.save()))
	holes := s.Graph.Holes(nodeauthz.KindPod)
	if len(holes) != 2 || !holes[0].From.Equal(at(t, "1m")) || !holes[0].To.Equal(at(t, "1m").Add(2*time.Minute+2*time.Second)) {
		t.Errorf("not watched: %v", holes)
	}
}
