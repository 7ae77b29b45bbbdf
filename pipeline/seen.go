package pipeline

import (
	"hash/maphash"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/tally"
)

// seen remembers which stages of which requests have come, of the latest requests only: of two generations the older is forgotten
// when the younger is full, so that memory does not grow with the log.
type seen struct {
	seed       maphash.Seed
	young, old table
	// fetched is of no use, but that what is read is used.
	fetched uint64
}

func newSeen(most int) *seen {
	return &seen{seed: maphash.MakeSeed(), young: newTable(most), old: newTable(most)}
}

const (
	judgedBit = 1 << 7
	// storedBit says that the store knows the request, or will with the commit under way.
	storedBit = 1 << 6
)

func stageBit(s audit.Stage) uint8 { return 1 << (s & 7) }

// hash is of a request with an auditID.
func (s *seen) hash(ev *audit.Event) uint64 {
	var b [512]byte
	return maphash.Bytes(s.seed, identify(b[:0], ev))
}

// other is of a request that has its auditID, verb, URI and time in common with another one.
func (s *seen) other(ev *audit.Event) uint64 {
	var b [512]byte
	return maphash.Bytes(s.seed, identifyOther(b[:0], ev))
}

// markOf is of what an event tells of its request's answer, 0 if it tells nothing.
func (s *seen) markOf(ev *audit.Event) uint32 {
	if !answers(ev) {
		return 0
	}
	var b [512]byte
	return uint32(maphash.Bytes(s.seed, answer(b[:0], ev))) | 1
}

// key is of a request that is known by its ID.
func (s *seen) key(id tally.ID) uint64 { return maphash.Bytes(s.seed, id[:]) }

// mark is of an answer that is known by its hash, 0 if there is none.
func (s *seen) mark(answer tally.ID) uint32 {
	if answer == (tally.ID{}) {
		return 0
	}
	return uint32(maphash.Bytes(s.seed, answer[:])) | 1
}

// get returns what the request was set to, 0 if it was not.
func (s *seen) get(h uint64) (bits uint8, mark uint32) {
	if bits, mark = s.young.get(h); bits != 0 {
		return bits, mark
	}
	return s.old.get(h)
}

// fetch reads what get will read of some requests. The processor then waits for memory once, and not for each of them.
func (s *seen) fetch(looks []source.Look) {
	for i := range looks {
		h := looks[i].Key
		s.fetched ^= s.young.home(h) ^ s.old.home(h)
	}
}

func (s *seen) set(h uint64, bits uint8, mark uint32) {
	if s.young.full() {
		if there, _ := s.young.get(h); there == 0 {
			s.old, s.young = s.young, s.old
			s.young.clear()
		}
	}
	s.young.set(h, bits, mark)
}

// table maps hashes to bits by open addressing. A slot holds the hash but for its last byte, which are the bits: two requests are taken
// for one when 56 bits of their hashes agree, which among a million has a chance of one in a hundred thousand.
type table struct {
	slots []uint64
	marks []uint32 // of the slots
	used  int
	most  int
}

// newTable makes one that is full with so many requests. It grows to that, and is never more than half full.
func newTable(most int) table {
	return table{slots: make([]uint64, 1024), marks: make([]uint32, 1024), most: most}
}

// pageSlots is how many slots a page of memory has, 4 KiB.
const pageSlots = 512

func (t *table) full() bool { return t.used >= t.most }

func (t *table) grow() {
	old, marks := t.slots, t.marks
	t.slots, t.marks = make([]uint64, 2*len(old)), make([]uint32, 2*len(old))
	// Memory that is read before it is written costs the kernel two faults for each page, and all cores a flush of what they know of it.
	for i := 0; i < len(t.slots); i += pageSlots {
		t.slots[i] = 0
	}
	for i, v := range old {
		if v != 0 {
			at := t.slot(v)
			t.slots[at], t.marks[at] = v, marks[i]
		}
	}
}

func (t *table) clear() {
	clear(t.slots)
	t.used = 0
}

// home is what is where the search for a hash begins.
func (t *table) home(h uint64) uint64 { return t.slots[(h>>8)&uint64(len(t.slots)-1)] }

// slot is where the hash is, or would be.
func (t *table) slot(h uint64) uint64 {
	mask := uint64(len(t.slots) - 1)
	for i := (h >> 8) & mask; ; i = (i + 1) & mask {
		if v := t.slots[i]; v == 0 || v>>8 == h>>8 {
			return i
		}
	}
}

func (t *table) get(h uint64) (bits uint8, mark uint32) {
	at := t.slot(h)
	if bits = uint8(t.slots[at]); bits == 0 {
		return 0, 0
	}
	return bits, t.marks[at]
}

func (t *table) set(h uint64, bits uint8, mark uint32) {
	if 2*t.used >= len(t.slots) {
		t.grow()
	}
	at := t.slot(h)
	if t.slots[at] == 0 {
		t.used++
	}
	t.slots[at], t.marks[at] = h&^0xff|uint64(bits), mark
}
