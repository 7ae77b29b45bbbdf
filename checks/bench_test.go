package checks

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
)

// fleet is an input of so many nodes for a day, of which each hour is whole.
func fleet(nodes int) *Input {
	in := clean()
	in.MinWindow, in.Log.Until = 24*time.Hour, noon.Add(24*time.Hour)
	in.Nodes, in.Needs = nil, nil
	r := rand.New(rand.NewPCG(1, 1))
	in.Ledger = evidence.New()
	model := evidence.New()
	for t := noon; t.Before(noon.Add(time.Hour)); t = t.Add(10*time.Second + time.Duration(r.IntN(400))*time.Millisecond) {
		e := event("x", "update", "coordination.k8s.io", "leases", "kube-node-lease", "x", t)
		model.Observe(&e.ev, e.o)
	}
	for n := range nodes {
		name := fmt.Sprintf("worker-%d", n)
		in.Nodes = append(in.Nodes, Node{Name: name, Lives: []Span{{From: at(1, 0, 0)}}})
		for h := range 24 {
			if err := model.Records(func(k evidence.Key, v []byte) error {
				if k.Kind == evidence.KindNode {
					return in.Ledger.Put(evidence.Key{Kind: k.Kind, Hour: k.Hour + evidence.Hour(h), Name: name}, v)
				}
				return nil
			}); err != nil {
				panic(err)
			}
		}
	}
	return in
}

// A day of 5,000 nodes, the two checks that go through the ledger.
func BenchmarkCoverageOf5000Nodes(b *testing.B) {
	in := fleet(5000)
	in.Options = in.Options.orDefault()
	b.ReportAllocs()
	for b.Loop() {
		if r := windowCovered(in); r.Expected < 40_000_000 || r.State != Passed {
			b.Fatalf("%s, %d: %+v", r.State, r.Expected, r.Evidence[:min(3, len(r.Evidence))])
		}
		readsLogged(in)
	}
}
