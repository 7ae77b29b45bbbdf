package ownrules

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	yaml "go.yaml.in/yaml/v3"

	"github.com/nodetrail/nodetrail/internal/expr"
	"github.com/nodetrail/nodetrail/internal/listfile"
	"github.com/nodetrail/nodetrail/internal/spelling"
	"github.com/nodetrail/nodetrail/rules"
)

// Bounds of files.
const (
	MaxBytes = 1 << 20
	// MaxRules bounds the rules of all files together: each name is a metric label.
	MaxRules   = 200
	maxTests   = 2000
	maxMessage = 400
	maxName    = 63
	maxTitle   = 200
	maxErrors  = 20
)

// Source is a file.
type Source struct {
	Name string
	Data []byte
}

// file is what a file holds. Values are nodes for their lines and columns.
type file struct {
	Rules []ruleNode `yaml:"rules"`
	Tests []testNode `yaml:"tests"`
}

type ruleNode struct {
	Name     yaml.Node `yaml:"name"`
	Title    yaml.Node `yaml:"title"`
	Severity yaml.Node `yaml:"severity"`
	Match    yaml.Node `yaml:"match"`
	Message  yaml.Node `yaml:"message"`
}

// reader reads files and gathers what is wrong with them.
type reader struct {
	env    *cel.Env
	rules  []*Rule
	tests  []Test
	places map[string]string // of names of rules
	errs   []error
}

// Load reads files of rules. An error says what is wrong with each rule: file, line and column. The tests in the files are checked, and left alone.
func Load(sources []Source) (*Set, error) {
	r, err := read(sources)
	if err != nil {
		return nil, err
	}
	return newSet(r.rules), nil
}

func read(sources []Source) (*reader, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	r := &reader{env: env, places: map[string]string{}}
	files := make([]file, len(sources))
	for i := range sources {
		r.decode(&sources[i], &files[i])
	}
	for i := range sources {
		for j := range files[i].Rules {
			r.rule(&sources[i], &files[i].Rules[j])
		}
	}
	for i := range sources {
		for j := range files[i].Tests {
			r.test(&sources[i], &files[i].Tests[j])
		}
	}
	if len(r.rules) > MaxRules {
		r.errs = append(r.errs, fmt.Errorf("there are %d rules, more than %d", len(r.rules), MaxRules))
	}
	if len(r.tests) > maxTests {
		r.errs = append(r.errs, fmt.Errorf("there are %d tests, more than %d", len(r.tests), maxTests))
	}
	if n := len(r.errs); n > maxErrors {
		r.errs = append(r.errs[:maxErrors:maxErrors], fmt.Errorf("%d further errors", n-maxErrors))
	}
	return r, errors.Join(r.errs...)
}

func (r *reader) decode(src *Source, out *file) {
	if len(src.Data) > MaxBytes {
		r.errs = append(r.errs, fmt.Errorf("%s: more than %d bytes", src.Name, MaxBytes))
		return
	}
	d := yaml.NewDecoder(bytes.NewReader(src.Data))
	d.KnownFields(true)
	err := d.Decode(out)
	if err == nil && !errors.Is(d.Decode(&file{}), io.EOF) {
		err = errors.New("more than one document")
	}
	if err == nil || errors.Is(err, io.EOF) {
		return
	}
	*out = file{}
	r.errs = append(r.errs, listfile.In(src.Name, listfile.Explain(err)))
}

// fail notes what is wrong at a node.
func (r *reader) fail(src *Source, n *yaml.Node, format string, args ...any) {
	r.failAt(src, n.Line, n.Column, format, args...)
}

func (r *reader) failAt(src *Source, line, column int, format string, args ...any) {
	at := src.Name
	if line > 0 {
		at = fmt.Sprintf("%s:%d:%d", src.Name, line, max(column, 1))
	}
	r.errs = append(r.errs, fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...)))
}

// scalar returns the text of a node that must be a text. What is missing is at the node before.
func (r *reader) scalar(src *Source, n, near *yaml.Node, key string, most int) (string, bool) {
	switch {
	case n.IsZero() || n.Kind == yaml.ScalarNode && strings.TrimSpace(n.Value) == "":
		at := n
		if n.IsZero() {
			at = near
		}
		r.fail(src, at, "%s is missing", key)
	case n.Kind != yaml.ScalarNode:
		r.fail(src, n, "%s must be a text", key)
	case len(n.Value) > most:
		r.fail(src, n, "%s is longer than %d bytes", key, most)
	default:
		return n.Value, true
	}
	return "", false
}

var validName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

func (r *reader) rule(src *Source, n *ruleNode) {
	near := cmp.Or(first(&n.Name), first(&n.Match), first(&n.Message), first(&n.Severity), first(&n.Title), &yaml.Node{})
	out := &Rule{}
	var ok [4]bool
	if out.Name, ok[0] = r.scalar(src, &n.Name, near, "name", maxName); ok[0] {
		ok[0] = r.name(src, &n.Name)
	}
	var severity, message string
	if severity, ok[1] = r.scalar(src, &n.Severity, near, "severity", maxName); ok[1] {
		var err error
		if out.Severity, err = rules.ParseSeverity(severity); err != nil {
			r.fail(src, &n.Severity, "%v", err)
			ok[1] = false
		}
	}
	if message, ok[2] = r.scalar(src, &n.Message, near, "message", maxMessage); ok[2] {
		t, offset, err := parseMessage(message)
		if ok[2] = err == nil; !ok[2] {
			line, column := place(src, &n.Message, 1+strings.Count(message[:offset], "\n"), 1+offset-(strings.LastIndexByte(message[:offset], '\n')+1))
			r.failAt(src, line, column, "%v", err)
		}
		out.message = t
	}
	if out.Match, ok[3] = r.scalar(src, &n.Match, near, "match", 2*expr.MaxBytes); ok[3] {
		var err error
		if out.compiled, err = compile(r.env, out.Match); err != nil {
			var e *expr.Error
			if !errors.As(err, &e) {
				e = &expr.Error{Text: err.Error()}
			}
			line, column := place(src, &n.Match, max(e.Line, 1), max(e.Column, 1))
			r.failAt(src, line, column, "match: %s", e.Text)
			ok[3] = false
		}
	}
	title := "A rule of this cluster's own"
	if !n.Title.IsZero() {
		var is bool
		if title, is = r.scalar(src, &n.Title, near, "title", maxTitle); !is {
			return
		}
	}
	if ok != [4]bool{true, true, true, true} {
		return
	}
	out.Reasons, out.Doc = rules.OwnReasons(), docOf(title, out)
	r.rules = append(r.rules, out)
}

func first(n *yaml.Node) *yaml.Node {
	if n.IsZero() {
		return nil
	}
	return n
}

// name checks the name of a rule, and that it is the only one.
func (r *reader) name(src *Source, n *yaml.Node) bool {
	switch at := r.places[n.Value]; {
	case !validName.MatchString(n.Value):
		r.fail(src, n, "the name %q must be lower-case words with hyphens between them, such as odd-client", n.Value)
	case rules.BuiltIn(n.Value):
		r.fail(src, n, "nodetrail has a rule %s of its own: use another name", n.Value)
	case reserved(n.Value):
		r.fail(src, n, "the name %s is reserved: use another one", n.Value)
	case at != "":
		r.fail(src, n, "there is a rule %s already, at %s", n.Value, at)
	default:
		r.places[n.Value] = fmt.Sprintf("%s:%d", src.Name, n.Line)
		return true
	}
	return false
}

// reserved reports whether a name means something else among metric labels and alerts.
func reserved(name string) bool { return name == "other" || name == "incident" }

// place turns a place in a text into one in the file. Within folded text and text in quotes over several lines it is where the text begins.
func place(src *Source, n *yaml.Node, line, column int) (int, int) {
	switch {
	case n.Style&yaml.LiteralStyle != 0:
		lines := strings.Split(string(src.Data), "\n")
		for i := n.Line; i < len(lines); i++ { // the first one that is not empty says how far the text is moved to the right
			if text := strings.TrimLeft(lines[i], " "); strings.TrimSpace(text) != "" {
				return n.Line + line, len(lines[i]) - len(text) + column
			}
		}
	case n.Style&yaml.FoldedStyle != 0 || line > 1:
		return n.Line, n.Column
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		return n.Line, n.Column + column
	}
	return n.Line, n.Column + column - 1
}

// docOf is the page of a rule.
func docOf(title string, r *Rule) string {
	return strings.Join(strings.Fields(title), " ") + "\n\n## What\nThis rule was written for this cluster. Its expression is `" +
		strings.Join(strings.Fields(r.Match), " ") + "`.\n\n## What to do\nAsk who wrote the rule.\n\n## How to silence it\nAdd an exception, or remove the rule from its file."
}

// meantField says what a path may have been.
func meantField(path string) string {
	var paths []string
	for i := range fields {
		paths = append(paths, fields[i].Path())
	}
	if s := spelling.Meant(path, paths); s != "" {
		return ": " + s
	}
	return ""
}
