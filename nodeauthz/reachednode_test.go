package nodeauthz

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// getOf is the request of a node for an object of the kind.
func getOf(s Step) string {
	resource := map[Kind]string{
		KindSecret: "get secrets", KindConfigMap: "get configmaps", KindServiceAccount: "get serviceaccounts", KindPersistentVolumeClaim: "get persistentvolumeclaims",
		KindPersistentVolume: "get persistentvolumes", KindResourceClaim: "get resource.k8s.io:resourceclaims", KindPod: "get pods",
		KindVolumeAttachment: "get storage.k8s.io:volumeattachments", KindResourceSlice: "get resource.k8s.io:resourceslices",
		KindPodCertificateRequest: "get certificates.k8s.io:podcertificaterequests",
	}[s.Kind]
	if s.Namespace == "" {
		return resource + " " + s.Name
	}
	return resource + " " + s.Namespace + "/" + s.Name
}

// TestReachedByIsDecide holds what a node's credential reaches against the answer for each object that the graph ever had, at random instants
// of random histories.
func TestReachedByIsDecide(t *testing.T) {
	allowed, denied := 0, 0
	for seed := range effort.Of(uint64(80), 16) {
		r := rand.New(rand.NewPCG(2, seed))
		script := randomScript(r, 1500)
		g, whole := NewGraph(), NewGraph()
		script.play(g, whole)
		whole.SetPodCertificateRequest("ns-0", "pcr", "1", "node-1", watched(at(r.IntN(400))))
		p := webPod("node-0")
		whole.SetPod(p, watched(at(r.IntN(400))))
		a := NewAuthorizer(whole, featuresWith(t, "1.36", map[string]bool{"PodCertificateRequest": true}), 0)
		for node := range 4 {
			name := fmt.Sprintf("node-%d", node)
			for range 12 {
				now := at(r.IntN(420) - 10)
				objects, _ := newest(whole).ReachedBy(name, now, now)
				reached := map[Step]bool{}
				for _, o := range objects {
					reached[o.Object] = true
					if len(o.Paths) == 0 || o.Paths[0].Steps[0] != o.Object {
						t.Fatalf("seed %d: %v by paths %v", seed, o.Object, o.Paths)
					}
				}
				if len(reached) != len(objects) {
					t.Fatalf("seed %d: an object is listed twice: %v", seed, objects)
				}
				for i := uint32(1); i < whole.vertices.Len(); i++ {
					if whole.vertices.At(i).kind == KindNone {
						continue
					}
					s := whole.step(vertexID(i))
					allows := a.Decide(ask(t, name, getOf(s)), now).Verdict == Allow
					if allows != reached[s] {
						t.Fatalf("seed %d, %s for %v at %v: the authorizer allows %v, listed %v", seed, name, s, now, allows, reached[s])
					}
					if allows {
						allowed++
					} else {
						denied++
					}
				}
			}
		}
	}
	if least := effort.Of(5000, 1000); allowed < least || denied < least {
		t.Errorf("only %d allows and %d denies were compared", allowed, denied)
	}
}

// TestMayAllowIsDecide holds what is allowed at some instant of a time against the answer at each of its instants, in random histories.
func TestMayAllowIsDecide(t *testing.T) {
	may, never := 0, 0
	for seed := range effort.Of(uint64(60), 12) {
		r := rand.New(rand.NewPCG(8, seed))
		script := randomScript(r, 1500)
		g, whole := NewGraph(), NewGraph()
		script.play(g, whole)
		a := authorizerOver(t, whole, 0)
		for range 300 {
			i := uint32(1 + r.IntN(int(whole.vertices.Len())-1))
			if whole.vertices.At(i).kind == KindNone {
				continue
			}
			request := ask(t, fmt.Sprintf("node-%d", r.IntN(4)), getOf(whole.step(vertexID(i))))
			from, length := r.IntN(400), r.IntN(1+r.IntN(60))
			want := false
			for ms := from; ms <= from+length && !want; ms++ {
				want = a.Decide(request, at(ms)).Verdict == Allow
			}
			if got := a.MayAllow(request, at(from), at(from+length)); got != want {
				t.Fatalf("seed %d, %v from %d for %d ms: %v, Decide says %v", seed, request, from, length, got, want)
			}
			if want {
				may++
			} else {
				never++
			}
		}
	}
	if least := effort.Of(500, 100); may < least || never < least {
		t.Errorf("only %d that may be allowed and %d that may not were compared", may, never)
	}
	for request, want := range map[string]bool{"get nodes n1": true, "get nodes n2": false, "create secrets shop/x": false, "list services": true} {
		if got := authorizerOver(t, covered(), 0).MayAllow(ask(t, "n1", request), at(0), at(9)); got != want {
			t.Errorf("%s: %v, want %v", request, got, want)
		}
	}
}

// TestReachedByBetween holds that a time holds what each of its instants does, and the ends of the paths.
func TestReachedByBetween(t *testing.T) {
	g := covered()
	p := webPod("n1")
	g.SetPod(p, watched(at(100)))
	g.DeletePod(p.Namespace, p.Name, p.UID, watched(at(200)))
	for _, c := range []struct {
		from, to int
		want     bool
	}{{0, 99, false}, {0, 100, true}, {150, 160, true}, {199, 300, true}, {200, 300, false}} {
		objects, missing := newest(g).ReachedBy("n1", at(c.from), at(c.to))
		if (len(objects) > 0) != c.want || missing != "" {
			t.Errorf("from %d to %d: %v, missing %q", c.from, c.to, objects, missing)
		}
	}
	objects, _ := newest(g).ReachedBy("n1", time.Time{}, time.Time{})
	if len(objects) < 3 || !objects[0].Paths[0].From.Equal(at(100)) || !objects[0].Paths[0].To.Equal(at(200)) {
		t.Errorf("ever: %v", objects)
	}
	if objects, _ := newest(g).ReachedBy("n2", time.Time{}, time.Time{}); objects != nil {
		t.Errorf("another node: %v", objects)
	}
	if _, missing := newest(NewGraph()).ReachedBy("n1", at(0), at(1)); missing == "" {
		t.Error("a graph that covers nothing misses nothing")
	}
}

// TestEachReachedIsReachedBy holds what several nodes reach, found in one pass, against what each of them reaches by itself.
func TestEachReachedIsReachedBy(t *testing.T) {
	compared := 0
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(6, seed))
		script := randomScript(r, 1500)
		g, whole := NewGraph(), NewGraph()
		script.play(g, whole)
		a := authorizerOver(t, whole, 0)
		nodes := []string{"node-2", "nobody", "node-0", "node-1"}
		from, to := at(r.IntN(200)), at(200+r.IntN(200))
		var order []string
		missing := a.EachReached(nodes, from, to, func(node string, objects []Reached) { order = append(order, node+" "+fmt.Sprint(objects)) })
		for i, node := range nodes {
			objects, alone := a.ReachedBy(node, from, to)
			if want := node + " " + fmt.Sprint(objects); order[i] != want || alone != missing {
				t.Fatalf("seed %d, missing %q and %q:\n%s\nwant\n%s", seed, missing, alone, order[i], want)
			}
			compared += len(objects)
		}
	}
	if compared < 200 {
		t.Errorf("only %d objects were compared", compared)
	}
}
