package rules

import (
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/audit"
)

// addressOwner are the first two nodes that came from an address, each with the step of that.
type addressOwner struct {
	name, other string
	step, later int64
}

func (o *addressOwner) appendJSON(b []byte) ([]byte, error) {
	m := membersOf(b)
	m.text(`"n":`, o.name)
	m.text(`"o":`, o.other)
	m.number(`"s":`, o.step)
	m.number(`"l":`, o.later)
	return m.end()
}

// own notes that the node came from its address.
func (d *birthDetector) own(n *birthNode, step int64) {
	if n.address == "" {
		return
	}
	o := d.owners.get(n.address)
	if o == nil {
		d.owners.add(n.address, &addressOwner{name: n.name, step: step})
		d.ownersTold[n.address] = struct{}{}
		return
	}
	was := *o
	d.leave(o, n, step)
	defer func() {
		if *o != was {
			d.ownersTold[n.address] = struct{}{}
		}
	}()
	switch {
	case o.name == n.name:
		o.step = min(o.step, step)
	case o.other == "" || o.other == n.name && step < o.later || o.other != n.name && (step < o.later || step == o.later && n.name < o.other):
		o.other, o.later = n.name, step
	}
	if o.other != "" && (o.later < o.step || o.later == o.step && o.other < o.name) {
		o.name, o.other, o.step, o.later = o.other, o.name, o.later, o.step
	}
}

// goneForSteps is for how long a node that has done nothing keeps its address: machines get the addresses of others that are gone.
const goneForSteps = goneFor * stepsPerMinute

// quiet reports whether the node has done nothing for an hour.
func (d *birthDetector) quiet(name string, step int64) bool {
	n := d.nodes[name]
	return n == nil || !slices.ContainsFunc(n.holders, func(h *holder) bool { return h.Last+goneForSteps >= step })
}

// leave takes the address from the nodes that have done nothing for an hour when the given one comes from there.
func (d *birthDetector) leave(o *addressOwner, n *birthNode, step int64) {
	left := func(name string) bool { return name != n.name && d.quiet(name, step) }
	if o.other != "" && left(o.other) {
		o.other, o.later = "", 0
	}
	switch {
	case !left(o.name):
	case o.other != "":
		o.name, o.step, o.other, o.later = o.other, o.later, "", 0
	default:
		o.name, o.step = n.name, step
	}
}

// shared reports whether several nodes had come from the address when the given step was over.
func (d *birthDetector) shared(address string, step int64) bool {
	o := d.owners.get(address)
	return o != nil && o.other != "" && o.later <= step
}

// ownerOf is the one node that comes from the address; empty if there are several, or none.
func (d *birthDetector) ownerOf(address string, step int64) string {
	if o := d.owners.get(address); o != nil && o.step <= step && (o.other == "" || o.later > step) {
		return o.name
	}
	return ""
}

// others reports whether another node had come from the address when the given step was over.
func (d *birthDetector) others(address, node string, step int64) bool {
	o := d.owners.get(address)
	return o != nil && (o.name != node && o.step <= step || o.other != "" && o.other != node && o.later <= step)
}

// ownFor is for how long a Node must have had an address that says whose machine a request came from: whoever holds the node's credential can write one, and the kubelet or its
// cloud's controller takes it back within minutes.
const ownFor = 10 * time.Minute

// ofMachine reports whether a request for a certificate cannot be distinguished from what the node's kubelet does from home: it came from there, or from an address that the Node
// alone has and has had for ten minutes, where home is another one of those or a loopback one. A loopback or link-local address of the request itself says
// nothing, since each machine has one, and neither does its family. The given step is over.
func (d *birthDetector) ofMachine(b *birth, home string, step int64, s State) bool {
	if home == "" || b.Address == "" || home == b.Address {
		return true
	}
	from, ok := audit.PlainAddress(b.Address)
	at, known := audit.PlainAddress(home)
	if s == nil || !ok || !known || from.IsLoopback() || from.IsLinkLocalUnicast() || d.others(b.Address, b.Node, step) || !at.IsLoopback() && d.others(home, b.Node, step) {
		return false
	}
	// The first addresses that the state has of a Node count at once: they must be of before.
	if before := b.At.Add(-ownFor); !s.AddressesKnown(before) || !s.AddressesKnown(b.At) || s.NodeCreatedBetween(b.Node, before, b.At) {
		return false
	}
	if with := s.NodesWith(b.Address, b.At); len(with) != 1 || with[0] != b.Node {
		return false
	}
	sets := s.NodeAddressSets(b.Node, b.At)
	return rank(sets, from.String()) == isCurrent && (at.IsLoopback() || rank(sets, at.String()) == isCurrent)
}
