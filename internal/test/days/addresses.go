package days

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"
)

// vipMoves has a control plane's address move from one node to another, as kube-vip and keepalived do: the kubelet on the machine that has it comes from there. At times the
// connection for all but Leases outlives the move by some minutes, and at times the address comes back.
func vipMoves(m *mutator) string {
	const vip = "10.0.1.100"
	if len(m.NodeNames) < 2 {
		return ""
	}
	order := m.Perm(len(m.NodeNames))
	first, second := m.NodeNames[order[0]], m.NodeNames[order[1]]
	moves, back := m.From.Add(m.To.Sub(m.From)/3), m.To.Add(time.Hour)
	if m.IntN(2) == 0 {
		back = moves.Add(m.To.Sub(m.From) / 3)
	}
	open := moves.Add(time.Duration(m.IntN(6)) * minute)
	gap := time.Duration(1+m.IntN(20)) * 1e9
	n := m.change(func(e *Event) bool {
		at := e.Received
		switch {
		case !e.IsNode():
			return false
		case nodeOf(e.User) == first:
			return at.Before(moves) || at.After(back.Add(gap))
		case nodeOf(e.User) == second && at.Before(back):
			return at.After(moves.Add(gap)) && (isBeat(e) || at.After(open))
		}
		return false
	}, func(e *Event) { e.SourceIPs = []string{vip} })
	return some(n, fmt.Sprintf("%s from %s to %s at %s, back at %s, open until %s", vip, first, second, stamp(moves), stamp(back), stamp(open)))
}

// manyGateways has all nodes come by a gateway of many addresses, of which each connection picks one. A kubelet renews its Lease by a connection of its own.
func manyGateways(m *mutator) string {
	addresses, lasts := uint32(4+m.IntN(8)), time.Duration(20+m.IntN(60))*minute
	n := m.change(func(e *Event) bool { return e.IsNode() && len(e.SourceIPs) > 0 }, func(e *Event) {
		h := fnv.New32a()
		node := nodeOf(e.User)
		_, _ = h.Write([]byte(node)) // it never fails
		turn := e.Received.Add(time.Duration(h.Sum32()%uint32(lasts/second))*second).UnixNano() / int64(lasts)
		_, _ = fmt.Fprint(h, turn, isBeat(e), m.Seed) // it never fails
		e.SourceIPs = []string{fmt.Sprintf("203.0.113.%d", 10+h.Sum32()%addresses)}
	})
	return some(n, fmt.Sprintf("%d addresses, connections of %s", addresses, lasts))
}

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

// madeNode has a Node that is made on the day have somebody's address at first, next to its own ones. Its kubelet takes that back within seconds. The node's Lease is read from
// there once the kubelet has run for a while.
func madeNode(m *mutator) string {
	for i, e := range m.State {
		status, _ := e.Object["status"].(map[string]any)
		addresses, _ := status["addresses"].([]map[string]any)
		if e.Kind != "Node" || e.Type != "ADDED" || !e.At.After(m.From) || len(addresses) == 0 {
			continue
		}
		at := e.At.Add(time.Hour)
		like := m.like(e.Name, at)
		if like == nil || like.Received.Sub(at).Abs() > minute {
			continue
		}
		made, back := &Entry{At: e.At, Type: e.Type, Kind: e.Kind, Name: e.Name, Object: maps.Clone(e.Object)}, &Entry{At: e.At.Add(2 * second), Type: "MODIFIED", Kind: e.Kind, Name: e.Name, Object: e.Object}
		status = maps.Clone(status)
		status["addresses"] = append(slices.Clone(addresses), map[string]any{"type": "ExternalIP", "address": thiefAddress})
		made.Object["status"] = status
		m.State[i] = made
		m.State = append(m.State, back)
		sortState(m.State)
		read := m.ownLease(like, at)
		read.SourceIPs = []string{thiefAddress}
		m.add(read)
		return fmt.Sprintf("%s from %s, which its Node has for two seconds from %s on", e.Name, thiefAddress, stamp(e.At))
	}
	return ""
}
