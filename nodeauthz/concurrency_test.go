package nodeauthz

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// TestReadersWithAWriter lets readers ask while pods and volumes come and go and are pruned: what is there throughout is always allowed,
// what never is never. Run it with -race.
func TestReadersWithAWriter(t *testing.T) {
	const readers = 3
	rounds := effort.Of(400, 100)
	g := someOfEach()
	a := authorizerOver(t, g, 20*time.Millisecond)
	now := at(5000)
	always := []string{"get secrets shop/db", "get secrets storage/csi", "get persistentvolumes pv", "get pods shop/web-1",
		"get storage.k8s.io:volumeattachments va"}
	never := []string{"get secrets shop/theirs", "get secrets shop/none", "get persistentvolumes none"}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				yes, no := ask(t, "n1", always[i%len(always)]), ask(t, "n1", never[i%len(never)])
				if got := a.Decide(yes, now); got.Verdict != Allow || got.Race {
					t.Errorf("%s: %s", always[i%len(always)], got.words())
					return
				}
				if got := a.Decide(no, now); got.Verdict != Deny || got.Race {
					t.Errorf("%s: %s", never[i%len(never)], got.words())
					return
				}
				if ex := a.Explain(yes, now); ex.Path == nil {
					t.Errorf("%s: no path", always[i%len(always)])
					return
				}
				a.Explain(ask(t, "n1", "get configmaps many/ca"), now)
				a.Missing(now)
				g.PodNode("many", fmt.Sprint("p", i%rounds), now)
				g.CoveredFrom()
				if s := g.Stats(); s.Tenures < 8 {
					t.Errorf("the graph shrank to %+v", s)
					return
				}
			}
		})
	}
	for i := range rounds {
		uid, name, then := fmt.Sprint("u", i), fmt.Sprint("p", i), at(i-1000)
		p := &Pod{Namespace: "many", Name: name, UID: uid, NodeName: fmt.Sprint("n", i%5), ConfigMaps: []string{"ca", name},
			Secrets: []string{"db"}, PersistentVolumeClaims: []string{"data"}}
		g.SetPod(p, watched(then))
		g.BindPod("many", name, uid, p.NodeName, audited(then))
		p.EphemeralContainers, p.Secrets = 1, []string{"debug"}
		g.SetPod(p, watched(then.Add(time.Millisecond)))
		g.SetPersistentVolume(&PersistentVolume{Name: name, UID: uid, Claim: &NamespacedName{"many", "data"},
			Secrets: []NamespacedName{{"storage", "csi"}}}, watched(then))
		g.SetVolumeAttachment(name, uid, "n1", watched(then))
		g.SetResourceSlice(name, uid, "n1", watched(then))
		g.SetPodCertificateRequest("many", name, uid, "n1", watched(then))
		end := watched(then.Add(30 * time.Millisecond))
		g.DeletePod("many", name, uid, end)
		g.RefineDeletion("many", name, audited(end.Time), time.Second)
		g.DeletePersistentVolume(name, uid, end)
		g.DeleteVolumeAttachment(name, uid, end)
		g.DeleteResourceSlice(name, uid, end)
		g.DeletePodCertificateRequest("many", name, uid, end)
		g.CoverFrom(at(-60_000 - i))
		if i%50 == 49 {
			g.Prune(then)
		}
	}
	close(done)
	wg.Wait()
	g.Prune(at(0))
	checkSound(t, g)
	if before := someOfEach().Stats(); g.Stats().Tenures != before.Tenures || g.Stats().Vertices != before.Vertices || g.Stats().Volumes != before.Volumes {
		t.Errorf("pruned to %+v, want %+v", g.Stats(), before)
	}
}

// One decision allows or not by one state of the graph: a pod that is replaced within the name is never seen twice or not at all.
func TestAnswersAreOfOneState(t *testing.T) {
	g := covered()
	g.SetPod(named("0", "n0", "db"), watched(at(0)))
	a := authorizerOver(t, g, 0)
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			ex := a.Explain(ask(t, "elsewhere", "get secrets shop/db"), at(100_000))
			if len(ex.Leads) != 1 || !strings.HasPrefix(ex.Leads[0].String(), "secret shop/db -> pod shop/web -> node n") {
				t.Errorf("%d nodes have the one pod: %v", len(ex.Leads), ex.Leads)
				return
			}
		}
	})
	for i := range 500 {
		g.SetPod(named(fmt.Sprint(i+1), fmt.Sprint("n", i%7), "db"), watched(at(i+1)))
	}
	close(done)
	wg.Wait()
}
