package cluster

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// The recorder's clock is wrong by any time, API servers see objects made at random, and one of several may be wrong, too. The times of the changes are those of
// the API servers to within the delay of a watch and the second of a timestamp; a clock that is right, or ahead, moves nothing.
func TestClockOfRecorderIsBehind(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		by := time.Duration(r.Int64N(int64(4*time.Hour)) - int64(2*time.Hour))
		if seed%4 == 0 {
			by = 0
		}
		var b behind
		now := time.Date(2026, 11, 25, 6, 0, 0, 0, time.UTC)
		for i := range 60 {
			now = now.Add(time.Duration(r.Int64N(int64(time.Minute))))
			if i == 40 {
				by = 0 // it is set right
			}
			created := now
			if i%3 == 1 && seed%2 == 1 && by <= 0 {
				created = now.Add(30 * time.Minute) // by the API server that is wrong
			}
			if i%5 == 4 {
				created = now.Add(-time.Hour) // listed again
			}
			seen := now.Add(time.Duration(r.IntN(300)) * time.Millisecond)
			c := change{clocked: true, verb: verbAdded, at: seen.Add(by).UnixNano()}
			c.created = created.Truncate(time.Second).UnixNano()
			b.correct(&c)
			off := time.Duration(c.at - now.UnixNano())
			switch {
			case i >= 40 && i < 40+2*births: // both are among the latest
			case by >= 0 && off != seen.Add(by).Sub(now), by < 0 && by > -2*time.Second && off < by:
				t.Fatalf("seed %d, change %d: a clock that is ahead by %s is moved by %s", seed, i, by, off-by)
			case by < -3*time.Second && i > 3 && (off < -1500*time.Millisecond || off > 1500*time.Millisecond):
				t.Fatalf("seed %d, change %d: the clock is behind by %s, and the change is dated %s off", seed, i, -by, off)
			}
		}
	}
}

// A clock that is behind by two seconds or less is noticed once most objects were seen before they were made: no watch does that. One of several API servers that is
// ahead of the others moves nothing.
func TestClockIsBehindByLittle(t *testing.T) {
	for _, c := range []struct {
		by      time.Duration // of the recorder's clock
		ahead   time.Duration // by how much every third object is made by a clock that is ahead
		objects int
		want    bool
	}{
		{-1500 * time.Millisecond, 0, 8, true},
		{-1100 * time.Millisecond, 0, 16, true},
		{-1500 * time.Millisecond, 0, 3, false},
		{0, 0, 16, false},
		{0, 1900 * time.Millisecond, 16, false},
		{300 * time.Millisecond, 0, 16, false},
	} {
		var b behind
		now := time.Date(2026, 11, 25, 6, 0, 0, 0, time.UTC)
		for i := range c.objects {
			now = now.Add(17*time.Second + 130*time.Millisecond)
			created := now
			if i%3 == 1 {
				created = now.Add(c.ahead)
			}
			x := change{clocked: true, verb: verbAdded, at: now.Add(c.by + 20*time.Millisecond).UnixNano()}
			x.created = created.Truncate(time.Second).UnixNano()
			b.correct(&x)
		}
		if moved := time.Duration(b.by); (moved > 0) != c.want || c.want && (moved+c.by).Abs() > time.Second {
			t.Errorf("%+v: moved by %s", c, moved)
		}
	}
}

// The bounds of what one object tells: two seconds are within the agreement of clocks, an object made a minute before it was seen was in a list, and one from
// a day ahead shows no clock. At an even number of objects the earlier of the two in the middle is the median.
func TestBoundsOfBehind(t *testing.T) {
	for _, c := range []struct {
		ahead   []time.Duration // by how much each object is made after it is seen
		counted int
		by      time.Duration
	}{
		{[]time.Duration{2 * time.Second}, 1, 0},
		{[]time.Duration{2*time.Second + 1}, 1, 2*time.Second + 1},
		{[]time.Duration{-time.Minute}, 0, 0},
		{[]time.Duration{1 - time.Minute}, 1, 0},
		{[]time.Duration{24 * time.Hour}, 0, 0},
		{[]time.Duration{24*time.Hour - 1}, 1, 24*time.Hour - 1},
		{[]time.Duration{1, 1, 1}, 3, 0},
		{[]time.Duration{1, 1, 1, 1}, 4, 1},
		{[]time.Duration{0, 0, 0, 0}, 4, 0},
		{[]time.Duration{0, time.Hour}, 2, 0},
		{[]time.Duration{time.Hour, 0, time.Hour}, 3, time.Hour},
		{[]time.Duration{3 * time.Second, 5 * time.Second}, 2, 5 * time.Second},
		{[]time.Duration{3 * time.Second, 5*time.Second + 1}, 2, 3 * time.Second},
	} {
		var b behind
		at := time.Date(2026, 11, 25, 6, 0, 0, 0, time.UTC)
		for _, ahead := range c.ahead {
			x := change{clocked: true, verb: verbAdded, at: at.UnixNano()}
			x.created = at.Add(ahead).UnixNano()
			b.correct(&x)
		}
		if b.n != c.counted || time.Duration(b.by) != c.by {
			t.Errorf("%s: %d objects tell %s, want %d and %s", c.ahead, b.n, time.Duration(b.by), c.counted, c.by)
		}
	}
}

// Where the clock is behind, a pod does not end before it ended, and what was moved is no silence.
func TestStateOfRecorderThatIsBehind(t *testing.T) {
	const behindBy = 25 * time.Minute
	at := time.Date(2026, 11, 25, 6, 0, 0, 0, time.UTC)
	entry := func(kind string, seen time.Time, name string, created time.Time) string {
		return fmt.Sprintf(`{"observedAt":%q,"type":%q,"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"shop","uid":"u-%s","creationTimestamp":%q,"resourceVersion":"1"},"spec":{"nodeName":"worker-1"}}}`+"\n",
			seen.Add(-behindBy).Format(time.RFC3339Nano), kind, name, name, created.Format(time.RFC3339))
	}
	mark := fmt.Sprintf(`{"observedAt":%q,"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"2"}}}`+"\n", at.Add(-behindBy).Format(time.RFC3339Nano))
	journal := entry("ADDED", at, "old", at.Add(-time.Hour)) + mark + entry("ADDED", at.Add(time.Minute), "new", at.Add(time.Minute)) + entry("DELETED", at.Add(5*time.Minute), "old", at.Add(-time.Hour))
	s := NewState()
	if err := s.Load([]string{"-"}, strings.NewReader(journal)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{4 * time.Minute, true}, {6 * time.Minute, false}} {
		if _, is := s.Graph.PodNode("shop", "old", at.Add(c.after)); is != c.want {
			t.Errorf("after %s the pod is there: %t, want %t", c.after, is, c.want)
		}
	}
	if gaps := s.Gaps(at, at.Add(5*time.Minute)); fmt.Sprint(gaps) == "" || !strings.Contains(fmt.Sprint(gaps), "recorder-behind") || strings.Contains(fmt.Sprint(gaps), "not-watched") {
		t.Errorf("gaps: %v", gaps)
	}
}
