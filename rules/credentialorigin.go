package rules

import (
	"net/netip"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/audit"
)

// origin is what an address from which something was taken is to the Node. What it had then, and had had for ten minutes, is its own. What it got later, whoever
// holds its credential may have written, and what it had before may be another machine's: that is its own if the kubelet lives there, or where the log has no renewals of it.
type origin struct {
	sets            [][]string // what the Node had at once, and had had for ten minutes by then
	strange, nobody bool       // whether it is not the Node's, and whether by its family alone
	maybe           bool       // the next minutes may show that it is of nobody
	claimed         bool       // it is not the Node's only because no kubelet lives there
	alive           int64      // in how many minutes a kubelet lived there
	renewed         bool       // it renewed the Lease from there since
}

// current are the addresses that a Node had at once in the end.
func current(sets [][]string) []string {
	if len(sets) == 0 {
		return nil
	}
	return sets[len(sets)-1]
}

func (d *credentialDetector) originOf(n *credentials, t *taking, m int64, s State) (o origin) {
	if s == nil {
		return o
	}
	at := t.At
	if t.Seen != 0 {
		at = timeOfMinute(m) // its own time is not the state's
	}
	o.sets = s.NodeAddressSets(n.name, at)
	own := current(o.sets)
	if t.Seen != 0 { // it may have begun when the Node had another one
		own = slices.Concat(o.sets...)
	}
	ever := slices.Concat(s.NodeAddressSets(n.name, time.Time{})...)
	if h := n.habit(t.Kind, t.Value); h != nil && minuteAt(h.Renewed) >= m-1 {
		o.alive, o.renewed = h.Alive, true
	}
	if o.alive >= livesFor {
		own = ever
	}
	o.strange, o.nobody, o.maybe = d.strange(n, t, own, s)
	if o.strange && o.alive < livesFor {
		strange, _, _ := d.strange(n, t, ever, s)
		o.claimed = !strange
	}
	return o
}

// livesUntil reports whether the log ends, before the given minute, too early to show that no kubelet lives there: it does so until then.
func (o *origin) livesUntil(m, end int64) bool {
	return o.renewed && end <= m+movedFor && o.alive >= end-m-3 // in the minutes of the taking and of the end less of it shows
}

// strange reports whether an address is none of a Node that had these, and whether by its family alone. maybe is as of ofNobody.
func (d *credentialDetector) strange(n *credentials, t *taking, own []string, s State) (is, nobody, maybe bool) {
	nobody, maybe = d.ofNobody(n, t, own)
	return nobody || strangeOf(own, t.Value) || d.ofAnother(n, t, s), nobody, maybe
}

// ofAnother reports whether another Node has the address and has had it for long, and this one has not: in the network of a node there are others. Where this one has reported
// it since, the other one must have it still: addresses of nodes that are gone or rebuilt are given to others.
func (d *credentialDetector) ofAnother(n *credentials, t *taking, s State) bool {
	if s == nil || t.Kind != useV6 || rank(s.NodeAddressSets(n.name, t.At), t.Value) != isStrange {
		return false
	}
	least, reported := isFormer, rank(s.NodeAddressSets(n.name, time.Time{}), t.Value) != isStrange
	if reported {
		least = isCurrent
	}
	for name := range d.nodes {
		if name == n.name || rank(s.NodeAddressSets(name, t.At), t.Value) < least {
			continue
		}
		if exists, known := s.NodeExists(name, t.At); !reported || exists || !known {
			return true
		}
	}
	return false
}

// ownNetwork reports whether an IPv6 address is in the network of one that the Node has, and of no other node: the machine may choose any in it.
func (d *credentialDetector) ownNetwork(n *credentials, sets [][]string, address string, s State) bool {
	network, ok := networkOf(address)
	if s == nil || !ok || !network.Addr().Is6() {
		return false
	}
	_, near := nextTo(current(sets), address)
	return near && d.onlyIn(network, s) == n.name
}

// onlyIn is the only node that has an address in an IPv6 network, "" if none or several have.
func (d *credentialDetector) onlyIn(network netip.Prefix, s State) string {
	if d.networks == nil {
		d.networks = map[netip.Prefix]string{}
		for name := range d.nodes {
			for _, text := range s.NodeAddresses(name) {
				network, ok := networkOf(text)
				if !ok || !network.Addr().Is6() {
					continue
				}
				of := name
				if other, is := d.networks[network]; is && other != name {
					of = "" // several have it
				}
				d.networks[network] = of
			}
		}
	}
	return d.networks[network]
}

// ofNobody reports whether no node lives at addresses of that family: the Node has none of it, and the other nodes come from the other one. What the node's own credential
// does says nothing of that. A machine that has both families comes by one of them as well as by the other. maybe says that the next minutes may show such nodes.
func (d *credentialDetector) ofNobody(n *credentials, t *taking, own []string) (is, maybe bool) {
	if len(own) == 0 || isLoopback(t.Value) || slices.ContainsFunc(own, func(s string) bool {
		a, ok := audit.PlainAddress(s)
		return ok && a.Is6() == (t.Kind == useV6)
	}) {
		return false, false
	}
	lives, maybe := d.livesIn(t.Kind, n, t.At)
	if lives || maybe {
		return !lives, maybe
	}
	for _, other := range d.nodes {
		if other != n && other.renews(useV4+useV6-t.Kind, false) {
			return true, false
		}
	}
	return false, false
}

// What an address is to a Node.
const (
	isStrange = iota
	isFormer
	isCurrent
)

// rank says what an address is to a Node that had sets of addresses.
func rank(sets [][]string, address string) int {
	for i := len(sets) - 1; i >= 0; i-- {
		switch {
		case !hasAddress(sets[i], address):
		case i == len(sets)-1:
			return isCurrent
		default:
			return isFormer
		}
	}
	return isStrange
}

// together reports whether a Node has both addresses at once. What it had before may be another's by now, or was written by whoever held its credential.
func together(sets [][]string, a, b string) bool {
	return hasAddress(current(sets), a) && hasAddress(current(sets), b)
}

// strangeOf reports whether a Node that had these addresses had any of the address's family, and none in its network.
func strangeOf(ever []string, address string) bool {
	family, near := nextTo(ever, address)
	return family && !near
}

// nextTo reports whether any of these addresses is of the address's family, and whether any is in its network.
func nextTo(all []string, address string) (family, near bool) {
	network, ok := networkOf(address)
	if !ok {
		return false, false
	}
	for _, s := range all {
		if o, ok := audit.PlainAddress(s); ok && o.Is6() == network.Addr().Is6() {
			family, near = true, near || network.Contains(o)
		}
	}
	return family, near
}

// networkOf is the network of an address in which a machine may choose any: an IPv4 address is one by itself.
func networkOf(address string) (netip.Prefix, bool) {
	a, ok := audit.PlainAddress(address)
	bits := a.BitLen()
	if a.Is6() {
		bits = networkOfV6
	}
	return netip.PrefixFrom(a, bits).Masked(), ok
}
