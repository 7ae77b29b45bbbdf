package evidence

import "encoding/binary"

// append writes the set as the steps from each slot to the next: how many there are, the step that is the most frequent, the first slot, and then
// in turn how often that step comes and the step that comes instead. A kubelet's hour of some 350 renewals takes some thirty bytes.
func (s *Slots) append(dst []byte) []byte {
	count := s.Count()
	dst = binary.AppendUvarint(dst, uint64(count))
	if count == 0 {
		return dst
	}
	usual := s.usual()
	dst = binary.AppendUvarint(dst, uint64(usual))
	before, run := -1, 0
	for i := range s.All() {
		switch {
		case before < 0:
			dst = binary.AppendUvarint(dst, uint64(i))
		case i-before == usual:
			run++
		default:
			dst = binary.AppendUvarint(dst, uint64(run))
			dst = binary.AppendUvarint(dst, uint64(i-before))
			run = 0
		}
		before = i
	}
	return binary.AppendUvarint(dst, uint64(run))
}

// usual is the most frequent step, the least of several; 1 where there is none.
func (s *Slots) usual() int {
	var steps [slotsPerHour]uint16
	before, best := -1, 1
	for i := range s.All() {
		if before >= 0 {
			steps[i-before]++
		}
		before = i
	}
	for step, n := range steps {
		if n > steps[best] {
			best = step
		}
	}
	return best
}

// A decoder reads what the codec wrote. After the first error everything is zero.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) most(most uint64) uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || v > most {
		d.failed, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes(n int) []byte {
	if n > len(d.rest) {
		d.failed, d.rest = true, nil
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (d *decoder) parts(into []*Parts) {
	for _, p := range into {
		*p = Parts(d.most(uint64(allParts)))
	}
}

func (d *decoder) slots(into *Slots) {
	count := int(d.most(uint64(slotsPerHour)))
	if count == 0 {
		return
	}
	usual, at := int(d.most(uint64(slotsPerHour))), int(d.most(uint64(slotsPerHour-1)))
	into.add(at)
	for left := count - 1; !d.failed; left-- {
		run := int(d.most(uint64(slotsPerHour)))
		d.failed = d.failed || run > left
		for ; run > 0 && !d.failed; run-- {
			at = d.step(into, at, usual)
			left--
		}
		if left == 0 {
			return
		}
		at = d.step(into, at, int(d.most(uint64(slotsPerHour))))
	}
}

func (d *decoder) step(into *Slots, at, by int) int {
	if by <= 0 || at+by >= slotsPerHour {
		d.failed = true
		return at
	}
	into.add(at + by)
	return at + by
}
