package app

import (
	"strconv"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// restrictionBook counts, by hour, the requests that NodeRestriction refused in its own words. The zero value is not useful.
type restrictionBook struct {
	refused map[evidence.Hour]int64
	// fresh are the hours that changes has not handed out.
	fresh map[evidence.Hour]bool
}

func newRestrictionBook() *restrictionBook {
	return &restrictionBook{refused: map[evidence.Hour]int64{}, fresh: map[evidence.Hour]bool{}}
}

// rememberedRestriction is the kind of memory that has the hours in which NodeRestriction refused something, by the hour.
const rememberedRestriction = "node-restriction"

// changes are the hours in which it refused something for the first time since the process began, to be stored with the requests that were judged meanwhile.
func (b *restrictionBook) changes() (out []tally.Remembered) {
	for h := range b.fresh {
		out = append(out, tally.Remembered{Kind: rememberedRestriction, Key: strconv.Itoa(int(h)), Value: []byte("{}")})
	}
	clear(b.fresh)
	return out
}

// restrictionOf is the book that was stored. It says whether, not how often.
func restrictionOf(stored []tally.Remembered) *restrictionBook {
	b := newRestrictionBook()
	for i := range stored {
		if h, err := strconv.Atoi(stored[i].Key); err == nil {
			b.refused[evidence.Hour(h)] = 1
		}
	}
	return b
}

// add takes in a judgement.
func (b *restrictionBook) add(j *pipeline.Judgement) {
	if j.Admission.Observed == nodeadmission.ObservedDeny && (len(b.refused) < evidence.MaxHours || b.refused[evidence.HourOf(j.Time)] > 0) {
		h := evidence.HourOf(j.Time)
		if b.refused[h]++; b.refused[h] == 1 {
			b.fresh[h] = true
		}
	}
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
	case k.Rule == rules.OversizedRequest && (reason == rules.BodyCut || reason == rules.EventTooLong && (k.Apart == rules.WriteTooLong || g.Wide)):
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

// restrictionByHour adds the hours in which nothing shows that the plugin is in force, those in a row as one.
func (p *proof) restrictionByHour(in *checks.Input, out *checks.Findings) {
	first, last := evidence.HourOf(p.to.Add(-in.MinWindow)), evidence.HourOf(p.to.Add(-time.Nanosecond))
	var run *checks.Item
	for h := first; h <= last; h++ {
		code := checks.CodeRestrictionNotSeen
		if p.restricted.refused[h] > 0 {
			code = checks.CodeRestrictionOfOne
			if max(len(p.ledger.Servers(h, h)), in.Servers.Configured) == 1 {
				out.Looked, run = out.Looked+1, nil
				continue
			}
		}
		if run != nil && run.Code == code {
			run.To = h.End()
			continue
		}
		out.Looked++
		out.NotKnown = append(out.NotKnown, checks.Item{Code: code, From: h.Start(), To: h.End()})
		run = &out.NotKnown[len(out.NotKnown)-1]
	}
}
