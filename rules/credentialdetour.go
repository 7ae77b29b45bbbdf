package rules

import (
	"math/bits"
	"slices"
)

// leastDetours is how many nodes have to take the same detour: the connections of a fleet are moved together.
const leastDetours = 2

// detours are what nodes used in the minute because their connections were moved there for less than a minute, as a load balancer moves them that fails over and back.
// A kubelet renews its Lease from one place at a time: while it does so from the other address, it does not from its own, and both together are the renewals of one kubelet.
// Somebody else who renews Leases does so next to the kubelets.
func (d *credentialDetector) detours(minute int64) map[*credentials][]useKey {
	var by map[useKey][]*credentials
	for _, n := range d.pending[minute] {
		uses := d.at(n, minute).uses
		if len(uses) < 2 || len(uses) > fewUses {
			continue
		}
		for i := range uses {
			if n.detour(uses, &uses[i]) {
				if by == nil {
					by = map[useKey][]*credentials{}
				}
				by[uses[i].useKey] = append(by[uses[i].useKey], n)
			}
		}
	}
	var out map[*credentials][]useKey
	for key, nodes := range by {
		if len(nodes) < leastDetours {
			continue
		}
		if out == nil {
			out = map[*credentials][]useKey{}
		}
		for _, n := range nodes {
			out[n] = append(out[n], key)
		}
	}
	return out
}

// detour reports whether the kubelet of the node was at an address where it does not live, and at the same time not where it lives.
func (n *credentials) detour(uses []use, at *use) bool {
	if at.kind == useCertificate || at.slots == 0 || isLoopback(at.value) {
		return false
	}
	if h := n.habit(at.kind, at.value); h != nil && h.Alive >= livesFor {
		return false
	}
	renewed, lived := at.slots, false
	from, to := bits.TrailingZeros8(at.slots), bits.Len8(at.slots)-1
	for i := range uses {
		u := &uses[i]
		if u == at || u.kind == useCertificate || u.slots == 0 {
			continue
		}
		if u.slots>>from&(1<<(to-from+1)-1) != 0 {
			return false
		}
		h := n.habit(u.kind, u.value)
		lived = lived || h != nil && h.Alive >= livesFor
		renewed |= u.slots
	}
	return lived && bits.OnesCount8(renewed) >= slotsOfMinute-1 && slotOf(at.first) >= from-1 && slotOf(at.last) <= to+1
}

// leaveOut forgets what was taken in the minute on a detour.
func (d *credentialDetector) leaveOut(n *credentials, minute int64, keys []useKey) {
	left := slices.DeleteFunc(d.taken[n.name], func(t taking) bool {
		return t.Seen == 0 && minuteAt(t.At) == minute && slices.Contains(keys, useKey{t.Kind, t.Value})
	})
	if d.taken[n.name] = left; len(left) == 0 {
		delete(d.taken, n.name)
	}
}
