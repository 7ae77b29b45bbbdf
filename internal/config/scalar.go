package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nodetrail/nodetrail/internal/spelling"
)

// variable finds ${NAME}, its escape $${, and what only begins like one.
var variable = regexp.MustCompile(`\$?\$\{([A-Za-z_][A-Za-z0-9_]*\})?`)

// expand puts the environment's values in. It returns what is wrong, "" if nothing is.
func expand(s string, env func(string) (string, bool)) (out, wrong string) {
	out = variable.ReplaceAllStringFunc(s, func(m string) string {
		switch {
		case strings.HasPrefix(m, "$$"):
			return m[1:]
		case !strings.HasSuffix(m, "}"):
			wrong = "${ begins no variable such as ${NAME}; $${ stands for the characters themselves"
			return m
		}
		name := m[2 : len(m)-1]
		value, ok := env(name)
		if !ok {
			wrong = fmt.Sprintf("the environment variable %s is not set", name)
		}
		return value
	})
	return out, wrong
}

// scalar puts a single value into v.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	what := wanted(v.Type())
	if n.Kind != yaml.ScalarNode {
		d.errs.add(n.Line, path, "%s where %s is wanted", kindOf(n), what)
		return
	}
	if isNull(n) {
		d.errs.add(n.Line, path, "the value is missing: %s is wanted, or leave the key out", what)
		return
	}
	text, wrong := expand(n.Value, d.env)
	if wrong != "" {
		d.errs.add(n.Line, path, "%s", wrong)
		return
	}
	// What an error shows is the file's own text: a variable's value may be a secret, whatever the field.
	if text != n.Value {
		d.raw[path] = n.Value
	}
	if !set(v, text) {
		d.errs.add(n.Line, path, "%s is not %s", quoted(n.Value), what)
		return
	}
	d.bounds(n, v, path, tag)
}

func wanted(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Duration]():
		return "a duration such as 500ms, 1h30m or 90d"
	case reflect.TypeFor[Size]():
		return "a size such as 4MiB, 512KiB or a number of bytes"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	}
	return "a text"
}

// set reads the text into v; false, and v stays as it is, if it cannot be read.
func set(v reflect.Value, text string) bool {
	switch v.Type() {
	case reflect.TypeFor[Duration]():
		t, err := parseDuration(text)
		return setIf(v, t, err == nil)
	case reflect.TypeFor[Size]():
		n, err := parseSize(text)
		return setIf(v, n, err == nil)
	case reflect.TypeFor[Secret]():
		return setIf(v, NewSecret(text), true)
	}
	switch v.Kind() {
	case reflect.Bool:
		return setIf(v, text == "true", text == "true" || text == "false")
	case reflect.Int:
		n, err := strconv.Atoi(text)
		return setIf(v, n, err == nil)
	case reflect.String:
		return setIf(v, text, !strings.ContainsRune(text, 0))
	}
	return false
}

func setIf(v reflect.Value, to any, ok bool) bool {
	if ok {
		v.Set(reflect.ValueOf(to))
	}
	return ok
}

// bounds checks the tags min, max and oneof.
func (d *decoder) bounds(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	if list, ok := tag.Lookup("oneof"); ok {
		all := strings.Split(list, "|")
		if slices.Contains(all, v.String()) {
			return
		}
		text := fmt.Sprintf("%s is not %s", quoted(n.Value), spelling.OneOf(slices.DeleteFunc(all, func(s string) bool { return s == "" })))
		if s := meant(v.String(), all); s != "" {
			text += fmt.Sprintf(": did you mean %s?", s)
		}
		d.errs.add(n.Line, path, "%s", text)
		return
	}
	least, greatest := tag.Get("min"), tag.Get("max")
	if least == "" && greatest == "" {
		return
	}
	low, high := reflect.New(v.Type()).Elem(), reflect.New(v.Type()).Elem()
	if set(low, least) && v.Int() < low.Int() || set(high, greatest) && v.Int() > high.Int() {
		d.errs.add(n.Line, path, "%s is out of range: %s to %s are allowed", quoted(n.Value), least, greatest)
	}
}
