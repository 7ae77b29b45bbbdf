package nodeauthz

import (
	"testing"
	"time"
)

// TestWhenAPodWasBound: the object's own word gives way to the watcher's, and that to the audit event's, which is moved towards it.
func TestWhenAPodWasBound(t *testing.T) {
	p := named("1", "n1", "db")
	bound := func(at Stamp) *Pod { return with(p, func(p *Pod) { p.Bound = at }) }
	const secret = "n1 get secrets shop/db"
	is := func(want string) map[string]string {
		return map[string]string{secret: want, "n1 get pods shop/web": want}
	}
	playTwice(t, []scenario{
		{"its own word", func(g *Graph) { g.SetPod(bound(ownStamp(at(1000))), watched(at(9000))) }, is("allow~ 1000-2000, allow 2000-")},
		{"its own word, then a watcher's", func(g *Graph) {
			g.SetPod(bound(ownStamp(at(1000))), ownStamp(at(9000)))
			g.SetPod(bound(watched(at(1300))), watched(at(1300)))
		}, is("allow 1300-")},
		{"a watcher's, then its own word", func(g *Graph) {
			g.SetPod(bound(watched(at(1300))), watched(at(1300)))
			g.SetPod(bound(ownStamp(at(1000))), ownStamp(at(9000)))
		}, is("allow 1300-")},
		{"audit over its own word", func(g *Graph) {
			g.SetPod(bound(ownStamp(at(1000))), watched(at(9000)))
			g.BindPod("shop", "web", "1", "n1", audited(at(1600)))
		}, is("allow 1600-")},
		{"audit and a watcher shortly after it", func(g *Graph) {
			g.SetPod(p, watched(at(1300)))
			g.BindPod("shop", "web", "1", "n1", audited(at(1200)))
		}, is("allow 1300-")},
		{"the same, twice", func(g *Graph) {
			for range 2 {
				g.SetPod(bound(watched(at(1300))), watched(at(1300)))
				g.BindPod("shop", "web", "1", "n1", audited(at(1200)))
				g.BindPod("shop", "web", "1", "n1", audited(at(1200)))
			}
		}, is("allow 1300-")},
		{"the same, audit first", func(g *Graph) {
			for range 2 {
				g.BindPod("shop", "web", "1", "n1", audited(at(1200)))
				g.SetPod(bound(watched(at(1300))), watched(at(1300)))
			}
		}, is("allow 1300-")},
		{"audit and a watcher long after it", func(g *Graph) {
			g.SetPod(p, watched(at(5000)))
			g.BindPod("shop", "web", "1", "n1", audited(at(1200)))
		}, is("allow 1200-")},
		{"a watcher before the audit event", func(g *Graph) {
			g.SetPod(p, watched(at(1100)))
			g.BindPod("shop", "web", "1", "n1", audited(at(1200)))
		}, is("allow 1200-")},
		{"a watcher long before the audit event", func(g *Graph) {
			g.SetPod(p, watched(at(1100)))
			g.BindPod("shop", "web", "1", "n1", audited(at(4200)))
		}, is("allow~ 1100-4200, allow 4200-")},
		{"the audit event first, and a watcher long before it", func(g *Graph) {
			g.BindPod("shop", "web", "1", "n1", audited(at(4200)))
			g.SetPod(bound(watched(at(1100))), watched(at(1100)))
		}, is("allow~ 1100-4200, allow 4200-")},
		{"a watcher sees all of it before the audit event", func(g *Graph) {
			g.SetPod(p, watched(at(1100)))
			g.BindPod("shop", "web", "1", "n1", audited(at(4200)))
			g.DeletePod("shop", "web", "1", watched(at(2600)))
		}, is("allow~ 1100-2600")},
		{"audit to another node", func(g *Graph) {
			g.SetPod(p, watched(at(1100)))
			g.BindPod("shop", "web", "1", "", audited(at(1000)))
			g.BindPod("shop", "web", "1", "n1", audited(at(1050)))
		}, is("allow 1100-")},
		{"audit without a UID, near", func(g *Graph) {
			g.SetPod(p, watched(at(1100)))
			g.BindPod("shop", "web", "", "n1", audited(at(1050)))
		}, is("allow 1100-")},
		{"the binding answered late, and seen before", func(g *Graph) {
			g.SetPod(p, watched(at(3000)))
			g.BindPod("shop", "web", "1", "n1", answeredLate(6000))
		}, is("allow 3000-")},
		{"seen before the binding was answered late", func(g *Graph) {
			g.BindPod("shop", "web", "1", "n1", answeredLate(6000))
			g.SetPod(p, watched(at(3000)))
		}, is("allow 3000-")},
		{"the binding answered late, without a UID, and seen before", func(g *Graph) {
			g.SetPod(p, watched(at(2600)))
			g.BindPod("shop", "web", "", "n1", answeredLate(6000))
		}, is("allow 2600-")},
		{"the binding answered later, without a UID, and seen before", func(g *Graph) {
			g.SetPod(p, watched(at(2600)))
			g.BindPod("shop", "web", "", "n1", Stamp{Time: at(9000), Lag: 7 * time.Second, Source: SourceAudit})
		}, is("allow 2600-")},
		{"the binding answered so late that it is another one's", func(g *Graph) {
			g.SetPod(p, watched(at(1000)))
			g.RefineBinding("shop", "web", "1", answeredLate(6000))
		}, is("allow~ 2000-6000, allow 6000-")},
		{"seen earlier than was thought", func(g *Graph) {
			g.SetPod(p, watched(at(3000)))
			g.SetPod(p, watched(at(2000)))
			g.SetPod(p, ownStamp(at(1000))) // to have been seen so is worth only as much as its clock
		}, is("allow 2000-")},
		{"the request that made it with its node", func(g *Graph) {
			g.SetPod(p, watched(at(2000)))
			for range 2 {
				if !g.RefineBinding("shop", "web", "1", audited(at(1900))) {
					t.Error("its binding is not known")
				}
			}
		}, is("allow 2000-")},
		{"a request that made something else", func(g *Graph) {
			g.SetPod(p, ownStamp(at(2000)))
			for _, uid := range []string{"", "2"} {
				if g.RefineBinding("shop", "web", uid, audited(at(1900))) {
					t.Errorf("the binding of UID %q is known", uid)
				}
			}
			if g.RefineBinding("shop", "none", "1", audited(at(1900))) {
				t.Error("the binding of a pod that was never seen is known")
			}
			g.DeletePod("shop", "gone", "3", watched(at(3000)))
			if g.RefineBinding("shop", "gone", "3", audited(at(1900))) {
				t.Error("the binding of a pod of which only the end is known is known")
			}
		}, is("allow~ 2000-3000, allow 3000-")},
	})
}

func TestWhenAPodEnded(t *testing.T) {
	const within = 500 * time.Millisecond
	p := named("1", "n1", "db")
	seen := func(g *Graph) { g.SetPod(p, watched(at(1000))) }
	gone := func(g *Graph, at Stamp) { g.DeletePod("shop", "web", "1", at) }
	refine := func(g *Graph, ms int, want bool) {
		t.Helper()
		if got := g.RefineDeletion("shop", "web", audited(at(ms)), within); got != want {
			t.Errorf("refined by %d: %t, want %t", ms, got, want)
		}
	}
	is := func(want string) map[string]string { return map[string]string{"n1 get secrets shop/db": want} }
	playAll(t, []scenario{
		{"own word, watcher, audit", func(g *Graph) {
			seen(g)
			gone(g, ownStamp(at(5000)))
			gone(g, watched(at(5400)))
			gone(g, audited(at(5300)))
		}, is("allow 1000-5350")},
		{"audit, watcher, own word", func(g *Graph) {
			seen(g)
			gone(g, audited(at(5300)))
			gone(g, watched(at(5400)))
			gone(g, ownStamp(at(5000)))
		}, is("allow 1000-5350")},
		{"own word alone", func(g *Graph) {
			seen(g)
			gone(g, Stamp{Time: at(5000), Slop: 40 * time.Millisecond, Source: SourceObject})
		}, is("allow 1000-5000, allow~ 5000-5040")},
		{"narrower", func(g *Graph) {
			seen(g)
			gone(g, Stamp{Time: at(5000), Slop: time.Second, Source: SourceWatch})
			gone(g, watched(at(5500)))
			gone(g, Stamp{Time: at(5200), Slop: time.Second, Source: SourceWatch})
		}, is("allow 1000-5500")},
		{"answered late", func(g *Graph) {
			seen(g)
			gone(g, answeredLate(8000))
		}, is("allow 1000-4000, allow~ 4000-8000")},
		{"answered late, and seen before", func(g *Graph) {
			seen(g)
			gone(g, watched(at(5000)))
			gone(g, answeredLate(8000))
		}, is("allow 1000-5000")},
		{"seen before it was answered late", func(g *Graph) {
			seen(g)
			gone(g, answeredLate(8000))
			gone(g, watched(at(5000)))
			gone(g, answeredLate(8000))
		}, is("allow 1000-5000")},
		{"answered late, and seen afterwards", func(g *Graph) {
			seen(g)
			gone(g, answeredLate(8000))
			gone(g, watched(at(8200)))
		}, is("allow 1000-8100")},
		{"answered late, and seen before it was asked for", func(g *Graph) {
			seen(g)
			gone(g, watched(at(3900)))
			gone(g, answeredLate(8000))
		}, is("allow 1000-4000, allow~ 4000-8000")},
		{"answered late by somebody of whom the level does not tell", func(g *Graph) {
			seen(g)
			gone(g, watched(at(5000)))
			g.RefineDeletion("shop", "web", answeredLate(8000), 250*time.Millisecond)
			g.RefineDeletion("shop", "web", answeredLate(6000), 2*time.Second)
		}, is("allow 1000-5000")},
		{"a delete by itself proves nothing", func(g *Graph) {
			seen(g)
			refine(g, 5000, false)
		}, is("allow 1000-")},
		{"a delete shortly before its end", func(g *Graph) {
			seen(g)
			gone(g, watched(at(5400)))
			refine(g, 5300, true)
			refine(g, 5300, false) // given again
			gone(g, watched(at(5400)))
			refine(g, 5300, false)
		}, is("allow 1000-5350")},
		{"a delete that only began the end", func(g *Graph) {
			seen(g)
			gone(g, watched(at(5400)))
			refine(g, 4800, false)
			refine(g, 6000, false)
		}, is("allow 1000-5400")},
		{"a delete shortly after what a watcher saw", func(g *Graph) {
			seen(g)
			gone(g, watched(at(5400)))
			refine(g, 5500, true) // two clocks; the requests' own counts
		}, is("allow 1000-5500")},
		{"a delete from before the pod", func(g *Graph) {
			seen(g)
			gone(g, watched(at(1200)))
			refine(g, 900, false)
		}, is("allow 1000-1200")},
		{"of the pods of a name, the one that ended then", func(g *Graph) {
			seen(g)
			gone(g, watched(at(3000)))
			g.SetPod(named("2", "n1", "db"), watched(at(4000)))
			gone(g, watched(at(3000)))
			g.DeletePod("shop", "web", "2", watched(at(6000)))
			refine(g, 5900, true)
			refine(g, 2900, true)
		}, is("allow 1000-2950, allow 4000-5950")},
	})
	if g := covered(); g.RefineDeletion("shop", "web", audited(at(1)), within) {
		t.Error("refined the end of a pod that was never seen")
	}
}

// TestOpenPods: of a pod that only its binding made known, nobody knows what it leads to. What it may lead to is unknown, no more.
func TestOpenPods(t *testing.T) {
	const bind = "unknown 2000-"
	bound := func(g *Graph) { g.BindPod("shop", "web", "1", "n1", audited(at(2000))) }
	open := map[string]string{
		"n1 get secrets shop/db": bind, "n1 get secrets default/by-a-volume": bind, "n1 get persistentvolumes pv": bind,
		"n1 get configmaps shop/cfg": bind, "n1 get persistentvolumeclaims shop/data": bind, "n1 create serviceaccounts/token shop/web": bind,
		"n1 get resource.k8s.io:resourceclaims shop/gpu": bind,
		"n1 get configmaps default/cfg":                  "", "n1 get persistentvolumeclaims default/data": "", "n1 get serviceaccounts nowhere/web": "",
		"n1 get pods shop/web": "allow 2000-", "n1 get pods shop/other": "", "n1 get storage.k8s.io:volumeattachments va": "",
		"n1 get resource.k8s.io:resourceslices slice": "", "n2 get secrets shop/db": "", "n2 get pods shop/web": "", "n1 delete secrets shop/db": "",
	}
	otherNamespace := func(g *Graph) {
		g.SetPod(&Pod{Namespace: "default", Name: "x", UID: "x", NodeName: "n2"}, watched(at(0)))
	}
	playTwice(t, []scenario{
		{"bound", func(g *Graph) { otherNamespace(g); bound(g) }, open},
		{"given twice", func(g *Graph) { bound(g); otherNamespace(g); bound(g) }, open},
		{"what is known to lead still does", func(g *Graph) {
			g.SetPod(&Pod{Namespace: "shop", Name: "x", UID: "x", NodeName: "n1", Secrets: []string{"db"}}, watched(at(1000)))
			g.DeletePod("shop", "x", "x", watched(at(3000)))
			bound(g)
		}, map[string]string{"n1 get secrets shop/db": "allow 1000-3000, unknown 3000-"}},
		{"ended", func(g *Graph) {
			bound(g)
			g.DeletePod("shop", "web", "1", watched(at(4000)))
		}, map[string]string{"n1 get secrets shop/db": "unknown 2000-4000", "n1 get pods shop/web": "allow 2000-4000"}},
		{"seen after all", func(g *Graph) {
			bound(g)
			g.SetPod(named("1", "n1", "db"), watched(at(7000)))
		}, map[string]string{"n1 get secrets shop/db": "allow 2000-", "n1 get secrets shop/other": "", "n1 get configmaps shop/cfg": ""}},
		{"seen as a mirror pod", func(g *Graph) {
			bound(g)
			g.SetPod(with(named("1", "n1", "db"), func(p *Pod) { p.Mirror = true }), watched(at(7000)))
		}, map[string]string{"n1 get secrets shop/db": "", "n1 get pods shop/web": "allow 2000-"}},
		{"replaced by one that is seen", func(g *Graph) {
			bound(g)
			g.SetPod(named("2", "n1", "db"), watched(at(5000)))
		}, map[string]string{"n1 get secrets shop/db": "unknown 2000-5000, allow 5000-", "n1 get secrets shop/other": "unknown 2000-5000"}},
		{"only its end, then its binding", func(g *Graph) {
			g.DeletePod("shop", "web", "1", watched(at(4000)))
			bound(g)
		}, map[string]string{"n1 get pods shop/web": "allow 2000-4000", "n1 get secrets shop/db": "unknown 2000-4000"}},
	})
}

// A pod that the log alone tells of, bound before the state begins, was gone when it began: a state that is complete would have it.
func TestBoundBeforeTheState(t *testing.T) {
	g := NewGraph()
	g.CoverFrom(at(5000))
	g.SetPod(named("2", "n1", "other"), watched(at(5000)))
	g.BindPod("shop", "gone", "1", "n1", audited(at(1200)))
	a := authorizerOver(t, g, 0)
	for text, want := range map[string]string{
		"get pods shop/gone": "unknown 0-1200, allow~ 1200-5000", "get secrets shop/db": "unknown 0-5000", "get configmaps shop/x": "unknown 0-5000",
	} {
		if got := timeline(t, a, "n1", text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if !g.RefineDeletion("shop", "gone", audited(at(3000)), 0) {
		t.Error("the request that deleted it does not count")
	}
	if got, want := timeline(t, a, "n1", "get pods shop/gone"), "unknown 0-1200, allow 1200-3000, unknown 3000-5000"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	g.BindPod("shop", "new", "3", "n1", audited(at(6000))) // nobody knows what it uses
	if got, want := timeline(t, a, "n1", "get secrets shop/db"), "unknown 0-5000, unknown 6000-"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
