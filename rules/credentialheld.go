package rules

import "time"

// holding is who holds an address that goes from one node to another and is none of a Node's, such as the one of a control plane that kube-vip or keepalived
// moves: the kubelet on the machine that has it comes from there.
type holding struct {
	Holder string    `json:",omitempty"`
	Since  time.Time `json:",omitzero"`
	Until  time.Time `json:",omitzero"` // its latest renewal from there
	Rival  time.Time `json:",omitzero"` // the first one of another node more than movesWithin after that
}

// movesWithin is for how long the old and the new may be in use at once when an address goes from one node to another.
const movesWithin = time.Minute

// hold takes in who holds an address that nodes have in turn. The first holder is a node that never came from elsewhere. It hands the address over when it stops to come
// from there, to the node whose kubelet then comes from there alone. An address that a Node has is not handed over, nor is one of which nobody knows where it was before:
// this is what somebody does who stops a kubelet.
func (d *credentialDetector) hold(n *credentials, h *habit, s State) {
	o := d.owners.get(h.Value)
	if o == nil || s == nil {
		return
	}
	defer func(was holding) {
		is := o.holding
		if is.Until != was.Until && minuteAt(is.Until)%5 != 0 { // it changes each minute
			was.Until = is.Until
		}
		if is != was {
			d.told[h.Value] = struct{}{}
		}
	}(o.holding)
	switch {
	case h.Held && o.Holder == n.name:
		if !o.Rival.IsZero() && h.Renewed.After(o.Rival) { // both come from there, as by a gateway
			h.Held, h.Handed, o.holding = false, false, holding{}
			return
		}
		o.Until = h.Renewed
	case o.Holder != "":
		if o.Holder != n.name && h.Renewed.After(o.Since.Add(movesWithin)) && (o.Rival.IsZero() || h.Renewed.Before(o.Rival)) {
			o.Rival = h.Renewed
		}
		if h.Lived > 0 && h.Lived <= livesFor && !o.Until.After(h.From.Add(movesWithin)) && (o.Holder == n.name || h.From.Sub(o.Until) <= movedFor*time.Minute) && ofNoNode(s, n.name, h.Value) {
			h.Held, h.Handed, o.holding = true, true, holding{Holder: n.name, Since: h.From, Until: h.Renewed}
		}
	case h.Rooted && h.Lived == livesFor: // the first one to hold it
		if ofNoNode(s, n.name, h.Value) {
			h.Held, o.holding = true, holding{Holder: n.name, Since: h.From, Until: h.Renewed}
		}
	}
}

// ofNoNode reports whether the state has the addresses of the node, and no Node has this one.
func ofNoNode(s State, node, address string) bool {
	own := s.NodeAddresses(node)
	return len(own) > 0 && !hasAddress(own, address) && s.NodeAt(address) == ""
}

// handed reports whether something was taken from an address that another node had handed over to this one, or this one to another: all signs of life went with the address,
// and nothing but what was open comes from the old one. maybe says that the next minutes may show it.
func (d *credentialDetector) handed(n *credentials, t *taking, m, minute int64) (is, maybe bool) {
	h, o := n.habit(t.Kind, t.Value), d.owners.get(t.Value)
	if o == nil || o.Holder == "" {
		return false, false
	}
	if h != nil && h.Held {
		if t.At.Before(h.From.Add(-movesWithin)) || t.At.After(h.Renewed.Add(movesWithin)) || !h.alone(n) {
			return false, false
		}
		if o.Holder == n.name && minute <= minuteAt(o.Since.Add(2*movesWithin)) {
			return false, true // the one that had it may come from there yet
		}
		if h.Handed || o.Holder != n.name {
			return true, false
		}
		left := n.elsewhere(h, func(o *habit) bool { return o.Renewed.After(h.Renewed) })
		return false, left && minute <= minuteAt(h.Renewed)+movedFor
	}
	until := t.At.Add(movesWithin)
	return false, minute <= m+movedFor && !o.Until.After(until) && t.At.Sub(o.Until) <= movedFor*time.Minute &&
		!n.elsewhere(h, func(o *habit) bool { return o.Renewed.After(until) })
}

// alone reports whether the node used no other address in the run, but for the connections that outlived the move.
func (h *habit) alone(n *credentials) bool {
	from, to := minuteAt(h.From)+movedFor, minuteAt(h.Renewed)
	return !n.elsewhere(h, func(o *habit) bool {
		for m := max(from, to-63); m < to; m++ {
			if o.at(m) {
				return true
			}
		}
		return false
	})
}

// moved reports whether the address was handed over to the node within the minutes before the given one, so that connections from the old address may be open.
func (h *habit) moved(old *habit, minute int64) bool {
	from := minuteAt(h.From)
	return h.Handed && minute >= from && minute < from+movedFor && old.First.Before(h.From)
}
