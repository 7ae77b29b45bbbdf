// Package listfile reads small YAML files that hold one list, such as waivers. Each of its errors about a place in a file has the line.
package listfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v3"
)

// LineError is what is wrong at a line of a file.
type LineError struct {
	Line int // from 1; 0 where it is about no line
	Err  error
}

func (e *LineError) Error() string {
	if e.Line == 0 {
		return e.Err.Error()
	}
	return fmt.Sprintf("line %d: %v", e.Line, e.Err)
}

// Unwrap returns what is wrong.
func (e *LineError) Unwrap() error { return e.Err }

// In is the error of a file with this path: path:line: what is wrong.
func In(path string, err error) error {
	var at *LineError
	if errors.As(err, &at) && at.Line > 0 {
		return fmt.Errorf("%s:%d: %w", path, at.Line, at.Err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Decode reads the list of the one key that the file may have. A file of nothing has no entries. lines has the line of each entry. Keys that T does not have
// are errors, and so is a second document. An error is a [LineError].
func Decode[T any](b []byte, key string) (entries []T, lines []int, err error) {
	d := yaml.NewDecoder(bytes.NewReader(b))
	var doc, second yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil, nil
	case err != nil:
		return nil, nil, Explain(err)
	}
	switch err := d.Decode(&second); {
	case err == nil:
		return nil, nil, &LineError{second.Line, errors.New("more than one document")}
	case !errors.Is(err, io.EOF):
		return nil, nil, Explain(err)
	}
	list, err := listOf(doc.Content[0], key)
	if err != nil {
		return nil, nil, err
	}
	strict := yaml.NewDecoder(bytes.NewReader(b))
	strict.KnownFields(true)
	var all map[string][]T
	err = strict.Decode(&all)
	for _, n := range list {
		lines = append(lines, n.Line)
		var of T
		if notDate := new(time.ParseError); errors.As(err, &notDate) && n.Decode(&of) != nil { // of this error the YAML package says no line
			return nil, nil, &LineError{n.Line, fmt.Errorf("%q is not %s", notDate.Value, words("time.Time"))}
		}
	}
	if err != nil {
		return nil, nil, Explain(err)
	}
	return all[key], lines, nil
}

// listOf has the entries of the list that is the value of the only key.
func listOf(root *yaml.Node, key string) (list []*yaml.Node, err error) {
	fail := func(n *yaml.Node, format string, args ...any) ([]*yaml.Node, error) {
		return nil, &LineError{n.Line, fmt.Errorf(format, args...)}
	}
	if root.ShortTag() == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return fail(root, "there is no key %s: the file has this one key, and a list in it", key)
	}
	for i := 0; i < len(root.Content); i += 2 {
		switch k, v := root.Content[i], root.Content[i+1]; {
		case k.Value != key:
			return fail(k, "unknown key %s: the file has one key, %s", k.Value, key)
		case v.ShortTag() == "!!null":
		case v.Kind != yaml.SequenceNode:
			return fail(v, "%s is not a list", key)
		default:
			list = v.Content
		}
	}
	return list, nil
}

// At is what is wrong with entry i.
func At(lines []int, i int, err error) error {
	e := &LineError{Err: err}
	if i < len(lines) {
		e.Line = lines[i]
	}
	return e
}

// Explain makes a LineError of an error of the YAML package. Of several mistakes it keeps the first, with the number of the others. The package names types of
// Go, for which there are words here.
func Explain(err error) *LineError {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	list, several := strings.CutPrefix(text, "unmarshal errors:\n")
	if several {
		text = list
	}
	all := strings.Split(text, "\n")
	what, line := strings.TrimSpace(all[0]), 0
	if m := regexp.MustCompile(`^line ([0-9]+): (.*)$`).FindStringSubmatch(what); m != nil {
		line, _ = strconv.Atoi(m[1]) // all digits; too many of them are no line
		what = m[2]
	}
	what = regexp.MustCompile(`^field (.*) not found in type .*$`).ReplaceAllString(what, "unknown key $1")
	if m := regexp.MustCompile("^cannot unmarshal !!([a-z]+)(?: (`.*`))? into (.*)$").FindStringSubmatch(what); m != nil {
		what = fmt.Sprintf("%s is not %s", cmp.Or(m[2], words(m[1])), words(m[3]))
	}
	if n := len(all) - 1; several && n > 0 {
		what += fmt.Sprintf(" (and %d more)", n)
	}
	return &LineError{line, errors.New(what)}
}

// words are those for a tag of YAML or a type of Go.
func words(kind string) string {
	switch {
	case kind == "seq" || strings.HasPrefix(kind, "[]"):
		return "a list"
	case kind == "string" || kind == "str":
		return "text"
	case kind == "time.Time":
		return "a date such as 2026-12-31"
	case kind == "bool":
		return "true or false"
	case strings.HasPrefix(kind, "int"):
		return "a whole number"
	}
	return "a mapping"
}
