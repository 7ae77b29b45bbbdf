// Package wording makes the sentences: of findings, gaps, blockers and the steps of a plan, from their codes and parameters.
//
// What goes in: a group of findings ([tally.Group]) with its key, a code with parameters ([codes.Params]), or an item of a check. What comes out: a sentence without
// a full stop, in which names from outside are bounded and cannot break a line once they went through [Visible]. Nothing may be decided by a
// sentence, so only what is shown to people asks for one: report, sinks, explain, web and cmd. It also has what they share to write
// numbers, times and names.
//
// The package imports checks, codes, incidents, rules and tally.
package wording

import (
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// Words make sentences. [English] is the only language there is; tests have others, to show that nothing depends on them. Safe for concurrent use.
type Words interface {
	// Finding says what a group of findings found.
	Finding(k *tally.Key, g *tally.Group) string
	// Identity says in two or three words why an identity has a wrong user or group, "" for another reason.
	Identity(r rules.Reason) string
	// Say writes what is missing, what blocks, or what is to be done.
	Say(code codes.Code, p codes.Params) string
	// Check says what an item of a check's evidence shows or lacks.
	Check(i *checks.Item) string
	// Next says what would settle a check.
	Next(n *checks.Next) string
}

// Or is w, or English if w is nil.
func Or(w Words) Words {
	if w == nil {
		return English{}
	}
	return w
}

// English implements [Words]. The zero value is ready.
type English struct{}

// Finding implements Words.
func (English) Finding(k *tally.Key, g *tally.Group) string {
	if g.Wide {
		if g.Allowed {
			return "further requests that were allowed and that this rule flags, too many to be kept apart"
		}
		return "further requests that were refused and that this rule flags, too many to be kept apart"
	}
	if s := g.Params.Text(codes.ParamMessage); s != "" {
		return s
	}
	say := findings[g.Reason]
	if say == nil {
		return string(g.Reason) // of a newer program
	}
	sentence := say(&said{k, g.Params})
	if from := g.Params.Text(rules.ParamAddress); from != "" && !sayAddress(g.Reason) {
		sentence += ", from " + from
	}
	return sentence
}

// Identity implements Words.
func (English) Identity(r rules.Reason) string { return identities[r] }

// Say implements Words.
func (English) Say(code codes.Code, p codes.Params) string {
	if s := p.Text(codes.ParamMessage); s != "" {
		return s
	}
	if say := sentences[code]; say != nil {
		return say(p)
	}
	if say := steps[code]; say != nil {
		return say(p)
	}
	if say := incidentWords[code]; say != nil {
		return say(p)
	}
	if say := findings[rules.Reason(code)]; say != nil { // a finding of the rule on gaps
		return say(&said{&tally.Key{Rule: rules.CoverageGap, Node: p.Text(rules.ParamNode), Name: p.Text(codes.ParamWhere)}, p})
	}
	return string(code)
}

var identities = map[rules.Reason]string{
	rules.GroupMissing: "group missing", rules.NoNodeIdentity: "no node identity", rules.NameForm: "name form", rules.NameEmpty: "name form",
	rules.NameLetterCase: "letter case", rules.NameDomain: "host name", rules.NodeMissing: "unregistered name", rules.NodeGone: "deleted Node",
	rules.NodeGoneRenewed:   "deleted Node, new certificate",
	rules.SharedCertificate: "shared certificate",
}

// sayAddress reports whether the sentence of the reason has the address.
func sayAddress(r rules.Reason) bool {
	switch r {
	case rules.SecondAddress, rules.MovedAddress, rules.UsedInSilence, rules.Forwarded, rules.CertificateMoved, rules.NodeMadeElsewhere, rules.TokenElsewhere, rules.IssuedTwice:
		return true
	}
	return false
}
