package ownrules

import (
	mathbits "math/bits"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/expr"
	"github.com/nodetrail/nodetrail/rules"
)

const (
	// maxValues bounds the values of a field whose filters are remembered, and maxRemembered their length.
	maxValues     = 1024
	maxRemembered = 256
)

// checker implements [rules.OwnChecker].
type checker struct {
	set   *Set
	in    subject
	scope scope
	// values are what is known of the values of each column.
	values []known
	left   bits
	found  []rules.OwnFinding
}

// known is what filters said of the values of a field.
type known struct {
	texts   map[string]*verdicts
	numbers map[int64]*verdicts
	once    *verdicts // of a value that is not remembered
}

// verdicts are what filters said of one value.
type verdicts struct {
	asked bits
	// no are the rules that the value excludes, unsure those whose filter failed: the whole expression decides.
	no, unsure bits
}

func newChecker(s *Set) *checker {
	c := &checker{set: s, left: newBits(len(s.rules)), values: make([]known, len(s.columns))}
	c.scope.s = &c.in
	for i := range c.values {
		c.values[i] = known{texts: map[string]*verdicts{}, numbers: map[int64]*verdicts{}, once: c.verdicts()}
	}
	return c
}

func (c *checker) verdicts() *verdicts {
	n := len(c.left)
	all := make(bits, 3*n)
	return &verdicts{all[:n:n], all[n : 2*n : 2*n], all[2*n:]}
}

// Check implements [rules.OwnChecker].
func (c *checker) Check(r *rules.Request, s rules.State, m *rules.Memory) []rules.OwnFinding {
	c.in = subject{r: r, s: s, m: m}
	return c.check()
}

func (c *checker) check() []rules.OwnFinding {
	c.found = c.found[:0]
	left := c.left
	left.fill(len(c.set.rules))
	var unsure bits
	for i := range c.set.columns {
		col := &c.set.columns[i]
		if !overlap(left, col.rules) {
			continue
		}
		v := c.values[i].of(c, col)
		var rest, failed uint64
		for w := range left {
			if ask := left[w] & col.rules[w] &^ v.asked[w]; ask != 0 {
				c.ask(col, v, w, ask)
			}
			left[w] &^= v.no[w]
			rest |= left[w]
			failed |= left[w] & v.unsure[w]
		}
		if rest == 0 {
			return c.found
		}
		if failed != 0 {
			if unsure == nil {
				unsure = make(bits, len(left))
			}
			for w := range unsure {
				unsure[w] |= v.unsure[w]
			}
		}
	}
	for w, word := range left {
		for ; word != 0; word &= word - 1 {
			i := w*64 + mathbits.TrailingZeros64(word)
			rule := c.set.rules[i]
			if !rule.compiled.rest && (unsure == nil || !unsure.has(i)) {
				c.add(rule, nil)
				continue
			}
			if yes, err := c.eval(rule.compiled.whole); yes || err != nil {
				c.add(rule, err)
			}
		}
	}
	return c.found
}

// eval runs a program on the request.
func (c *checker) eval(p cel.Program) (bool, error) {
	v, _, err := p.Eval(&c.scope)
	if err != nil {
		return false, err
	}
	return v.Value() == true, nil
}

// ask runs the filters of the rules in a word of a set.
func (c *checker) ask(col *column, v *verdicts, w int, rules uint64) {
	v.asked[w] |= rules
	for ; rules != 0; rules &= rules - 1 {
		bit := rules & -rules
		for _, p := range col.programs[w*64+mathbits.TrailingZeros64(bit)] {
			yes, err := c.eval(p)
			if err != nil {
				v.unsure[w] |= bit
			} else if !yes {
				v.no[w] |= bit
				v.unsure[w] &^= bit
				break
			}
		}
	}
}

// of returns what is known of the value that the request has.
func (k *known) of(c *checker, col *column) *verdicts {
	f := col.field
	if f.kind == text {
		s := f.asText(&c.in)
		if v := k.texts[s]; v != nil {
			return v
		}
		if len(s) > maxRemembered {
			return k.fresh()
		}
		if len(k.texts) >= maxValues {
			clear(k.texts)
		}
		v := c.verdicts()
		k.texts[strings.Clone(s)] = v
		return v
	}
	n := f.asNumber(&c.in)
	if v := k.numbers[n]; v != nil {
		return v
	}
	if len(k.numbers) >= maxValues {
		clear(k.numbers)
	}
	v := c.verdicts()
	k.numbers[n] = v
	return v
}

// fresh is for a value that is not remembered.
func (k *known) fresh() *verdicts {
	clear(k.once.asked)
	clear(k.once.no)
	clear(k.once.unsure)
	return k.once
}

func overlap(a, b bits) bool {
	for i := range a {
		if a[i]&b[i] != 0 {
			return true
		}
	}
	return false
}

// add adds what a rule found, or that it failed.
func (c *checker) add(r *Rule, err error) {
	f := rules.Finding{Rule: r.Name, Reason: rules.OwnMatch, Severity: r.Severity}
	if err == nil {
		f.Params = codes.Params{codes.Text(codes.ParamMessage, r.message.of(&c.in))}
	} else {
		f.Severity, f.Reason, f.Params = rules.Low, rules.OwnFailed, codes.Params{codes.Text(rules.ParamTrouble, err.Error())}
		if expr.TooCostly(err) {
			f.Reason, f.Params = rules.OwnCostly, codes.Params{codes.Int(rules.ParamLimit, int64(maxCost))}
		}
		f.Apart = string(f.Reason)
	}
	if r := c.in.r; r != nil { // not in a test of the user's
		f.Allowed = r.Allowed
		if f.Subject = r.Node; err != nil {
			f.Subject = ""
		} else if !r.IsNode {
			f.Subject = r.Event.Effective().Username
		}
	}
	c.found = append(c.found, rules.OwnFinding{Finding: f, Rule: &r.Rule})
}
