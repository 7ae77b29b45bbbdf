// Package lent gives tests values whose text is taken away again, as a source takes back the memory of events that were judged.
//
// It imports no package of nodetrail.
package lent

import (
	"reflect"
	"unsafe"
)

// Copy returns a copy of a value in which the letters of all texts lie in memory of its own, and a function that overwrites that memory: what still refers
// to them then reads only the letter X. It follows pointers, slices, maps' values and interfaces' pointers as far as their fields are exported.
func Copy[T any](v *T) (of *T, takeBack func()) {
	l := &lender{}
	out := l.copy(reflect.ValueOf(v))
	return out.Interface().(*T), func() {
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

// copy returns a copy of the value.
func (l *lender) copy(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.String:
		b := l.bytes([]byte(v.String()))
		out.SetString(unsafe.String(unsafe.SliceData(b), len(b)))
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(l.copy(v.Elem()))
		}
	case reflect.Interface:
		if !v.IsNil() {
			out.Set(l.copy(v.Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(l.copy(v.Field(i)))
			}
		}
	case reflect.Slice:
		switch {
		case v.IsNil():
		case v.Type().Elem().Kind() == reflect.Uint8:
			out.SetBytes(l.bytes(v.Bytes()))
		default:
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(l.copy(v.Index(i)))
			}
		}
	case reflect.Map:
		if v.IsNil() {
			break
		}
		out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for _, key := range v.MapKeys() {
			out.SetMapIndex(l.copy(key), l.copy(v.MapIndex(key)))
		}
	}
	return out
}
