package ownrules

import (
	"github.com/google/cel-go/cel"

	"github.com/nodetrail/nodetrail/rules"
)

// Rule is a rule that was checked.
type Rule struct {
	rules.Rule
	// Match is its expression.
	Match string

	message  template
	compiled *expression
}

// Set is rules that were checked. Safe for concurrent use. The nil Set has none.
type Set struct {
	rules []*Rule
	plain []*rules.Rule
	// columns are the fields that filters look at, those that most rules have first.
	columns []column
}

// column is a field with the rules that have a filter on it.
type column struct {
	field    *Field
	rules    bits
	programs [][]cel.Program // by rule
}

// All implements [rules.Own].
func (s *Set) All() []*rules.Rule {
	if s == nil {
		return nil
	}
	return s.plain
}

// Names are the names of the rules, in their order.
func (s *Set) Names() []string {
	out := []string{}
	for _, r := range s.All() {
		out = append(out, r.Name)
	}
	return out
}

// Checker implements [rules.Own].
func (s *Set) Checker() rules.OwnChecker { return newChecker(s) }

// newSet indexes rules.
func newSet(all []*Rule) *Set {
	s := &Set{rules: all}
	for _, r := range all {
		s.plain = append(s.plain, &r.Rule)
	}
	for i := range fields {
		c := column{field: &fields[i], rules: newBits(len(all)), programs: make([][]cel.Program, len(all))}
		n := 0
		for j, r := range all {
			if c.programs[j] = r.compiled.filters[c.field]; len(c.programs[j]) > 0 {
				c.rules.set(j)
				n++
			}
		}
		if n > 0 {
			s.columns = append(s.columns, c)
		}
	}
	return s
}

// bits is a set of rules, by their places.
type bits []uint64

func newBits(n int) bits { return make(bits, (n+63)/64) }

func (b bits) set(i int)      { b[i/64] |= 1 << (i % 64) }
func (b bits) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

func (b bits) fill(n int) {
	for i := range b {
		b[i] = ^uint64(0)
	}
	if over := n % 64; over > 0 {
		b[len(b)-1] = 1<<over - 1
	}
}
