package config

import (
	"reflect"
	"slices"
)

// Change is one key whose value differs between two configurations.
type Change struct {
	// Field is the path of the key. Of lists and optional sections that came or went, and of lists whose length differs, it is the whole's.
	Field string
	// Live says that it can change while the program runs.
	Live bool
}

// Changed lists what differs, in the order of the structs.
func Changed(a, b *Config) []Change {
	var out []Change
	changed(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem(), "", false, &out)
	const files = "rules.files"
	if a.ownSum != b.ownSum && !slices.ContainsFunc(out, func(c Change) bool { return c.Field == files }) {
		out = append(out, Change{Field: files, Live: true}) // the same files have other rules
	}
	return out
}

func changed(a, b reflect.Value, path string, live bool, out *[]Change) {
	if a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil() {
		a, b = a.Elem(), b.Elem()
	}
	if a.Kind() == reflect.Struct && a.Type() != reflect.TypeFor[Secret]() {
		for f := range fields(a.Type()) {
			changed(a.FieldByIndex(f.Index), b.FieldByIndex(f.Index), join(path, f.Name), live || f.Tag.Get("live") != "", out)
		}
		return
	}
	if !same(a, b) {
		*out = append(*out, Change{Field: path, Live: live})
	}
}

// same is deep equality, but that no list and an empty one are the same.
func same(a, b reflect.Value) bool {
	if k := a.Kind(); (k == reflect.Slice || k == reflect.Map) && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// Restart lists the fields of changes that need a restart.
func Restart(changes []Change) []string {
	var out []string
	for _, c := range changes {
		if !c.Live && !slices.Contains(out, c.Field) {
			out = append(out, c.Field)
		}
	}
	return out
}
