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

const judgedBit = 1 << 7

func stageBit(s audit.Stage) uint8 { return 1 << (s & 7) }

// hash is of a request with an auditID.
func (s *seen) hash(ev *audit.Event) uint64 {
	var b [512]byte
	return maphash.Bytes(s.seed, identify(b[:0], ev))
}

// key is of a request that is known by its ID.
func (s *seen) key(id tally.ID) uint64 { return maphash.Bytes(s.seed, id[:]) }

func (s *seen) get(h uint64) uint8 {
	if bits := s.young.get(h); bits != 0 {
		return bits
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

func (s *seen) set(h uint64, bits uint8) {
	if s.young.full() && s.young.get(h) == 0 {
		s.old, s.young = s.young, s.old
		s.young.clear()
	}
	s.young.set(h, bits)
}

// table maps hashes to bits by open addressing. A slot holds the hash but for its last byte, which are the bits: two requests are taken
// for one when 56 bits of their hashes agree, which among a million has a chance of one in a hundred thousand.
type table struct {
	slots []uint64
	used  int
	most  int
}

// newTable makes one that is full with so many requests. It grows to that, and is never more than half full.
func newTable(most int) table { return table{slots: make([]uint64, 1024), most: most} }

// pageSlots is how many slots a page of memory has, 4 KiB.
const pageSlots = 512

func (t *table) full() bool { return t.used >= t.most }

func (t *table) grow() {
	old := t.slots
	t.slots = make([]uint64, 2*len(old))
	// Memory that is read before it is written costs the kernel two faults for each page, and all cores a flush of what they know of it.
	for i := 0; i < len(t.slots); i += pageSlots {
		t.slots[i] = 0
	}
	for _, v := range old {
		if v != 0 {
			*t.slot(v) = v
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
func (t *table) slot(h uint64) *uint64 {
	mask := uint64(len(t.slots) - 1)
	for i := (h >> 8) & mask; ; i = (i + 1) & mask {
		if v := t.slots[i]; v == 0 || v>>8 == h>>8 {
			return &t.slots[i]
		}
	}
}

func (t *table) get(h uint64) uint8 { return uint8(*t.slot(h)) }

func (t *table) set(h uint64, bits uint8) {
	if 2*t.used >= len(t.slots) {
		t.grow()
	}
	s := t.slot(h)
	if *s == 0 {
		t.used++
	}
	*s = h&^0xff | uint64(bits)
}
