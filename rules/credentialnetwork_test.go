package rules

import (
	"fmt"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// The log has the end of a watch that began before it. Where a kubelet lives, it may have been then.
func TestWatchFromBeforeTheLog(t *testing.T) {
	const vip, thief = "10.0.0.100", "203.0.113.9"
	for _, c := range []struct {
		name, address, lives string
		at, lasts            int
		want                 Severity
	}{
		{"where another kubelet lives now", vip, vip, -20 * minute, 25 * minute, None},
		{"where nobody lives", thief, vip, -20 * minute, 25 * minute, Medium},
		{"in the log", vip, vip, 20 * minute, 25 * minute, Critical},
		{"what did not last", vip, vip, -20 * minute, 10, Critical},
	} {
		p, s := &tale{}, housed(3)
		p.lives("worker-1", "10.0.0.1", 2, hour)
		p.lives("worker-2", c.lives, 4, hour)
		p.lives("worker-3", "10.0.0.3", 6, hour)
		p.sort()
		p.one(c.at, "worker-1", does("watch secrets shop/db"), verdict(nodeauthz.Allow), comes(c.address), func(r *Request) {
			r.Event.StageTime = r.Time.Add(time.Duration(c.lasts) * time.Second)
		})
		watch := p.requests[len(p.requests)-1]
		d, got, told := NewDetectors([]*Rule{nodeCredentialMisuse()}, DetectorOptions{}), None, false
		found := func(f *Detection) {
			if f.Subject == "worker-1" {
				got = max(got, f.Severity)
			}
		}
		for _, r := range p.requests[:len(p.requests)-1] {
			observeLent(d, r, s)
			if d.Advance(time.Time{}, s, found); !told && r.Time.After(watch.Event.StageTime) && r.Time.After(at(5*minute)) {
				told = true
				observeLent(d, watch, s)
			}
		}
		d.Flush(s, found)
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Behind a pool of addresses another one says little, unless all that there are are known: all nodes share them.
func TestStrangerToAPool(t *testing.T) {
	const thief = "203.0.113.200"
	for _, c := range []struct {
		name             string
		nodes, addresses int
		play             func(p *tale)
		want             string
	}{
		{"two addresses", 12, 2, nil, "critical"},
		{"three addresses", 18, 3, nil, "critical"},
		{"four nodes", 4, 2, nil, "medium"},
		{"eight addresses", 9, 8, nil, "medium"},
		{"one that a single other node uses", 12, 2, func(p *tale) {
			for s := 5; s < hour; s += 20 {
				p.one(s, "worker-7", comes("203.0.113.77"))
			}
		}, "medium"},
		{"that other nodes use, too", 12, 2, func(p *tale) {
			for s := 5; s < hour; s += 20 {
				p.one(s, "worker-7", comes(thief))
				p.one(s+1, "worker-8", comes(thief))
			}
		}, "medium"},
	} {
		p := &tale{}
		p.kubelets(c.nodes, 0, hour, 10, nil, func(r *Request) {
			comes(fmt.Sprintf("203.0.113.%d", number(r.Node)%c.addresses))(r)
		})
		p.kubelets(c.nodes, 5, hour, 20, nil, func(r *Request) {
			does("get nodes " + r.Node)(r)
			comes(fmt.Sprintf("203.0.113.%d", (number(r.Node)+1)%c.addresses))(r)
		})
		if c.play != nil {
			c.play(p)
		}
		p.taken(40*minute, "worker-1", thief)
		if got, all := worst(t, p, housed(c.nodes), "worker-1"); got != c.want {
			t.Errorf("%s: %q, want %q\n%.2000s", c.name, got, c.want, all)
		}
	}
}

func number(node string) (n int) {
	_, _ = fmt.Sscanf(node, "worker-%d", &n)
	return n
}

// A fleet whose connections went from one address to another and back has one address at a time.
func TestFailoverIsNoPool(t *testing.T) {
	p := &tale{}
	p.kubelets(6, 0, hour, 10, nil, func(r *Request) {
		address := "203.0.113.1"
		if !r.Time.Before(at(10*minute+30)) && r.Time.Before(at(15*minute+30)) {
			address = "203.0.113.2"
		}
		comes(address)(r)
	})
	p.taken(40*minute, "worker-1", "203.0.113.200")
	if got, all := worst(t, p, housed(6), "worker-1"); got != "critical" {
		t.Errorf("%q\n%.2000s", got, all)
	}
}

// In an IPv6 network that is its own, a machine takes any address. In one of several nodes, and from elsewhere, a second one is as strange as ever.
func TestNetworkOfOneNode(t *testing.T) {
	for _, c := range []struct {
		name, lives, took, other, want string
	}{
		{"its own network", "2001:db8:0:1::a", "2001:db8:0:1::b", "2001:db8:0:2::1", ""},
		{"its own network, from its own address", "2001:db8:0:1::1", "2001:db8:0:1::b", "2001:db8:0:2::1", ""},
		{"a network of two nodes", "2001:db8:0:1::a", "2001:db8:0:1::b", "2001:db8:0:1::2", "critical"},
		{"another network", "2001:db8:0:1::a", "2001:db8:0:9::b", "2001:db8:0:2::1", "critical"},
		{"the other node's network", "2001:db8:0:1::a", "2001:db8:0:2::b", "2001:db8:0:2::1", "critical"},
		{"the other family", "2001:db8:0:1::a", "198.51.100.9", "2001:db8:0:2::1", "critical"},
	} {
		p, s := &tale{}, housed(2)
		for i, own := range []string{"2001:db8:0:1::1", c.other} {
			name := fmt.Sprintf("worker-%d", i+1)
			s.sets[name], s.addresses[name] = [][]string{{own}}, []string{own}
		}
		p.lives("worker-1", c.lives, 2, hour)
		p.lives("worker-2", c.other, 4, hour)
		for m := 28; m < 33; m++ {
			p.one(m*minute+20, "worker-1", comes(c.took))
		}
		p.taken(30*minute+21, "worker-1", c.took)
		if got, all := worst(t, p, s, "worker-1"); got != c.want {
			t.Errorf("%s: %q, want %q\n%.2000s", c.name, got, c.want, all)
		}
	}
}

// Nodes with several addresses in networks of their own are no pool: somebody who comes from elsewhere is found.
func TestNetworksOfNodesAreNoPool(t *testing.T) {
	p, s := &tale{}, housed(4)
	for i := 1; i <= 4; i++ {
		name, network := fmt.Sprintf("worker-%d", i), fmt.Sprintf("2001:db8:0:%d::", i)
		s.sets[name], s.addresses[name] = [][]string{{network + "1"}}, []string{network + "1"}
		p.lives(name, network+"a", i, hour)
		for at := i; at < hour; at += 20 {
			p.one(at, name, comes(network+"b"))
		}
	}
	p.taken(40*minute, "worker-1", "2001:db8:9::9")
	if got, all := worst(t, p, s, "worker-1"); got != "critical" {
		t.Errorf("%q\n%.2000s", got, all)
	}
}

// The kubelet lived at the address of the control plane before it first came from that of its Node.
func TestKubeletThatComesHomeLater(t *testing.T) {
	const vip = "10.0.0.100"
	for name, c := range map[string]struct {
		play func(p *tale)
		want string
	}{
		"it came from home once": {func(p *tale) {
			p.one(minute, "worker-1", comes("10.0.0.1"))
			p.lives("worker-1", vip, 2*minute, hour)
		}, "medium"},
		"it lived there": {func(p *tale) { p.lives("worker-1", vip, 2, 30*minute) }, ""},
		"it lived there, and does so again": {func(p *tale) {
			p.lives("worker-1", vip, 2, 30*minute)
			p.lives("worker-1", vip, 36*minute, hour)
			p.one(10*minute, "worker-1", comes("127.0.0.1")) // what it takes from its only address is not looked at
		}, ""},
		"somebody renewed his time": {func(p *tale) { p.lives("worker-1", vip, 27*minute, 29*minute) }, "critical"},
		"its home is known": {func(p *tale) {
			p.lives("worker-1", "10.0.0.1", 2, 10*minute)
			p.lives("worker-1", vip, 10*minute+5, 30*minute)
		}, "critical"},
	} {
		p := &tale{}
		c.play(p)
		if name != "it came from home once" {
			p.lives("worker-1", "10.0.0.1", 30*minute+5, 35*minute+50)
		}
		p.taken(28*minute, "worker-1", vip)
		p.lives("worker-2", "10.0.0.2", 4, hour)
		if got, all := worst(t, p, housed(2), "worker-1"); got != c.want {
			t.Errorf("%s: %q, want %q\n%.2000s", name, got, c.want, all)
		}
	}
}

// A kubelet that comes by another gateway from some time on is not silent, and nobody else.
func TestKubeletThatMovesToAnotherGateway(t *testing.T) {
	const first, second = "203.0.113.1", "203.0.113.2"
	for name, c := range map[string]struct {
		to   int // until when the kubelet is at the second one
		want string
	}{
		"it moves": {hour, ""},
		"it stops": {0, "critical"},
	} {
		p := &tale{}
		p.lives("worker-1", first, 1, 30*minute)
		p.lives("worker-1", second, 30*minute+12, c.to)
		p.lives("worker-2", "203.0.113.9", 2, hour)
		p.taken(30*minute+20, "worker-1", second)
		if got, all := worst(t, p, housed(2), "worker-1"); got != c.want {
			t.Errorf("%s: %q, want %q\n%.2000s", name, got, c.want, all)
		}
	}
}
