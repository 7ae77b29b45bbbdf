package rules

import "slices"

// owner is by which nodes an address or a certificate is used, in the order in which they came. An address of three is that of a proxy or a gateway.
// Two nodes are not enough for that: who holds the credentials of two uses each from the other's address.
type owner struct {
	Nodes []string // mostOwners at most
	holding
}

const (
	mostOwners = 3
	// goneFor is for how many minutes a node has not come from an address until that is handed on.
	goneFor = 60
)

// own says which node used an address or a certificate first, if it was another one.
func (d *credentialDetector) own(n *credentials, kind uint8, value string, minute int64, s State) (first string, other bool) {
	o := d.owners.get(value)
	if o == nil {
		o = &owner{Nodes: []string{n.name}}
		d.owners.add(value, o)
		d.told[value] = struct{}{}
		return "", false
	}
	first = o.Nodes[0]
	if others := len(o.Nodes); others < mostOwners && (others > 1 || first != n.name) {
		if kind != useCertificate {
			d.handOn(n, o, kind, value, minute, s)
		}
		here := slices.Contains(o.Nodes, n.name)
		if !here {
			o.Nodes = append(o.Nodes, n.name)
		}
		if !here || len(o.Nodes) != others {
			d.told[value] = struct{}{}
		}
	}
	return first, first != n.name
}

// handOn takes an address that a Node of them has or had from the nodes that are gone: others get their addresses. What three use at the same time is a gateway's for good.
func (d *credentialDetector) handOn(n *credentials, o *owner, kind uint8, value string, minute int64, s State) {
	if s == nil || !slices.ContainsFunc(append([]string{n.name}, o.Nodes...), func(name string) bool { return hasAddress(s.NodeAddresses(name), value) }) {
		return
	}
	at := timeOfMinute(minute)
	o.Nodes = slices.DeleteFunc(o.Nodes, func(name string) bool {
		if name == n.name {
			return false
		}
		if exists, known := s.NodeExists(name, at); known && !exists {
			return true
		}
		if tenant := d.nodes[name]; tenant != nil {
			if h := tenant.habit(kind, value); h != nil && minute-h.Minute <= goneFor {
				return false
			}
		}
		return rank(s.NodeAddressSets(name, at), value) != isCurrent
	})
}

// shared reports whether more than two nodes come from there.
func (d *credentialDetector) shared(value string) bool {
	o := d.owners.get(value)
	return o != nil && len(o.Nodes) == mostOwners
}

// dweller is who lives at an address: a node that renewed its Lease from there in the last ten minutes, if any did, and whether more do. Machines get the addresses of
// others that are gone.
type dweller struct {
	now  string
	more bool
}

// dwellersAt returns who lives at the address by the end of the latest minute, and whether anybody lives or lived there, and anywhere.
func (d *credentialDetector) dwellersAt(value string) (at dweller, here, anywhere bool) {
	if d.dwellers == nil {
		d.dwellers = map[string]dweller{}
		for name, n := range d.nodes {
			for kind := range uint8(useCertificate) {
				for _, h := range n.used[kind] {
					if h.Alive < livesFor {
						continue
					}
					o := d.dwellers[h.Value]
					if d.minute-minuteAt(h.Renewed) <= movedFor {
						o = dweller{name, o.now != ""}
					}
					d.dwellers[h.Value] = o
				}
			}
		}
	}
	at, here = d.dwellers[value]
	return at, here, len(d.dwellers) > 0
}

// gateway reports whether an address is one of a proxy or a gateway to the node: three nodes come from there, and a kubelet lives there, where the log shows any that
// lives. Whoever holds three credentials uses them all from any address. One of the node's own is a machine's, unless others live there.
func (d *credentialDetector) gateway(n *credentials, value string, s State) bool {
	if !d.shared(value) {
		return false
	}
	at, here, anywhere := d.dwellersAt(value)
	if anywhere && s != nil && hasAddress(s.NodeAddresses(n.name), value) {
		return at.more || at.now != "" && at.now != n.name
	}
	return here || !anywhere
}

// severalAt reports whether more than one node comes from there.
func (d *credentialDetector) severalAt(value string) bool {
	o := d.owners.get(value)
	return o != nil && len(o.Nodes) > 1
}
