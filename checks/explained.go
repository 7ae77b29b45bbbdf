package checks

import (
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
)

// widen makes each span begin and end by so much earlier and later.
func widen(spans []Span, before, after time.Duration) []Span {
	out := make([]Span, 0, len(spans))
	for _, s := range spans {
		s.From = s.From.Add(-before)
		if !s.To.IsZero() {
			s.To = s.To.Add(after)
		}
		out = append(out, s)
	}
	return out
}

// subtract returns what is left of a span without others, which clip made.
func subtract(from Span, others []Span) []Span {
	var out []Span
	at := from.From
	for _, o := range others {
		if at.Before(o.From) {
			out = append(out, Span{at, o.From})
		}
		at = later(at, o.To)
	}
	if at.Before(from.To) {
		out = append(out, Span{at, from.To})
	}
	return out
}

// outages are the times in which no API server answered because each of them was about to start: from its last renewal before a start to its first
// one after it, and a little longer for kubelets to come back. What lasts longer than a restart is none.
func outages(l *evidence.Ledger, w *window) []Span {
	var all []Span
	for i, name := range l.Servers(w.first-1, w.last) {
		renewals := slices.Collect(l.ServerRenewals(name, w.first-1, w.last))
		var own []Span
		for start := range l.ServerStarts(name, w.first-1, w.last) {
			at, _ := slices.BinarySearch(renewals, start)
			if at == 0 || at == len(renewals) {
				continue
			}
			from, to := evidence.SlotStart(renewals[at-1]), evidence.SlotStart(renewals[at]+1)
			if to.Sub(from) <= longestRestart {
				own = append(own, Span{from, to})
			}
		}
		own = clip(own, w.from.Add(-longestRestart), w.to)
		if i == 0 {
			all = own
		} else {
			all = common(all, own)
		}
	}
	return clip(widen(all, 0, evidence.SlotLength), w.from, w.to)
}

// playsNode reports whether a node has no kubelet with an identity of a node: by its labels, or because somebody else renews its Lease all the
// time. Any request of its own in the window shows the contrary: then there is a kubelet, whose log may be lost.
func playsNode(in *Input, w *window, n *Node) bool {
	for h := w.first; h <= w.last; h++ {
		if x := in.Ledger.Node(n.Name, h); x != nil && x.First != 0 {
			return false
		}
	}
	if n.Virtual {
		return true
	}
	seen := false
	for _, life := range clip(n.Lives, w.from, w.to) {
		for _, ready := range subtract(life, clip(widen(n.Silent, in.NodeGrace, in.NodeGrace), life.From, life.To)) {
			for at := ready.From.Truncate(evidence.PartLength).Add(evidence.PartLength); !at.Add(evidence.PartLength).After(ready.To); at = at.Add(evidence.PartLength) {
				if x := in.Ledger.Node(n.Name, evidence.HourOf(at)); x == nil || !x.Foreign.Has(at) {
					return false
				}
				seen = true
			}
		}
	}
	return seen
}
