package nodeauthz

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Where nobody watched, the absence of a path proves nothing.
func TestHoles(t *testing.T) {
	g := covered()
	g.SetPod(named("1", "n1", "db"), watched(at(1000)))
	g.DeletePod("shop", "web", "1", watched(at(4000)))
	a := authorizerOver(t, g, 0)
	f := func(text, want string) {
		t.Helper()
		if got := timeline(t, a, "n1", text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	const secret = "get secrets shop/db"
	g.Uncovered(KindPod, at(3000), at(5000))
	f(secret, "allow 1000-4000, unknown 4000-5010")
	f("get configmaps shop/none", "unknown 3000-5010")
	f("get pods shop/none", "unknown 3000-5010")
	f("get storage.k8s.io:volumeattachments va", "")
	g.Uncovered(KindPod, at(7000), at(6000)) // none
	g.Uncovered(KindSecret, at(0), at(9000)) // not watched at all
	g.Uncovered(KindPersistentVolume, at(6000), at(6500))
	f(secret, "allow 1000-4000, unknown 4000-5010, unknown 6000-6510")
	f("get persistentvolumes pv", "unknown 3000-5010, unknown 6000-6510")
	f("get configmaps shop/none", "unknown 3000-5010")
	g.UncoveredSince(KindVolumeAttachment, at(8000))
	f("get storage.k8s.io:volumeattachments va", "unknown 8000-")
	f("get configmaps shop/none", "unknown 3000-5010")
	g.CoveredAgain(KindVolumeAttachment)
	f("get storage.k8s.io:volumeattachments va", "")
	g.UncoveredSince(KindVolumeAttachment, time.Time{})
	f("get storage.k8s.io:volumeattachments va", "unknown 0-")
	want := []Hole{{at(3000).UTC(), at(5000).UTC()}}
	if d := cmp.Diff(want, g.Holes(KindPod)); d != "" || g.Holes(KindSecret) != nil {
		t.Error(d)
	}
	g.Prune(at(5500))
	if h := g.Holes(KindPod); len(h) != 0 {
		t.Error(h)
	}
	f("get configmaps shop/none", "unknown 0-5500")
}

// Within the skew of a hole it cannot be known whether a deny is a race.
func TestHolesAndSkew(t *testing.T) {
	g := covered()
	g.Uncovered(KindPod, at(3000), at(5000))
	a := authorizerOver(t, g, 100*time.Millisecond)
	if got := timeline(t, a, "n1", "get secrets shop/db"); got != "unknown 2900-5110" {
		t.Errorf("got %q", got)
	}
	g.SetPod(named("1", "n1", "db"), watched(at(1000)))
	if got := timeline(t, a, "n1", "get secrets shop/db"); got != "deny~ 900-1000, allow~ 1000-1100, allow 1100-" {
		t.Errorf("got %q", got)
	}
}

func TestMissingNamesTheHole(t *testing.T) {
	g := covered()
	g.Uncovered(KindPod, at(3000), at(5000))
	g.Uncovered(KindPersistentVolume, time.Time{}, at(1000))
	g.UncoveredSince(KindResourceSlice, at(8000))
	g.UncoveredSince(KindVolumeAttachment, time.Time{})
	a := authorizerOver(t, g, 0)
	for _, c := range []struct {
		text string
		ms   int
		want string
	}{
		{"get secrets shop/db", 4000, "pods were not watched from 2026-11-21T06:00:03.000Z to 2026-11-21T06:00:05.000Z"},
		{"get secrets shop/db", 500, "persistent volumes were not watched before 2026-11-21T06:00:01.000Z"},
		{"get secrets shop/db", 2000, ""},
		{"get storage.k8s.io:volumeattachments va", 2000, "volume attachments cannot be watched"},
	} {
		r := ask(t, "n1", c.text)
		if got := a.MissingFor(r, at(c.ms)); got != c.want {
			t.Errorf("%s at %d: %q, want %q", c.text, c.ms, got, c.want)
		}
		if got := a.Explain(r, at(c.ms)).Detail; got != c.want {
			t.Errorf("%s at %d: %q, want %q", c.text, c.ms, got, c.want)
		}
	}
	if got := a.Missing(at(4000)); !strings.HasPrefix(got, "pods were not watched") {
		t.Error(got)
	}
	if got := (hole{at(8000).UnixNano(), maxTime}).words(ofSlices); got != "resource slices have not been watched since 2026-11-21T06:00:08.000Z" {
		t.Error(got)
	}
	if got := a.MissingFor(request("", "get", "pods", "a", "b"), at(0)); got != "" {
		t.Error(got)
	}
}

// TestHolesAgainstASet holds them against a set of instants.
func TestHolesAgainstASet(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 200 {
		var h Holes
		var set [100]bool
		for range rng.IntN(20) {
			from, to := rng.IntN(100), rng.IntN(100)
			h.Add(at(from), at(to))
			for i := from; i <= to; i++ {
				set[i] = true
			}
		}
		for from := range set {
			to := min(from+rng.IntN(5), 99)
			want := false
			for i := from; i <= to; i++ {
				want = want || set[i]
			}
			if _, got := h.Touch(at(from), at(to)); got != want {
				t.Fatalf("%d to %d of %v: %t", from, to, h.All(), got)
			}
		}
		for i, l := range h.All() {
			if i > 0 && !h.All()[i-1].To.Before(l.From) {
				t.Fatalf("not apart: %v", h.All())
			}
		}
	}
}

func TestHolesAreBounded(t *testing.T) {
	var h Holes
	for i := range 10 * maxHoles {
		h.Add(at(10*i), at(10*i+1))
	}
	all := h.All()
	if len(all) != maxHoles || !all[0].From.Equal(at(0)) || !all[len(all)-1].To.Equal(at(10*(10*maxHoles-1)+1)) {
		t.Errorf("%d holes, the first %v", len(all), all[0])
	}
	if fmt.Sprint(all[1].To.Sub(all[1].From)) != "1ms" {
		t.Errorf("the newer ones are not as they were: %v", all[1])
	}
}

// A path that ended while nobody watched is unknown from the beginning of that time to its end, unless another one is certain. So is every path after the end
// of the state.
func TestEndsInHoles(t *testing.T) {
	g := covered()
	g.SetPod(named("1", "n1", "db"), watched(at(1000)))
	g.DeletePod("shop", "web", "1", Stamp{Time: at(3000), Slop: 2 * time.Second, Source: SourceWatch})
	other := with(named("2", "n1", "db"), func(p *Pod) { p.Name = "other" })
	g.SetPod(other, watched(at(4000)))
	a := authorizerOver(t, g, 0)
	f := func(text, want string) {
		t.Helper()
		if got := timeline(t, a, "n1", text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	const secret, pod = "get secrets shop/db", "get pods shop/web"
	g.Uncovered(KindPod, at(3500), at(4500)) // a second is as good as an object's own time
	f(pod, "allow 1000-3000, allow~ 3000-5000")
	f(secret, "allow 1000-3000, allow~ 3000-4000, allow 4000-")
	f(pod, "allow 1000-3000, allow~ 3000-5000")
	g.Uncovered(KindPod, at(3000), at(5000))
	f(secret, "allow 1000-3000, unknown 3000-4000, allow 4000-")
	f(pod, "allow 1000-3000, unknown 3000-5010")
	g.EndsAt(KindPod, at(7000))
	f(secret, "allow 1000-3000, unknown 3000-4000, allow 4000-7010, unknown 7010-")
	f("get pods shop/other", "unknown 3000-4000, allow 4000-7010, unknown 7010-")
	f("get configmaps shop/none", "unknown 3000-5010, unknown 7000-")
	if got := a.Evidence(ask(t, "n1", secret), at(8000), Limits{}).Detail; !strings.Contains(got, "have not been watched since") {
		t.Errorf("detail %q", got)
	}
	g.CoveredAgain(KindPod)
	f(secret, "allow 1000-3000, unknown 3000-4000, allow 4000-")
	g.UncoveredSince(KindPod, at(7000)) // those that are there are still there, as far as anybody knows
	f(secret, "allow 1000-3000, unknown 3000-4000, allow 4000-")
}
