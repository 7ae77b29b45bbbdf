package coverage

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// policyText is the text of a policy, which knows on which line a field is. Its zero value knows none.
type policyText struct{ root *yaml.Node }

func parseText(b []byte) policyText {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil || len(doc.Content) == 0 {
		return policyText{}
	}
	return policyText{doc.Content[0]}
}

// find returns the nodes to which a path such as rules[0].level leads, or as far as it leads; without an index it leads to each element of a list.
func (t policyText) find(path string) []*yaml.Node {
	if t.root == nil {
		return nil
	}
	at := []*yaml.Node{t.root}
	for _, part := range strings.FieldsFunc(path, func(c rune) bool { return c == '.' || c == '[' || c == ']' }) {
		var next []*yaml.Node
		for _, n := range at {
			next = append(next, children(n, part)...)
		}
		if len(next) == 0 {
			break
		}
		at = next
	}
	return at
}

// children are the value of a mapping's key, or a list's element, or that of each of its elements.
func children(n *yaml.Node, part string) (out []*yaml.Node) {
	i, err := strconv.Atoi(part)
	for j, c := range n.Content {
		switch {
		case n.Kind == yaml.SequenceNode && err == nil:
			if i == j {
				out = append(out, c)
			}
		case n.Kind == yaml.SequenceNode:
			out = append(out, children(c, part)...)
		case n.Kind == yaml.MappingNode && j%2 == 1 && n.Content[j-1].Value == part:
			out = append(out, c)
		}
	}
	return out
}

// at is " (line 3)" for the line of a field, or of what should have it; "" where that is not known.
func (t policyText) at(path string) string {
	nodes := t.find(path)
	if len(nodes) == 0 || nodes[0] == t.root {
		return ""
	}
	return onLine(nodes[0])
}

func onLine(n *yaml.Node) string { return fmt.Sprintf(" (line %d)", n.Line) }

// lines are those on which the first n rules begin, 0 where it is not known.
func (t policyText) lines(n int) []int {
	lines := make([]int, n)
	rules := t.find("rules")
	if len(rules) == 0 || rules[0].Kind != yaml.SequenceNode {
		return lines
	}
	for i, rule := range rules[0].Content[:min(n, len(rules[0].Content))] {
		lines[i] = rule.Line
	}
	return lines
}

// yamlKinds are what a field of a kind is in the text, in words.
func yamlKinds(k reflect.Kind) (kind yaml.Kind, words string) {
	switch k {
	case reflect.Slice:
		return yaml.SequenceNode, "a list"
	case reflect.Struct, reflect.Map:
		return yaml.MappingNode, "a mapping"
	case reflect.Bool:
		return yaml.ScalarNode, "true or false"
	default:
		return yaml.ScalarNode, "a string"
	}
}

// wrongType says that a field is of another type than it should be.
func (t policyText) wrongType(err *json.UnmarshalTypeError) error {
	kind, want := yamlKinds(err.Type.Kind())
	at, nodes := "", t.find(err.Field)
	if i := slices.IndexFunc(nodes, func(n *yaml.Node) bool { return n.Kind != kind }); i >= 0 {
		at = onLine(nodes[i])
	}
	is, _, _ := strings.Cut(err.Value, " ") // a number comes with its digits
	switch is {
	case "array":
		is = "list"
	case "object":
		is = "mapping"
	}
	return fmt.Errorf("%s%s is a %s, and must be %s", err.Field, at, is, want)
}

// wrongValues says what the API server refuses, and of what it would only warn.
func (t policyText) wrongValues(errs field.ErrorList, warnings []string) string {
	var out []string
	for _, err := range errs {
		out = append(out, fmt.Sprintf("%s%s: %s", err.Field, t.at(err.Field), err.ErrorBody()))
	}
	return strings.Join(append(out, warnings...), "; ")
}

// shorten bounds a message that quotes the file.
func shorten(s string) string {
	const most = 500
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
