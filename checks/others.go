package checks

import (
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
)

const (
	// broughtWithin is how far from each other the log and the state may have that a pod came: the state may learn of it late.
	broughtWithin = 10 * time.Minute
	// madeWithin is how long before it comes to a node a pod is made at the most, unless no node can take it for longer.
	madeWithin = time.Hour
)

// comings counts pods that came to nodes, and those of which the log lacks who brought them.
type comings struct {
	all   loss
	hours []loss
}

func (c *comings) ask(w *window, at time.Time, seen bool) {
	l := loss{expected: 1, missing: 1 - one(seen)}
	c.all.add(l)
	c.hours[evidence.HourOf(at)-w.first].add(l)
}

// othersMissing looks for requests of others than nodes. Nodes make nearly all that other checks expect in a log: of a log without anybody else they are all
// there. Whatever the cluster is for, each pod that comes to a node, but for the mirror of a static one, was made by somebody who is no node. It was made for the
// node, or the scheduler bound it: the log has one of both at that time. It also has who made it, unless that was long before. A log with none of both is
// one of nodes alone, which somebody may have chosen: that is listed.
func othersMissing(in *Input, p *proof) (some bool) {
	w := windowOf(in)
	omits := func(c evidence.Coming) bool { return slices.Contains(in.Policy.OmitsOfOthers, c) }
	if in.Ledger == nil || w.to.IsZero() || omits(evidence.ComingMade) {
		return false
	}
	hours := w.last - w.first + 1
	alive := renewedParts(in, &w)
	brought, made := comings{hours: make([]loss, hours)}, comings{hours: make([]loss, hours)}
	for i := range in.Pods {
		at := in.Pods[i].At
		since, until := at.Add(-broughtWithin), at.Add(broughtWithin)
		if since.Before(w.from) || until.After(w.to) || !alive.all(since, until) {
			continue
		}
		is := in.Ledger.Came(evidence.ComingMade, since, until)
		brought.ask(&w, at, is || in.Ledger.Came(evidence.ComingBound, since, until))
		made.ask(&w, at, is || in.Ledger.Came(evidence.ComingMade, at.Add(-madeWithin), at))
	}
	least := int64(leastMissing) // of a few all may have waited for a node
	if !in.Ledger.Came(evidence.ComingMade, w.from, w.to) {
		if least = 1; made.all.missing > 0 && !in.Ledger.Came(evidence.ComingBound, w.from, w.to) {
			p.list(Item{Code: CodeOthersUnheard, Request: evidence.ComingMade.String(), From: w.from, To: w.to, Expected: made.all.expected})
			return false
		}
	}
	some = made.tell(&w, p, evidence.ComingMade, made.all.whole(least))
	if !omits(evidence.ComingBound) {
		some = brought.tell(&w, p, evidence.ComingBound, brought.all.whole(1) || brought.all.tooMany(in)) || some
	}
	return some
}

// partSets are sets of the parts of hours that follow each other.
type partSets struct {
	first evidence.Hour
	hours []evidence.Parts
}

// renewedParts are those in which any node renewed its Lease: where the log has nothing at all, window-covered says so.
func renewedParts(in *Input, w *window) partSets {
	out := partSets{w.first, make([]evidence.Parts, w.last-w.first+1)}
	for _, name := range in.Ledger.Nodes(w.first, w.last) {
		for i := range out.hours {
			out.hours[i] |= renewed(in.Ledger.Node(name, w.first+evidence.Hour(i)))
		}
	}
	return out
}

// all reports whether all parts from one time to another are in the sets.
func (s *partSets) all(from, to time.Time) bool {
	for at := from.Truncate(evidence.PartLength); !at.After(to); at = at.Add(evidence.PartLength) {
		if i := int(evidence.HourOf(at) - s.first); i < 0 || i >= len(s.hours) || !s.hours[i].Has(at) {
			return false
		}
	}
	return true
}

// tell says what is missing: all, or what is missing of an hour.
func (c *comings) tell(w *window, p *proof, of evidence.Coming, all bool) (some bool) {
	say := func(l loss, first, last evidence.Hour) {
		some = true
		p.unproven(Item{
			Code: CodeOthersMissing, Request: of.String(), From: first.Start(), To: last.End(), Expected: l.expected, Seen: l.expected - l.missing, Count: l.missing,
		})
	}
	if all {
		say(c.all, w.first, w.last)
		return some
	}
	w.runs(func(h evidence.Hour) bool { return c.hours[h-w.first].whole(leastMissing) }, func(first, last evidence.Hour) {
		sum := loss{}
		for h := first; h <= last; h++ {
			sum.add(c.hours[h-w.first])
		}
		say(sum, first, last)
	})
	return some
}
