package nodeadmission_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/nodeadmission"
)

// TestPodOn compares the quick questions for a pod's node and for its token with the look-up of the pod, over histories in any order, at every instant.
func TestPodOn(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	seen, asked := map[[3]bool]int{}, map[bool]int{}
	for range 400 {
		s := nodeadmission.NewStore()
		if r.IntN(3) > 0 {
			s.CoverFrom(nodeadmission.KindPod, epoch.Add(time.Duration(r.IntN(5))*time.Second))
		}
		if r.IntN(3) == 0 {
			s.Uncovered(nodeadmission.KindPod, epoch.Add(8*time.Second), epoch.Add(10*time.Second))
		}
		if r.IntN(3) == 0 {
			s.UncoveredSince(nodeadmission.KindPod, epoch.Add(15*time.Second))
		}
		for range r.IntN(6) {
			m := nodeadmission.Moment{Time: epoch.Add(time.Duration(r.IntN(20)) * time.Second), Slop: time.Duration(r.IntN(3)) * time.Second}
			if r.IntN(4) == 0 {
				s.SetPod("a", "p", nil, m)
			} else {
				s.SetPod("a", "p", randomPod(r), m)
			}
		}
		if r.IntN(4) == 0 {
			s.Prune(epoch.Add(6 * time.Second))
		}
		for i := range 44 {
			at := epoch.Add(time.Duration(i) * time.Second / 2)
			p, want := s.Pod("a", "p", at)
			on, exists, got := s.PodOn("a", "p", "n1", at)
			if exists != (p != nil) || on != (p != nil && p.Node == "n1") || got != want {
				t.Fatalf("after %v: %t %t %+v, but %+v %+v", at.Sub(epoch), on, exists, got, p, want)
			}
			seen[[3]bool{on, exists, got.Known}]++
			uid, audience := strconv.Itoa(r.IntN(2)), audiences[r.IntN(len(audiences))]
			asks, got := s.PodAsksToken("a", "p", "n1", uid, audience, at)
			first := -1
			if p != nil && !p.SpecUnknown {
				first = slices.IndexFunc(p.Uses, func(u nodeadmission.Use) bool { return u.Kind == nodeadmission.UseAudience })
			}
			if asks != (on && p.UID == uid && first >= 0 && p.Uses[first].Name == audience) || got != want {
				t.Fatalf("after %v, %s of %q: %t %+v, but %+v %+v", at.Sub(epoch), uid, audience, asks, got, p, want)
			}
			asked[asks]++
		}
	}
	if len(seen) < 4 || asked[true] < 100 {
		t.Errorf("not all answers came: %v, %v", seen, asked)
	}
}

var audiences = []string{"", "vault", "https://kubernetes.default.svc"}

// randomPod is one of few pods with few volumes.
func randomPod(r *rand.Rand) *nodeadmission.Pod {
	p := &nodeadmission.Pod{UID: strconv.Itoa(r.IntN(2)), Node: "n" + strconv.Itoa(r.IntN(3)), SpecUnknown: r.IntN(4) == 0}
	for range r.IntN(3) {
		kind := []nodeadmission.UseKind{nodeadmission.UseAudience, nodeadmission.UseDriver}[r.IntN(2)]
		p.Uses = append(p.Uses, nodeadmission.Use{Kind: kind, Name: audiences[r.IntN(len(audiences))]})
	}
	return p
}
