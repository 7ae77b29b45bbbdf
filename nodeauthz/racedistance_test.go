package nodeauthz

import (
	"testing"
	"time"
)

// TestRaceDistance holds that the distance is to the change that the detail names, and that the answer is no race with less skew than that.
func TestRaceDistance(t *testing.T) {
	g := covered()
	p := webPod("n1")
	g.SetPod(p, watched(at(1000)))
	g.DeletePod(p.Namespace, p.Name, p.UID, watched(at(5000)))
	request := ask(t, "n1", "get secrets "+p.Namespace+"/"+p.Secrets[0])
	for _, c := range []struct {
		ms   int
		want time.Duration
		race bool
	}{{400, 600 * time.Millisecond, true}, {1000, 0, true}, {1250, 250 * time.Millisecond, true}, {3000, 0, false}, {4900, 100 * time.Millisecond, true}, {5700, 700 * time.Millisecond, true}} {
		got, race := authorizerOver(t, g, time.Second).RaceDistance(request, at(c.ms))
		if got != c.want || race != c.race {
			t.Errorf("at %d: %v %v, want %v %v", c.ms, got, race, c.want, c.race)
		}
		if c.want > 0 {
			if less := authorizerOver(t, g, c.want-time.Millisecond).Decide(request, at(c.ms)); less.Race {
				t.Errorf("at %d: a race with less skew", c.ms)
			}
			if more := authorizerOver(t, g, c.want+time.Millisecond).Decide(request, at(c.ms)); !more.Race {
				t.Errorf("at %d: no race with more skew", c.ms)
			}
		}
	}
}
