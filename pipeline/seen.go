package pipeline

import (
	"hash/maphash"

	"github.com/nodetrail/nodetrail/audit"
)

// seen remembers which stages of which requests have come, of the latest requests only: of two generations the older is forgotten
// when the younger is full, so that memory does not grow with the log.
type seen struct {
	seed       maphash.Seed
	young, old map[uint64]uint8
	most       int
}

func newSeen(most int) *seen {
	return &seen{seed: maphash.MakeSeed(), young: map[uint64]uint8{}, most: most}
}

const judgedBit = 1 << 7

func stageBit(s audit.Stage) uint8 { return 1 << (s & 7) }

func (s *seen) get(h uint64) uint8 {
	if bits, ok := s.young[h]; ok {
		return bits
	}
	return s.old[h]
}

func (s *seen) set(h uint64, bits uint8) {
	if len(s.young) >= s.most {
		s.old, s.young = s.young, make(map[uint64]uint8, s.most/4)
	}
	s.young[h] = bits
}

func (s *seen) hash(auditID string) uint64 { return maphash.String(s.seed, auditID) }
