package rules

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/codes"
)

// made is a Node that was made with a credential, in a time that is not judged yet.
type made struct {
	node    *birthNode
	h       *holder
	address string
	at      time.Time
	audit   string
}

// dwelling is where a node, or one of its credentials, renews the Lease from. Who has a credential makes single renewals from anywhere: only as many as a
// kubelet makes say that it is somewhere else now. Those of a time in which there is no Node say nothing: a kubelet renews no Lease then, because the Node
// owns it.
type dwelling struct {
	// Home is from where it renewed, since when, and Was from where before that.
	Home  string    `json:"h,omitempty"`
	Since time.Time `json:"hs,omitzero"`
	Was   string    `json:"w,omitempty"`
	// Lived is in how many minutes it did so at a kubelet's rate, livesFor at most.
	Lived int `json:"hl,omitempty"`
	// Next is from where it has renewed since it did so from Home last, and Stays in how many minutes at that rate.
	Next  string `json:"x,omitempty"`
	Stays int    `json:"xl,omitempty"`
}

// renewals are those by one credential from one address in a minute that is not over.
type renewals struct {
	minute  int64
	h       *holder
	address string
	first   time.Time
	slots   uint8
}

// maxRenewals bounds them for a node. A kubelet has one credential and one or two addresses, or twice that after a change.
const maxRenewals = 32

// renew takes in a renewal of the Lease.
func (n *birthNode) renew(h *holder, t time.Time) {
	minute := minuteAt(t)
	slot := uint8(1) << slotOf(t)
	for i := range n.open {
		if r := &n.open[i]; r.minute == minute && r.h == h && r.address == n.address {
			r.slots |= slot
			if t.Before(r.first) {
				r.first = t
			}
			return
		}
	}
	if len(n.open) >= maxRenewals {
		n.crowded = max(n.crowded, minute)
		return
	}
	n.open = append(n.open, renewals{minute, h, n.address, t, slot})
}

// dwell takes in the renewals of the minutes before the given one.
func (n *birthNode) dwell(end int64, s State) {
	if !slices.ContainsFunc(n.open, func(r renewals) bool { return r.minute < end }) {
		return
	}
	slices.SortFunc(n.open, func(a, b renewals) int {
		return cmp.Or(cmp.Compare(a.minute, b.minute), a.first.Compare(b.first), strings.Compare(a.address, b.address), strings.Compare(a.h.ID, b.h.ID))
	})
	for len(n.open) > 0 && n.open[0].minute < end {
		m := n.open[0].minute
		of := slices.IndexFunc(n.open, func(r renewals) bool { return r.minute != m })
		if of < 0 {
			of = len(n.open)
		}
		crowded := m <= n.crowded // somebody comes from more addresses than a kubelet has: it is not known whether the kubelet was among them
		all := n.open[:of]
		for i := range all {
			r, exists := &all[i], func() bool { return true }
			if s != nil {
				exists = func() bool {
					is, known := s.NodeExists(n.name, r.first)
					return is || !known
				}
			}
			if crowded {
				n.Next, n.Stays, r.h.Next, r.h.Stays = "", 0, "", 0
				continue
			}
			// The node's are those by all of its credentials. In a minute with any from home, it has not moved.
			slots, again, home, own := uint8(0), false, false, false
			for j := range all {
				o := &all[j]
				if o.address == r.address {
					slots |= o.slots
					again = again || j < i
				}
				home = home || o.address == n.Home
				own = own || o.h == r.h && o.address == r.h.Home
			}
			if r.address == r.h.Home || !own {
				r.h.take(r, r.slots, exists)
			}
			if !again && (r.address == n.Home || !home) {
				n.take(r, slots, exists)
			}
		}
		n.open = slices.Delete(n.open, 0, of)
	}
}

// take takes in those from one address in a minute.
func (w *dwelling) take(r *renewals, slots uint8, exists func() bool) {
	alive := bits.OnesCount8(slots) >= slotsAlive
	switch {
	case r.address == "":
	case r.address == w.Home:
		w.Next, w.Stays = "", 0
		if alive && w.Lived < livesFor && exists() {
			w.Lived++
		}
	case !exists():
	case w.Home == "":
		w.Home, w.Since = r.address, r.first
		if alive {
			w.Lived = 1
		}
	default:
		if w.Next != r.address {
			w.Next, w.Stays = r.address, 0
		}
		if alive {
			w.Stays++
		}
		if w.Stays >= livesFor {
			*w = dwelling{Home: w.Next, Since: timeOfMinute(r.minute + 1), Was: w.Home, Lived: livesFor}
		}
	}
}

// home is where it renewed the Lease from before an instant; "" for nowhere.
func (w *dwelling) home(t time.Time) string {
	if w.Since.Before(t) {
		return w.Home
	}
	return w.Was
}

// homeOf is from where the machine of a credential came before an instant. A certificate that the node asked for itself is of the machine whose certificate it
// asked with, so that it is where the node is. One that somebody else asked for, or nobody in the log, is of a machine that may be new.
func (d *birthDetector) homeOf(n *birthNode, h *holder, t time.Time) string {
	if d.askedFor(h, n.name) {
		return cmp.Or(n.home(t), h.home(t))
	}
	return h.home(t)
}

// machines reports whether a Node was made from another machine than home. An address is one of machines behind a gateway only if another node lives there,
// where the log shows any that lives, and none whose own it is alone: whoever holds the credentials of two nodes uses both from any address.
func (d *birthDetector) machines(m *made, home string, s State) bool {
	x, y, apart := twoAddresses(home, m.address)
	return apart && x.Is4() == y.Is4() && !d.gateway(home, m, s) && !d.gateway(m.address, m, s)
}

// gateway reports whether several nodes had come from the address by the time when the Node was made, and others than that one live there.
func (d *birthDetector) gateway(address string, m *made, s State) bool {
	if !d.shared(address, stepOf(m.at)+settled) {
		return false
	}
	lives, own, anywhere := 0, 0, false
	for name, n := range d.nodes {
		alive := n.Lived >= livesFor && slices.ContainsFunc(n.holders, func(h *holder) bool { // machines get the addresses of others that are gone
			return h.Last+movedFor*stepsPerMinute >= stepOf(m.at)
		})
		anywhere = anywhere || alive
		if !alive || n.Home != address || name == m.node.name {
			continue
		}
		lives++
		if s != nil && rank(s.NodeAddressSets(name, m.at), address) != isStrange {
			own++
		}
	}
	return !anywhere || lives > 1 || lives > own
}

// nodesMade judges the Nodes that were made a minute ago. The key of a certificate does not leave its machine: where one made a Node that came from another machine before, as after the Node
// was deleted, somebody has copied it, or the machine has another address. Where so many nodes are gone that it was dropped from where some came, nothing shows that either.
func (d *birthDetector) nodesMade(now int64, s State, found func(*Detection)) {
	due := taken(&d.made, func(m made) bool { return now > stepOf(m.at)+settled })
	slices.SortFunc(due, func(a, b made) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.audit, b.audit)) })
	for i := range due {
		m := &due[i]
		home := d.homeOf(m.node, m.h, m.at)
		f := Finding{
			Rule: BootstrapImpersonation, Reason: NodeMadeElsewhere, Severity: Medium, Subject: m.node.name, Allowed: true, Apart: m.h.ID,
			Params: codes.Params{codes.Text(ParamAddress, m.address)},
		}
		switch {
		case d.machines(m, home, s), d.otherFamily(m, home, s):
			f.Params = append(f.Params, codes.Text(ParamHome, home))
		case home == "" && d.gone.lost && d.proven != 0 && !d.givenTo(m):
			f.Severity = Low
		default:
			continue
		}
		found(&Detection{
			Finding: f,
			Time:    m.at, First: m.at, Last: m.at, Count: 1, AuditIDs: idsOf(m.audit), Verb: "create", Resource: "nodes", Product: "kubelet",
		})
	}
}

// alive reports whether the node's kubelet continued with a credential of before, or with one that it got for that: a kubelet renews its certificate at a time that
// others can see coming.
func (d *birthDetector) alive(b *birth, at time.Time, s State) bool {
	n := d.nodes[b.Node]
	if n == nil {
		return false
	}
	step := stepOf(at)
	before, after := false, []*holder(nil)
	for _, h := range n.holders {
		if h.ID != "" && h.ID == b.ID || h.ID == "" && d.ofMachine(b, h.Address, step+settled, s) {
			continue // what was issued now, or what cannot be distinguished from who asked
		}
		_, was := h.at(step-aliveBefore, step)
		_, is := h.at(step+aliveFrom, step+aliveAfter)
		was, is = was && h.First.Before(at), is || d.latest < step+aliveAfter
		if was && is {
			return true
		}
		if before = before || was; is {
			after = append(after, h)
		}
	}
	return before && slices.ContainsFunc(after, func(h *holder) bool { return d.askedFor(h, b.Node) })
}

// askedFor reports whether the node asked for the certificate itself.
func (d *birthDetector) askedFor(h *holder, node string) bool {
	if h.ID == "" {
		return false
	}
	if i := d.issued.get(h.ID); i != nil {
		return i.At.IsZero() && !i.Given && i.Node == node
	}
	for _, o := range d.open {
		if o.ID == h.ID {
			return o.Node == node && o.byNode()
		}
	}
	return false
}

// givenTo reports whether somebody who is no node requested the certificate with which the Node was made.
func (d *birthDetector) givenTo(m *made) bool {
	i := d.issued.get(m.h.ID)
	return i != nil && i.Node == m.node.name && (i.Given || !i.At.IsZero())
}
