package nodeadmission

import (
	"hash/maphash"
	"reflect"
	"slices"
	"sort"
)

// name is that of an object, by 128 bits of two keyed hashes of its namespace and name: the text would be two more cache misses of each look-up.
type name struct{ a, b uint64 }

// hasher makes names. The keys are secret and random, so that nobody can choose objects whose names are the same.
type hasher struct{ a, b maphash.Seed }

func newHasher() hasher { return hasher{maphash.MakeSeed(), maphash.MakeSeed()} }

// name returns that of an object; the namespace of cluster-wide ones is empty.
func (h *hasher) name(namespace, object string) name {
	where := uint64(0)
	if namespace != "" {
		where = maphash.String(h.a, namespace)
	}
	return name{maphash.String(h.a, object) ^ where*0x9e3779b97f4a7c15, maphash.String(h.b, object) ^ where}
}

// tag is a hash of a text that is compared alone.
func (h *hasher) tag(text string) uint64 { return maphash.String(h.a, text) }

// token is a hash of a pod's UID and an audience, which are compared together; it is not 0.
func (h *hasher) token(uid, audience string) uint64 {
	return (maphash.String(h.b, uid) ^ maphash.String(h.a, audience)*0x9e3779b97f4a7c15) | 1
}

// tags are those of a pod.
func (h *hasher) tags(p *Pod) tags {
	out := tags{node: h.tag(p.Node)}
	if p.SpecUnknown {
		return out
	}
	for i := range p.Uses {
		if u := &p.Uses[i]; u.Kind == UseAudience {
			out.token = h.token(p.UID, u.Name)
			break
		}
	}
	return out
}

// table has the versions of the objects of a kind. It is a hash table with open addressing, because a look-up of one object among many mostly waits
// for memory: that of an object with one version touches one cache line. Each shard grows by itself, so that no change waits for all of them. Nothing is
// removed but by prune.
type table[T any] struct {
	shards [1 << shardBits]shard[T]
	n      int
}

const shardBits = 6

// shard has a power of two of slots, of which three quarters may be used.
type shard[T any] struct {
	slots []slot[T]
	used  int
}

// slot is a cache line. One that is not used has the zero name, which is no object's.
type slot[T any] struct {
	name
	history[T]
}

func (t *table[T]) shard(n name) *shard[T] { return &t.shards[n.a>>(64-shardBits)] }

// find returns the history of an object, or nil. It is valid until the next change.
func (t *table[T]) find(n name) *history[T] {
	slots := t.shard(n).slots
	if len(slots) == 0 {
		return nil
	}
	for i := int(n.a); ; i++ {
		s := &slots[i&(len(slots)-1)]
		switch s.name {
		case n:
			return &s.history
		case name{}:
			return nil
		}
	}
}

// add takes in an object that is not there.
func (t *table[T]) add(n name, h history[T]) {
	sh := t.shard(n)
	if (sh.used+1)*4 > len(sh.slots)*3 {
		sh.rebuild(sh.used+1, nil)
	}
	sh.put(n, h)
	t.n++
}

func (sh *shard[T]) put(n name, h history[T]) {
	i := int(n.a) & (len(sh.slots) - 1)
	for sh.slots[i].name != (name{}) {
		i = (i + 1) & (len(sh.slots) - 1)
	}
	sh.slots[i].name, sh.slots[i].history = n, h
	sh.used++
}

// rebuild makes slots for that many objects and leaves out those in the slots that are gone.
func (sh *shard[T]) rebuild(room int, gone map[int]bool) {
	old, n := sh.slots, 4
	for n*3 < room*4 {
		n *= 2
	}
	sh.slots, sh.used = make([]slot[T], n), 0
	for i := range old {
		if s := &old[i]; s.name != (name{}) && !gone[i] {
			sh.put(s.name, s.history)
		}
	}
}

// history is the versions of an object in the order of time. Most objects have one, which lies in the table itself.
type history[T any] struct {
	first version[T]
	rest  *[]version[T]
}

// version is what an object became between from and until. A nil value is its end.
type version[T any] struct {
	from, until int64
	value       *T
	tags
}

// tags are hashes of what is asked for most, so that the object itself, which lies elsewhere in memory, need not be read.
type tags struct {
	node  uint64 // of a pod
	token uint64 // of the token that a pod asks for, 0 for none
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
func (t *table[T]) set(n name, m Moment, value *T, of tags) {
	v := version[T]{from: m.Time.UnixNano(), value: value, tags: of}
	v.until = v.from + int64(max(m.Slop, 0))
	h := t.find(n)
	if h == nil {
		t.add(n, history[T]{first: v})
		return
	}
	is, next := h.at(v.from)
	if is != nil && reflect.DeepEqual(is.value, value) {
		return
	}
	if next != nil && reflect.DeepEqual(next.value, value) {
		next.from, next.until = v.from, min(v.until, next.until)
		return
	}
	list := h.list()
	i := sort.Search(len(list), func(i int) bool { return list[i].from > v.from })
	*h = historyOf(slices.Insert(list, i, v))
}

// at finds an object. Within a change's own uncertainty it is what it became.
func (t *table[T]) at(n name, at int64, c *coverage) (*T, Sight) {
	v, s := t.version(n, at, c)
	if v == nil {
		return nil, s
	}
	return v.value, s
}

// version is at, and leaves the object alone, which lies elsewhere in memory. It is nil where it is not known what there was, and its value where there
// was no object. It is valid until the next change.
func (t *table[T]) version(n name, at int64, c *coverage) (*version[T], Sight) {
	s := Sight{Known: true}
	var v, next *version[T]
	if h := t.find(n); h != nil {
		v, next = h.at(at)
	}
	if next != nil {
		s.To = next.from
	}
	if v == nil {
		s.Known = c.covers(at, &s)
		return nil, s
	}
	s.From = v.until
	if at < v.until {
		s.From, s.Unsure = v.from, true
		if s.To == 0 || s.To > v.until {
			s.To = v.until
		}
	}
	if v.value == nil || c.known {
		if s.Known = c.covers(at, &s); !s.Known {
			return nil, s
		}
	}
	return v, s
}

// prune forgets versions that were over before the time, and objects that ended before it.
func (t *table[T]) prune(before int64) {
	for i := range t.shards {
		sh := &t.shards[i]
		var gone map[int]bool
		for k := range sh.slots {
			if s := &sh.slots[k]; s.name != (name{}) && !s.prune(before) {
				if gone == nil {
					gone = map[int]bool{}
				}
				gone[k] = true
			}
		}
		if len(gone) > 0 {
			t.n -= len(gone)
			sh.rebuild(sh.used-len(gone), gone)
		}
	}
}

// prune is false if nothing is left.
func (h *history[T]) prune(before int64) bool {
	list := h.list()
	i := sort.Search(len(list), func(i int) bool { return list[i].until > before })
	switch {
	case i == len(list) && list[i-1].value == nil:
		return false
	case i > 1:
		*h = historyOf(list[i-1:])
	}
	return true
}
