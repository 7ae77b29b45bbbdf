package nodeauthz

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestLatest compares the table with a map, over few pairs that are set and removed again and again, through growth.
func TestLatest(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 4))
	for round := range 60 {
		got, want := newLatest(), map[[2]uint32]tenureID{}
		if round%2 == 0 {
			got.mix = 1 << 48 // all pairs meet in one slot
		}
		for i := range 2000 {
			v, node := vertexID(1+r.IntN(12)), nodeID(r.IntN(1+round))
			if r.IntN(5) < 2 {
				got.remove(v, node)
				delete(want, [2]uint32{uint32(v), uint32(node)})
			} else {
				got.set(v, node, tenureID(i+1))
				want[[2]uint32{uint32(v), uint32(node)}] = tenureID(i + 1)
			}
			if got.used != len(want) {
				t.Fatalf("%d pairs, want %d", got.used, len(want))
			}
			v, node = vertexID(1+r.IntN(12)), nodeID(r.IntN(1+round))
			if got, want := got.of(v, node), want[[2]uint32{uint32(v), uint32(node)}]; got != want {
				t.Fatalf("%d on %d is %d, want %d", v, node, got, want)
			}
		}
	}
}

// TestLatestOfGraph lets pods that share objects come, go and be forgotten: of each vertex with many tenures the table has the newest on each node, and
// nothing else, and a decision sees what a walk over all of them sees.
func TestLatestOfGraph(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 5))
	heavy, decided := 0, map[window]int{}
	for range 30 {
		g, pods := NewGraph(), 0
		g.CoverFrom(at(0))
		for i := range 400 {
			now := at(i)
			if name := fmt.Sprint("p", r.IntN(pods+1)); r.IntN(3) > 0 {
				pods++
				g.SetPod(&Pod{Namespace: "a", Name: name, UID: name + "-" + fmt.Sprint(r.IntN(2)), NodeName: fmt.Sprint("n", r.IntN(1+r.IntN(60))), ServiceAccountName: "sa",
					ConfigMaps: []string{fmt.Sprint("c", r.IntN(2))}}, watched(now))
			} else {
				g.DeletePod("a", name, "", watched(now))
			}
			if r.IntN(100) == 0 {
				g.Prune(now.Add(-time.Duration(r.IntN(200)) * time.Millisecond))
			}
		}
		entries := 0
		for id := vertexID(1); uint32(id) < g.vertices.Len(); id++ {
			v := g.vertex(id)
			if !v.heavy {
				continue
			}
			heavy++
			entries += len(g.tail(v).byNode)
			for node := range nodeID(len(g.nodeRecs)) {
				list := g.tail(v).byNode[node]
				if got := g.latest.of(id, node); len(list) == 0 && got != 0 || len(list) > 0 && got != list[len(list)-1] {
					t.Fatalf("%d of %v", got, list)
				}
				for s := range 40 {
					got := window{t: unixNano(at(10 * s)), hi: unixNano(at(10*s + 1)), lo: unixNano(at(10*s - 1)), of: allGens}
					want := got
					g.scan(id, node, &got)
					g.eachOnNode(v, node, func(r *tenure) { g.see(r, id, &want) })
					if got.covered != want.covered || !got.covered && got.touched != want.touched {
						t.Fatalf("at %d ms: %+v, want %+v", 10*s, got, want)
					}
					decided[window{covered: want.covered, touched: want.touched}]++
				}
			}
		}
		if entries != g.latest.used {
			t.Fatalf("%d entries for %d", g.latest.used, entries)
		}
	}
	if heavy < 60 || len(decided) < 3 {
		t.Errorf("%d vertices with many tenures, %v", heavy, decided)
	}
}
