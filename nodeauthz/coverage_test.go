package nodeauthz

import (
	"fmt"
	"testing"
	"time"
)

func TestCoverage(t *testing.T) {
	g := NewGraph()
	if when, ok := g.CoveredFrom(); ok || !when.IsZero() {
		t.Errorf("an empty graph covers from %s", when)
	}
	g.SetPod(named("1", "n1", "db"), watched(at(2000)))
	g.DeletePod("shop", "web", "1", watched(at(4000)))
	a := authorizerOver(t, g, 0)
	f := func(node, want string) {
		t.Helper()
		if got := timeline(t, a, node, "get secrets shop/db"); got != want {
			t.Errorf("%s: %q, want %q", node, got, want)
		}
	}
	// A path that is known allows whatever else is not.
	f("n1", "unknown 0-2000, allow 2000-4000, unknown 4000-")
	f("n2", "unknown 0-")
	g.CoverFrom(at(3000))
	f("n1", "unknown 0-2000, allow 2000-4000")
	f("n2", "unknown 0-3000")
	g.CoverFrom(at(5000))
	g.CoverFrom(at(1000))
	g.CoverFrom(at(6000))
	f("n1", "unknown 0-1000, allow 2000-4000")
	f("new", "unknown 0-1000")
	if when, ok := g.CoveredFrom(); !ok || !when.Equal(at(1000)) {
		t.Errorf("covers from %s %t", when, ok)
	}
}

// A race before the state begins is an unknown one.
func TestRaceWithoutCoverage(t *testing.T) {
	g := NewGraph()
	g.SetPod(named("1", "n1", "db"), watched(at(2000)))
	a := authorizerOver(t, g, 100*time.Millisecond)
	if got := timeline(t, a, "n1", "get secrets shop/db"); got != "unknown 0-1900, unknown~ 1900-2000, allow~ 2000-2100, allow 2100-" {
		t.Errorf("got %q", got)
	}
	r := ask(t, "n1", "get secrets shop/db")
	if got, want := a.RaceDetail(r, at(1950)), "pod shop/web was bound to n1 50ms later"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPrune(t *testing.T) {
	g := covered()
	empty := g.Stats()
	g.SetPod(named("1", "n1", "db"), watched(at(1000)))
	g.DeletePod("shop", "web", "1", watched(at(2000)))
	g.SetPod(named("2", "n1", "db"), watched(at(4000)))
	g.SetPersistentVolume(volume("u", "data", "csi"), watched(at(1000)))
	g.SetPersistentVolume(volume("u", "other", "csi", "csi-2"), watched(at(1500)))
	g.DeletePersistentVolume("pv", "u", watched(at(2000)))
	g.SetVolumeAttachment("va", "u", "n1", watched(at(1000)))
	g.DeleteVolumeAttachment("va", "u", watched(at(2000)))
	g.BindPod("shop", "open", "3", "n1", audited(at(1000)))
	g.DeletePod("shop", "open", "3", watched(at(1800)))
	a := authorizerOver(t, g, 0)
	f := func(text, want string) {
		t.Helper()
		if got := timeline(t, a, "n1", text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		checkSound(t, g)
	}
	const secret = "get secrets shop/db"
	f(secret, "allow 1000-2000, allow 4000-")
	g.Prune(at(1500))
	f(secret, "unknown 0-1000, allow 1000-2000, allow 4000-")
	g.Prune(at(3000))
	g.Prune(at(2500)) // no way back
	f(secret, "unknown 0-3000, allow 4000-")
	f("get secrets shop/none", "unknown 0-3000")
	f("get storage.k8s.io:volumeattachments va", "unknown 0-3000")
	if s := g.Stats(); s != (Stats{Vertices: 2, Tenures: 1, Nodes: 1}) {
		t.Errorf("what is left: %+v", s)
	}
	g.Prune(at(100_000)) // what lives is kept whatever its age
	if s := g.Stats(); s != (Stats{Vertices: 2, Tenures: 1, Nodes: 1}) {
		t.Errorf("what is left: %+v", s)
	}
	g.DeletePod("shop", "web", "2", watched(at(200_000)))
	g.Prune(at(300_000))
	if s := g.Stats(); s != (Stats{Nodes: 1}) || empty != (Stats{}) {
		t.Errorf("what is left: %+v of %+v", s, empty)
	}
	checkSound(t, g)
}

// An end that turned out to be later than was thought keeps a lifetime that a prune between the two would have taken.
func TestPruneAfterARefinedEnd(t *testing.T) {
	g := covered()
	g.SetPod(named("1", "n1", "db"), watched(at(1000)))
	g.DeletePod("shop", "web", "1", ownStamp(at(2000)))
	g.DeletePod("shop", "web", "1", watched(at(6000)))
	g.Prune(at(5000))
	checkSound(t, g)
	if got := timeline(t, authorizerOver(t, g, 0), "n1", "get secrets shop/db"); got != "unknown 0-1000, allow 1000-6000" {
		t.Errorf("got %q", got)
	}
}

// More at once than a prune takes in one go, more than the index began with, and names that all of it shares.
func TestPruneOfMany(t *testing.T) {
	const pods = 3 * pruneBatch
	g := covered()
	a := authorizerOver(t, g, 0)
	last := named("last", "n1", "db")
	for i := range pods {
		p := &Pod{Namespace: "shop", Name: fmt.Sprint("p", i), UID: fmt.Sprint(i), NodeName: fmt.Sprint("n", i%9), Secrets: []string{"db", fmt.Sprint(i)}}
		g.SetPod(p, watched(at(i)))
		g.DeletePod("shop", p.Name, p.UID, watched(at(2000+i%7)))
		if i == pods/2 {
			g.SetPod(last, watched(at(1000)))
		}
	}
	checkSound(t, g)
	for i := range pods {
		if got := a.Decide(ask(t, fmt.Sprint("n", i%9), fmt.Sprint("get secrets shop/", i)), at(1999)); got.Verdict != Allow {
			t.Fatalf("pod %d: %+v", i, got)
		}
	}
	g.Prune(at(3000))
	checkSound(t, g)
	if s := g.Stats(); s != (Stats{Vertices: 2, Tenures: 1, Nodes: 9}) {
		t.Errorf("what is left: %+v", s)
	}
	if got := timeline(t, a, "n1", "get secrets shop/db"); got != "unknown 0-1000, allow 1000-" {
		t.Errorf("the one that lives: %q", got)
	}
	if got := timeline(t, a, "n2", "get secrets shop/db"); got != "unknown 0-3000" {
		t.Errorf("a node that had the others: %q", got)
	}
}

// Many objects go through their records again: nothing of a former life may be left in them.
func TestRecordsAreUsedAgain(t *testing.T) {
	g := covered()
	a := authorizerOver(t, g, 0)
	for i := range 1500 {
		p := named(fmt.Sprint(i), "n1", fmt.Sprint("s", i%7))
		p.Name = fmt.Sprint("p", i)
		now := at(10 * i)
		g.SetPod(p, watched(now))
		g.DeletePod("shop", p.Name, p.UID, watched(now.Add(50*time.Millisecond)))
		if got := a.Decide(ask(t, "n1", "get secrets shop/"+p.Secrets[0]), now); got.Verdict != Allow {
			t.Fatalf("pod %d: %+v", i, got)
		}
		if got := a.Decide(ask(t, "n2", "get secrets shop/"+p.Secrets[0]), now); got.Verdict != Deny {
			t.Fatalf("pod %d by another node: %+v", i, got)
		}
		if i%100 == 99 {
			g.Prune(now)
			if s := g.Stats(); s.Tenures > 10 || s.Vertices > 20 {
				t.Fatalf("after pod %d there are %+v", i, s)
			}
		}
	}
	checkSound(t, g)
}

func TestPodNode(t *testing.T) {
	g := covered()
	g.SetPod(named("1", "n1", "db"), watched(at(1000)))
	g.DeletePod("shop", "web", "1", Stamp{Time: at(2000), Slop: 500 * time.Millisecond, Source: SourceWatch})
	g.SetPod(named("2", "n2", "db"), watched(at(4000)))
	g.BindPod("shop", "open", "3", "n3", audited(at(1000)))
	g.DeletePod("shop", "never-seen", "4", watched(at(1000)))
	f := func(name string, ms int, want string) {
		t.Helper()
		if got, ok := g.PodNode("shop", name, at(ms)); got != want || ok != (want != "") {
			t.Errorf("%s at %d: %q %t, want %q", name, ms, got, ok, want)
		}
	}
	f("web", 999, "")
	f("web", 1000, "n1")
	f("web", 2499, "n1") // possibly
	f("web", 2500, "")
	f("web", 3999, "")
	f("web", 9000, "n2")
	f("open", 9000, "n3")
	f("open", 0, "")
	f("never-seen", 0, "")
	f("unheard-of", 0, "")
	if node, ok := g.PodNode("default", "web", at(9000)); ok {
		t.Errorf("in another namespace: %q", node)
	}
	was := func(name, node string, from, to int, want bool) {
		t.Helper()
		if got := g.PodWasOn("shop", name, node, at(from), at(to)); got != want {
			t.Errorf("%s was on %s from %d to %d: %t", name, node, from, to, got)
		}
	}
	was("web", "n1", 0, 999, false)
	was("web", "n1", 0, 1000, true)
	was("web", "n1", 2400, 9000, true)
	was("web", "n1", 2500, 9000, false)
	was("web", "n2", 0, 3999, false)
	was("web", "n2", 0, 9000, true)
	was("open", "n3", 5000, 9000, true)
	was("never-seen", "n1", 0, 9000, false)
	was("never-seen", "", 0, 9000, false)
	was("unheard-of", "n1", 0, 9000, false)
	stays := func(name, uid string, from, to int, want string) {
		t.Helper()
		got := ""
		g.PodStays("shop", name, uid, at(from), at(to), func(s *Stay) {
			got += fmt.Sprintf("%s %t %t %t %t, ", s.Node, s.Begin.Equal(at(1000)), s.End.Equal(at(2500)), s.UIDKnown, s.Is)
		})
		if got != want {
			t.Errorf("%s stays from %d to %d: %q, want %q", name, from, to, got, want)
		}
	}
	stays("web", "1", 0, 9000, "n1 true true true true, n2 false false true false, ")
	stays("web", "", 2500, 9000, "n2 false false true false, ")
	stays("web", "2", 2500, 3999, "")
	stays("unheard-of", "", 0, 9000, "")
}
