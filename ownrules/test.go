package ownrules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	yaml "go.yaml.in/yaml/v3"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/rules"
)

type testNode struct {
	Name      yaml.Node `yaml:"name"`
	Rule      yaml.Node `yaml:"rule"`
	Request   yaml.Node `yaml:"request"`
	Verdict   yaml.Node `yaml:"verdict"`
	Admission yaml.Node `yaml:"admission"`
	State     yaml.Node `yaml:"state"`
	Finds     yaml.Node `yaml:"finds"`
	Message   yaml.Node `yaml:"message"`
}

// Test is a test of a rule: values of fields, and whether the rule finds something then. A field that is not given is empty, and one of the state is not
// known. What follows from a given field, such as request.client from request.userAgent, need not be given.
type Test struct {
	Name, Rule string
	given      map[*Field]ref.Val
	finds      bool
	message    string // "" for any
	place      string
}

// Result is what became of a test.
type Result struct {
	Test
	// Wrong says why it failed, "" if it passed.
	Wrong string
}

// Place is file and line of the test.
func (t *Test) Place() string { return t.place }

// RunTests loads files and runs the tests in them, in their order.
func RunTests(sources []Source) ([]Result, error) {
	r, err := read(sources)
	if err != nil {
		return nil, err
	}
	set := newSet(r.rules)
	var out []Result
	for i := range r.tests {
		out = append(out, Result{r.tests[i], r.tests[i].run(set)})
	}
	return out, nil
}

func (t *Test) run(set *Set) (wrong string) {
	c := newChecker(set)
	c.in.given = t.given
	found := c.check()
	for i := range found {
		f := &found[i].Finding
		if f.Rule != t.Rule {
			continue
		}
		switch message := f.Params.Text(codes.ParamMessage); {
		case f.Apart != "":
			return fmt.Sprintf("the rule failed: %s %s", f.Reason, f.Params.Text(rules.ParamTrouble))
		case !t.finds:
			return fmt.Sprintf("the rule finds something: %q", message)
		case t.message != "" && message != t.message:
			return fmt.Sprintf("the message is %q, not %q", message, t.message)
		}
		return ""
	}
	if t.finds {
		return "the rule finds nothing"
	}
	return ""
}

func (r *reader) test(src *Source, n *testNode) {
	near := first(&n.Rule)
	for _, x := range []*yaml.Node{&n.Name, &n.Finds, &n.Request} {
		if near == nil {
			near = first(x)
		}
	}
	if near == nil {
		near = &yaml.Node{}
	}
	t := Test{given: map[*Field]ref.Val{}, place: fmt.Sprintf("%s:%d", src.Name, near.Line)}
	var ok [3]bool
	t.Name, ok[0] = r.scalar(src, &n.Name, near, "name", maxTitle)
	if t.Rule, ok[1] = r.scalar(src, &n.Rule, near, "rule", maxName); ok[1] {
		if ok[1] = r.places[t.Rule] != ""; !ok[1] {
			r.fail(src, &n.Rule, "there is no rule %q in the files", t.Rule)
		}
	}
	if _, ok[2] = r.scalar(src, &n.Finds, near, "finds", maxName); ok[2] {
		if err := n.Finds.Decode(&t.finds); err != nil {
			r.fail(src, &n.Finds, "finds must be true or false")
			ok[2] = false
		}
	}
	for i, group := range []*yaml.Node{&n.Request, &n.Verdict, &n.Admission, &n.State} {
		if !r.given(src, groups[i], group, &t) {
			return
		}
	}
	if ok != [3]bool{true, true, true} {
		return
	}
	if !n.Message.IsZero() {
		var is bool
		if t.message, is = r.scalar(src, &n.Message, near, "message", 2*maxMessage); !is {
			return
		}
		if !t.finds {
			r.fail(src, &n.Message, "a test that finds nothing has no message")
			return
		}
	}
	t.derive()
	r.tests = append(r.tests, t)
}

// derive gives fields the values that follow from others, as they do of a request.
func (t *Test) derive() {
	value := func(path string) ref.Val { return t.given[fieldOf(path)] }
	follows := func(path string, v ref.Val) {
		if f := fieldOf(path); t.given[f] == nil {
			t.given[f] = v
		}
	}
	if v, is := value("request.node").(types.String); is {
		follows("request.isNode", types.True)
		follows("request.user", nodeid.UserPrefix+v)
	}
	if v, is := value("request.userAgent").(types.String); is {
		follows("request.client", types.String(rules.Product(string(v))))
	}
	if v, is := value("request.client").(types.String); is {
		follows("request.kubelet", types.Bool(rules.IsKubelet(string(v), nil)))
	}
	if v, is := value("request.time").(types.Timestamp); is {
		follows("request.hour", types.Int(v.UTC().Hour()))
	}
	if v, is := value("request.address").(types.String); is {
		follows("request.addresses", types.NewStringList(types.DefaultTypeAdapter, []string{string(v)}))
	}
	if value("request.succeeded") == types.True {
		follows("request.allowed", types.True)
	}
}

// given reads the values of a group.
func (r *reader) given(src *Source, group string, n *yaml.Node, t *Test) bool {
	if n.IsZero() {
		return true
	}
	if n.Kind != yaml.MappingNode {
		r.fail(src, n, "%s must be fields with values", group)
		return false
	}
	ok := true
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		f := fieldOf(group + "." + key.Value)
		if f == nil {
			r.fail(src, key, "there is no field %s.%s%s", group, key.Value, meantField(group+"."+key.Value))
			ok = false
			continue
		}
		if _, twice := t.given[f]; twice {
			r.fail(src, key, "%s is there twice", f.Path())
			ok = false
			continue
		}
		v, err := f.read(value)
		if err != nil {
			r.fail(src, value, "%s: %v", f.Path(), err)
			ok = false
			continue
		}
		t.given[f] = v
	}
	return ok
}

// read reads a value of a test.
func (f *Field) read(n *yaml.Node) (ref.Val, error) {
	switch f.kind {
	case text:
		if n.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("want a text")
		}
		if f.Values != nil && !slices.Contains(f.Values, n.Value) {
			return nil, fmt.Errorf("%q is none of %s", n.Value, strings.Join(f.Values, ", "))
		}
		return types.String(n.Value), nil
	case number:
		var v int64
		if n.Decode(&v) != nil {
			return nil, fmt.Errorf("want a number")
		}
		return types.Int(v), nil
	case boolean:
		var v bool
		if n.Decode(&v) != nil {
			return nil, fmt.Errorf("want true or false")
		}
		return types.Bool(v), nil
	case list:
		var v []string
		if n.Decode(&v) != nil {
			return nil, fmt.Errorf("want a list of texts")
		}
		return types.NewStringList(types.DefaultTypeAdapter, v), nil
	}
	v, err := time.Parse(time.RFC3339, n.Value)
	if err != nil {
		return nil, fmt.Errorf("want a time such as 2026-11-23T06:00:00Z")
	}
	return types.Timestamp{Time: v}, nil
}
