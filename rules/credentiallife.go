package rules

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// life is where a kubelet lives: from where it renews the Lease of its node. Only renewals that succeeded count, at the rate of a kubelet: six a minute.
// Whoever has a credential makes single ones from anywhere, and more of them at once.
type life struct {
	// Alive is in how many minutes the address gave signs of life at that rate.
	Alive int64 `json:",omitempty"`
	// From and Renewed are the first and the latest renewal of a run in which the node renewed from nowhere else. From is zero where it did so at the same time.
	From    time.Time `json:",omitzero"`
	Renewed time.Time `json:",omitzero"`
	// Lived is Alive within the run.
	Lived int64 `json:",omitempty"`
	// Began is the first renewal from there.
	Began time.Time `json:",omitzero"`
	// Rooted says that the node had renewed from nowhere else before the run.
	Rooted bool `json:",omitempty"`
	// Held says that the node had the address to itself in the run, and is the one to hand it on. Handed says that another one handed it over.
	Held   bool `json:",omitempty"`
	Handed bool `json:",omitempty"`
}

const (
	// secondsOfSlot is how often a kubelet renews, slotsAlive of how many of the minute's slots make it alive.
	secondsOfSlot = 10
	slotsOfMinute = 60 / secondsOfSlot
	slotsAlive    = 2 // some are configured to renew each half minute
	// livesFor is for how many minutes a node has to be alive until it lives somewhere.
	livesFor = 4
)

// renew takes in a renewal.
func (u *use) renew(r *Request) {
	u.renews++
	if !r.Succeeded() {
		return
	}
	if u.slots == 0 || r.Time.Before(u.renewedFirst) {
		u.renewedFirst = r.Time
	}
	if r.Time.After(u.renewedLast) {
		u.renewedLast = r.Time
	}
	u.slots |= 1 << slotOf(r.Time)
}

// slotOf is the slot of the minute.
func slotOf(t time.Time) int { return t.Second() / secondsOfSlot }

// slotAt is the slot of all time.
func slotAt(t time.Time) int64 { return minuteAt(t)*slotsOfMinute + int64(slotOf(t)) }

// habit is what is known of an address of the node, nil if it is not known.
func (n *credentials) habit(kind uint8, value string) *habit {
	if i := slices.IndexFunc(n.used[kind], func(h *habit) bool { return h.Value == value }); i >= 0 {
		return n.used[kind][i]
	}
	return nil
}

// at is what is known of an address of either family, nil if it is not known.
func (n *credentials) at(address string) *habit {
	if h := n.habit(useV4, address); h != nil {
		return h
	}
	return n.habit(useV6, address)
}

// elsewhere calls f with the other addresses of the node that are no loopback ones, until it returns true. All are others where h is nil.
func (n *credentials) elsewhere(h *habit, f func(o *habit) bool) bool {
	for kind := range uint8(useCertificate) {
		for _, o := range n.used[kind] {
			if o != h && !isLoopback(o.Value) && f(o) {
				return true
			}
		}
	}
	return false
}

// live takes in the signs of life of a minute.
func (d *credentialDetector) live(n *credentials, uses []use, s State) {
	var renewed []*use
	for i := range uses {
		if u := &uses[i]; u.slots != 0 && !isLoopback(u.value) {
			renewed = append(renewed, u)
		}
	}
	slices.SortFunc(renewed, func(a, b *use) int {
		return cmp.Or(a.renewedFirst.Compare(b.renewedFirst), strings.Compare(a.value, b.value))
	})
	for _, u := range renewed {
		h := n.habit(u.kind, u.value)
		if h == nil {
			continue
		}
		both := slices.ContainsFunc(renewed, func(o *use) bool {
			return o != u && !o.renewedFirst.After(u.renewedLast) && !u.renewedFirst.After(o.renewedLast)
		})
		moved := n.elsewhere(h, func(o *habit) bool { return o.Renewed.After(h.Renewed) })
		switch {
		case both:
			h.life = life{Alive: h.Alive, Began: h.Began}
		case moved || h.From.IsZero():
			h.life = life{Alive: h.Alive, Began: h.Began, From: u.renewedFirst, Rooted: !n.elsewhere(h, func(o *habit) bool { return o.Renews > 0 }) && h.Renewed.IsZero()}
		}
		if h.Began.IsZero() {
			h.Began = u.renewedFirst
		}
		h.Renewed = u.renewedLast
		if bits.OnesCount8(u.slots) >= slotsAlive {
			h.Alive++
			if !both {
				h.Lived++
			}
		}
		d.hold(n, h, s)
	}
}

// dwells reports whether a kubelet lives here and not there.
func (h *habit) dwells(o *habit) bool { return h.Alive >= livesFor && o.Alive < livesFor }

// livesIn reports whether other nodes live at addresses of the family since before the given time. maybe says that the next minutes may show it.
func (d *credentialDetector) livesIn(kind uint8, n *credentials, before time.Time) (is, maybe bool) {
	if before.Sub(d.begins()) <= time.Minute { // all begin at once where the log does
		before = before.Add(time.Minute)
	}
	for _, other := range d.nodes {
		if other == n {
			continue
		}
		for _, h := range other.used[kind] {
			if isLoopback(h.Value) || !h.First.Before(before) {
				continue
			}
			if h.Lived >= livesFor {
				return true, false
			}
			maybe = maybe || h.Lived > 0
		}
	}
	return false, maybe
}

// dark reports whether the log does not show where kubelets were in a minute, since it has the renewals of none up to then, such as of a minute before it begins, of which it has the ends
// of watches. lives says that some kubelet lives at the address.
func (d *credentialDetector) dark(address string, minute int64) (is, lives bool) {
	if first := d.firstRenewal(); first.IsZero() || minuteAt(first) <= minute {
		return false, false
	}
	_, lives, _ = d.dwellersAt(address)
	return true, lives
}

// begins is the first use of any address that is remembered.
func (d *credentialDetector) begins() time.Time {
	return d.earliest(func(h *habit) time.Time { return h.First })
}

// firstRenewal is the first renewal of any Lease that is known, zero where there is none.
func (d *credentialDetector) firstRenewal() time.Time {
	return d.earliest(func(h *habit) time.Time { return h.Began })
}

// earliest is the earliest of the times that the addresses of nodes have, but for zero ones.
func (d *credentialDetector) earliest(of func(h *habit) time.Time) (first time.Time) {
	for _, n := range d.nodes {
		for kind := range uint8(useCertificate) {
			for _, h := range n.used[kind] {
				if t := of(h); !t.IsZero() && (first.IsZero() || t.Before(first)) {
					first = t
				}
			}
		}
	}
	return first
}

// lastHome is how the node's kubelet used the address of its Node at which it lived last; nil if there is no Node any more, and where the state does not tell.
func (n *credentials) lastHome(t time.Time, s State) (last *habit) {
	if s == nil {
		return nil
	}
	if exists, known := s.NodeExists(n.name, t); !exists || !known {
		return nil
	}
	own := s.NodeAddresses(n.name)
	for _, h := range slices.Concat(n.used[useV4], n.used[useV6]) {
		if h.Alive >= livesFor && hasAddress(own, h.Value) && (last == nil || h.Last.After(last.Last)) {
			last = h
		}
	}
	return last
}
