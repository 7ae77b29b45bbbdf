package exceptions

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"

	"github.com/nodetrail/nodetrail/internal/expr"
	"github.com/nodetrail/nodetrail/internal/listfile"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// Bounds of a file of exceptions, and of an expression.
const (
	MaxBytes      = 1 << 20
	MaxExceptions = 1000
	maxCost       = 20_000 // see expr.Check
)

// Exception says that somebody answers for findings.
type Exception struct {
	Rule string `yaml:"rule" json:"rule"`
	// Match is an expression in CEL over the fields of a finding, "" for all findings of the rule.
	Match string `yaml:"match,omitempty" json:"match"`
	// Owner is who answers for them, Reason why.
	Owner  string `yaml:"owner" json:"owner"`
	Reason string `yaml:"reason" json:"reason"`
	// Expires is the last day, UTC, on which it holds.
	Expires time.Time `yaml:"expires" json:"expires"`
}

// Expired reports whether the exception's last day is over.
func (e *Exception) Expired(now time.Time) bool {
	return !now.Before(e.Expires.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1))
}

// Parse reads a file of exceptions: YAML with the one key exceptions. Unknown keys, a rule that does not exist, an expression that is wrong or dear, and an
// exception without an owner, a reason or an expiry date are errors, with the line. own are the names of rules that the user wrote.
func Parse(b []byte, own ...string) ([]Exception, error) {
	if len(b) > MaxBytes {
		return nil, fmt.Errorf("reading exceptions: more than %d bytes", MaxBytes)
	}
	all, lines, err := listfile.Decode[Exception](b, "exceptions")
	if err != nil {
		return nil, fmt.Errorf("reading exceptions: %w", err)
	}
	if _, bad, err := newSet(all, own); err != nil {
		return nil, listfile.At(lines, bad, err)
	}
	return all, nil
}

// Finding has the fields of a finding that an expression sees, as finding.node.
type Finding struct {
	Rule        string `cel:"rule"`
	Reason      string `cel:"reason"`
	Severity    string `cel:"severity"`
	Node        string `cel:"node"`
	Verb        string `cel:"verb"`
	APIGroup    string `cel:"apiGroup"`
	Resource    string `cel:"resource"`
	Subresource string `cel:"subresource"`
	Namespace   string `cel:"namespace"`
	Name        string `cel:"name"`
	UserAgent   string `cel:"userAgent"`
	// Binding is [namespace/]name.
	Binding string `cel:"binding"`
	Address string `cel:"address"`
	Allowed bool   `cel:"allowed"`

	others []string // addresses of the same finding
}

// From says where the requests of the finding came from, where Address is only that of the latest. What has no address has none.
func (f *Finding) From(o *tally.Origins) {
	for i := range o.Addresses {
		if a := o.Addresses[i].Address; f.Address != "" && a != f.Address {
			f.others = append(f.others, a)
		}
	}
}

// addresses are all where the requests came from, quoted.
func (f *Finding) addresses() []string {
	var all []string
	if f.Address != "" {
		all = append(all, strconv.QuoteToASCII(f.Address))
	}
	for _, a := range f.others {
		all = append(all, strconv.QuoteToASCII(a))
	}
	return all
}

// Of is a group of findings.
func Of(k *tally.Key, g *tally.Group) Finding {
	binding := k.Binding.Name
	if k.Binding.Namespace != "" {
		binding = k.Binding.Namespace + "/" + binding
	}
	f := Finding{
		Rule: k.Rule, Reason: string(tally.ReasonOf(g.Reason, k.Apart)), Severity: g.Severity.String(), Node: k.Node, Verb: k.Verb, APIGroup: k.APIGroup, Resource: k.Resource,
		Subresource: k.Subresource, Namespace: k.Namespace, Name: k.Name, UserAgent: k.Product, Binding: binding,
		Address: g.Params.Text(rules.ParamAddress), Allowed: g.Succeeded,
	}
	f.From(&g.Origins)
	return f
}

// Validate returns what is wrong with the exception, where the user wrote the rules of these names.
func (e *Exception) Validate(own ...string) error {
	env, err := environment()
	if err != nil {
		return err
	}
	_, err = compile(env, e, own)
	return err
}

// Set is exceptions that were checked. Safe for concurrent use. The nil Set has none.
type Set struct {
	all      []Exception
	programs []cel.Program // nil for an exception without an expression
}

// New checks exceptions. Its error says which is wrong, and why. own are the names of rules that the user wrote.
func New(all []Exception, own ...string) (*Set, error) {
	s, _, err := newSet(all, own)
	return s, err
}

// newSet is [New]. With an error it returns the exception that is wrong.
func newSet(all []Exception, own []string) (s *Set, wrong int, err error) {
	if len(all) > MaxExceptions {
		return nil, MaxExceptions, fmt.Errorf("there are %d exceptions, more than %d", len(all), MaxExceptions)
	}
	env, err := environment()
	if err != nil {
		return nil, 0, err
	}
	s = &Set{all: all}
	for i := range all {
		p, err := compile(env, &all[i], own)
		if err != nil {
			return nil, i, fmt.Errorf("exception %d: %w", i+1, err)
		}
		s.programs = append(s.programs, p)
	}
	return s, 0, nil
}

func environment() (*cel.Env, error) {
	env, err := cel.NewEnv(
		cel.ClearMacros(), // nothing in a finding is a list: a loop over one that is written out is refused
		ext.NativeTypes(reflect.TypeFor[*Finding](), ext.ParseStructTags(true)),
		cel.Variable("finding", cel.ObjectType("exceptions.Finding")),
	)
	if err != nil {
		return nil, fmt.Errorf("making the environment of expressions: %w", err)
	}
	return env, nil
}

func compile(env *cel.Env, e *Exception, own []string) (cel.Program, error) {
	switch {
	case !rules.BuiltIn(e.Rule) && !slices.Contains(own, e.Rule):
		return nil, fmt.Errorf("there is no rule %q", e.Rule)
	case strings.TrimSpace(e.Owner) == "":
		return nil, errors.New("it has no owner")
	case strings.TrimSpace(e.Reason) == "":
		return nil, errors.New("it has no reason")
	case e.Expires.IsZero():
		return nil, errors.New("it has no expiry date (expires)")
	case e.Match == "":
		return nil, nil
	}
	ast, err := expr.Check(env, e.Match, maxCost)
	if err != nil {
		return nil, fmt.Errorf("match: %w", err)
	}
	p, err := expr.Program(env, ast, maxCost)
	if err != nil {
		return nil, fmt.Errorf("match: %w", err)
	}
	return p, nil
}

// All are the exceptions, in their order.
func (s *Set) All() []Exception {
	if s == nil {
		return nil
	}
	return s.all
}

// Matches returns the indices of the exceptions that a finding matches, expired ones too. An expression that fails on a finding does not match it, nor does
// one that is not true of each address that the finding's requests came from: it says nothing of requests from elsewhere.
func (s *Set) Matches(f *Finding) []int {
	if s == nil {
		return nil
	}
	var out []int
	for i := range s.all {
		if s.all[i].Rule != f.Rule {
			continue
		}
		if s.programs[i] == nil {
			out = append(out, i)
			continue
		}
		if holds(s.programs[i], f) {
			out = append(out, i)
		}
	}
	return out
}

func holds(p cel.Program, f *Finding) bool {
	of := *f
	of.others = nil
	for i := -1; i < len(f.others); i++ {
		if i >= 0 {
			of.Address = f.others[i]
		}
		if v, _, err := p.Eval(map[string]any{"finding": &of}); err != nil || v.Value() != true {
			return false
		}
	}
	return true
}

// Covers reports whether an exception that is not expired covers the finding.
func (s *Set) Covers(f *Finding, now time.Time) bool {
	return slices.ContainsFunc(s.Matches(f), func(i int) bool { return !s.all[i].Expired(now) })
}

// Paste is an exception for a finding, as YAML whose owner and reason are to be filled in. It covers no other reason of the rule, and no other address.
func Paste(f *Finding, expires time.Time) string {
	var terms []string
	for _, t := range []struct{ name, value string }{
		{"reason", f.Reason}, {"node", f.Node}, {"userAgent", f.UserAgent}, {"verb", f.Verb}, {"resource", f.Resource}, {"namespace", f.Namespace}, {"name", f.Name},
	} {
		if t.value != "" {
			terms = append(terms, "finding."+t.name+" == "+strconv.QuoteToASCII(t.value))
		}
	}
	if all := f.addresses(); len(all) == 1 {
		terms = append(terms, "finding.address == "+all[0])
	} else if len(all) > 1 {
		terms = append(terms, "finding.address in ["+strings.Join(all, ", ")+"]")
	}
	match := cmp.Or(strings.Join(terms, " && "), "true")
	return "exceptions:\n- rule: " + f.Rule + "\n  match: '" + strings.ReplaceAll(match, "'", "''") + "'\n  owner: \"\"   # who answers for it\n  reason: \"\"  # why\n  expires: " +
		expires.UTC().Format(time.DateOnly) + "\n"
}
