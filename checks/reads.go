package checks

import (
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
)

const (
	// watchFor is how much of an hour a node must be Ready for each of its watches to begin or end in it: they are made again after ten minutes at
	// the latest.
	watchFor = 15 * time.Minute
	// silentFor is how long a node that is Ready can be without a live watch of a kind at the most, wherever the hours end.
	silentFor = 30 * time.Minute
	// longestCycle is how long a watch lasts at the most before it is made again.
	longestCycle = 10 * time.Minute
	// leastMissing is how many watches, or acts for pods, have to be missing to tell of a loss. One pod may be an exception.
	leastMissing = 3
	// seenLate is how much later than a kubelet a recorder may see that a pod came, as the judging of requests has it.
	seenLate = 2 * time.Second
	// readFor is how long after a pod's binding its objects are read at the latest.
	readFor = 10 * time.Minute
	// watchedAgain is how long a watch of an object lasts at the most, with what it takes to make it again: since 1.31 an hour.
	watchedAgain = time.Hour + 10*time.Minute
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
	w.whole(in, &p, evidence.OverNodes)
	w.shown = shownUntil(in, &w)
	readers := map[string]*Node{} // those with a kubelet
	all := make([]loss, w.last-w.first+1)
	var gets gathered
	for i := range in.Nodes {
		if n := &in.Nodes[i]; !playsNode(in, &w, n) {
			readers[n.Name] = n
			watchesOf(in, &w, n, all, &gets, &p)
		}
	}
	gets.tell(in, &p)
	w.runs(func(h evidence.Hour) bool { return all[h-w.first].tooMany(in) }, func(first, last evidence.Hour) {
		sum := loss{}
		for h := first; h <= last; h++ {
			sum.add(all[h-w.first])
		}
		p.unproven(sum.item("", first.Start(), last.End()))
	})
	if !in.NeedsKnown {
		p.unproven(Item{Code: CodeNeedsUnknown})
	}
	for i := range in.Needs {
		if n := readers[in.Needs[i].Node]; n != nil {
			need(in, &w, n, &in.Needs[i], &p)
		}
	}
	acts := newPodActs(&w)
	for i := range in.Pods {
		if n := readers[in.Pods[i].Node]; n != nil {
			acts.started(in, &w, n, &in.Pods[i])
			acts.ended(in, &w, n, &in.Pods[i])
		}
	}
	acts.tell(in, &w, &p)
	steady(in, &w, readers, &p)
	return p.done(NextLogReads)
}

// loss counts what kubelets did, and what of it is not in the log.
type loss struct{ expected, missing int64 }

func (l *loss) add(o loss) {
	l.expected, l.missing = l.expected+o.expected, l.missing+o.missing
}

// whole reports whether all is missing, and that is so much at least.
func (l *loss) whole(least int64) bool { return l.missing == l.expected && l.expected >= least }

// tooMany reports whether more is missing than may be lost of the renewals of Leases. Of few things one or two say little.
func (l *loss) tooMany(in *Input) bool { return l.beyond(in, leastMissing) }

// beyond reports whether more is missing than may be lost of the renewals of Leases, and that is so much at least where anything may be lost.
func (l *loss) beyond(in *Input, least int64) bool {
	return float64(l.missing) > in.MaxLoss*float64(l.expected) && (l.missing >= least || in.MaxLoss == 0)
}

func (l *loss) item(node string, from, to time.Time) Item {
	return Item{Code: CodeWatchesLost, Node: node, From: from, To: to, Expected: l.expected, Seen: l.expected - l.missing}
}

// watchesOf looks for each kind of watch in each hour in which the node was Ready for long enough; of a node that never was, in all hours together. What it
// counts of each hour it adds to all.
func watchesOf(in *Input, w *window, n *Node, all []loss, gets *gathered, p *proof) {
	var ready []Span
	for _, life := range clip(n.Lives, w.from, w.to) {
		ready = append(ready, subtract(life, clip(n.Silent, life.From, life.To))...)
	}
	if total(ready) < leastReady {
		return
	}
	hours := make([]time.Duration, w.last-w.first+1)
	for h := w.first; h <= w.last; h++ {
		hours[h-w.first] = total(clip(ready, h.Start(), h.End()))
	}
	if !slices.Contains(in.Policy.Omits, evidence.ActReportNode) {
		report := Item{Code: CodeRequestMissing, Node: n.Name, Request: evidence.ActReportNode.String()}
		hourly(in, w, hours, reportFor, report, p, func(x *evidence.NodeHour) evidence.Parts { return x.Acted[evidence.ActReportNode] })
	}
	looks(in, w, n, gets)
	own := loss{}
	for kind := range evidence.Watches {
		item := Item{Code: CodeWatchMissing, Node: n.Name, Request: "watch " + kind.String()}
		if !hourly(in, w, hours, watchFor, item, p, func(x *evidence.NodeHour) evidence.Parts { return x.Watched[kind] }) {
			continue
		}
		for h := w.first; h <= w.last; h++ {
			one := loss{expected: int64(hours[h-w.first] / longestCycle)}
			all[h-w.first].add(one)
			own.add(one)
		}
		for _, s := range ready {
			silences(in, n.Name, kind, s, func(silence Span, ends bool) {
				if silence.To.Sub(silence.From) >= silentFor {
					i := item
					i.From, i.To = silence.From, silence.To
					p.unproven(i)
				}
				if ends { // the last one may still have been open
					lost := loss{missing: int64((silence.To.Sub(silence.From) + longestCycle - 1) / longestCycle)}
					all[evidence.HourOf(silence.From)-w.first].add(lost)
					own.add(lost)
				}
			})
		}
	}
	if own.tooMany(in) {
		p.unproven(own.item(n.Name, w.first.Start(), w.last.End()))
	}
}

// gathered is what is missing of all nodes together. One lost event is no reason to doubt a log.
type gathered struct {
	loss
	items []Item
}

func (g *gathered) tell(in *Input, p *proof) {
	p.count(g.expected, g.expected-g.missing)
	if g.whole(1) || g.tooMany(in) {
		for _, item := range g.items {
			p.unproven(item)
		}
	}
}

// looks asks for a get of the Node around each part of an hour in which the kubelet did what it does not do without one.
func looks(in *Input, w *window, n *Node, g *gathered) {
	if slices.Contains(in.Policy.Omits, evidence.ActGetNode) {
		return
	}
	hours := make([]loss, w.last-w.first+1)
	for at := w.from.Truncate(evidence.PartLength).Add(evidence.PartLength); !at.Add(2 * evidence.PartLength).After(w.to); at = at.Add(evidence.PartLength) {
		if x := in.Ledger.Node(n.Name, evidence.HourOf(at)); x != nil && x.Owes.Has(at) {
			seen := acted(in, n.Name, evidence.ActGetNode, at.Add(-evidence.PartLength), at.Add(evidence.PartLength))
			l := loss{expected: 1, missing: 1 - one(seen)}
			hours[evidence.HourOf(at)-w.first].add(l)
			g.add(l)
		}
	}
	w.runs(func(h evidence.Hour) bool { return hours[h-w.first].missing > 0 }, func(first, last evidence.Hour) {
		item := Item{Code: CodeRequestMissing, Node: n.Name, Request: evidence.ActGetNode.String(), From: first.Start(), To: last.End()}
		for h := first; h <= last; h++ {
			item.Count += hours[h-w.first].missing
		}
		g.items = append(g.items, item)
	})
}

// hourly looks for what a kubelet does in each hour in which its node was Ready for at least that long; if it never was, in all hours together. The item is what
// is missing otherwise. It returns whether there was such an hour.
func hourly(in *Input, w *window, ready []time.Duration, least time.Duration, item Item, p *proof, of func(*evidence.NodeHour) evidence.Parts) (some bool) {
	expects := func(h evidence.Hour) bool { return ready[h-w.first] >= least }
	done := func(h evidence.Hour) bool {
		x := in.Ledger.Node(item.Node, h)
		return x != nil && of(x) != 0
	}
	ever := false
	for h := w.first; h <= w.last; h++ {
		some, ever = some || expects(h), ever || done(h)
		if expects(h) {
			p.count(1, one(done(h)))
		}
	}
	if !some {
		p.count(1, one(ever))
		if !ever {
			item.From, item.To = w.first.Start(), w.last.End()
			p.unproven(item)
		}
		return false
	}
	w.runs(func(h evidence.Hour) bool { return expects(h) && !done(h) }, func(first, last evidence.Hour) {
		item.From, item.To = first.Start(), last.End()
		p.unproven(item)
	})
	return true
}

// silences calls f with the stretches, in whole parts of hours, of a time in which the node was Ready, without a live watch, and with whether a watch ends them. They
// may be empty.
func silences(in *Input, node string, kind evidence.Watch, ready Span, f func(silence Span, ends bool)) {
	since := ready.From.Truncate(evidence.PartLength).Add(evidence.PartLength)
	end := ready.To.Truncate(evidence.PartLength)
	for at := since; !at.After(end); at = at.Add(evidence.PartLength) {
		x := in.Ledger.Node(node, evidence.HourOf(at))
		if at.Before(end) && (x == nil || !x.Watched[kind].Has(at)) {
			continue
		}
		f(Span{since, at}, at.Before(end))
		since = at.Add(evidence.PartLength)
	}
}

// need looks for a read of the kind after a pod came that uses such an object. A kubelet can read it from when the node is Ready on, and a pod that goes sooner
// than that may never have been looked at.
func need(in *Input, w *window, node *Node, n *Need, p *proof) {
	if n.At.Before(w.from) {
		return
	}
	from, able := readySince(in, w, node, Span{n.At, n.Until})
	if !able || from.Add(readFor).After(w.shown) {
		return
	}
	seen := readWithin(in, n.Node, n.Kind, n.At.Add(-seenLate), from.Add(readFor))
	p.count(1, one(seen))
	if !seen {
		h := evidence.HourOf(from)
		p.unproven(Item{
			Code: CodeReadMissing, Node: n.Node, Request: "get " + n.Kind.String(), Object: n.Object, From: h.Start(), To: h.End(),
		})
	}
}

// readySince returns since when the node was there and Ready for at least leastReady in the span. That it is not Ready is noticed late.
func readySince(in *Input, w *window, node *Node, s Span) (from time.Time, able bool) {
	need, _ := s.within(s.From, w.to)
	notReady := clip(widen(node.NotReady, in.NodeGrace, 0), need.From, need.To)
	for _, life := range clip(node.Lives, need.From, need.To) {
		if lifeEnds(node, life.To) {
			life.To = life.To.Add(-in.NodeGrace)
		}
		for _, ready := range subtract(life, notReady) {
			if ready.To.Sub(ready.From) >= leastReady {
				return ready.From, true
			}
		}
	}
	return time.Time{}, false
}

// lifeEnds reports whether a Node object went at that time.
func lifeEnds(n *Node, t time.Time) bool {
	return slices.ContainsFunc(n.Lives, func(l Span) bool { return l.To.Equal(t) })
}

// steady looks for the watches of objects that nodes need all the time. It is enough if one object of the kind is read: what hides reads of a kind
// hides all of them.
func steady(in *Input, w *window, readers map[string]*Node, p *proof) {
	notReady := map[string][]Span{}
	for i := range in.Nodes {
		notReady[in.Nodes[i].Name] = widen(in.Nodes[i].NotReady, in.NodeGrace, in.NodeGrace)
	}
	for i := range in.Steady {
		s := &in.Steady[i]
		if readers[s.Node] == nil {
			continue
		}
		for _, need := range clip(s.Spans, w.first.Start(), w.shown) { // in which rare-paths-seen looks for a start
			atStarts(in, s, need, clip(notReady[s.Node], need.From, need.To), p)
		}
		if s.Once {
			continue
		}
		for _, need := range clip(s.Spans, w.from, w.shown) {
			for _, ready := range subtract(need, clip(notReady[s.Node], need.From, need.To)) {
				steadyIn(in, s, ready, p)
			}
		}
	}
}

// atStarts asks for a read after each start of the kubelet that needs the object then and is Ready soon.
func atStarts(in *Input, s *Steady, need Span, notReady []Span, p *proof) {
	for at := need.From.Truncate(evidence.PartLength).Add(evidence.PartLength); !at.Add(2 * readFor).After(need.To); at = at.Add(evidence.PartLength) {
		x := in.Ledger.Node(s.Node, evidence.HourOf(at))
		if x == nil || !x.Started.Has(at) || len(clip(notReady, at.Add(readFor), at.Add(2*readFor))) > 0 {
			continue
		}
		seen := readWithin(in, s.Node, s.Kind, at, at.Add(readFor))
		p.count(1, one(seen))
		if !seen {
			h := evidence.HourOf(at)
			p.unproven(Item{Code: CodeReadMissing, Node: s.Node, Request: "get " + s.Kind.String(), Object: s.Object, From: h.Start(), To: h.End()})
		}
	}
}

// readWithin reports whether a kubelet read an object of the kind in one of the parts of hours from one time to another.
func readWithin(in *Input, node string, kind evidence.Read, from, to time.Time) bool {
	return within(in, node, from, to, func(x *evidence.NodeHour) evidence.Parts { return x.Read[kind] })
}

// steadyIn asks for a read in each stretch of watchedAgain within the span.
func steadyIn(in *Input, s *Steady, span Span, p *proof) {
	since := span.From
	quiet := func(to time.Time) {
		if to.Sub(since) < watchedAgain {
			return
		}
		p.count(1, 0)
		p.unproven(Item{
			Code: CodeReadMissing, Node: s.Node, Request: "get " + s.Kind.String(), Object: s.Object,
			From: evidence.HourOf(since).Start(), To: evidence.HourOf(to.Add(-1)).End(),
		})
	}
	for at := span.From.Truncate(evidence.PartLength); at.Before(span.To); at = at.Add(evidence.PartLength) {
		if x := in.Ledger.Node(s.Node, evidence.HourOf(at)); x != nil && x.Read[s.Kind].Has(at) {
			quiet(at)
			p.count(1, 1)
			since = at.Add(evidence.PartLength)
		}
	}
	quiet(span.To)
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
