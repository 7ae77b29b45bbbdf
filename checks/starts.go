package checks

import (
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
)

// leastUnbegun is how many watches that do not begin in the log are no single lost event.
const leastUnbegun = 2

// starts counts the watches of nodes of which the log has the end, and those of them of which it does not have the beginning, by kind and hour.
type starts struct {
	w   window
	all [evidence.Longs][]loss
}

func startsOf(in *Input) starts {
	s := starts{w: windowOf(in)}
	if in.Ledger == nil || s.w.to.IsZero() {
		return s
	}
	for kind := range s.all {
		s.all[kind] = make([]loss, s.w.last-s.w.first+1)
	}
	for _, name := range in.Ledger.Nodes(s.w.first, s.w.last) {
		for h := s.w.first; h <= s.w.last; h++ {
			x := in.Ledger.Node(name, h)
			if x == nil {
				continue
			}
			within := s.within(h) & logged(in.Ledger, name, h)
			for kind := range s.all {
				ended := x.Ended[kind].In(within)
				s.all[kind][h-s.w.first].add(loss{expected: int64(ended.Count()), missing: int64((ended &^ x.Began[kind]).Count())})
			}
		}
	}
	return s
}

// within are the parts of the hour that the window has as a whole: a watch from before it may have begun before the log does.
func (s *starts) within(h evidence.Hour) (p evidence.Parts) {
	for i := range int(time.Hour / evidence.PartLength) {
		if at := h.Start().Add(time.Duration(i) * evidence.PartLength); !at.Before(s.w.from) && at.Before(s.w.to) {
			p |= 1 << i
		}
	}
	return p
}

// logged are the parts of the hour in which the node renewed its Lease, as in those before and after. A watch may have begun before the log does, or in a break of
// it: then the beginning of the log or the break is what there is to say.
func logged(l *evidence.Ledger, node string, h evidence.Hour) evidence.Parts {
	const last = evidence.Parts(1) << (int(time.Hour/evidence.PartLength) - 1)
	of := func(h evidence.Hour) (p evidence.Parts) {
		if x := l.Node(node, h); x != nil {
			p = x.Renewed.Parts()
		}
		return p
	}
	here, before, after := of(h), of(h-1), of(h+1)
	return here & (here<<1 | before/last&1) & (here>>1 | after&1*last)
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
	s.w.runs(func(h evidence.Hour) bool {
		l := loss{}
		if len(s.all[kind]) > 0 {
			l = s.all[kind][h-s.w.first]
		}
		return l.tooMany(in)
	}, func(first, last evidence.Hour) { hours = append(hours, Span{first.Start(), last.End()}) })
	return all, hours
}

// tell says which watches have no beginning in the log: of those the log cannot show which ones are open. If no kind lacks more than may be lost, it says so of
// all kinds together: what a shipper drops under load is of any kind.
func (s *starts) tell(in *Input, p *proof) (some bool) {
	for kind := range evidence.Longs {
		all, hours := s.missing(in, kind)
		for _, h := range hours {
			some = true
			p.unproven(Item{Code: CodeStartsMissing, Request: "watch " + kind.String(), From: h.From, To: h.To, Expected: all.expected, Seen: all.expected - all.missing})
		}
	}
	if some || len(s.all[0]) == 0 {
		return some
	}
	s.w.runs(func(h evidence.Hour) bool { return s.lost(in, h, h) != loss{} }, func(first, last evidence.Hour) {
		some = true
		all := s.lost(in, first, last)
		p.unproven(Item{Code: CodeStartsMissing, Request: "watch", From: first.Start(), To: last.End(), Expected: all.expected, Seen: all.expected - all.missing})
	})
	return some
}

// lost counts the watches of all kinds in some hours, nothing if no more than may be lost lack their beginning. A beginning that is not there is lost for sure,
// so that it takes fewer than of what may not have been.
func (s *starts) lost(in *Input, first, last evidence.Hour) (all loss) {
	for kind := range s.all {
		for h := first; h <= last; h++ {
			all.add(s.all[kind][h-s.w.first])
		}
	}
	if float64(all.missing) <= in.MaxLoss*float64(all.expected) || all.missing < leastUnbegun && in.MaxLoss > 0 {
		return loss{}
	}
	return all
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
