package rules

import (
	"fmt"
	"strings"
	"testing"
)

// Whoever holds the credentials of three nodes makes no gateway of any address: kubelets live behind one.
func TestThreeCredentialsMakeNoGateway(t *testing.T) {
	const thief, nat, second = "198.51.100.7", "203.0.113.1", "203.0.113.2"
	const then, end = hour, 2 * hour
	name := func(i int) string { return fmt.Sprint("worker-", i) }
	own := func(i int) string { return fmt.Sprint("10.0.0.", i) }
	atHome := func(p *tale) {
		for i := 1; i <= 4; i++ {
			p.lives(name(i), own(i), i, end)
		}
	}
	through := func(gateways ...string) func(p *tale) {
		return func(p *tale) {
			for i := 1; i <= 6; i++ {
				p.lives(name(i), gateways[i%len(gateways)], i, end)
				for s := i; s < end; s += 40 {
					p.one(s, name(i), does("get nodes "+name(i)), comes(gateways[(i+1)%len(gateways)]))
				}
			}
		}
	}
	// Each of three credentials is used once from the addresses of the two others.
	crossed := func(from int) func(p *tale) {
		return func(p *tale) {
			for i := 1; i <= 3; i++ {
				for j := 1; j <= 3; j++ {
					if i != j {
						p.one(from+10*i+j, name(i), does("list services"), comes(own(j)))
					}
				}
			}
		}
	}
	taken := func(p *tale) {
		for i := 1; i <= 3; i++ {
			p.taken(then+10*i, name(i), thief)
		}
	}
	next := func(i int) string { return own(i%3 + 1) }
	takenNextDoor := func(p *tale) {
		for i := 1; i <= 3; i++ {
			p.taken(then+10*i, name(i), next(i))
		}
	}
	// Each of them renews its Lease once from where the others live, and from elsewhere.
	renewed := func(p *tale) {
		for i := 1; i <= 3; i++ {
			for j, address := range []string{own(1), own(2), own(3), thief} {
				p.one(then-10*minute+10*i+j, name(i), lease(name(i)), comes(address))
			}
		}
	}
	uses := func(p *tale) {
		for i := 1; i <= 3; i++ {
			p.one(then+10*i, name(i), does("list services"), comes(thief))
		}
	}
	for _, c := range []struct {
		name, want string
		play       []func(p *tale)
	}{
		{"from elsewhere", "critical", []func(p *tale){atHome, taken}},
		{"after they were crossed", "critical", []func(p *tale){atHome, crossed(20 * minute), taken}},
		{"while they are crossed", "critical", []func(p *tale){atHome, crossed(then), taken}},
		{"from each other's machines", "critical", []func(p *tale){atHome, crossed(20 * minute), takenNextDoor}},
		{"from each other's machines, whose addresses others had", "critical", []func(p *tale){func(p *tale) {
			for i := 1; i <= 3; i++ {
				p.lives(fmt.Sprint("old-", i), own(i), i, 8*minute)
				p.lives(name(i), own(i), 9*minute+i, end)
			}
			p.lives(name(4), own(4), 4, end)
		}, crossed(20 * minute), takenNextDoor}},
		{"with a renewal of each Lease", "critical", []func(p *tale){atHome, crossed(20 * minute), renewed, taken}},
		{"what is no secret", "high", []func(p *tale){atHome, crossed(20 * minute), uses}},
		{"behind a gateway", "critical", []func(p *tale){through(nat), taken}},
		{"behind a gateway, what is no secret", "high", []func(p *tale){through(nat), uses}},
		{"behind two, of which each connection picks one", "medium", []func(p *tale){through(nat, second), taken}},
		{"behind a gateway that is a node's machine", "critical", []func(p *tale){through(own(6)), taken}},
	} {
		p := &tale{}
		for _, play := range c.play {
			play(p)
		}
		p.sort()
		found := p.detects(t, nodeCredentialMisuse(), housed(6))
		for i := 1; i <= 3; i++ {
			got, from := "", thief
			if strings.Contains(c.name, "each other's") {
				from = "from " + next(i)
			}
			for _, severity := range []string{"medium", "high", "critical"} {
				for _, f := range found {
					if strings.Contains(f, " "+severity+": ") && strings.Contains(f, name(i)) && strings.Contains(f, from) {
						got = severity
					}
				}
			}
			if got != c.want {
				t.Errorf("%s, %s: %q, want %q\n%s", c.name, name(i), got, c.want, strings.Join(found, "\n"))
			}
		}
	}
	for _, gateways := range [][]string{{nat}, {nat, second}, {own(5), own(6)}} {
		p := &tale{}
		through(gateways...)(p)
		p.sort()
		if found := p.detects(t, nodeCredentialMisuse(), housed(6)); len(found) > 0 {
			t.Errorf("nodes behind %q: %q", gateways, found)
		}
	}
}
