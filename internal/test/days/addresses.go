package days

import "time"

// renew renews Leases with the stolen credential, and with those of others that were used from there: too few for a kubelet, too many at once, or ones that are refused.
func (a *attack) renew(theft *Event) {
	if a.theft.Address == a.like.SourceIPs[0] {
		return
	}
	likes := []*Event{a.like}
	for _, e := range a.new {
		if len(e.SourceIPs) > 0 && e.SourceIPs[0] == a.theft.Address && nodeOf(e.User) != a.theft.Node {
			likes = append(likes, e)
		}
	}
	n, code := 1+11*a.IntN(2), [...]int{200, 200, 409}[a.IntN(3)]
	for _, like := range likes {
		for i := range n {
			e := a.ownLease(like, theft.Received.Add(time.Duration(i-6)*500*milli))
			e.AuditID, e.Verb, e.SourceIPs = uuid(a.Rand), "update", []string{a.theft.Address}
			if code >= 400 {
				e.fail(code)
			}
			e.Code = code
			a.new = append(a.new, e)
		}
	}
	a.did("%d renewals of each of %d Leases, answered with %d", n, len(likes), code)
}

// quietAttack is a theft of what the Node authorizer allows, by a client that calls itself a kubelet, after the node's kubelet was stopped, with renewals of Leases by all
// credentials that are used from there: nothing but the address tells it. nil where no pod of the day has secrets.
func quietAttack(day *Day, seed uint64) (*Day, *Theft) {
	c := day.copyOf()
	m := &mutator{newRand(seed, day.Seed^0x9e37), c}
	a := &attack{mutator: m, theft: &Theft{Node: m.node(), At: m.moment()}, id: uuid(m.Rand)}
	m.bind()
	a.like = m.like(a.theft.Node, a.theft.At)
	a.theft.Address = [...]string{"198.51.100.7", "2001:db8::7"}[seed%2]
	theft := a.ofPod(m.IntN(2) == 0)
	if theft == nil {
		return nil, nil
	}
	theft.AuditID, theft.UserAgent = a.id, a.like.UserAgent
	a.others(theft)
	a.renew(theft)
	from := theft.Received.Add(-time.Duration(1+m.IntN(8)) * minute)
	n := a.drop(func(e *Event) bool { return nodeOf(e.User) == a.theft.Node && e.Received.After(from) })
	a.did("%d requests of the kubelet are missing", n)
	m.Events = append(append(m.Events, theft), a.new...)
	sortEvents(m.Events)
	return c, a.theft
}
