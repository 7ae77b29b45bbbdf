package incidents

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// rowKey is by what requests are one row.
type rowKey struct {
	verb      string
	object    Object
	wide      bool
	succeeded bool
	covered   bool
}

// gathered is a row in the making.
type gathered struct {
	row      Row
	act      bool // somebody did it
	severity rules.Severity
	counts   map[string]int64 // by rule
}

// rows puts together what several rules found in the same requests: of a row those of the rule that flagged most are counted. What exceptions cover has rows of
// its own.
func rows(parts, covered []*part) []Row {
	all := map[rowKey]*gathered{}
	for i, p := range slices.Concat(parts, covered) {
		if p.key.Verb == "" && !p.group.Wide {
			continue // it is about no object
		}
		k := rowKey{p.key.Verb, p.object(), p.group.Wide, p.group.Succeeded && !rules.Fruitless(tally.ReasonOf(p.group.Reason, p.key.Apart)), i >= len(parts)}
		g := all[k]
		if g == nil {
			g = &gathered{row: Row{Verb: k.verb, Object: k.object, Wide: k.wide, Succeeded: k.succeeded, First: p.group.First.UTC(), Last: p.group.Last.UTC()}, counts: map[string]int64{}}
			all[k] = g
		}
		g.counts[p.key.Rule] += p.group.Count
		g.severity = max(g.severity, p.group.Severity)
		g.act = g.act || p.act != rules.Circumstance && !k.covered
		if p.group.First.Before(g.row.First) {
			g.row.First = p.group.First.UTC()
		}
		if p.group.Last.After(g.row.Last) {
			g.row.Last = p.group.Last.UTC()
		}
		if !slices.Contains(g.row.Findings, p.key) {
			g.row.Findings = append(g.row.Findings, p.key)
		}
	}
	out := make([]Row, 0, len(all))
	for _, g := range all {
		g.row.Severity, g.row.Rules, g.row.Beside = g.severity.String(), slices.Sorted(maps.Keys(g.counts)), !g.act
		for _, n := range g.counts {
			g.row.Requests = max(g.row.Requests, n)
		}
		out = append(out, g.row)
	}
	slices.SortFunc(out, compareRows)
	return out
}

// compareRows puts what was done before what accompanied it, then what was reached first, then the worst, then the first.
func compareRows(a, b Row) int {
	last := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(last(a.Beside), last(b.Beside)), cmp.Compare(last(!a.Succeeded), last(!b.Succeeded)), cmp.Compare(severityOf(b.Severity), severityOf(a.Severity)), a.First.Compare(b.First), compareObjects(a.Object, b.Object),
		strings.Compare(a.Verb, b.Verb), cmp.Compare(last(a.Wide), last(b.Wide)), slices.Compare(a.Rules, b.Rules))
}

// count fills in the rows, and what they add up to.
func (in *Incident) count(s *span) {
	groups := map[string]bool{}
	for _, p := range slices.Concat(s.acts, s.covered) {
		id := strings.Join(p.key.Strings(), "\x00")
		groups[id] = groups[id] || !p.excepted
	}
	in.Findings = len(groups)
	for _, counts := range groups {
		if !counts {
			in.Excepted++
		}
	}
	all := rows(s.all(), s.covered)
	for i := range all {
		r := &all[i]
		switch {
		case r.Beside:
		case r.Succeeded:
			in.Succeeded += r.Requests
		default:
			in.Refused += r.Requests
		}
	}
	in.Requests = in.Succeeded + in.Refused
	n := min(len(all), MaxReached)
	in.Reached, in.More = all[:n:n], len(all)-n
}
