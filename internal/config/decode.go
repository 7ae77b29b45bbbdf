package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nodetrail/nodetrail/internal/listfile"
	"github.com/nodetrail/nodetrail/internal/spelling"
)

// decoder puts YAML nodes into a Config, strictly, and notes what is wrong and where each key is.
type decoder struct {
	errs  *FileError
	env   func(string) (string, bool)
	lines map[string]int
	raw   map[string]string // what the file has where a variable's value was put in
	keys  []string          // the paths of all keys that there are
}

// defaulter is a section or an entry of a list that has defaults of its own.
type defaulter interface{ SetDefaults() }

// document reads the one document of the file; nil if it is empty or no YAML.
func (d *decoder) document(data []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		if err = dec.Decode(&second); err == nil {
			d.errs.add(second.Line, "", "a second document begins here; only one is allowed")
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if err != nil {
		at := listfile.Explain(err)
		d.errs.add(at.Line, "", "this is not YAML: %v", at.Err)
		return nil
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil
	}
	return doc.Content[0]
}

// value puts the node into v, whose field is tagged tag.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	if _, known := d.lines[path]; !known {
		d.lines[path] = n.Line
	}
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		d.errs.add(n.Line, path, "anchors and aliases are not supported: write the value out")
		return
	case n.Style&yaml.TaggedStyle != 0:
		d.errs.add(n.Line, path, "the tag %s is not supported: leave it out", quoted(n.Tag))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if isNull(n) {
			return // a section whose keys are all commented out is not there
		}
		p := reflect.New(v.Type().Elem())
		withDefaults(p)
		d.value(n, p.Elem(), path, tag)
		v.Set(p)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[Secret]() {
			d.scalar(n, v, path, tag)
			return
		}
		d.section(n, v, path)
	case reflect.Slice:
		d.list(n, v, path, tag)
	case reflect.Map:
		d.mapping(n, v, path, tag)
	default:
		d.scalar(n, v, path, tag)
	}
}

func withDefaults(p reflect.Value) {
	if s, ok := p.Interface().(defaulter); ok {
		s.SetDefaults()
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// section puts a mapping into a struct.
func (d *decoder) section(n *yaml.Node, v reflect.Value, path string) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.errs.add(n.Line, path, "%s where a section with keys is wanted: %s", kindOf(n), spelling.OneOf(names(v.Type())))
		return
	}
	d.pairs(n, path, func(key, value *yaml.Node) {
		field, f, ok := lookUp(v, key.Value)
		if !ok {
			d.unknown(key, v.Type(), path)
			return
		}
		p := join(path, key.Value)
		d.lines[p] = key.Line
		d.value(value, field, p, f.Tag)
	})
}

// pairs calls f for each pair of the mapping whose key is a text and new.
func (d *decoder) pairs(n *yaml.Node, path string, f func(key, value *yaml.Node)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Anchor != "" || key.ShortTag() == "!!merge" {
			d.errs.add(key.Line, path, "a key must be a plain word, without anchors, aliases or <<")
			continue
		}
		if line, twice := seen[key.Value]; twice {
			d.errs.add(key.Line, join(path, shown(key.Value)), "the key is already in line %d", line)
			continue
		}
		seen[key.Value] = key.Line
		f(key, value)
	}
}

// unknown says of a key that is not there what may have been meant.
func (d *decoder) unknown(key *yaml.Node, t reflect.Type, path string) {
	if d.errs.full() {
		return
	}
	all := names(t)
	field := join(path, shown(key.Value))
	if s := meant(key.Value, all); s != "" {
		d.errs.add(key.Line, field, "there is no such key: did you mean %s?", s)
		return
	}
	for _, k := range d.keys {
		if k == key.Value || strings.HasSuffix(k, "."+key.Value) {
			d.errs.add(key.Line, field, "there is no such key: did you mean %s?", k)
			return
		}
	}
	d.errs.add(key.Line, field, "there is no such key; allowed are %s", strings.Join(all, ", "))
}

// shown is a key in a path of fields.
func shown(key string) string {
	if len(key) <= 60 && !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return key
	}
	return quoted(key)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// list puts a sequence into a slice.
func (d *decoder) list(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.errs.add(n.Line, path, "%s where a list is wanted", kindOf(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, len(n.Content))
	for i, item := range n.Content {
		p := reflect.New(v.Type().Elem())
		withDefaults(p)
		at := fmt.Sprintf("%s[%d]", path, i)
		if isNull(item) {
			d.errs.add(item.Line, at, "a value is needed")
			continue
		}
		d.value(item, p.Elem(), at, tag)
		out = reflect.Append(out, p.Elem())
	}
	v.Set(out)
}

// mapping puts a mapping with free keys into a map.
func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.errs.add(n.Line, path, "%s where keys with values are wanted", kindOf(n))
		return
	}
	out := reflect.MakeMap(v.Type())
	d.pairs(n, path, func(key, value *yaml.Node) {
		p := reflect.New(v.Type().Elem()).Elem()
		at := join(path, shown(key.Value))
		d.lines[at] = key.Line
		d.value(value, p, at, tag)
		out.SetMapIndex(reflect.ValueOf(key.Value), p)
	})
	v.Set(out)
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "there are keys"
	case yaml.SequenceNode:
		return "there is a list"
	}
	return "there is a single value"
}

// names are the keys of a struct, in their order, those of inlined structs among them.
func names(t reflect.Type) []string {
	var all []string
	for f := range fields(t) {
		all = append(all, f.Name)
	}
	return all
}

// field is one key of a struct.
type field struct {
	Name  string
	Index []int
	Tag   reflect.StructTag
	Type  reflect.Type
}

// fields yields the keys of a struct.
func fields(t reflect.Type) func(yield func(field) bool) {
	return func(yield func(field) bool) {
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if name == "" || !f.IsExported() {
				continue
			}
			if !yield(field{name, f.Index, f.Tag, f.Type}) {
				return
			}
		}
	}
}

func lookUp(v reflect.Value, key string) (reflect.Value, field, bool) {
	for f := range fields(v.Type()) {
		if f.Name == key {
			return v.FieldByIndex(f.Index), f, true
		}
	}
	return reflect.Value{}, field{}, false
}

// allKeys lists the paths of all keys; a list's entries are written [].
func allKeys(t reflect.Type, path string) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return allKeys(t.Elem(), path+"[]")
	case t.Kind() != reflect.Struct || t == reflect.TypeFor[Secret]():
		return nil
	}
	var all []string
	for f := range fields(t) {
		p := join(path, f.Name)
		all = append(append(all, p), allKeys(f.Type, p)...)
	}
	return slices.Clip(all)
}
