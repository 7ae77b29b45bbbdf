package app

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// birthBook counts, by hour, the events of certificate requests that could be read, and those whose body the log does not hold. The zero value is not
// useful.
type birthBook struct {
	hours map[evidence.Hour]*birthHour
	// fresh are the hours that changes has not handed out.
	fresh map[evidence.Hour]bool
	// serving are the certificates by which nodes read or wrote their Nodes, the latest of each last.
	serving map[string][]string
}

// birthHour is an hour of a birthBook.
type birthHour struct {
	Read   int64 `json:"read"`
	Unread int64 `json:"unread"`
	// Nodes are those for which a client certificate was requested.
	Nodes []string `json:"nodes,omitempty"`
	// Approved and Signed are the requests for one that were.
	Approved []string `json:"approved,omitempty"`
	Signed   []string `json:"signed,omitempty"`
	// Asked are those of nodes, Issued the certificates, and Made the Nodes that were made with one.
	Asked  []birthAsk   `json:"asked,omitempty"`
	Issued []birthIssue `json:"issued,omitempty"`
	Made   []birthMade  `json:"made,omitempty"`
	// Form is 0 for an hour of a program that kept none of the three. before are the nodes for which a certificate was requested in such an hour.
	Form   int `json:"form,omitempty"`
	before []string
}

// maxBirthNodes bounds the nodes of an hour. What is more than that counts as not read.
const maxBirthNodes = 2000

func newBirthBook() *birthBook {
	return &birthBook{hours: map[evidence.Hour]*birthHour{}, fresh: map[evidence.Hour]bool{}, serving: map[string][]string{}}
}

// rememberedBirths is the kind of memory that has the hours of a birthBook, each with the book's name: several analyzers share a store.
const rememberedBirths = "births"

// add takes in a judgement.
func (b *birthBook) add(j *pipeline.Judgement) {
	ev := j.Event
	if ev.ObjectRef.Resource == "nodes" && ev.ObjectRef.APIGroup == "" {
		if j.Succeeded() {
			b.node(j)
		}
		return
	}
	if !audit.Signs(ev) || !j.Succeeded() || rules.DryRun(ev) {
		return
	}
	x := b.hour(j.Time)
	if x == nil {
		return
	}
	s, whole := j.Signing()
	switch node := s.Node(); {
	case !whole:
		x.Unread++
		return
	case node != "" && s.Client() && !slices.Contains(x.Nodes, node):
		if len(x.Nodes) >= maxBirthNodes {
			x.Unread++
			return
		}
		x.Nodes = append(x.Nodes, node)
	}
	x.Read++
	if name := tally.Bounded(ev.ObjectRef.Name); s.Node() != "" && s.Client() {
		switch sub := ev.ObjectRef.Subresource; {
		case sub == "approval" && s.Approved:
			x.Approved = withRequest(x.Approved, name)
		case sub == "status" && s.Certificate != "":
			x.Signed = withRequest(x.Signed, name)
		}
		x.issues(j, s)
	}
}

// hour is that of a time, to be changed; nil if there are too many.
func (b *birthBook) hour(t time.Time) *birthHour {
	h := evidence.HourOf(t)
	x := b.hours[h]
	if x == nil {
		if len(b.hours) >= evidence.MaxHours {
			return nil
		}
		x = &birthHour{Form: 1}
		b.hours[h] = x
	}
	b.fresh[h] = true
	return x
}

// withRequest adds a name, but for those beyond the bound: of these nobody says that they were approved.
func withRequest(all []string, name string) []string {
	if len(all) < 2*maxBirthNodes && !slices.Contains(all, name) {
		all = append(all, strings.Clone(name))
	}
	return all
}

// changes are the hours that changed since the last call, to be stored with the requests that were judged meanwhile, under the name of the book.
func (b *birthBook) changes(name string) []tally.Remembered {
	return freshHours(b.fresh, b.hours, rememberedBirths, name)
}

// freshHours are the hours of a book that changed, to be stored under its name. They are fresh no more.
func freshHours[H any](fresh map[evidence.Hour]bool, hours map[evidence.Hour]*H, kind, name string) (out []tally.Remembered) {
	for h := range fresh {
		if value, err := json.Marshal(hours[h]); err == nil { // no type of it can fail
			out = append(out, tally.Remembered{Kind: kind, Key: strconv.Itoa(int(h)) + " " + name, Value: value})
		}
	}
	clear(fresh)
	return out
}

// storedHour reads an hour that freshHours made; false if it is none. Earlier versions of nodetrail stored some without a name.
func storedHour[H any](r *tally.Remembered) (h evidence.Hour, one H, is bool) {
	hour, _, _ := strings.Cut(r.Key, " ")
	n, err := strconv.Atoi(hour)
	is = err == nil && json.Unmarshal(r.Value, &one) == nil
	return evidence.Hour(n), one, is
}

// birthsOf are the books that were stored, as one.
func birthsOf(stored []tally.Remembered) *birthBook {
	b := newBirthBook()
	for i := range stored {
		h, one, is := storedHour[birthHour](&stored[i])
		if !is {
			continue
		}
		x := b.hours[h]
		if x == nil {
			x = &birthHour{}
			b.hours[h] = x
		}
		x.Read, x.Unread, x.Nodes = x.Read+one.Read, x.Unread+one.Unread, append(x.Nodes, one.Nodes...)
		x.Approved, x.Signed = append(x.Approved, one.Approved...), append(x.Signed, one.Signed...)
		x.Asked, x.Issued, x.Made = append(x.Asked, one.Asked...), append(x.Issued, one.Issued...), append(x.Made, one.Made...)
		if one.Form == 0 {
			x.before = append(x.before, one.Nodes...)
		}
	}
	return b
}

// birthFindings is what the log shows of how credentials of nodes came to be in the window. What a rule found decides; that nothing was found proves something
// only where the policy logs all requests for certificates with their bodies, the rules ran, and the nodes' credentials come to be by such requests.
func (p *proof) birthFindings(in *checks.Input) {
	if p.births == nil || p.to.IsZero() {
		return
	}
	out := checks.Findings{}
	for k, g := range p.groups() {
		if k.Rule != rules.BootstrapImpersonation && k.Rule != rules.BootstrapTokenMisuse {
			continue
		}
		item := checks.Item{
			Code: checks.CodeBirthWrong, Node: k.Node, Client: k.Product, Value: string(g.Reason), From: g.First, To: g.Last, AuditIDs: g.AuditIDs, Count: g.Count,
		}
		switch {
		case g.Severity >= rules.High:
			out.Wrong = append(out.Wrong, item)
		case g.Severity == rules.Medium, g.Reason == rules.ApproverUnclear, g.Reason == rules.CertificateNoBirth,
			g.Reason == rules.SecondAsked, g.Reason == rules.SecondApproved, // what a second certificate gives is not looked at
			g.Reason == rules.NodeMadeElsewhere, // from where the certificate came is not known any more
			g.Reason == rules.KnownNodeAgain:    // that the node was silent may be what the log lost
			item.Code = checks.CodeBirthDoubtful
			out.NotKnown = append(out.NotKnown, item)
		}
		out.Looked += g.Count
	}
	for _, name := range []string{rules.BootstrapImpersonation, rules.BootstrapTokenMisuse} {
		if slices.Contains(p.facts.Disabled, name) {
			out.Doubt(checks.Item{Code: checks.CodeRuleOff, Object: name})
		}
	}
	if p.policy == nil || !p.policy.LogsBirths() {
		out.Doubt(checks.Item{Code: checks.CodeBirthsNotLogged})
	}
	p.missed.doubt(&out, p.to.Add(-in.MinWindow))
	p.birthsByHour(in, &out)
	in.Births = &out
}

// birthsByHour adds what was read and what was not, and the nodes that came to be without a request.
func (p *proof) birthsByHour(in *checks.Input, out *checks.Findings) {
	from := p.to.Add(-in.MinWindow)
	first, last := evidence.HourOf(from), evidence.HourOf(p.to.Add(-time.Nanosecond))
	approved, requested := map[string]bool{}, false
	for _, x := range p.births.hours { // a request may wait for its approval
		for _, name := range x.Approved {
			approved[name] = true
		}
	}
	for h := first - 1; h <= last; h++ {
		x := p.births.hours[h]
		if x == nil {
			continue
		}
		requested = requested || len(x.Nodes) > 0
		if h < first {
			continue // only the requests of nodes whose Node came a little later
		}
		out.Looked += x.Read
		for _, name := range x.Signed {
			if !approved[name] {
				out.NotKnown = append(out.NotKnown, checks.Item{Code: checks.CodeBirthUnapproved, Object: name, From: h.Start(), To: h.End(), Count: 1})
			}
		}
		if x.Unread > 0 {
			out.Looked += x.Unread
			out.NotKnown = append(out.NotKnown, checks.Item{Code: checks.CodeBirthUnread, From: h.Start(), To: h.End(), Count: x.Unread})
		}
	}
	if !requested {
		out.Doubt(checks.Item{Code: checks.CodeNoBirth})
		return
	}
	p.birthsOutside(in, from, approved, out)
}
