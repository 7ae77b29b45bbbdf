package app

import (
	"maps"
	"slices"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// onlyNodes are the names of the nodes that a report is about, empty for all.
type onlyNodes []string

// check refuses a name that neither the state nor the log has.
func (o onlyNodes) check(state *stateProof, t *tally.Tally) error {
	known := maps.Clone(t.Nodes)
	if state != nil {
		for i := range state.Nodes {
			known[state.Nodes[i].Name] = nil
		}
	}
	for _, name := range o {
		if _, ok := known[name]; !ok {
			return &UnknownError{What: "node", Name: name, Where: "the state or the log", Known: slices.Sorted(maps.Keys(known))}
		}
	}
	return nil
}

// requests is how many requests the nodes made.
func (o onlyNodes) requests(t *tally.Tally) (n int64) {
	for _, name := range o {
		if node := t.Nodes[name]; node != nil {
			n += node.Requests
		}
	}
	return n
}

// aside are the findings whose requests the checks leave out, and so what explains the answer. They stay in the report, as those of all rules do: a theft on another node is one.
// It is called when the checks are made.
func (o onlyNodes) aside(state *stateProof, t *tally.Tally) map[tally.Key]bool {
	out := map[tally.Key]bool{}
	if len(o) == 0 || state == nil {
		return out
	}
	others := (&checks.Input{Options: checks.Options{Only: o}, Nodes: state.Nodes}).OfOthers()
	p := proof{}
	for k, g := range t.Groups {
		if k.Rule != rules.ExcessAccess {
			continue
		}
		if u := p.use(&k, g); u.LeavesOut(others) {
			out[k] = true
		}
	}
	return out
}
