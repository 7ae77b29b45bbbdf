package rules

import "slices"

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

// leave takes the address from the nodes that have done nothing for an hour when the given one comes from there.
func (d *birthDetector) leave(o *addressOwner, n *birthNode, step int64) {
	left := func(name string) bool {
		old := d.nodes[name]
		return name != n.name && !(old != nil && slices.ContainsFunc(old.holders, func(h *holder) bool { return h.Last+goneForSteps >= step }))
	}
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
