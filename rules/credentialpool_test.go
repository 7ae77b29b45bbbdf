package rules

import (
	"fmt"
	"testing"
)

// All nodes come by a NAT of many addresses, of which each connection picks one. Behind one with a single address a second one is as much as elsewhere.
func TestManyAddressesOfAGateway(t *testing.T) {
	pool := func(p *tale, nodes, addresses int) {
		p.kubelets(nodes, 0, hour, 10, nil, func(r *Request) { // the connection by which Leases are renewed lives for 25 minutes
			n := len(r.Node)*31 + int(r.Node[len(r.Node)-1])*7
			comes(fmt.Sprintf("203.0.113.%d", (n+r.Time.Minute()/25*3)%addresses))(r)
		})
		p.kubelets(nodes, 5, hour, 20, nil, func(r *Request) {
			n := len(r.Node)*17 + int(r.Node[len(r.Node)-1])*5
			does("get nodes " + r.Node)(r)
			comes(fmt.Sprintf("203.0.113.%d", (n+1+r.Time.Minute()/20)%addresses))(r)
		})
	}
	second := func(p *tale, nodes int) { // connection, from another address
		p.kubelets(nodes, 5, hour, 20, nil, func(r *Request) {
			does("get nodes " + r.Node)(r)
			comes("203.0.113.2")(r)
		})
	}
	for _, c := range []struct {
		name string
		play func(p *tale)
		want string
	}{
		{"each connection picks one", func(p *tale) {
			pool(p, 9, 8)
			p.taken(10*minute, "worker-1", "203.0.113.200")
		}, "medium"},
		{"one address", func(p *tale) {
			pool(p, 9, 1)
			p.taken(10*minute, "worker-1", "203.0.113.200")
		}, "critical"},
		{"one address, and somebody with two credentials", func(p *tale) {
			pool(p, 9, 1)
			for s := 5 * minute; s < 20*minute; s += 20 {
				p.one(s, "worker-1", comes("203.0.113.200"))
				p.one(s, "worker-2", comes("203.0.113.200"))
			}
			p.taken(10*minute, "worker-1", "203.0.113.200")
		}, "critical"},
		{"four nodes of one address, and somebody with all their credentials", func(p *tale) {
			pool(p, 4, 1)
			for s := 20 * minute; s < 22*minute; s += 20 {
				for i := 1; i <= 4; i++ {
					p.one(s+i, fmt.Sprintf("worker-%d", i), comes("203.0.113.200"))
				}
			}
			p.taken(21*minute, "worker-1", "203.0.113.200")
		}, "critical"},
		{"each connection picks one, but for a node that comes from its own", func(p *tale) {
			pool(p, 9, 8)
			p.kubelets(10, 0, hour, 10, func(node, _ int) bool { return node < 10 }, comes("10.0.0.10"))
			p.taken(10*minute, "worker-1", "203.0.113.200")
		}, "critical"},
		{"three nodes, of which one has a single connection", func(p *tale) {
			p.kubelets(3, 0, hour, 10, nil, comes("203.0.113.1"))
			second(p, 2)
			p.taken(10*minute, "worker-1", "203.0.113.2")
		}, "medium"},
		{"three nodes of one address, and somebody with one credential", func(p *tale) {
			p.kubelets(3, 0, hour, 10, nil, comes("203.0.113.1"))
			for s := 5 * minute; s < 20*minute; s += 20 {
				p.one(s, "worker-1", comes("203.0.113.200"))
			}
			p.taken(10*minute, "worker-1", "203.0.113.200")
		}, "critical"},
		{"three nodes, of which the other two have one address", func(p *tale) {
			p.kubelets(3, 0, hour, 10, nil, comes("203.0.113.1"))
			second(p, 1)
			p.taken(10*minute, "worker-1", "203.0.113.2")
		}, "critical"},
	} {
		p := &tale{}
		c.play(p)
		if got, all := worst(t, p, housed(10), "worker-1"); got != c.want {
			t.Errorf("%s: %q, want %q\n%.3000s", c.name, got, c.want, all)
		}
	}
}
