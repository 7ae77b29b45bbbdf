package rules

// pools is what is known of a fleet whose nodes come by addresses of which each connection picks one.
type pools struct {
	minute  int64
	known   bool
	home    bool // a kubelet comes from an address of its Node
	nodes   int  // how many come from elsewhere
	several int  // of those, from several addresses at once
}

// pooled reports whether addresses say nothing in the fleet: no kubelet comes from an address of its own Node, and most of the other nodes, or two of three, come from several addresses at
// once, as by a NAT or a load balancer that has many. Behind one of which each node has one address, another one says as much as elsewhere.
func (d *credentialDetector) pooled(n *credentials, minute int64, s State) bool {
	if s == nil {
		return false
	}
	p := &d.pools
	if !p.known || p.minute != minute {
		*p = pools{minute: minute, known: true}
		for _, other := range d.nodes {
			from, several, home := other.places(minute, s)
			if home {
				p.home = true
				break
			}
			p.nodes += from
			p.several += several
		}
	}
	if p.home {
		return false
	}
	from, several, _ := n.places(minute, s)
	others, many := p.nodes-from, p.several-several
	if others == 2 { // it counts itself, or connections of both would have to be in the same place
		return many >= 1 && 2*p.several > p.nodes
	}
	return many >= 2 && 2*many > others
}

// places counts the node if it came from addresses that its Node does not have in the hour up to the minute, and if from several at once. home says that its kubelet came
// from one that it has, ever.
func (n *credentials) places(minute int64, s State) (from, several int, home bool) {
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
			if hasAddress(own, h.Value) {
				return 0, 0, true
			}
			if minute-h.Minute < 60 {
				from = 1
			}
			for _, o := range n.used[kind][i+1:] {
				if !isLoopback(o.Value) && abreast(h, o, minute) {
					several = 1
				}
			}
		}
	}
	return from, several, false
}

// abreast reports whether one was used in between uses of the other, and both in the hour up to the minute.
func abreast(a, b *habit, minute int64) bool {
	return a.First.Before(b.Last) && b.First.Before(a.Last) && minute-a.Minute < 60 && minute-b.Minute < 60
}
