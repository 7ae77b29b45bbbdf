package checks

import (
	"time"

	"github.com/nodetrail/nodetrail/evidence"
)

const (
	// watchFor is how much of an hour a node must be Ready for each of its watches to begin or end in it: they are made again after ten minutes at
	// the latest.
	watchFor = 15 * time.Minute
	// readFor is how long after a pod's binding its objects are read at the latest.
	readFor = 10 * time.Minute
)

func readsLogged(in *Input) Result {
	p := proof{}
	w := windowOf(in)
	if !w.known(in, &p) {
		return p.done(NextGetLog)
	}
	if !in.NodesKnown {
		p.unproven(Item{Code: CodeNodesUnknown})
		return p.done(NextRecordState)
	}
	w.whole(in, &p, evidence.OverNodes|evidence.OverNames)
	for i := range in.Nodes {
		if n := &in.Nodes[i]; !playsNode(in, &w, n) {
			watchesOf(in, &w, n, &p)
		}
	}
	if !in.NeedsKnown {
		p.unproven(Item{Code: CodeNeedsUnknown})
	}
	for i := range in.Needs {
		need(in, &w, &in.Needs[i], &p)
	}
	return p.done(NextLogReads)
}

// watchesOf looks for each kind of watch in each hour in which the node was Ready for long enough; of a node that never was, in all hours together.
func watchesOf(in *Input, w *window, n *Node, p *proof) {
	var ready []Span
	for _, life := range clip(n.Lives, w.from, w.to) {
		ready = append(ready, subtract(life, clip(n.NotReady, life.From, life.To))...)
	}
	if total(ready) < leastReady {
		return
	}
	expects := make([]bool, w.last-w.first+1)
	some := false
	for h := w.first; h <= w.last; h++ {
		expects[h-w.first] = total(clip(ready, h.Start(), h.End())) >= watchFor
		some = some || expects[h-w.first]
	}
	for kind := range evidence.Watches {
		live := func(h evidence.Hour) bool {
			x := in.Ledger.Node(n.Name, h)
			return x != nil && x.Watched[kind] != 0
		}
		item := Item{Code: CodeWatchMissing, Node: n.Name, Request: "watch " + kind.String()}
		if !some {
			seen := false
			for h := w.first; h <= w.last; h++ {
				seen = seen || live(h)
			}
			p.count(1, one(seen))
			if !seen {
				item.From, item.To = w.first.Start(), w.last.End()
				p.unproven(item)
			}
			continue
		}
		for h := w.first; h <= w.last; h++ {
			if expects[h-w.first] {
				p.count(1, one(live(h)))
			}
		}
		w.runs(func(h evidence.Hour) bool { return expects[h-w.first] && !live(h) }, func(first, last evidence.Hour) {
			i := item
			i.From, i.To = first.Start(), last.End()
			p.unproven(i)
		})
	}
}

// need looks for a read of the kind after a pod came that uses such an object.
func need(in *Input, w *window, n *Need, p *proof) {
	if n.At.Before(w.from) || n.At.Add(readFor).After(w.to) {
		return
	}
	seen := false
	for at := n.At; !at.After(n.At.Add(readFor)); at = at.Add(evidence.PartLength) {
		if x := in.Ledger.Node(n.Node, evidence.HourOf(at)); x != nil && n.Kind < evidence.Reads && x.Read[n.Kind].Has(at) {
			seen = true
		}
	}
	p.count(1, one(seen))
	if !seen {
		h := evidence.HourOf(n.At)
		p.unproven(Item{
			Code: CodeReadMissing, Node: n.Node, Request: "get " + n.Kind.String(), Object: n.Object, From: h.Start(), To: h.End(),
		})
	}
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
