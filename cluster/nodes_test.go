package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

func TestSimilarNodes(t *testing.T) {
	s := NewState()
	for _, name := range []string{"worker-1", "ip-172-28-68-60", "ip-10-0-0-1.eu-west-1.compute.internal", "db.example.org"} {
		s.Nodes.set(name, "u-"+name, ownTime(base.UnixNano()), readiness{})
	}
	f := func(name, want string, how Similarity) {
		t.Helper()
		got, gotHow, ok := s.Nodes.Similar(name)
		if got != want || gotHow != how || ok != (want != "") {
			t.Errorf("%s: %q %v %v", name, got, gotHow, ok)
		}
	}
	f("Worker-1", "worker-1", SimilarCase)
	f("ip-172-28-68-60.eu-west-1.compute.internal", "ip-172-28-68-60", SimilarHost)
	f("ip-10-0-0-1", "ip-10-0-0-1.eu-west-1.compute.internal", SimilarHost)
	f("DB", "db.example.org", SimilarHost)
	f("db.example.com", "", 0)
	f("worker-1", "", 0)
	f("worker-2", "", 0)
	f("", "", 0)
}

func TestNodeLives(t *testing.T) {
	node := func(uid, created string) string {
		return `{"kind":"Node","apiVersion":"v1","metadata":{"name":"w1","uid":"` + uid + `","creationTimestamp":"` + at(t, created).Format("2006-01-02T15:04:05Z") + `"}}`
	}
	s := load(t, event(t, "10s", "ADDED", node("a", "0s"))+event(t, "20s", "DELETED", node("a", "0s"))+event(t, "30.5s", "ADDED", node("b", "30s")))
	for when, want := range map[string]bool{"1s": true, "15s": true, "25s": false, "31s": true} {
		if exists, _ := s.Nodes.Known("w1", at(t, when)); exists != want {
			t.Errorf("at %s: %v", when, exists)
		}
	}
	if _, covered := s.Nodes.Known("w1", at(t, "5s")); covered {
		t.Error("covered before the first observation")
	}
	s.Prune(at(t, "25s"))
	if exists, _ := s.Nodes.Known("w1", at(t, "15s")); exists {
		t.Error("not pruned")
	}
}

// A log that is read after the journal tells of Nodes without their UIDs, and of their creation a little earlier.
func TestNodeIsOneForLogAndJournal(t *testing.T) {
	for _, c := range []struct {
		seen time.Duration
		want int
	}{{-2 * time.Millisecond, 1}, {time.Second, 1}, {-time.Minute, 2}, {10 * time.Second, 2}, {time.Minute, 2}} {
		s := NewState()
		s.Nodes.set("w1", "u", ownTime(base.UnixNano()), readiness{})
		s.Nodes.remove("w1", "u", nodeauthz.Stamp{Time: base.Add(10 * time.Second)})
		s.Nodes.set("w1", "", nodeauthz.Stamp{Time: base.Add(c.seen)}, readiness{})
		if lives := s.Nodes.Lives(base.Add(-time.Hour), base.Add(time.Hour)); len(lives) != c.want {
			t.Errorf("seen %s after it was made: %+v, want %d", c.seen, lives, c.want)
		}
	}
}

func TestNodeNames(t *testing.T) {
	s := NewState()
	for i, name := range []string{"b", "a", "later"} {
		s.Nodes.set(name, "u-"+name, ownTime(base.UnixNano()+int64(i/2)*10), readiness{})
	}
	s.Nodes.remove("b", "u-b", nodeauthz.Stamp{Time: base.Add(5)})
	for at, want := range map[int64]string{-1: "[]", 1: "[a b]", 6: "[a]", 10: "[a later]"} {
		if got := fmt.Sprint(s.Nodes.Names(base.Add(time.Duration(at)))); got != want {
			t.Errorf("%d ns later: %s, want %s", at, got, want)
		}
	}
}

// Only what hides something from the Node authorizer is a hole.
func TestHoles(t *testing.T) {
	pod := func(node, volumes string) string {
		return `{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"shop","name":"web","uid":"p"},"spec":{"nodeName":"` + node + `","volumes":[` + volumes + `]}}`
	}
	const claim = `{"name":"d","persistentVolumeClaim":{"claimName":"data"}}`
	const node = `{"kind":"Node","apiVersion":"v1","metadata":{"name":"w1","uid":"n"}}`
	const volumes = "the state has no PersistentVolume, although pods on nodes use claims: paths through volumes are missing"
	for name, x := range map[string]struct{ pod, want string }{
		"no claims": {pod("w1", ""), "[]"}, "a claim": {pod("w1", claim), "[" + volumes + "]"}, "a pod that waits for its node": {pod("", claim), "[]"},
	} {
		s := load(t, event(t, "1s", "ADDED", x.pod)+event(t, "1s", "ADDED", node))
		if got := fmt.Sprint(deciding(s.Gaps(time.Time{}, time.Time{}))); got != x.want {
			t.Errorf("%s: %s, want %s", name, got, x.want)
		}
	}
	if got := fmt.Sprint(deciding(load(t, event(t, "1s", "ADDED", pod("w1", ""))).Gaps(time.Time{}, time.Time{}))); got != "[the state holds no Node]" {
		t.Errorf("without Nodes: %s", got)
	}
}

// TestNodesAt holds, through random changes, that an address is of the one Node that has or had it, and of nobody where several do.
func TestNodesAt(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const addresses = 3 * maxAddresses
	shared, alone := 0, 0
	for range effort.Of(20, 3) {
		n, now := newNodes(), time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
		for range 300 {
			now = now.Add(time.Minute)
			name := fmt.Sprint("n", r.IntN(8))
			switch r.IntN(10) {
			case 0:
				n.prune(now.Add(-time.Hour).UnixNano())
			case 1:
				for i := range n.lives[name] {
					n.lives[name][i].to = now.UnixNano()
				}
			default:
				n.set(name, fmt.Sprint("uid", r.IntN(3)), nodeauthz.Stamp{Time: now}, readiness{})
				var all []string
				for range 1 + r.IntN(12) {
					all = append(all, fmt.Sprint("10.0.0.", r.IntN(addresses)))
				}
				n.locate(name, all)
			}
			for i := range addresses {
				address, having := fmt.Sprint("10.0.0.", i), []string{}
				for name := range n.located {
					if slices.Contains(n.Addresses(name), address) {
						having = append(having, name)
					}
				}
				want := ""
				if len(having) == 1 {
					want, alone = having[0], alone+1
				} else if len(having) > 1 {
					shared++
				}
				if got := n.At(address); got != want {
					t.Fatalf("%s is of %q, and %q have it", address, got, having)
				}
			}
		}
		for name := range n.lives { // nothing stays of those that are gone
			for i := range n.lives[name] {
				n.lives[name][i].to = now.UnixNano()
			}
		}
		n.prune(now.Add(time.Hour).UnixNano())
		if len(n.having) != 0 || len(n.located) != 0 {
			t.Fatalf("%d addresses of %d Nodes are left", len(n.having), len(n.located))
		}
	}
	if shared < 1000 || alone < 1000 {
		t.Errorf("%d addresses of several, %d of one", shared, alone)
	}
}
