package nodeauthz

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// TestRaceIsWhatTheContractSays holds Race against its definition: the answer would be another one somewhere within the skew. With exact
// times the answer changes only where an edge begins or ends, so those instants are all there is to look at.
func TestRaceIsWhatTheContractSays(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 7))
	const skew = 25 * time.Millisecond
	races := 0
	for round := range effort.Of(300, 50) {
		g := NewGraph()
		g.CoverFrom(at(-10_000))
		var edges []int
		tick := func() Stamp {
			ms := rng.IntN(500)
			edges = append(edges, ms)
			return watched(at(ms))
		}
		for i := range 6 {
			p := webPod([]string{"n1", "n2"}[rng.IntN(2)])
			p.Name = []string{"a", "b", "c"}[i%3]
			p.UID = string(rune('A' + i))
			begin, end := tick(), tick()
			if end.Time.Before(begin.Time) {
				begin, end = end, begin
			}
			g.SetPod(p, begin)
			g.DeletePod(p.Namespace, p.Name, p.UID, end)
		}
		v := &PersistentVolume{Name: "pv", UID: "v", Claim: &NamespacedName{"shop", "data"}, Secrets: []NamespacedName{{"storage", "csi"}}}
		begin, end := tick(), tick()
		if end.Time.Before(begin.Time) {
			begin, end = end, begin
		}
		g.SetPersistentVolume(v, begin)
		g.DeletePersistentVolume("pv", "v", end)
		exact, raced := authorizerOver(t, g, 0), authorizerOver(t, g, skew)
		for _, req := range [][3]string{{"secrets", "shop", "db"}, {"secrets", "storage", "csi"}, {"persistentvolumes", "", "pv"}} {
			r := request("n1", "get", req[0], req[1], req[2])
			for ms := -50; ms < 560; ms += 3 {
				answer := exact.Decide(r, at(ms))
				lo, hi := ms-25, ms+25
				want := false
				for _, i := range append(slices.Clone(edges), lo, hi) {
					for _, j := range []int{i - 1, i} {
						if j >= lo && j <= hi && exact.Decide(r, at(j)).Verdict != answer.Verdict {
							want = true
						}
					}
				}
				got := raced.Decide(r, at(ms))
				if got.Verdict != answer.Verdict || got.Race != want {
					t.Fatalf("round %d: %v at %dms: %v race=%v, want %v race=%v", round, req, ms, got.Verdict, got.Race, answer.Verdict, want)
				}
				if got.Race {
					races++
					if raced.RaceDetail(r, at(ms)) == "" {
						t.Fatalf("round %d: a race at %dms has no detail", round, ms)
					}
				}
			}
		}
	}
	if races == 0 {
		t.Error("no race was made: the test shows nothing")
	}
}

func TestSlopIsARace(t *testing.T) {
	g := NewGraph()
	g.CoverFrom(at(-10_000))
	p := webPod("n1")
	p.Bound = Stamp{Time: at(1000), Slop: time.Second, Source: SourceObject}
	g.SetPod(p, watched(at(9000)))
	a := authorizerOver(t, g, 0)
	r := request("n1", "get", "secrets", "shop", "db")
	for ms, want := range map[int]Answer{
		999: {Verdict: Deny}, 1000: {Verdict: Allow, Race: true}, 1999: {Verdict: Allow, Race: true}, 2000: {Verdict: Allow},
	} {
		got := a.Decide(r, at(ms))
		got.Reason = ""
		if got != want {
			t.Errorf("at %dms: %+v, want %+v", ms, got, want)
		}
	}
	// The audit event of the binding says it exactly, and counts over the object's own word whenever it comes.
	g.BindPod("shop", "web-1", p.UID, "n1", Stamp{Time: at(1500), Source: SourceAudit})
	for ms, want := range map[int]Verdict{1499: Deny, 1500: Allow} {
		if got := a.Decide(r, at(ms)); got.Verdict != want || got.Race {
			t.Errorf("at %dms: %+v, want %v", ms, got, want)
		}
	}
}
