package nodeadmission

import (
	"hash/maphash"
	"math/bits"
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

// shard has at most three quarters of its slots in use.
type shard[T any] struct {
	slots []slot[T]
	used  int
}

// start is the slot at which the search for a name begins.
func (sh *shard[T]) start(n name) int {
	i, _ := bits.Mul64(n.b, uint64(len(sh.slots)))
	return int(i)
}

// after is the slot next to another, round the end.
func (sh *shard[T]) after(i int) int {
	if i++; i < len(sh.slots) {
		return i
	}
	return 0
}

// slot is a cache line. One that is not used has the zero name, which is no object's.
type slot[T any] struct {
	name
	history[T]
}

func (t *table[T]) shard(n name) *shard[T] { return &t.shards[n.a>>(64-shardBits)] }

// find returns the history of an object, or nil. It is valid until the next change.
func (t *table[T]) find(n name) *history[T] {
	sh := t.shard(n)
	if len(sh.slots) == 0 {
		return nil
	}
	for i := sh.start(n); ; i = sh.after(i) {
		s := &sh.slots[i]
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
	i := sh.start(n)
	for sh.slots[i].name != (name{}) {
		i = sh.after(i)
	}
	sh.slots[i].name, sh.slots[i].history = n, h
	sh.used++
}

// rebuild makes slots for that many objects, and for a quarter more, and leaves out those in the slots that are gone.
func (sh *shard[T]) rebuild(room int, gone map[int]bool) {
	old := sh.slots
	sh.slots, sh.used = make([]slot[T], room*5/3+4), 0
	for i := range old {
		if s := &old[i]; s.name != (name{}) && !gone[i] {
			sh.put(s.name, s.history)
		}
	}
}

// history is the versions of an object in the order of time. Most objects have one, which lies in the table itself.
type history[T any] struct {
	first version[T]
	rest  *later[T]
}

// later is what an object became after its first version: it ended, as most do, or has versions.
type later[T any] struct {
	ended    span
	versions *[]version[T]
}

// version is what an object became. A nil value is its end.
type version[T any] struct {
	span
	value *T
	tags
}

// span is when a change happened: at some time between the two.
type span struct{ from, until int64 }

// tags are hashes of what is asked for most, so that the object itself, which lies elsewhere in memory, need not be read.
type tags struct {
	node  uint64 // of a pod
	token uint64 // of the token that a pod asks for, 0 for none
}

// list returns all versions. The list belongs to the caller.
func (h *history[T]) list() []version[T] {
	switch list := []version[T]{h.first}; {
	case h.rest == nil:
		return list
	case h.rest.versions == nil:
		return append(list, version[T]{span: h.rest.ended})
	default:
		return append(list, *h.rest.versions...)
	}
}

func historyOf[T any](list []version[T]) history[T] {
	h := history[T]{first: list[0]}
	switch {
	case len(list) == 2 && list[1].value == nil:
		h.rest = &later[T]{ended: list[1].span}
	case len(list) > 1:
		rest := slices.Clone(list[1:])
		h.rest = &later[T]{versions: &rest}
	}
	return h
}

// at returns the version of an instant, and the beginning of the next one, 0 if there is none. There is no version before the first.
func (h *history[T]) at(at int64) (is version[T], there bool, next int64) {
	switch {
	case h.first.from > at:
		return is, false, h.first.from
	case h.rest == nil:
		return h.first, true, 0
	case h.rest.versions == nil:
		if end := h.rest.ended; end.from <= at {
			return version[T]{span: end}, true, 0
		}
		return h.first, true, h.rest.ended.from
	}
	rest := *h.rest.versions
	i := sort.Search(len(rest), func(i int) bool { return rest[i].from > at })
	if i < len(rest) {
		next = rest[i].from
	}
	if i > 0 {
		return rest[i-1], true, next
	}
	return h.first, true, next
}

// set takes in a version, in any order. One that changes nothing is dropped.
func (t *table[T]) set(n name, m Moment, value *T, of tags) {
	v := version[T]{value: value, tags: of}
	v.from = m.Time.UnixNano()
	v.until = v.from + int64(max(m.Slop, 0))
	h := t.find(n)
	if h == nil {
		t.add(n, history[T]{first: v})
		return
	}
	is, there, _ := h.at(v.from)
	if there && reflect.DeepEqual(is.value, value) {
		return
	}
	list := h.list()
	i := sort.Search(len(list), func(i int) bool { return list[i].from > v.from })
	if i < len(list) && reflect.DeepEqual(list[i].value, value) {
		list[i].span = span{v.from, min(v.until, list[i].until)}
	} else {
		list = slices.Insert(list, i, v)
	}
	*h = historyOf(list)
}

// at finds an object. Within a change's own uncertainty it is what it became.
func (t *table[T]) at(n name, at int64, c *coverage) (*T, Sight) {
	v, s := t.version(n, at, c)
	return v.value, s
}

// version is at, and leaves the object alone, which lies elsewhere in memory. Its value is nil where there was no object, or where it is not known what
// there was.
func (t *table[T]) version(n name, at int64, c *coverage) (version[T], Sight) {
	s := Sight{Known: true}
	var v version[T]
	there := false
	if h := t.find(n); h != nil {
		v, there, s.To = h.at(at)
	}
	if !there {
		s.Known = c.covers(at, &s)
		return v, s
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
			return version[T]{}, s
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
