package nodeauthz

import (
	"fmt"
	"testing"
	"time"
)

// scenario is what is given to a graph, and what a node may then do at which times.
type scenario struct {
	what  string
	tell  func(g *Graph)
	wants map[string]string // "NODE REQUEST": timeline
}

func (s *scenario) check(t *testing.T, g *Graph, how string) {
	t.Helper()
	checkSound(t, g)
	a := authorizerOver(t, g, 0)
	for text, want := range s.wants {
		node, request := text[:2], text[3:]
		if got := timeline(t, a, node, request); got != want {
			t.Errorf("%s%s: %q, want %q", text, how, got, want)
		}
	}
}

func playAll(t *testing.T, scenarios []scenario) {
	t.Helper()
	for _, s := range scenarios {
		t.Run(s.what, func(t *testing.T) {
			g := covered()
			s.tell(g)
			s.check(t, g, "")
		})
	}
}

// playTwice is playAll, and then tells all again, as by logs that overlap: that must change nothing.
func playTwice(t *testing.T, scenarios []scenario) {
	t.Helper()
	for _, s := range scenarios {
		t.Run(s.what, func(t *testing.T) {
			g := covered()
			s.tell(g)
			s.check(t, g, "")
			s.tell(g)
			s.check(t, g, ", all given again")
		})
	}
}

// named is a pod with one secret.
func named(uid, node, secret string) *Pod {
	return &Pod{Namespace: "shop", Name: "web", UID: uid, NodeName: node, Secrets: []string{secret}}
}

func with(p *Pod, change func(*Pod)) *Pod {
	c := *p
	change(&c)
	return &c
}

// TestUpdatesThatTheReferenceSkips: a pod's edges are made anew when its node, its UID or its claim statuses change, or when it has more
// ephemeral containers; then whatever it holds counts, and else nothing does.
func TestUpdatesThatTheReferenceSkips(t *testing.T) {
	first := named("1", "n1", "db")
	late := with(first, func(p *Pod) { p.Secrets = []string{"pull"}; p.ServiceAccountName = "late" })
	debug := func(n int, secrets ...string) *Pod {
		return with(first, func(p *Pod) { p.EphemeralContainers, p.Secrets = n, secrets })
	}
	claims := func(statuses string, claims ...string) *Pod {
		return with(first, func(p *Pod) { p.ClaimStatuses, p.ResourceClaims = statuses, claims })
	}
	const gpu = "get resource.k8s.io:resourceclaims shop/gpu"
	playTwice(t, []scenario{
		{"unbound, bound, deleted", func(g *Graph) {
			g.SetPod(with(first, func(p *Pod) { p.NodeName = "" }), watched(at(500)))
			g.SetPod(first, watched(at(1000)))
			g.DeletePod("shop", "web", "1", watched(at(5000)))
		}, map[string]string{"n1 get secrets shop/db": "allow 1000-5000", "n1 get pods shop/web": "allow 1000-5000", "n2 get secrets shop/db": ""}},
		{"an image pull secret edited in later", func(g *Graph) {
			g.SetPod(first, watched(at(1000)))
			g.SetPod(late, watched(at(2000)))
		}, map[string]string{"n1 get secrets shop/db": "allow 1000-", "n1 get secrets shop/pull": "", "n1 get serviceaccounts shop/late": ""}},
		{"an ephemeral container brings it in", func(g *Graph) {
			g.SetPod(first, watched(at(1000)))
			g.SetPod(late, watched(at(2000)))
			g.SetPod(with(late, func(p *Pod) { p.EphemeralContainers = 1; p.Secrets = []string{"pull", "debug"} }), watched(at(3000)))
			g.DeletePod("shop", "web", "1", watched(at(5000)))
		}, map[string]string{
			"n1 get secrets shop/db": "allow 1000-3000", "n1 get secrets shop/pull": "allow 3000-5000", "n1 get secrets shop/debug": "allow 3000-5000",
			"n1 get serviceaccounts shop/late": "allow 3000-5000", "n1 get pods shop/web": "allow 1000-5000",
		}},
		{"more ephemeral containers than before, not than ever", func(g *Graph) {
			g.SetPod(debug(2, "db"), watched(at(1000)))
			g.SetPod(debug(1, "a"), watched(at(2000)))
			g.SetPod(debug(1, "b"), watched(at(3000)))
			g.SetPod(debug(2, "c"), watched(at(4000)))
		}, map[string]string{
			"n1 get secrets shop/db": "allow 1000-4000", "n1 get secrets shop/a": "", "n1 get secrets shop/b": "", "n1 get secrets shop/c": "allow 4000-",
		}},
		{"claim statuses come, change and go", func(g *Graph) {
			g.SetPod(claims(""), watched(at(1000)))
			g.SetPod(claims("1", "gpu"), watched(at(2000)))
			g.SetPod(claims("1", "gpu", "unseen"), watched(at(3000)))
			g.SetPod(claims("2", "other"), watched(at(4000)))
			g.SetPod(claims("1", "gpu"), watched(at(6000)))
			g.SetPod(claims(""), watched(at(8000)))
		}, map[string]string{
			"n1 " + gpu: "allow 2000-4000, allow 6000-8000", "n1 get resource.k8s.io:resourceclaims shop/unseen": "",
			"n1 get resource.k8s.io:resourceclaims shop/other": "allow 4000-6000", "n1 get secrets shop/db": "allow 1000-", "n2 " + gpu: "",
		}},
		{"the same claim statuses again", func(g *Graph) {
			g.SetPod(claims(""), watched(at(1000)))
			g.SetPod(claims("1", "gpu"), watched(at(2000)))
			g.SetPod(claims(""), watched(at(3000)))
			g.SetPod(claims("1", "gpu"), watched(at(4000)))
		}, map[string]string{"n1 " + gpu: "allow 2000-3000, allow 4000-"}},
		{"a later state given before the one that made it so", func(g *Graph) {
			g.SetPod(claims(""), watched(at(1000)))
			g.SetPod(claims("1", "gpu"), watched(at(4000)))
			g.SetPod(claims("1", "gpu"), watched(at(2000)))
		}, map[string]string{"n1 " + gpu: "allow 2000-"}},
		{"the first state given last", func(g *Graph) {
			g.SetPod(claims("1", "gpu"), watched(at(4000)))
			g.SetPod(with(first, func(p *Pod) { p.Secrets = []string{"db", "old"} }), watched(at(1000)))
		}, map[string]string{"n1 " + gpu: "allow 4000-", "n1 get secrets shop/db": "allow 1000-", "n1 get secrets shop/old": "allow 1000-4000"}},
		{"the first state given last, with nothing that would count", func(g *Graph) {
			g.SetPod(late, watched(at(4000)))
			g.SetPod(first, watched(at(1000)))
		}, map[string]string{"n1 get secrets shop/pull": "", "n1 get serviceaccounts shop/late": "", "n1 get secrets shop/db": "allow 1000-"}},
		{"an extended claim after the binding", func(g *Graph) {
			g.SetPod(first, watched(at(1000)))
			g.SetPod(claims("", "gpu"), watched(at(2000)))
		}, map[string]string{"n1 " + gpu: ""}},
		{"labels and status only, and all of it twice", func(g *Graph) {
			for range 2 {
				g.SetPod(first, watched(at(1000)))
				g.SetPod(first, watched(at(2000)))
				g.SetPod(first, watched(at(3000)))
				g.DeletePod("shop", "web", "1", watched(at(4000)))
			}
			if s := g.Stats(); s != (Stats{Vertices: 2, Tenures: 1, Nodes: 1}) {
				t.Errorf("one pod and its secret make %+v", s)
			}
		}, map[string]string{"n1 get secrets shop/db": "allow 1000-4000"}},
		{"once more without its node", func(g *Graph) {
			g.SetPod(first, watched(at(1000)))
			g.SetPod(with(first, func(p *Pod) { p.NodeName = "" }), watched(at(2000)))
			g.SetPod(late, watched(at(3000)))
		}, map[string]string{"n1 get secrets shop/db": "allow 1000-3000", "n1 get secrets shop/pull": "allow 3000-"}},
		{"an edge that comes, goes and comes", func(g *Graph) {
			g.SetPod(debug(0, "db"), watched(at(1000)))
			g.SetPod(debug(1, "a", "b"), watched(at(2000)))
			g.SetPod(debug(2, "a"), watched(at(3000)))
			g.SetPod(debug(3, "a", "b", "db"), watched(at(4000)))
		}, map[string]string{
			"n1 get secrets shop/db": "allow 1000-2000, allow 4000-", "n1 get secrets shop/a": "allow 2000-",
			"n1 get secrets shop/b": "allow 2000-3000, allow 4000-",
		}},
		{"another node, as an API server would not have it", func(g *Graph) {
			g.SetPod(first, watched(at(1000)))
			g.SetPod(named("1", "n2", "db"), watched(at(3000)))
		}, map[string]string{"n1 get secrets shop/db": "allow 1000-3000", "n2 get secrets shop/db": "allow 3000-"}},
		{"a mirror pod becomes none with its next ephemeral container", func(g *Graph) {
			g.SetPod(with(first, func(p *Pod) { p.Mirror = true }), watched(at(1000)))
			g.SetPod(first, watched(at(2000)))
			g.SetPod(debug(1, "db"), watched(at(3000)))
		}, map[string]string{"n1 get secrets shop/db": "allow 3000-", "n1 get pods shop/web": "allow 1000-"}},
	})
}

func TestNamesUsedAgain(t *testing.T) {
	one, two := named("1", "n1", "db"), named("2", "n2", "db")
	both := map[string]string{
		"n1 get secrets shop/db": "allow 1000-5000", "n2 get secrets shop/db": "allow 6000-", "n1 get pods shop/web": "allow 1000-5000",
		"n2 get pods shop/web": "allow 6000-",
	}
	tell := map[string]func(g *Graph){
		"one": func(g *Graph) { g.SetPod(one, watched(at(1000))) },
		"end": func(g *Graph) { g.DeletePod("shop", "web", "1", watched(at(5000))) },
		"two": func(g *Graph) { g.SetPod(two, watched(at(6000))) },
	}
	var scenarios []scenario
	for _, order := range [][]string{
		{"one", "end", "two"}, {"one", "two", "end"}, {"end", "one", "two"}, {"end", "two", "one"}, {"two", "one", "end"}, {"two", "end", "one"},
		{"end", "end", "one", "one", "two", "end"},
	} {
		scenarios = append(scenarios, scenario{fmt.Sprint(order), func(g *Graph) {
			for _, what := range order {
				tell[what](g)
			}
		}, both})
	}
	gone := func(ms int) map[string]string {
		return map[string]string{"n1 get secrets shop/db": fmt.Sprintf("allow 1000-%d", ms)}
	}
	playAll(t, append(scenarios, []scenario{
		{"replaced with no deletion seen", func(g *Graph) {
			tell["one"](g)
			tell["two"](g)
		}, map[string]string{"n1 get secrets shop/db": "allow 1000-6000", "n2 get secrets shop/db": "allow 6000-"}},
		{"replaced on the same node", func(g *Graph) {
			tell["one"](g)
			g.SetPod(named("2", "n1", "other"), watched(at(3000)))
		}, map[string]string{"n1 get secrets shop/db": "allow 1000-3000", "n1 get secrets shop/other": "allow 3000-", "n1 get pods shop/web": "allow 1000-"}},
		{"replaced by one that is not bound", func(g *Graph) {
			tell["one"](g)
			g.SetPod(named("2", "", "db"), watched(at(3000)))
		}, gone(3000)},
		{"made again alike: other instants, one name", func(g *Graph) {
			tell["one"](g)
			tell["end"](g)
			g.SetPod(named("2", "n1", "db"), watched(at(7000)))
		}, map[string]string{"n1 get secrets shop/db": "allow 1000-5000, allow 7000-"}},
		{"deleted without a UID", func(g *Graph) {
			tell["one"](g)
			g.DeletePod("shop", "web", "", watched(at(4000)))
			g.DeletePod("shop", "web", "", watched(at(4500)))
		}, gone(4000)},
		{"a deletion without a UID before the pod says nothing", func(g *Graph) {
			g.DeletePod("shop", "web", "", watched(at(4000)))
			tell["one"](g)
		}, map[string]string{"n1 get secrets shop/db": "allow 1000-"}},
		{"another pod's deletion", func(g *Graph) {
			tell["one"](g)
			g.DeletePod("shop", "web", "3", watched(at(4000)))
			g.DeletePod("shop", "other", "1", watched(at(4000)))
			g.DeletePod("default", "web", "1", watched(at(4000)))
		}, map[string]string{"n1 get secrets shop/db": "allow 1000-"}},
		{"pods of unknown UIDs", func(g *Graph) {
			g.SetPod(named("", "n1", "db"), watched(at(1000)))
			g.SetPod(named("", "n1", "db"), watched(at(2000)))
			g.DeletePod("shop", "web", "", watched(at(3000)))
			g.SetPod(named("", "n1", "db"), watched(at(4000)))
			g.DeletePod("shop", "web", "9", watched(at(6000)))
		}, map[string]string{"n1 get secrets shop/db": "allow 1000-3000, allow 4000-6000"}},
		{"a UID learnt later", func(g *Graph) {
			g.SetPod(named("", "n1", "db"), watched(at(1000)))
			g.SetPod(one, watched(at(2000)))
			g.DeletePod("shop", "web", "2", watched(at(3000)))
			g.DeletePod("shop", "web", "1", watched(at(4000)))
		}, gone(4000)},
		{"a late word of a pod that is gone", func(g *Graph) {
			tell["one"](g)
			tell["end"](g)
			g.SetPod(one, audited(at(5500))) // the answer to a write of its status
			g.SetPod(one, ownStamp(at(5500)))
		}, gone(5000)},
		{"a watch that shows it again", func(g *Graph) {
			tell["one"](g)
			tell["end"](g)
			g.SetPod(one, watched(at(7000)))
		}, map[string]string{"n1 get secrets shop/db": "allow 1000-5000, allow 7000-"}},
		{"bound by two clocks after its end", func(g *Graph) {
			g.SetPod(one, watched(at(5000)))
			g.DeletePod("shop", "web", "1", audited(at(4990)))
		}, map[string]string{"n1 get secrets shop/db": "", "n1 get pods shop/web": ""}},
	}...))
}

// Attachments may change their node; slices and certificate requests do not, and the reference does not look.
func TestObjectsOfOneNode(t *testing.T) {
	kinds := []struct {
		get     string
		set     func(g *Graph, uid, node string, at Stamp)
		drop    func(g *Graph, uid string, at Stamp)
		mutable bool
	}{
		{" get storage.k8s.io:volumeattachments x", func(g *Graph, uid, node string, at Stamp) { g.SetVolumeAttachment("x", uid, node, at) },
			func(g *Graph, uid string, at Stamp) { g.DeleteVolumeAttachment("x", uid, at) }, true},
		{" get resource.k8s.io:resourceslices x", func(g *Graph, uid, node string, at Stamp) { g.SetResourceSlice("x", uid, node, at) },
			func(g *Graph, uid string, at Stamp) { g.DeleteResourceSlice("x", uid, at) }, false},
		{" get certificates.k8s.io:podcertificaterequests shop/x",
			func(g *Graph, uid, node string, at Stamp) { g.SetPodCertificateRequest("shop", "x", uid, node, at) },
			func(g *Graph, uid string, at Stamp) { g.DeletePodCertificateRequest("shop", "x", uid, at) }, false},
	}
	f := featuresWith(t, "1.36", map[string]bool{"PodCertificateRequest": true})
	for _, k := range kinds {
		check := func(what string, tell func(g *Graph), n1, n2 string) {
			t.Helper()
			g := covered()
			tell(g)
			checkSound(t, g)
			for node, want := range map[string]string{"n1": n1, "n2": n2} {
				if got := timeline(t, NewAuthorizer(g, f, 0), node, k.get[1:]); got != want {
					t.Errorf("%s%s, %s: %q, want %q", node, k.get, what, got, want)
				}
			}
		}
		check("comes and goes, twice", func(g *Graph) {
			for range 2 {
				k.set(g, "u", "n1", watched(at(1000)))
				k.set(g, "u", "n1", watched(at(2000)))
				k.drop(g, "u", watched(at(3000)))
			}
		}, "allow 1000-3000", "")
		moved := [2]string{"allow 1000-", ""}
		if k.mutable {
			moved = [2]string{"allow 1000-4000", "allow 4000-"}
		}
		check("another node", func(g *Graph) {
			k.set(g, "u", "n1", watched(at(1000)))
			k.set(g, "u", "n2", watched(at(4000)))
		}, moved[0], moved[1])
		check("another UID and node", func(g *Graph) {
			k.set(g, "u", "n1", watched(at(1000)))
			k.set(g, "v", "n2", watched(at(4000)))
			k.drop(g, "u", watched(at(4500)))
		}, "allow 1000-4000", "allow 4000-")
		check("deleted first", func(g *Graph) {
			k.drop(g, "u", watched(at(3000)))
			k.drop(g, "", watched(at(3000)))
			k.set(g, "u", "n1", watched(at(1000)))
		}, "allow 1000-3000", "")
		check("its UID is learnt later", func(g *Graph) {
			k.set(g, "", "n1", watched(at(1000)))
			k.set(g, "u", "n1", watched(at(2000)))
			k.drop(g, "v", watched(at(3000)))
			k.drop(g, "u", watched(at(4000)))
		}, "allow 1000-4000", "")
		check("its own second, then a watcher's word", func(g *Graph) {
			k.set(g, "u", "n1", ownStamp(at(1000)))
			k.set(g, "u", "n1", watched(at(1200)))
			k.set(g, "u", "n1", watched(at(3000)))
		}, "allow 1200-", "")
		none := [2]string{"allow 1000-", ""}
		if k.mutable {
			none[0] = "allow 1000-2000"
		}
		check("no node any more", func(g *Graph) {
			if k.get != kinds[2].get {
				k.set(g, "u", "", watched(at(500)))
				k.set(g, "u", "n1", watched(at(1000)))
				k.set(g, "u", "", watched(at(2000)))
			} else { // a request always has one
				k.set(g, "u", "n1", watched(at(1000)))
			}
		}, none[0], none[1])
	}
}

func TestResourceSlicesWithoutTheGate(t *testing.T) {
	g := covered()
	g.SetResourceSlice("x", "u", "n1", watched(at(1000)))
	for _, version := range []string{"1.33", "1.34"} {
		a := NewAuthorizer(g, featuresWith(t, version, map[string]bool{"DynamicResourceAllocation": false}), time.Second)
		if got := timeline(t, a, "n1", "get resource.k8s.io:resourceslices x"); got != "" {
			t.Errorf("%s: %q", version, got)
		}
	}
}
