// Package lent gives tests values whose text is taken away again, as a source takes back the memory of events that were judged.
//
// It imports no package of nodetrail.
package lent

import (
	"reflect"
	"sync"
	"unsafe"
)

// Copy returns a copy of a value in which the letters of all texts lie in memory of its own, and a function that overwrites that memory: what still refers
// to them then reads only the letter X. It follows pointers, slices, arrays, maps and interfaces as far as fields are exported.
func Copy[T any](v *T) (of *T, takeBack func()) {
	l := &lender{}
	out := *v
	l.own(reflect.ValueOf(&out).Elem())
	return &out, func() {
		for _, b := range l.lent {
			for i := range b {
				b[i] = 'X'
			}
		}
	}
}

type lender struct{ lent [][]byte }

func (l *lender) bytes(of []byte) []byte {
	b := append([]byte(nil), of...)
	l.lent = append(l.lent, b)
	return b
}

// own replaces what an addressable value refers to by copies.
func (l *lender) own(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if b := l.bytes([]byte(v.String())); len(b) > 0 {
			v.SetString(unsafe.String(unsafe.SliceData(b), len(b)))
		}
	case reflect.Pointer:
		if !v.IsNil() && textIn(v.Type().Elem()) {
			n := reflect.New(v.Type().Elem())
			n.Elem().Set(v.Elem())
			l.own(n.Elem())
			v.Set(n)
		}
	case reflect.Interface:
		if !v.IsNil() {
			v.Set(l.copy(v.Elem()))
		}
	case reflect.Struct:
		for _, i := range textFields(v.Type()) {
			l.own(v.Field(i))
		}
	case reflect.Array:
		l.elements(v)
	case reflect.Slice:
		switch {
		case v.IsNil():
		case v.Type().Elem().Kind() == reflect.Uint8:
			v.SetBytes(l.bytes(v.Bytes()))
		default:
			n := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(n, v)
			l.elements(n)
			v.Set(n)
		}
	case reflect.Map:
		if v.IsNil() {
			break
		}
		n := reflect.MakeMapWithSize(v.Type(), v.Len())
		for _, key := range v.MapKeys() {
			n.SetMapIndex(l.copy(key), l.copy(v.MapIndex(key)))
		}
		v.Set(n)
	}
}

// elements replaces what the elements of a slice or an array refer to.
func (l *lender) elements(v reflect.Value) {
	if !textIn(v.Type().Elem()) {
		return
	}
	for i := range v.Len() {
		l.own(v.Index(i))
	}
}

// copy returns a copy of a value that has no address.
func (l *lender) copy(v reflect.Value) reflect.Value {
	n := reflect.New(v.Type()).Elem()
	n.Set(v)
	l.own(n)
	return n
}

// textIn reports whether values of the type can refer to memory that Copy replaces.
func textIn(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		return true
	case reflect.Array:
		return textIn(t.Elem())
	case reflect.Struct:
		return len(textFields(t)) > 0
	default:
		return false
	}
}

var fieldsOf sync.Map //nolint:gochecknoglobals // the answers of textFields by type, which never change

// textFields returns the indexes of the exported fields of a struct that can refer to such memory.
func textFields(t reflect.Type) []int {
	if known, ok := fieldsOf.Load(t); ok {
		return known.([]int)
	}
	fields := []int{}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && textIn(f.Type) {
			fields = append(fields, i)
		}
	}
	fieldsOf.Store(t, fields)
	return fields
}
