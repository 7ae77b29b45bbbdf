package rules

import (
	"math/bits"
	"slices"
)

const (
	// slotsOfDetour is the longest detour. Where a kubelet is for longer, it lives.
	slotsOfDetour = livesFor * slotsOfMinute
	// leastBeats is how many of its slots have a renewal, and none of the node from elsewhere.
	leastBeats = 2
)

// beats are the slots of the last ten minutes in which the node renewed its Lease from an address. The lowest bit is the last slot of the minute in which it was last used.
type beats uint64

// enter takes in the slots of a minute, some minutes after the latest.
func (b beats) enter(after int64, slots uint8) beats {
	return b<<(slotsOfMinute*min(uint64(max(after, 0)), 10)) | beats(bits.Reverse8(slots)>>(8-slotsOfMinute))
}

// beat reports whether the node renewed from there in a slot, as of slotAt.
func (h *habit) beat(slot int64) bool {
	back := (h.Minute+1)*slotsOfMinute - 1 - slot
	return back >= 0 && back < 10*slotsOfMinute && h.Beats>>back&1 == 1
}

// detour is between which slots the kubelet of the node was at an address, if it was there next to the given slot and for less than some minutes: it renewed its Lease from there, and
// before and after that from elsewhere. A kubelet renews from one place at a time, so that whoever renews next to it leaves no gap in its renewals.
func (n *credentials) detour(h *habit, slot int64) (from, to int64, is bool) {
	elsewhere := func(s int64) bool { return n.elsewhere(h, func(o *habit) bool { return o.beat(s) }) }
	for at := slot - 1; at <= slot+1; at++ {
		from, to = at, at
		for !elsewhere(from) && at-from <= slotsOfDetour {
			from--
		}
		for !elsewhere(to) && to-from <= slotsOfDetour {
			to++
		}
		if to-from > slotsOfDetour || !n.elsewhere(h, func(o *habit) bool { return o.Alive >= livesFor && o.beat(from) }) {
			continue
		}
		first, last, renewals := int64(0), int64(0), 0
		for s := from + 1; s < to; s++ {
			if h.beat(s) {
				if renewals++; renewals == 1 {
					first = s
				}
				last = s
			}
		}
		if renewals >= leastBeats && slot >= first-1 && slot <= last+1 {
			return from, to, true
		}
	}
	return 0, 0, false
}

// accompanied reports whether others go or went to where a node makes a detour: another node at the same time, as when the connections of a fleet are moved, or another kubelet
// lives there, and no Node has the address. An address of its own Node needs no company.
func (d *credentialDetector) accompanied(n *credentials, kind uint8, h *habit, from, to int64, s State) bool {
	if s != nil && hasAddress(s.NodeAddresses(n.name), h.Value) {
		return true
	}
	free := s != nil && ofNoNode(s, n.name, h.Value)
	for _, other := range d.nodes {
		if other == n {
			continue
		}
		o := other.habit(kind, h.Value)
		if o == nil {
			continue
		}
		if free && o.Alive >= livesFor {
			return true
		}
		for slot := from; slot <= to; slot++ {
			if _, _, is := other.detour(o, slot); is {
				return true
			}
		}
	}
	return false
}

// detours leaves out what was taken on a detour with others, and marks what was taken alone.
func (d *credentialDetector) detours(n *credentials, waiting []taking, s State) []taking {
	left := waiting[:0]
	for _, t := range waiting {
		if h := n.habit(t.Kind, t.Value); h != nil && t.Seen == 0 && !t.Alone {
			from, to, on := n.detour(h, slotAt(t.At))
			if on && d.accompanied(n, t.Kind, h, from, to, s) {
				continue
			}
			t.Alone = on
		}
		left = append(left, t)
	}
	clear(waiting[len(left):])
	return left
}

// detoured reports whether what the node did in a minute at one of two addresses was on a detour there, and whether it was alone.
func (d *credentialDetector) detoured(n *credentials, kind uint8, minute int64, s State, addresses ...*habit) (is, alone bool) {
	for slot := minute * slotsOfMinute; slot < (minute+1)*slotsOfMinute; slot++ {
		i := slices.IndexFunc(addresses, func(h *habit) bool { return h.beat(slot) })
		if i < 0 {
			continue
		}
		if from, to, on := n.detour(addresses[i], slot); on {
			return true, !d.accompanied(n, kind, addresses[i], from, to, s)
		}
	}
	return false, false
}
