package evidence

import (
	"iter"
	"math/bits"
	"time"
)

// Hour is an hour of UTC, counted from 1970.
type Hour int32

// HourOf returns the hour of a time.
func HourOf(t time.Time) Hour {
	s := t.Unix()
	h := s / 3600
	if s%3600 < 0 {
		h--
	}
	return Hour(h)
}

// Start returns the hour's first instant.
func (h Hour) Start() time.Time { return time.Unix(int64(h)*3600, 0).UTC() }

// End returns the first instant after the hour.
func (h Hour) End() time.Time { return (h + 1).Start() }

const (
	// SlotLength is how finely renewals are distinguished.
	SlotLength   = 5 * time.Second
	slotSeconds  = int64(SlotLength / time.Second)
	slotsPerHour = int(time.Hour / SlotLength)
	// PartLength is how finely everything else is.
	PartLength   = 5 * time.Minute
	partsPerHour = int(time.Hour / PartLength)
	allParts     = Parts(1<<partsPerHour - 1)
)

// SlotOf returns the slot of a time, counted from 1970.
func SlotOf(t time.Time) int64 {
	s := t.Unix()
	n := s / slotSeconds
	if s%slotSeconds < 0 {
		n--
	}
	return n
}

// SlotStart returns the first instant of a slot.
func SlotStart(slot int64) time.Time { return time.Unix(slot*slotSeconds, 0).UTC() }

// Slots is a set of the slots of an hour.
type Slots [12]uint64

func (s *Slots) has(i int) bool { return s[i>>6]>>(i&63)&1 == 1 }

// add reports whether the slot is new.
func (s *Slots) add(i int) bool {
	if s.has(i) {
		return false
	}
	s[i>>6] |= 1 << (i & 63)
	return true
}

// union adds the slots of another set.
func (s *Slots) union(o *Slots) {
	for i := range s {
		s[i] |= o[i]
	}
}

// Count returns how many slots are in the set.
func (s *Slots) Count() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// Parts returns the parts of the hour that have any of the slots.
func (s *Slots) Parts() (p Parts) {
	const each = slotsPerHour / partsPerHour
	for part := range partsPerHour {
		word, bit := part*each>>6, part*each&63
		if (s[word]>>bit|s[word+1]<<(64-bit))&(1<<each-1) != 0 {
			p |= 1 << part
		}
	}
	return p
}

// All returns the slots in order, counted from the hour's start.
func (s *Slots) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s {
			for ; w != 0; w &= w - 1 {
				if !yield(i<<6 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// Parts is a set of the parts of an hour, five minutes each.
type Parts uint16

// partOf returns the set of the one part that holds a time.
func partOf(t time.Time) Parts { return partAt(int(t.Unix() - int64(HourOf(t))*3600)) }

func partAt(second int) Parts { return 1 << (second / int(PartLength/time.Second)) }

// Has reports whether the part that holds the time is in the set; the hour is not looked at.
func (p Parts) Has(t time.Time) bool { return p&partOf(t) != 0 }

// Count returns how many parts are in the set.
func (p Parts) Count() int { return bits.OnesCount16(uint16(p)) }

// add reports whether anything is new.
func (p *Parts) add(o Parts) bool { return include(p, o) }

// include adds to a set, and reports whether anything is new.
func include[S Parts | Laned](s *S, o S) bool {
	if o&^*s == 0 {
		return false
	}
	*s |= o
	return true
}

// Laned is a set of the parts of an hour in which watches were asked for, apart for each of some lanes. All events of a watch are in the same part and lane, by
// its audit ID. A node asks for some three watches of a kind in a part: in one lane, the others would hide that an event of one is missing.
type Laned uint64

const (
	lanes    = 5
	allLaned = Laned(1)<<(lanes*partsPerHour) - 1
	// eachLane has the first part in each lane.
	eachLane = allLaned / Laned(allParts)
)

// laneOf returns a part in the lane of a watch, by FNV-1a.
func laneOf(part Parts, auditID string) Laned {
	return Laned(part) << (int(hashed(hashOffset, auditID)>>32%lanes) * partsPerHour)
}

const hashOffset, hashPrime uint64 = 14695981039346656037, 1099511628211 // of FNV-1a

// hashed continues a hash by FNV-1a with a string.
func hashed(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * hashPrime
	}
	return h
}

// In returns what is in those parts.
func (l Laned) In(parts Parts) Laned { return l & (Laned(parts) * eachLane) }

// Count returns how many parts are in the set, each as often as it is in a lane.
func (l Laned) Count() int { return bits.OnesCount64(uint64(l)) }

// add reports whether anything is new.
func (l *Laned) add(o Laned) bool { return include(l, o) }
