package rules

import (
	"cmp"
	"encoding/json"
	"strconv"
)

// appender writes itself as encoding/json would, byte by byte, at a fraction of its price: what detectors remember is made into JSON again and
// again, most of all in an attack.
type appender interface {
	appendJSON(b []byte) ([]byte, error)
}

// remember appends an entry. What JSON has no form for, such as a year of five digits, is not remembered.
func remember(out []Remembered, kind, key string, v any) []Remembered {
	var b []byte
	var err error
	if a, is := v.(appender); is {
		b, err = a.appendJSON(nil)
	} else {
		b, err = json.Marshal(v)
	}
	if err == nil {
		out = append(out, Remembered{Kind: kind, Key: key, Value: b})
	}
	return out
}

// members appends an object's, one after the other. What is zero is left out but for numbers and times. Names are given as they are written,
// with quotes and colon.
type members struct {
	b   []byte
	err error // the first
}

func membersOf(b []byte) members { return members{b: append(b, '{')} }

func (m *members) end() ([]byte, error) { return append(m.b, '}'), m.err }

func (m *members) name(name string) {
	if m.b[len(m.b)-1] != '{' {
		m.b = append(m.b, ',')
	}
	m.b = append(m.b, name...)
}

func (m *members) text(name, s string) {
	if s != "" {
		m.name(name)
		m.b = appendText(m.b, s)
	}
}

func (m *members) number(name string, n int64) {
	m.name(name)
	m.b = strconv.AppendInt(m.b, n, 10)
}

// flag appends true; what is false is left out.
func (m *members) flag(name string, is bool) {
	if is {
		m.name(name)
		m.b = append(m.b, "true"...)
	}
}

// amount appends what is mostly a whole number.
func (m *members) amount(name string, f float64) {
	if n := int64(f); float64(n) == f && n > -1<<53 && n < 1<<53 {
		m.number(name, n)
		return
	}
	m.value(name, f)
}

// value appends any other value.
func (m *members) value(name string, v any) {
	m.name(name)
	b, err := json.Marshal(v)
	m.b, m.err = append(m.b, b...), cmp.Or(m.err, err)
}

// appendAll appends an array of objects.
func appendAll[T any](m *members, all []T, one func(T, *members)) {
	m.b = append(m.b, '[')
	for i, v := range all {
		if i > 0 {
			m.b = append(m.b, ',')
		}
		m.b = append(m.b, '{')
		one(v, m)
		m.b = append(m.b, '}')
	}
	m.b = append(m.b, ']')
}

func appendText(b []byte, s string) []byte {
	if !isPlain(s) {
		quoted, _ := json.Marshal(s) // a string always has a form
		return append(b, quoted...)
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// isPlain reports whether the string stands in JSON as it is. It looks at eight bytes at a time.
func isPlain(s string) bool {
	for ; len(s) >= 8; s = s[8:] {
		if special(uint64(s[0])|uint64(s[1])<<8|uint64(s[2])<<16|uint64(s[3])<<24|uint64(s[4])<<32|uint64(s[5])<<40|uint64(s[6])<<48|uint64(s[7])<<56) != 0 {
			return false
		}
	}
	rest := uint64(0)
	for i := range len(s) {
		rest = rest<<8 | uint64(s[i])
	}
	return special(rest|^uint64(0)<<(8*len(s))&(each*' ')) == 0
}

// each is a byte in all of eight places when it is multiplied by it.
const each = 0x0101010101010101

// special is not 0 if one of eight bytes has to be written in another way: below a space, above a tilde, or one of "&<>\.
func special(x uint64) uint64 {
	is := func(x uint64, c uint64) uint64 { // exact up to the lowest such byte
		y := x ^ each*c
		return (y - each) &^ y
	}
	const ampersand, greater = '"' | '&', '<' | '>'
	return (x | (x + each) | (x-each*' ')&^x | is(x|each*('"'^'&'), ampersand) | is(x|each*('<'^'>'), greater) | is(x, '\\')) & (each * 0x80)
}
