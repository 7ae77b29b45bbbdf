package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// NodeRestriction counts the writes of nodes that the admission plugin was asked about. The counts add up to all of them.
type NodeRestriction struct {
	// Allowed passed, as nodetrail says; RefusedAsPredicted were refused with the same code and message.
	Allowed            int64 `json:"allowed"`
	RefusedAsPredicted int64 `json:"refusedAsPredicted"`
	// Contradictions passed although the plugin refuses them, or were refused otherwise than nodetrail says.
	Contradictions int64 `json:"contradictions"`
	// Unknown lack something that the answer depends on. Races would have another answer within the skew. Of those NotObserved the log does not tell what
	// the plugin said.
	Unknown     int64 `json:"unknown"`
	Races       int64 `json:"races"`
	NotObserved int64 `json:"notObserved"`
	// Writes are all of them by kind and outcome: contradictions first, then what is unknown, and of each the most frequent first.
	Writes []Writes `json:"writes"`
}

// Writes counts the writes of one kind with one outcome.
type Writes struct {
	Verb string `json:"verb"`
	// Resource and Subresource are "(other)" where the plugin does not tell them apart.
	Resource    string        `json:"resource"`
	Subresource string        `json:"subresource"`
	Outcome     rules.Outcome `json:"outcome"`
	// Missing is the code of what the answer lacks, for the outcome unknown only.
	Missing string `json:"missing,omitempty"`
	Count   int64  `json:"count"`
}

func restrictionOf(t *tally.Tally) NodeRestriction {
	out := NodeRestriction{Writes: make([]Writes, 0, len(t.Admission))}
	for k, n := range t.Admission {
		out.Writes = append(out.Writes, Writes{Verb: k.Verb, Resource: k.Resource, Subresource: k.Subresource, Outcome: k.Outcome, Missing: k.Missing, Count: *n})
		*out.count(k.Outcome) += *n
	}
	rank := func(w *Writes) int {
		switch {
		case w.Outcome.Contradicts():
			return 0
		case w.Outcome == rules.OutcomeUnknown:
			return 1
		}
		return 2
	}
	slices.SortFunc(out.Writes, func(a, b Writes) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Subresource, b.Subresource),
			cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Missing, b.Missing))
	})
	return out
}

// count is where writes with the outcome count.
func (n *NodeRestriction) count(o rules.Outcome) *int64 {
	switch {
	case o.Contradicts():
		return &n.Contradictions
	case o == rules.OutcomeAllowed:
		return &n.Allowed
	case o == rules.OutcomePredicted:
		return &n.RefusedAsPredicted
	case o == rules.OutcomeRace:
		return &n.Races
	case o == rules.OutcomeUnobserved:
		return &n.NotObserved
	}
	return &n.Unknown // of a newer program, too
}

// Sum puts the counts into words.
func (n *NodeRestriction) Sum() string {
	s := fmt.Sprintf("%d allowed, %d refused as predicted, %d unknown, %s", n.Allowed, n.RefusedAsPredicted, n.Unknown, plural(n.Contradictions, "contradiction"))
	if n.Races > 0 {
		s += ", " + plural(n.Races, "race")
	}
	if n.NotObserved > 0 {
		s += fmt.Sprintf(", %d not observed", n.NotObserved)
	}
	return s
}

// Doubtful are the writes that contradict nodetrail and those that are unknown.
func (n *NodeRestriction) Doubtful() []Writes {
	end := slices.IndexFunc(n.Writes, func(w Writes) bool { return !w.Outcome.Contradicts() && w.Outcome != rules.OutcomeUnknown })
	if end < 0 {
		end = len(n.Writes)
	}
	return n.Writes[:end]
}

// Kind names the kind of request, such as "patch nodes/status".
func (w *Writes) Kind() string {
	s := w.Verb + " " + w.Resource
	if w.Subresource != "" {
		s += "/" + w.Subresource
	}
	return s
}

// Why puts the outcome into words.
func (w *Writes) Why() string {
	if w.Outcome == rules.OutcomeUnknown {
		return wording.AdmissionMissing(w.Missing)
	}
	return wording.AdmissionOutcome(w.Outcome)
}

func (t Text) restriction(b *strings.Builder, r *Report) {
	n := &r.NodeRestriction
	if len(n.Writes) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n  writes of nodes: %s\n", t.paint(bold, "NodeRestriction"), n.Sum())
	const most = 20
	for i, w := range n.Doubtful() {
		if i == most {
			fmt.Fprintf(b, "  %s\n", t.paint(dim, "... and more kinds (-o json has all)"))
			break
		}
		sign := t.paint(yellow, "?")
		if w.Outcome.Contradicts() {
			sign = t.paint(red, "x")
		}
		fmt.Fprintf(b, "  %s %s: %s  %s\n", sign, wording.Visible(w.Kind()), wording.Visible(w.Why()), t.paint(dim, fmt.Sprintf("x%d", w.Count)))
	}
}
