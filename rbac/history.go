package rbac

import (
	"math"
	"slices"
	"sort"
	"sync/atomic"
	"time"
)

// instant is a time in nanoseconds since 1970, which is half the size of a
// time.Time and compares at once. What does not fit is moved to the nearest
// that does, so that the zero time is before all others.
type instant int64

const (
	earliest instant = math.MinInt64
	latest   instant = math.MaxInt64 - 1
	never    instant = math.MaxInt64 // after every time that can be given
)

func instantOf(t time.Time) instant {
	switch sec := t.Unix(); {
	case sec <= int64(earliest)/1e9:
		return earliest
	case sec >= int64(latest)/1e9:
		return latest
	}
	return instant(t.UnixNano())
}

// version is what an object is from an instant on, until the next version.
type version[T any] struct {
	from  instant
	value *T // nil: it does not exist
}

// history is all versions of one object, ordered by time, no two at one
// instant. Reading takes no lock. Writers must exclude each other.
//
// A version that says the same as the one before it is kept, with the value
// shared: a version that comes late may still fall between the two.
type history[T any] struct {
	// What the slice holds up to its length is never written again. Beyond
	// it the newest writer may append in place: no reader looks there.
	versions atomic.Pointer[[]version[T]]
}

func (h *history[T]) load() []version[T] {
	if p := h.versions.Load(); p != nil {
		return *p
	}
	return nil
}

// at returns what the object was at t, nil if it did not exist.
func (h *history[T]) at(t instant) *T {
	vs := h.load()
	n := len(vs)
	if n == 0 || vs[0].from > t {
		return nil
	}
	if vs[n-1].from <= t { // what is asked for most
		return vs[n-1].value
	}
	return vs[sort.Search(n, func(i int) bool { return vs[i].from > t })-1].value
}

// lookBack is among how many versions before it an equal one is looked for.
const lookBack = 8

// set makes the object value (nil: deleted) from `from` on, until the next
// version. It returns the versions before and after when one of the same instant was
// replaced, else nil and nil.
func (h *history[T]) set(from instant, value *T, equal func(a, b *T) bool) (replaced, by []version[T]) {
	old := h.load()
	n := len(old)
	i := n
	if n > 0 && old[n-1].from >= from {
		i = sort.Search(n, func(i int) bool { return old[i].from >= from })
	}
	// What is made again is mostly as it was before it was deleted or changed, and is there once.
	for j := min(i, n-1); value != nil && j >= max(0, i-lookBack); j-- {
		if old[j].value != nil && equal(old[j].value, value) {
			value = old[j].value
			break
		}
	}
	v := version[T]{from: from, value: value}
	var vs []version[T]
	switch {
	case i == n:
		vs = append(old, v) //nolint:gocritic // readers of old never look beyond its length
	case old[i].from == from:
		if old[i].value == value {
			return nil, nil
		}
		vs = slices.Clone(old)
		vs[i] = v
		replaced, by = old, vs
	default:
		vs = make([]version[T], 0, n+1)
		vs = append(append(append(vs, old[:i]...), v), old[i:]...)
	}
	h.versions.Store(&vs)
	return replaced, by
}

// prune forgets the versions that no instant from before on can see, and
// returns the versions as they were and as they are. They are of the same
// length if nothing was forgotten.
func (h *history[T]) prune(before instant) (old, kept []version[T]) {
	old = h.load()
	i := sort.Search(len(old), func(i int) bool { return old[i].from > before })
	if i > 0 && old[i-1].value != nil {
		i-- // it lasts into the time that is kept
	}
	if i == 0 {
		return old, old
	}
	kept = slices.Clone(old[i:])
	h.versions.Store(&kept)
	return old, kept
}
