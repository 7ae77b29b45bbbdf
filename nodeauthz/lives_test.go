package nodeauthz

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// What finds few of many lives finds those that a walk through all finds, whatever happens to the object, in whatever order that is given.
func TestManyLives(t *testing.T) {
	for seed := range effort.Of[uint64](6, 2) {
		r := rand.New(rand.NewPCG(seed, 26))
		g, plain := NewGraph(), NewGraph() // the second one always walks
		plain.plain = true
		begin := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
		now, most := begin, 0
		for n := range 6000 {
			now = now.Add(time.Duration(r.IntN(3000)) * time.Millisecond)
			change := r.Uint64()
			for _, g := range []*Graph{g, plain} {
				churn(g, rand.New(rand.NewPCG(change, 11)), now)
				if n%2500 == 2499 {
					g.Prune(now.Add(-time.Hour))
				}
			}
			if n%40 == 0 {
				for _, k := range []Kind{KindPod, KindVolumeAttachment, KindResourceSlice} {
					if vid := g.lookup(k, namespaceOf(k), "x"); vid != 0 {
						most = max(most, checkLives(t, g, vid, r, now))
						if want, got := livesIn(plain, plain.lookup(k, namespaceOf(k), "x")), livesIn(g, vid); !slices.Equal(want, got) {
							t.Errorf("(-of a walk through all +got):\n%s", cmp.Diff(want, got))
						}
					}
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, n)
			}
		}
		if most < 500 {
			t.Errorf("seed %d: at most %d lives", seed, most)
		}
	}
}

// livesIn are all lives of an object, in words, in order.
func livesIn(g *Graph, vid vertexID) (out []string) {
	g.eachTenure(vid, func(id tenureID) bool {
		r := g.tenure(id)
		out = append(out, fmt.Sprintf("%x on %d: %+v, open %t, again %t", g.sighting(id).uid, r.node, r.life, r.open, r.again))
		return true
	})
	slices.Sort(out)
	return out
}

func namespaceOf(k Kind) string {
	if k == KindPod {
		return "shop"
	}
	return ""
}

// churn tells the graph something of one of three objects.
func churn(g *Graph, r *rand.Rand, now time.Time) {
	at := Stamp{Time: now.Add(-time.Duration(r.ExpFloat64() * float64(time.Second))), Source: SourceWatch}
	switch r.IntN(8) {
	case 0:
		at.Source, at.Slop = SourceObject, time.Duration(r.IntN(3))*time.Second
	case 1:
		at.Source, at.Lag = SourceAudit, time.Duration(r.IntN(3))*time.Second
	case 2:
		at.Slop = time.Duration(r.Int64N(int64(30 * time.Minute)))
	case 3:
		at.Time = now.Add(-time.Duration(r.IntN(3600)) * time.Second)
	}
	uid, node := fmt.Sprintf("%08x-0000-4000-8000-000000000000", now.Unix()/int64(1+r.IntN(5))), fmt.Sprintf("worker-%d", r.IntN(3))
	if r.IntN(12) == 0 {
		uid = ""
	}
	if r.IntN(15) == 0 {
		node = ""
	}
	switch r.IntN(12) {
	case 0, 1, 2:
		p := &Pod{Namespace: "shop", Name: "x", UID: uid, NodeName: node, Secrets: []string{"s"}}
		if r.IntN(3) == 0 {
			p.Bound = at
		}
		g.SetPod(p, at)
	case 3, 4:
		g.DeletePod("shop", "x", uid, at)
	case 5:
		g.BindPod("shop", "x", uid, node, at)
	case 6:
		g.RefineBinding("shop", "x", uid, at)
	case 7:
		g.RefineDeletion("shop", "x", at, time.Duration(r.IntN(5))*time.Second)
	case 8:
		g.SetVolumeAttachment("x", uid, node, at)
	case 9:
		g.DeleteVolumeAttachment("x", uid, at)
	case 10:
		g.SetResourceSlice("x", uid, node, at)
	case 11:
		g.DeleteResourceSlice("x", uid, at)
	}
}

// checkLives compares each way to find lives with a walk through all, and returns how many there are.
func checkLives(t *testing.T, g *Graph, vid vertexID, r *rand.Rand, now time.Time) int {
	t.Helper()
	var all []tenureID
	g.eachTenure(vid, func(id tenureID) bool {
		all = append(all, id)
		return true
	})
	is := func(walk func(f func(tenureID) bool)) map[tenureID]bool {
		set := map[tenureID]bool{}
		walk(func(id tenureID) bool { set[id] = true; return true })
		return set
	}
	u := g.sighting(all[r.IntN(len(all))]).uid
	from := now.Add(-time.Duration(r.IntN(5000)) * time.Second).UnixNano()
	to := from + r.Int64N(int64(10*time.Minute))
	named := is(func(f func(tenureID) bool) { g.eachNamed(vid, u, f) })
	alive := is(func(f func(tenureID) bool) { g.eachAlive(vid, func(id tenureID) { f(id) }) })
	ending := is(func(f func(tenureID) bool) { g.eachEnding(vid, from, to, f) })
	l := g.livesOf(vid)
	for _, id := range all {
		o, of := g.tenure(id), g.sighting(id).uid
		switch {
		case (of == u || !of.known()) && !named[id]:
			t.Errorf("a life of the UID is not found")
		case !o.to.set && !alive[id]:
			t.Errorf("a life without an end is not found")
		case o.to.set && o.to.at <= to && o.to.late() >= from && !ending[id]:
			t.Errorf("an end at %d to %d is not found from %d to %d", o.to.at, o.to.late(), from, to)
		case l != nil && o.from.at > l.from:
			t.Errorf("one begins at %d, later than %d", o.from.at, l.from)
		}
	}
	if l == nil {
		return len(all)
	}
	n := 0
	n += len(l.first)
	for _, list := range l.more {
		n += len(list)
	}
	if n != len(all) || len(l.alive) != len(alive) || len(alive) > len(all)/2 || len(named) > len(all)/2 && u.known() {
		t.Errorf("%d lives, by UID %d, alive %d, of one UID %d", len(all), n, len(l.alive), len(named))
	}
	return len(all)
}
