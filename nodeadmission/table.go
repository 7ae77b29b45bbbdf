package nodeadmission

import (
	"hash/maphash"
	"reflect"
	"slices"
	"sort"
	"time"
)

// name is that of an object, by 128 bits of two keyed hashes of its namespace and name: the text would be two more cache misses of each look-up.
type name struct{ a, b uint64 }

// hasher makes names. The keys are secret and random, so that nobody can choose objects whose names are the same.
type hasher struct{ a, b maphash.Seed }

func newHasher() hasher { return hasher{maphash.MakeSeed(), maphash.MakeSeed()} }

// name returns that of an object; the namespace of cluster-wide ones is empty.
func (h *hasher) name(namespace, object string) name {
	return name{
		maphash.String(h.a, namespace)*0x9e3779b97f4a7c15 ^ maphash.String(h.a, object),
		maphash.String(h.b, object)*0x9e3779b97f4a7c15 ^ maphash.String(h.b, namespace),
	}
}

// tag is a hash of a text that is compared alone.
func (h *hasher) tag(text string) uint64 { return maphash.String(h.a, text) }

// table has the versions of the objects of a kind.
type table[T any] map[name]history[T]

// history is the versions of an object in the order of time. Most objects have one, which lies in the table itself.
type history[T any] struct {
	first version[T]
	rest  *[]version[T]
}

// version is what an object became between from and until. A nil value is its end.
type version[T any] struct {
	from, until int64
	value       *T
	tag         uint64 // a hash of what is asked for most: of a pod its node
}

// list returns all versions. The list belongs to the caller.
func (h *history[T]) list() []version[T] {
	if h.rest == nil {
		return []version[T]{h.first}
	}
	return append([]version[T]{h.first}, *h.rest...)
}

func historyOf[T any](list []version[T]) history[T] {
	h := history[T]{first: list[0]}
	if len(list) > 1 {
		rest := slices.Clone(list[1:])
		h.rest = &rest
	}
	return h
}

// at returns the version of an instant, nil before the first, and the next one, nil if there is none.
func (h *history[T]) at(at int64) (is, next *version[T]) {
	switch {
	case h.first.from > at:
		return nil, &h.first
	case h.rest == nil:
		return &h.first, nil
	}
	rest := *h.rest
	i := sort.Search(len(rest), func(i int) bool { return rest[i].from > at })
	is = &h.first
	if i > 0 {
		is = &rest[i-1]
	}
	if i < len(rest) {
		next = &rest[i]
	}
	return is, next
}

// set takes in a version, in any order. One that changes nothing is dropped.
func (t table[T]) set(n name, m Moment, value *T, tag uint64) {
	v := version[T]{from: m.Time.UnixNano(), value: value, tag: tag}
	v.until = v.from + int64(max(m.Slop, 0))
	h, known := t[n]
	if !known {
		t[n] = history[T]{first: v}
		return
	}
	is, next := h.at(v.from)
	if is != nil && reflect.DeepEqual(is.value, value) {
		return
	}
	if next != nil && reflect.DeepEqual(next.value, value) {
		next.from, next.until = v.from, min(v.until, next.until)
		t[n] = h // next may lie in it
		return
	}
	list := h.list()
	i := sort.Search(len(list), func(i int) bool { return list[i].from > v.from })
	t[n] = historyOf(slices.Insert(list, i, v))
}

// at finds an object. Within a change's own uncertainty it is what it became.
func (t table[T]) at(n name, at int64, c *coverage) (*T, Sight) {
	v, s := t.version(n, at, c)
	return v.value, s
}

// version is at, and leaves the object alone, which lies elsewhere in memory. Its value is nil where there is no object. It is a copy, so that nothing is
// allocated.
func (t table[T]) version(n name, at int64, c *coverage) (version[T], Sight) {
	h, known := t[n]
	s := Sight{Known: true}
	var v, next *version[T]
	if known {
		v, next = h.at(at)
	}
	if next != nil {
		s.To = time.Unix(0, next.from).UTC()
	}
	if v == nil {
		s.Known = c.covers(at, &s)
		return version[T]{}, s
	}
	s.From = time.Unix(0, v.until).UTC()
	if at < v.until {
		s.From, s.Unsure = time.Unix(0, v.from).UTC(), true
		if s.To.IsZero() || s.To.UnixNano() > v.until {
			s.To = time.Unix(0, v.until).UTC()
		}
	}
	if v.value == nil || c.known {
		if s.Known = c.covers(at, &s); !s.Known {
			return version[T]{}, s
		}
	}
	return *v, s
}

// prune forgets versions that were over before the time, and objects that ended before it.
func (t table[T]) prune(before int64) {
	for n, h := range t {
		list := h.list()
		i := sort.Search(len(list), func(i int) bool { return list[i].until > before })
		switch {
		case i == len(list) && list[i-1].value == nil:
			delete(t, n)
		case i > 1:
			t[n] = historyOf(list[i-1:])
		}
	}
}
