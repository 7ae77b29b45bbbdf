package app

import (
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// restrictionBook has when NodeRestriction refused requests in its own words, by hour. The zero value is not useful.
type restrictionBook struct {
	refused map[evidence.Hour]*restrictionHour
	// fresh are the hours that changed since changes handed them out.
	fresh map[evidence.Hour]bool
}

// restrictionHour is an hour of a restrictionBook. Earlier versions of nodetrail stored no slots: then it says whether, not when.
type restrictionHour struct {
	// Slots are those of evidence.SlotOf with a refusal, in order: as fine as the ledger has the starts of API servers.
	Slots []int64 `json:"slots,omitempty"`
}

func newRestrictionBook() *restrictionBook {
	return &restrictionBook{refused: map[evidence.Hour]*restrictionHour{}, fresh: map[evidence.Hour]bool{}}
}

// rememberedRestriction is the kind of memory that has the hours of a restrictionBook, each with the book's name: several analyzers share a store.
const rememberedRestriction = "node-restriction"

// changes are the hours that changed since the last call, to be stored with the requests that were judged meanwhile, under the name of the book.
func (b *restrictionBook) changes(name string) []tally.Remembered {
	return freshHours(b.fresh, b.refused, rememberedRestriction, name)
}

// restrictionOf are the books that were stored, as one.
func restrictionOf(stored []tally.Remembered) *restrictionBook {
	b := newRestrictionBook()
	for i := range stored {
		h, one, is := storedHour[restrictionHour](&stored[i])
		if !is {
			continue
		}
		x := b.hour(h)
		for _, slot := range one.Slots {
			x.add(slot)
		}
	}
	return b
}

// hour returns what is known of the hour, which it adds.
func (b *restrictionBook) hour(h evidence.Hour) *restrictionHour {
	x := b.refused[h]
	if x == nil {
		x = &restrictionHour{}
		b.refused[h] = x
	}
	return x
}

// add reports whether the slot is new.
func (x *restrictionHour) add(slot int64) bool {
	i, there := slices.BinarySearch(x.Slots, slot)
	if !there {
		x.Slots = slices.Insert(x.Slots, i, slot)
	}
	return !there
}

// add takes in a judgement.
func (b *restrictionBook) add(j *pipeline.Judgement) {
	h := evidence.HourOf(j.Time)
	if j.Admission.Observed != nodeadmission.ObservedDeny || b.refused[h] == nil && len(b.refused) >= evidence.MaxHours {
		return
	}
	if b.hour(h).add(evidence.SlotOf(j.Time)) {
		b.fresh[h] = true
	}
}

// servesFirst is for how long an API server may answer requests before it looks for its own Lease.
const servesFirst = time.Minute

// serverLife is a life of the API server, from one start to the next: what a flag says does not change in it. A refusal shortly before next, the start that ended it,
// may be of the next life.
type serverLife struct {
	from, to time.Time
	next     time.Time // zero if no start is known after it; otherwise the same as to
}

// shownBy is the end of the time in which a request is of this life for sure.
func (l *serverLife) shownBy() time.Time {
	if l.next.IsZero() {
		return l.to
	}
	return l.next.Add(-servesFirst)
}

func (l *serverLife) holds(t time.Time) bool { return !t.Before(l.from) && t.Before(l.shownBy()) }

// serverLives are the lives of the one API server of the hours, in order. A start after which the server did not renew its Lease for ten seconds, until the next
// start, is of the same life as that: a server that does not get its Lease asks for it again.
func serverLives(l *evidence.Ledger, first, last evidence.Hour) []serverLife {
	out := []serverLife{{from: first.Start(), to: last.End()}}
	var starts, renewals []int64
	for _, name := range l.Servers(first, last) {
		starts = slices.AppendSeq(starts, l.ServerStarts(name, first, last))
		renewals = slices.AppendSeq(renewals, l.ServerRenewals(name, first, last))
	}
	slices.Sort(starts)
	slices.Sort(renewals)
	again := false
	for i, slot := range starts {
		life := &out[len(out)-1]
		if at := evidence.SlotStart(slot + 1); again {
			life.from = at
		} else {
			life.to, life.next = evidence.SlotStart(slot), evidence.SlotStart(slot)
			out = append(out, serverLife{from: at, to: last.End()})
		}
		next, _ := slices.BinarySearch(renewals, slot+1)
		again = i+1 < len(starts) && (next == len(renewals) || renewals[next] >= starts[i+1])
	}
	return out
}

// shows reports whether the plugin refused something in the life of an API server. What an earlier version of nodetrail stored counts if the life has the whole hour.
func (b *restrictionBook) shows(l *serverLife) bool {
	for h, x := range b.refused {
		if len(x.Slots) == 0 && l.holds(h.Start()) && l.holds(h.End().Add(-time.Nanosecond)) ||
			slices.ContainsFunc(x.Slots, func(slot int64) bool { return l.holds(evidence.SlotStart(slot)) }) {
			return true
		}
	}
	return false
}

// restriction is what the log shows of NodeRestriction in the window. A write that it refuses and that passed shows that it is not in force; only its own
// refusal shows that it is, on the one API server that there is. What several API servers do cannot be distinguished, and one that says nothing may have
// it or not.
func (p *proof) restriction(in *checks.Input) {
	out := checks.Findings{}
	for k, g := range p.groups() {
		if code := restrictionDoubt(&k, g); code != "" {
			out.Looked++
			out.NotKnown = append(out.NotKnown, writeItem(code, &k, g))
			continue
		}
		if k.Rule != rules.RestrictionBypass && (k.Rule != rules.ForeignWrite || g.Severity != rules.Critical) {
			continue
		}
		out.Looked += g.Count
		out.Wrong = append(out.Wrong, writeItem(checks.CodeRestrictionBypassed, &k, g))
	}
	if p.restricted == nil && len(out.Wrong) == 0 && len(out.NotKnown) == 0 {
		return
	}
	if p.restricted != nil && !p.to.IsZero() {
		p.restrictionByHour(in, &out)
	}
	in.Restriction = &out
}

// restrictionDoubt is why a write does not tell whether NodeRestriction is in force, empty if it is no such write.
func restrictionDoubt(k *tally.Key, g *tally.Group) checks.Code {
	reason := tally.ReasonOf(g.Reason, k.Apart)
	switch {
	case k.Rule == rules.ForeignWrite && reason == rules.WriteUnanswered, k.Rule == rules.RestrictionBypass && reason == rules.BypassUnanswered:
		return checks.CodeRestrictionUnanswered
	case k.Rule == rules.ForeignWrite && reason == rules.WriteUnclear:
		return checks.CodeRestrictionUnclear
	case k.Rule == rules.OversizedRequest && (reason == rules.BodyCut || (reason == rules.EventTooLong || reason == rules.RequestCut) && (k.Apart == rules.WriteTooLong || g.Wide)):
		return checks.CodeRestrictionCut
	}
	return ""
}

// writeItem is a write of a node, as a check lists it.
func writeItem(code checks.Code, k *tally.Key, g *tally.Group) checks.Item {
	return checks.Item{
		Code: code, Node: k.Node, Client: k.Product, Request: requestKind(k.Verb, k.APIGroup, k.Resource, k.Subresource, k.Name),
		Object: objectOf(k.Namespace, k.Name), From: g.First, To: g.Last, AuditIDs: g.AuditIDs, Count: g.Count,
	}
}

// restrictionByHour adds the times of which nothing shows that the plugin is in force, those in a row as one: hours without a refusal, and of the other hours those
// parts that are of a life of the API server without one.
func (p *proof) restrictionByHour(in *checks.Input, out *checks.Findings) {
	begin := p.to.Add(-in.MinWindow)
	first, last := evidence.HourOf(begin), evidence.HourOf(p.to.Add(-time.Nanosecond))
	lives := serverLives(p.ledger, first, last)
	var run *checks.Item
	tell := func(code checks.Code, from, to time.Time) {
		if run != nil && run.Code == code {
			run.To = to
			return
		}
		out.Looked, run = out.Looked+1, nil
		if code != "" {
			out.NotKnown = append(out.NotKnown, checks.Item{Code: code, From: from, To: to})
			run = &out.NotKnown[len(out.NotKnown)-1]
		}
	}
	for h := first; h <= last; h++ {
		servers := len(p.ledger.Servers(h, h))
		switch {
		case p.restricted.refused[h] == nil:
			tell(checks.CodeRestrictionNotSeen, h.Start(), h.End())
			continue
		case max(servers, in.Servers.Configured) != 1:
			tell(checks.CodeRestrictionOfOne, h.Start(), h.End())
			continue
		case servers == 0:
			tell(checks.CodeRestrictionNoStarts, h.Start(), h.End())
			continue
		}
		for i := range lives {
			l := &lives[i]
			from, to := later(l.from, h.Start()), h.End()
			if l.to.Before(to) {
				to = l.to
			}
			switch {
			case !from.Before(to), !l.shownBy().After(begin):
			case p.restricted.shows(l):
				tell("", from, to)
			default:
				tell(checks.CodeRestrictionNotInLife, from, to)
			}
		}
	}
}
