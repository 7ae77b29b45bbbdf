package nodeauthz

import (
	"fmt"
	"testing"
)

// What makes the reference look at a pod again is not the same in all versions; one graph answers for each.
func TestUpdatesByVersion(t *testing.T) {
	g := NewGraph()
	g.CoverFrom(at(0))
	p := webPod("n1")
	p.Secrets = []string{"db", "old"}
	g.SetPod(p, watched(at(1000)))
	update := func(ms int, change func(*Pod)) {
		q := *p
		change(&q)
		p = &q
		g.SetPod(p, watched(at(ms)))
	}
	update(2000, func(p *Pod) { p.EphemeralContainers, p.Secrets = 1, []string{"db", "debug"} })
	update(3000, func(p *Pod) { p.ExtendedClaimStatus, p.ResourceClaims = "5:first", []string{"first"} })
	update(4000, func(p *Pod) { p.ClaimStatuses, p.ResourceClaims = "x", []string{"first", "second"} })
	update(5000, func(p *Pod) { p.Secrets = []string{"db", "debug", "pull"} })
	update(6000, func(p *Pod) { p.ExtendedClaimStatus, p.ResourceClaims = "", []string{"second"} })

	const secret, claim = "get secrets shop/", "get resource.k8s.io:resourceclaims shop/"
	for _, c := range []struct {
		name string
		// when the object is let get at, in 1.28 to 1.32, in 1.33 to 1.36, and since 1.37; 0 is never
		from [3]int
		to   [3]int
	}{
		{secret + "db", [3]int{1000, 1000, 1000}, [3]int{9000, 9000, 9000}},
		{secret + "old", [3]int{1000, 1000, 1000}, [3]int{4000, 2000, 2000}},
		{secret + "debug", [3]int{4000, 2000, 2000}, [3]int{9000, 9000, 9000}},
		{secret + "pull", [3]int{0, 0, 6000}, [3]int{0, 0, 9000}},
		{claim + "first", [3]int{4000, 4000, 3000}, [3]int{9000, 9000, 6000}},
		{claim + "second", [3]int{4000, 4000, 4000}, [3]int{9000, 9000, 9000}},
	} {
		for minor := OldestMinor; minor <= NewestMinor; minor++ {
			i := 0
			switch {
			case minor >= 37:
				i = 2
			case minor >= 33:
				i = 1
			}
			a := NewAuthorizer(g, featuresWith(t, fmt.Sprintf("1.%d", minor), nil), 0)
			for ms := 1500; ms < 9000; ms += 1000 {
				want := Deny
				if c.from[i] != 0 && c.from[i] <= ms && ms < c.to[i] {
					want = Allow
				}
				attrs := ask(t, "n1", c.name)
				if got := a.Decide(attrs, at(ms)).Verdict; got != want {
					t.Errorf("1.%d: %s at %dms: %s, want %s", minor, c.name, ms, got, want)
				}
				anew := Deny // as an API server of 1.37 that saw the pod all the time
				if c.from[2] != 0 && c.from[2] <= ms && ms < c.to[2] {
					anew = Allow
				}
				if got := a.Anew().Decide(attrs, at(ms)).Verdict; got != anew {
					t.Errorf("1.%d that has just started: %s at %dms: %s, want %s", minor, c.name, ms, got, anew)
				}
				if ev := a.Evidence(attrs, at(ms), plenty()); (ev.Path != nil) != (want == Allow) {
					t.Errorf("1.%d: %s at %dms: the evidence has the path %v, want one: %t", minor, c.name, ms, ev.Path, want == Allow)
				}
				if own := a.Relation("n1", attrs, at(ms)) == Own; own != (want == Allow) {
					t.Errorf("1.%d: %s at %dms is the node's own: %t, want %t", minor, c.name, ms, own, want == Allow)
				}
			}
			if c.from[i] != 0 {
				continue
			}
			step := Step{Kind: KindSecret, Namespace: "shop", Name: "pull"}
			if r := a.Reach(step, at(0), at(9000), 10); len(r.Paths) != 0 {
				t.Errorf("1.%d: %s can be reached by %v", minor, c.name, r.Paths)
			}
			if ev := a.Evidence(ask(t, "n1", c.name), at(5500), plenty()); len(ev.Changes) != 0 {
				t.Errorf("1.%d: %s has the changes %v", minor, c.name, ev.Changes)
			}
		}
	}

	// An older observation that comes last makes the edges of before.
	late := NewGraph()
	late.CoverFrom(at(0))
	second := *webPod("n1")
	second.EphemeralContainers, second.Secrets = 1, []string{"db", "debug"}
	late.SetPod(&second, watched(at(2000)))
	first := *webPod("n1")
	first.Secrets = []string{"db", "old"}
	late.SetPod(&first, watched(at(1000)))
	for minor, want := range map[int]map[string]Verdict{32: {"old": Allow, "debug": Deny}, 33: {"old": Deny, "debug": Allow}, 37: {"old": Deny, "debug": Allow}} {
		a := NewAuthorizer(late, featuresWith(t, fmt.Sprintf("1.%d", minor), nil), 0)
		for name, verdict := range want {
			if got := a.Decide(ask(t, "n1", secret+name), at(3000)).Verdict; got != verdict {
				t.Errorf("1.%d, given late: %s is %s, want %s", minor, name, got, verdict)
			}
		}
		if got := a.Decide(ask(t, "n1", secret+"old"), at(1500)).Verdict; got != Allow {
			t.Errorf("1.%d, given late: old is %s at first", minor, got)
		}
	}
}
