package nodeadmission

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"sort"

	"github.com/nodetrail/nodetrail/internal/arena"
)

// name is that of an object, by 96 bits of two keyed hashes of its namespace and name: the text would be two more cache misses of each look-up.
type name struct {
	a uint64
	b uint32
}

// hasher makes names. The keys are secret and random, so that nobody can choose objects whose names are the same.
type hasher struct{ a, b maphash.Seed }

func newHasher() hasher { return hasher{maphash.MakeSeed(), maphash.MakeSeed()} }

// name returns that of an object; the namespace of cluster-wide ones is empty.
func (h *hasher) name(namespace, object string) name {
	where := uint64(0)
	if namespace != "" {
		where = maphash.String(h.a, namespace)
	}
	return name{maphash.String(h.a, object) ^ where*0x9e3779b97f4a7c15, uint32((maphash.String(h.b, object) ^ where) >> 32)}
}

// tag is a hash of a text that is compared alone.
func (h *hasher) tag(text string) (tag [8]byte) {
	binary.LittleEndian.PutUint64(tag[:], maphash.String(h.b, text))
	return tag
}

// table has the versions of the objects of a kind, each with its value V; the zero value is the end of an object. It is a hash table with open addressing,
// because a look-up of one object among many mostly waits for memory: that of a pod with one version touches one cache line. Each shard grows by itself,
// so that no change waits for all of them. Nothing is removed but by prune. The zero table is empty.
type table[V comparable] struct {
	shards [1 << shardBits]shard[V]
	n      int
	ends   arena.Of[span]
	lists  arena.Of[[]version[V]]
	// equal compares values, by default those to which they point.
	equal func(a, b V) bool
	// release is called with each value that is not kept any more.
	release func(V)
}

const shardBits = 6

// shard has at most three quarters of its slots in use.
type shard[V comparable] struct {
	slots []slot[V]
	used  int
}

// slot has an object's first version, and says where the others are; most objects have one, or end after it. Of a pod it is a cache line. One that is not
// used has the zero name, which is no object's.
type slot[V comparable] struct {
	a     uint64 // of the name
	from  int64  // of the first version
	b     uint32 // of the name
	slop  uint32 // of the first version
	rest  uint32 // 0: nothing; odd: twice a number in ends and 1; even: twice a number in lists, which has the first version, too, and 2
	value V
}

// version is what an object became. The zero value is its end.
type version[V comparable] struct {
	span
	value V
}

// span is when a change happened: at some time between the two.
type span struct{ from, until int64 }

func (s *slot[V]) name() name { return name{s.a, s.b} }

// first is the first version, unless there is a list.
func (s *slot[V]) first() version[V] {
	return version[V]{span: span{s.from, s.from + int64(s.slop)}, value: s.value}
}

// start is the slot at which the search for a name begins.
func (sh *shard[V]) start(n name) int {
	// The upper bits of a choose the shard.
	i, _ := bits.Mul64(n.a<<shardBits, uint64(len(sh.slots)))
	return int(i)
}

// after is the slot next to another, round the end.
func (sh *shard[V]) after(i int) int {
	if i++; i < len(sh.slots) {
		return i
	}
	return 0
}

func (t *table[V]) shard(n name) *shard[V] { return &t.shards[n.a>>(64-shardBits)] }

// find returns the slot of an object, or nil. It is valid until the next change.
func (t *table[V]) find(n name) *slot[V] {
	sh := t.shard(n)
	if len(sh.slots) == 0 {
		return nil
	}
	for i := sh.start(n); ; i = sh.after(i) {
		s := &sh.slots[i]
		switch s.name() {
		case n:
			return s
		case name{}:
			return nil
		}
	}
}

// add takes in an object that is not there, with the versions that it has.
func (t *table[V]) add(n name, v version[V]) {
	sh := t.shard(n)
	if (sh.used+1)*4 > len(sh.slots)*3 {
		sh.rebuild(sh.used+1, nil)
	}
	t.write(sh.put(slot[V]{a: n.a, b: n.b}), []version[V]{v})
	t.n++
}

func (sh *shard[V]) put(s slot[V]) *slot[V] {
	i := sh.start(s.name())
	for sh.slots[i].name() != (name{}) {
		i = sh.after(i)
	}
	sh.slots[i] = s
	sh.used++
	return &sh.slots[i]
}

// rebuild makes slots for that many objects, and for a quarter more, and leaves out those in the slots that are gone.
func (sh *shard[V]) rebuild(room int, gone map[int]bool) {
	old := sh.slots
	sh.slots, sh.used = make([]slot[V], room*5/3+4), 0
	for i := range old {
		if s := &old[i]; s.name() != (name{}) && !gone[i] {
			sh.put(*s)
		}
	}
}

// list returns all versions. Whoever changes the list has to write it.
func (t *table[V]) list(s *slot[V]) []version[V] {
	switch {
	case s.rest == 0:
		return []version[V]{s.first()}
	case s.rest&1 == 1:
		return []version[V]{s.first(), {span: *t.ends.At(s.rest / 2)}}
	}
	return *t.lists.At(s.rest/2 - 1)
}

// forget releases what a slot refers to.
func (t *table[V]) forget(s *slot[V]) {
	switch {
	case s.rest == 0:
	case s.rest&1 == 1:
		t.ends.Release(s.rest / 2)
	default:
		*t.lists.At(s.rest/2 - 1) = nil
		t.lists.Release(s.rest/2 - 1)
	}
	s.rest = 0
}

// fewVersions is up to how many versions an object has no room for more of them: most have few.
const fewVersions = 8

// write puts versions into a slot, in place of those that it has. It keeps the list, which may be the one that [table.list] returned.
func (t *table[V]) write(s *slot[V], list []version[V]) {
	var end V
	first := list[0]
	s.from, s.value = first.from, first.value
	slop := first.until - first.from
	s.slop = uint32(min(slop, math.MaxUint32))
	if int64(s.slop) == slop && (len(list) == 1 || len(list) == 2 && list[1].value == end) {
		t.forget(s)
		if len(list) == 2 {
			id := t.ends.Alloc()
			*t.ends.At(id) = list[1].span
			s.rest = 2*id + 1
		}
		return
	}
	if s.rest == 0 || s.rest&1 == 1 {
		t.forget(s)
		s.rest = 2*t.lists.Alloc() + 2
	}
	if len(list) <= fewVersions || cap(list) > 2*len(list) {
		list = slices.Clone(list)
	}
	*t.lists.At(s.rest/2 - 1) = list
}

// look returns the version of an instant, and the beginning of the next one, 0 if there is none. There is no version before the first: its value is
// nil then, and that of an end may be.
func (t *table[V]) look(s *slot[V], at int64) (is span, value *V, there bool, next int64) {
	first := span{s.from, s.from + int64(s.slop)}
	switch {
	case s.from > at:
		return is, nil, false, s.from
	case s.rest == 0:
		return first, &s.value, true, 0
	case s.rest&1 == 1:
		end := t.ends.At(s.rest / 2)
		if end.from <= at {
			return *end, nil, true, 0
		}
		return first, &s.value, true, end.from
	}
	list := *t.lists.At(s.rest/2 - 1)
	i := sort.Search(len(list), func(i int) bool { return list[i].from > at })
	if i < len(list) {
		next = list[i].from
	}
	return list[i-1].span, &list[i-1].value, true, next
}

func (t *table[V]) same(a, b V) bool {
	if t.equal != nil {
		return t.equal(a, b)
	}
	return reflect.DeepEqual(a, b)
}

// set takes in a version, in any order. One that changes nothing is dropped.
func (t *table[V]) set(n name, m Moment, value V) {
	v := version[V]{value: value}
	v.from = m.Time.UnixNano()
	v.until = v.from + int64(max(m.Slop, 0))
	s := t.find(n)
	if s == nil {
		t.add(n, v)
		return
	}
	var was V
	_, is, there, _ := t.look(s, v.from)
	if is != nil {
		was = *is
	}
	if there && t.same(was, value) {
		t.drop(value)
		return
	}
	list := t.list(s)
	i := sort.Search(len(list), func(i int) bool { return list[i].from > v.from })
	if i < len(list) && t.same(list[i].value, value) {
		list[i].span = span{v.from, min(v.until, list[i].until)}
		t.drop(value)
	} else {
		list = slices.Insert(list, i, v)
	}
	t.write(s, list)
}

func (t *table[V]) drop(value V) {
	if t.release != nil {
		t.release(value)
	}
}

// at finds an object. Within a change's own uncertainty it is what it became. It is nil where there was no object, or where it is not known what there was,
// and valid until the next change.
func (t *table[V]) at(n name, at int64, c *coverage) (*V, Sight) {
	sight := Sight{Known: true}
	var is span
	var value *V
	var end V
	there := false
	if s := t.find(n); s != nil {
		is, value, there, sight.To = t.look(s, at)
	}
	if !there {
		sight.Known = c.covers(at, &sight)
		return nil, sight
	}
	sight.From = is.until
	if at < is.until {
		sight.From, sight.Unsure = is.from, true
		if sight.To == 0 || sight.To > is.until {
			sight.To = is.until
		}
	}
	if value != nil && *value == end {
		value = nil
	}
	if value == nil || c.known {
		if sight.Known = c.covers(at, &sight); !sight.Known {
			return nil, sight
		}
	}
	return value, sight
}

// values calls f with the value of each version.
func (t *table[V]) values(f func(V)) {
	for i := range t.shards {
		for k := range t.shards[i].slots {
			if s := &t.shards[i].slots[k]; s.name() != (name{}) {
				for _, v := range t.list(s) {
					f(v.value)
				}
			}
		}
	}
}

// prune forgets versions that were over before the time, and objects that ended before it.
func (t *table[V]) prune(before int64) {
	for i := range t.shards {
		sh := &t.shards[i]
		var gone map[int]bool
		for k := range sh.slots {
			if s := &sh.slots[k]; s.name() != (name{}) && !t.pruneSlot(s, before) {
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

// pruneSlot is false if nothing is left.
func (t *table[V]) pruneSlot(s *slot[V], before int64) bool {
	var end V
	list := t.list(s)
	i := sort.Search(len(list), func(i int) bool { return list[i].until > before })
	kept := list[max(i-1, 0):]
	over := i == len(list) && list[i-1].value == end
	if over {
		kept = nil
	}
	for _, v := range list[:len(list)-len(kept)] {
		t.drop(v.value)
	}
	switch {
	case over:
		t.forget(s)
	case len(kept) < len(list):
		t.write(s, kept)
	}
	return !over
}
