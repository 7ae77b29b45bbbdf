package codes

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of parameters.
const (
	// MaxValue bounds a value, in bytes. Names in Kubernetes have at most 253.
	MaxValue = 512
	// MaxParams is how many parameters there are at most.
	MaxParams = 48
)

// Param is one parameter. A key may come several times, which makes a list.
type Param struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Params are parameters in a fixed order. They are read, never changed in place.
type Params []Param

// Text is a parameter that is a name or another text from outside.
func Text(key, value string) Param { return Param{key, value} }

// Int is a parameter that is a number.
func Int[N int | int32 | int64](key string, n N) Param {
	return Param{key, strconv.FormatInt(int64(n), 10)}
}

// Time is a parameter that is a time; it is kept in UTC.
func Time(key string, t time.Time) Param { return Param{key, t.UTC().Format(time.RFC3339Nano)} }

// Duration is a parameter that is a length of time.
func Duration(key string, d time.Duration) Param { return Param{key, d.String()} }

// List is a parameter for each of the values.
func List(key string, values []string) Params {
	out := make(Params, 0, len(values))
	for _, v := range values {
		out = append(out, Param{key, v})
	}
	return out
}

// Text returns the first value of the key, "" if there is none.
func (p Params) Text(key string) string {
	for i := range p {
		if p[i].Key == key {
			return p[i].Value
		}
	}
	return ""
}

// Has reports whether there is a parameter of the key.
func (p Params) Has(key string) bool {
	return slices.ContainsFunc(p, func(x Param) bool { return x.Key == key })
}

// All returns the values of the key, in order.
func (p Params) All(key string) []string {
	var out []string
	for i := range p {
		if p[i].Key == key {
			out = append(out, p[i].Value)
		}
	}
	return out
}

// Int returns the number of the key, 0 if there is none.
func (p Params) Int(key string) int64 {
	n, err := strconv.ParseInt(p.Text(key), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Time returns the time of the key, the zero time if there is none.
func (p Params) Time(key string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, p.Text(key))
	if err != nil {
		return time.Time{}
	}
	return t
}

// Duration returns the length of time of the key, 0 if there is none.
func (p Params) Duration(key string) time.Duration {
	d, err := time.ParseDuration(p.Text(key))
	if err != nil {
		return 0
	}
	return d
}

// Equal reports whether both have the same parameters in the same order.
func (p Params) Equal(o Params) bool { return slices.Equal(p, o) }

// Own returns a copy that shares no memory with p, each value bounded; nil if there are none.
func (p Params) Own() Params {
	if len(p) == 0 {
		return nil
	}
	out := make(Params, min(len(p), MaxParams))
	for i := range out {
		out[i] = Param{strings.Clone(Bound(p[i].Key, MaxValue)), strings.Clone(Bound(p[i].Value, MaxValue))}
	}
	return out
}

// Bound cuts s to at most so many bytes, never within a character, and ends what it cuts with "...".
func Bound(s string, most int) string {
	const dots = "..."
	if len(s) <= most {
		return s
	}
	cut := most - len(dots)
	for back := 0; back < utf8.UTFMax && cut > 0 && !utf8.RuneStart(s[cut]); back++ {
		cut--
	}
	return strings.ToValidUTF8(s[:cut], "") + dots
}
