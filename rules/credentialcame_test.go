package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// While a kubelet is silent, somebody who has its credential asks from elsewhere for what the node may have. Nothing is refused, and nothing is worth stealing: what shows is
// that no kubelet lives there.
func TestUsedWhileSilent(t *testing.T) {
	const thief = "203.0.113.9"
	asks := func(p *tale, second int, address string) {
		for i, what := range []string{"get pods shop/own", "list services", "get configmaps shop/web"} {
			p.one(second+i, "worker-1", does(what), comes(address))
		}
	}
	once := func(p *tale) { asks(p, 30*minute+15, thief) }
	silent := func(p *tale) { p.lives("worker-1", "10.0.0.1", 2, 20*minute) }
	two := housed(3)
	two.sets["worker-1"] = [][]string{{"10.0.0.1"}, {thief}}
	network := housed(3)
	network.sets["worker-1"] = [][]string{{"10.0.0.1", "2001:db8::1"}}
	network.sets["worker-2"] = [][]string{{"10.0.0.2", "2001:db8::2"}}
	for _, c := range []struct {
		name string
		s    State
		want bool
		play []func(p *tale)
	}{
		{"for good", housed(3), true, []func(p *tale){silent, once}},
		{"by one request", housed(3), true, []func(p *tale){silent, func(p *tale) { p.one(30*minute, "worker-1", does("list services"), comes(thief)) }}},
		{"refused", housed(3), true, []func(p *tale){silent, func(p *tale) { p.one(30*minute, "worker-1", does("get configmaps shop/x"), comes(thief), code(403)) }}},
		{"until later", housed(3), true, []func(p *tale){silent, once, func(p *tale) { p.lives("worker-1", "10.0.0.1", 36*minute, hour) }}},
		{"since before the log", housed(3), true, []func(p *tale){once, func(p *tale) { p.lives("worker-1", "10.0.0.1", 34*minute, hour) }}},
		{"as soon as it is", housed(3), true, []func(p *tale){silent, func(p *tale) {
			for s := 19 * minute; s < 28*minute; s += 40 {
				asks(p, s, thief)
			}
		}}},
		{"after a visit next to the kubelet", housed(3), true, []func(p *tale){silent, once, func(p *tale) { asks(p, 10*minute, thief) }}},
		{"from many addresses", housed(3), true, []func(p *tale){silent, func(p *tale) {
			for i := range 20 {
				asks(p, 30*minute+10*i, fmt.Sprintf("203.0.113.%d", 9+i%7))
			}
		}}},
		{"from a new address each minute", housed(3), true, []func(p *tale){silent, func(p *tale) {
			for i := range 34 { // to the end of the log
				asks(p, (25+i)*minute, fmt.Sprintf("203.0.113.%d", 9+i))
			}
		}}},
		{"by somebody who renews the Lease once", housed(3), true, []func(p *tale){silent, once, func(p *tale) { p.one(30*minute+20, "worker-1", lease("worker-1"), comes(thief)) }}},
		{"by IPv6, where no node has any", housed(3), true, []func(p *tale){silent, func(p *tale) { asks(p, 30*minute, "2001:db8::9") }}},
		{"from another Node's address", housed(3), true, []func(p *tale){silent, func(p *tale) { asks(p, 30*minute, "10.0.0.2") }}},
		{"from another address of its network", network, false, []func(p *tale){silent, func(p *tale) { asks(p, 30*minute, "2001:db8::9") }}},
		{"from another Node's address in its network", network, true, []func(p *tale){silent, func(p *tale) { asks(p, 30*minute, "2001:db8::2") }}},
		{"with the credentials of three nodes", housed(3), true, []func(p *tale){silent, once, func(p *tale) {
			p.one(30*minute-2, "worker-2", comes(thief))
			p.one(30*minute-1, "worker-3", comes(thief))
		}}},

		{"at the end of the log", housed(3), false, []func(p *tale){silent, func(p *tale) { asks(p, 55*minute, thief) }}},
		{"by the kubelet", housed(3), false, []func(p *tale){silent, func(p *tale) { asks(p, 30*minute, "10.0.0.1") }}},
		{"by loopback", housed(3), false, []func(p *tale){silent, func(p *tale) { asks(p, 30*minute, "127.0.0.1") }}},
		{"a reboot with a new address", housed(3), false, []func(p *tale){silent, once, func(p *tale) { p.lives("worker-1", thief, 30*minute+17, hour) }}},
		{"a slow start with a new address", housed(3), false, []func(p *tale){silent, once, func(p *tale) { p.lives("worker-1", thief, 35*minute, hour) }}},
		{"a start with a new address that ends soon", housed(3), false, []func(p *tale){silent, once, func(p *tale) { p.lives("worker-1", thief, 30*minute+18, 31*minute) }}},
		{"a start with a new address that the Node gets", two, false, []func(p *tale){silent, once}},
		{"a start by another interface, and then as ever", housed(3), false, []func(p *tale){silent, once, func(p *tale) { p.lives("worker-1", "10.0.0.1", 30*minute+40, hour) }}},
		{"a start by another interface, and then by its own, that ends soon", housed(3), false, []func(p *tale){silent, once, func(p *tale) { p.one(31*minute, "worker-1", home) }}},
		{"a start that ends soon, behind a gateway where it lived", housed(3), false, []func(p *tale){func(p *tale) {
			p.lives("worker-1", "10.0.0.1", 2, 10*minute)
			for i := 1; i <= 3; i++ {
				p.lives(fmt.Sprintf("worker-%d", i), thief, 10*minute+i, 15*minute)
			}
		}, once}},
		{"a start by one address of a NAT, with the Lease by another one", housed(3), false, []func(p *tale){
			silent, once, func(p *tale) { p.lives("worker-1", "203.0.113.10", 30*minute+20, hour) },
		}},
		{"behind a NAT, of which the Node has no address", housed(3), false, []func(p *tale){func(p *tale) { p.lives("worker-1", "192.0.2.1", 2, 20*minute) }, once}},
		{"in a log that has no Leases of it", housed(3), false, []func(p *tale){func(p *tale) {
			for s := 0; s < 20*minute; s += 30 {
				p.one(s, "worker-1", does("get nodes worker-1"), home)
			}
		}, once}},
		{"without a state", nil, false, []func(p *tale){silent, once}},
		{"of a Node of which the state has no address", cluster(3), false, []func(p *tale){silent, once}},
	} {
		p := &tale{}
		p.lives("worker-2", "10.0.0.2", 4, hour)
		p.lives("worker-3", "10.0.0.3", 6, hour)
		for _, play := range c.play {
			play(p)
		}
		said := strings.Join(p.detects(t, nodeCredentialMisuse(), c.s), "\n")
		if got := strings.Contains(said, "medium: the credential of node worker-1 was used from "); got != c.want {
			t.Errorf("%s: %t, want %t\n%s", c.name, got, c.want, said)
		}
	}
}

// What is still to be judged when nodetrail stops is judged when it runs again.
func TestUsedWhileSilentOverARestart(t *testing.T) {
	p := &tale{}
	p.lives("worker-2", "10.0.0.2", 4, hour)
	p.lives("worker-3", "10.0.0.3", 6, hour) // so that the restart is four minutes after what is found
	p.lives("worker-1", "10.0.0.1", 2, 20*minute)
	p.one(21*minute, "worker-1", does("list services"), comes("203.0.113.9"))
	want := p.detects(t, nodeCredentialMisuse(), housed(3))
	if got := p.run(t, nodeCredentialMisuse(), housed(3), nil, 1, true); len(want) != 1 || !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
