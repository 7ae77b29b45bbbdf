package checks

import (
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
)

// leastUnbegun is how many watches that do not begin in the log are no single lost event. Such a beginning is lost for sure, so that it takes fewer than of what may
// not have been.
const leastUnbegun = 2

// starts counts the watches of nodes of which the log has the end, and those of them of which it does not have the beginning, by kind and hour.
type starts struct {
	w   window
	all [evidence.Longs][]loss
	// sums are those of all kinds.
	sums []loss
}

const partsPerHour = int(time.Hour / evidence.PartLength)

// startsOf counts in the parts of hours in which the node renewed its Lease, as in those before and after. Another watch may have begun before the log does, or in a
// break of it: then the beginning of the log or the break is what there is to say.
func startsOf(in *Input) starts {
	if in.Ledger == nil {
		return starts{w: window{first: 1}} // of no hour
	}
	s := starts{w: windowOf(in)}
	s.sums = make([]loss, s.w.last-s.w.first+1)
	for kind := range s.all {
		s.all[kind] = make([]loss, len(s.sums))
	}
	whole := make([]evidence.Parts, len(s.sums))
	for i := range whole {
		whole[i] = s.within(s.w.first + evidence.Hour(i))
	}
	for _, name := range in.Ledger.Nodes(s.w.first, s.w.last) {
		x := in.Ledger.Node(name, s.w.first)
		before, here := renewed(in.Ledger.Node(name, s.w.first-1)), renewed(x)
		for h := s.w.first; h <= s.w.last; h++ {
			next := in.Ledger.Node(name, h+1)
			after := renewed(next)
			if x != nil {
				within := whole[h-s.w.first] & here & (here<<1 | before>>(partsPerHour-1)) & (here>>1 | after<<(partsPerHour-1))
				for kind := range s.all {
					ended := x.Ended[kind].In(within)
					l := loss{expected: int64(ended.Count()), missing: int64((ended &^ x.Began[kind]).Count())}
					s.all[kind][h-s.w.first].add(l)
					s.sums[h-s.w.first].add(l)
				}
			}
			before, here, x = here, after, next
		}
	}
	return s
}

// within are the parts of the hour that the window has as a whole: a watch from before it may have begun before the log does.
func (s *starts) within(h evidence.Hour) (p evidence.Parts) {
	for i := range partsPerHour {
		if at := h.Start().Add(time.Duration(i) * evidence.PartLength); !at.Before(s.w.from) && at.Before(s.w.to) {
			p |= 1 << i
		}
	}
	return p
}

// renewed are the parts of the hour in which the node renewed its Lease.
func renewed(x *evidence.NodeHour) evidence.Parts {
	if x == nil {
		return 0
	}
	return x.Renewed.Parts()
}

// missing returns the hours, one behind the other, of which the log lacks the beginnings of watches of the kind, and all that is missing. A few are lost with
// what may be lost.
func (s *starts) missing(in *Input, kind evidence.Long) (all loss, hours []Span) {
	for _, l := range s.all[kind] {
		all.add(l)
	}
	if all.whole(1) || all.tooMany(in) {
		return all, []Span{{s.w.first.Start(), s.w.last.End()}}
	}
	s.w.runs(func(h evidence.Hour) bool { return s.all[kind][h-s.w.first].tooMany(in) }, func(first, last evidence.Hour) {
		hours = append(hours, Span{first.Start(), last.End()})
	})
	return all, hours
}

// tell says which watches have no beginning in the log: of those the log cannot show which ones are open. If no kind lacks more than may be lost, it says so of
// all kinds together: what a shipper drops under load is of any kind.
func (s *starts) tell(in *Input, p *proof) (some bool) {
	for kind := range evidence.Longs {
		all, hours := s.missing(in, kind)
		for _, h := range hours {
			some = true
			p.unproven(all.unbegun("watch "+kind.String(), h))
		}
	}
	if some {
		return some
	}
	s.w.runs(func(h evidence.Hour) bool { return s.sums[h-s.w.first].beyond(in, leastUnbegun) }, func(first, last evidence.Hour) {
		some = true
		all := loss{}
		for h := first; h <= last; h++ {
			all.add(s.sums[h-s.w.first])
		}
		p.unproven(all.unbegun("watch", Span{first.Start(), last.End()}))
	})
	return some
}

// unbegun says that watches do not begin in the log.
func (l *loss) unbegun(request string, s Span) Item {
	return Item{Code: CodeStartsMissing, Request: request, From: s.From, To: s.To, Expected: l.expected, Seen: l.expected - l.missing}
}

// shownUntil is until when the log shows what kubelets read: to its end, if it has the beginnings of their watches, and otherwise as long as all watches have
// ended by then.
func shownUntil(in *Input, w *window) time.Time {
	if slices.ContainsFunc(in.Policy.Hidden, func(h Hidden) bool { return h.Code == CodePolicyNoStart }) {
		return w.to.Add(-watchedAgain)
	}
	s := startsOf(in)
	for kind := range evidence.Longs {
		if _, hours := s.missing(in, kind); kind != evidence.LongOther && len(hours) > 0 {
			return w.to.Add(-watchedAgain)
		}
	}
	return w.to
}
