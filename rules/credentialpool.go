package rules

// pools is what is known of a fleet whose nodes come by addresses of which each connection picks one.
type pools struct {
	minute  int64
	known   bool
	home    bool  // a kubelet comes from an address of its Node
	nodes   int   // how many come from elsewhere
	several int   // of those, from several addresses at once
	began   int64 // when the log begins
	// at is how many nodes came from each address in the hour up to the minute.
	at map[string]int
}

// pooled reports whether addresses say nothing in the fleet: no kubelet comes from an address of its own Node, and most of the other nodes, or two of three, come from several addresses at
// once, as by a NAT or a load balancer that has many. Behind one of which each node has one address, another one says as much as elsewhere. So does one that no other node uses, if
// the nodes use all others together.
func (d *credentialDetector) pooled(n *credentials, value string, minute int64, s State) bool {
	if s == nil {
		return false
	}
	p := &d.pools
	if !p.known || p.minute != minute {
		*p = pools{minute: minute, began: d.beganAt(), known: true, at: map[string]int{}}
		for _, other := range d.nodes {
			from, several, home := other.places(minute, p.began, s)
			if home {
				p.home = true
				break
			}
			p.nodes += from
			p.several += several
			other.recent(minute, func(h *habit) { p.at[h.Value]++ })
		}
	}
	if p.home {
		return false
	}
	from, mine, _ := n.places(minute, p.began, s)
	others, many := p.nodes-from, p.several-mine
	several := many >= 2 && 2*many > others
	if others == 2 { // it counts itself, or connections of both would have to be in the same place
		several = many >= 1 && 2*p.several > p.nodes
	}
	return several && !p.closedTo(n, value, minute)
}

// sharedBy is how many nodes use an address on average, if it is known which addresses there are: each further connection would take one of them.
const sharedBy = 6

// closedTo reports whether the addresses of the other nodes are those that there are, and this one is none of them: each is used by several other nodes.
func (p *pools) closedTo(n *credentials, value string, minute int64) bool {
	mine := map[string]bool{}
	n.recent(minute, func(h *habit) { mine[h.Value] = true })
	addresses, uses := 0, 0
	for address, nodes := range p.at {
		if mine[address] {
			nodes--
		}
		switch {
		case nodes == 1 || nodes > 0 && address == value:
			return false
		case nodes > 1:
			addresses++
			uses += nodes
		}
	}
	return addresses > 0 && uses >= sharedBy*addresses
}

// recent calls f with the addresses from which the node came in the hour up to the minute.
func (n *credentials) recent(minute int64, f func(h *habit)) {
	n.elsewhere(nil, func(h *habit) bool {
		if minute-h.Minute < 60 {
			f(h)
		}
		return false
	})
}

// places counts the node if it came from addresses that its Node does not have in the hour up to the minute, and if from several at once. home says that its kubelet came
// from one that it has, ever.
func (n *credentials) places(minute, began int64, s State) (from, several int, home bool) {
	var own []string
	for kind := range uint8(useCertificate) {
		for i, h := range n.used[kind] {
			if isLoopback(h.Value) {
				continue
			}
			if own == nil {
				if own = s.NodeAddresses(n.name); len(own) == 0 {
					return 1, 0, false
				}
			}
			if _, near := nextTo(own, h.Value); near {
				return 0, 0, true
			}
			if minute-h.Minute < 60 {
				from = 1
			}
			for _, o := range n.used[kind][i+1:] {
				if !isLoopback(o.Value) && abreast(h, o, minute, began) {
					several = 1
				}
			}
		}
	}
	return from, several, false
}

// abreast reports whether both were in use at the same time in the hour up to the minute, in a quarter of the minutes since both are known, and not only in those in which connections
// went from one to the other and back. They are known for ten minutes, or since the log began: whoever uses the credentials of several nodes does so for moments.
func abreast(a, b *habit, minute, began int64) bool {
	if !a.First.Before(b.Last) || !b.First.Before(a.Last) {
		return false
	}
	from, both := max(minuteAt(a.First), minuteAt(b.First), minute-59), int64(0)
	for m := from; m <= minute; m++ {
		if a.at(m) && b.at(m) {
			both++
		}
	}
	if minute-from < movedFor && from > began+movedFor {
		return false
	}
	return both > 0 && 4*both >= minute-from || turns(a, b, minute) >= inTurn
}

// beganAt is the minute of the first renewal of a Lease that is known, or of the first request where none is.
func (d *credentialDetector) beganAt() int64 {
	if first := d.firstRenewal(); !first.IsZero() {
		return minuteAt(first)
	}
	return minuteAt(d.begins())
}
