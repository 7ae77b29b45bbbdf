package rules

import (
	"fmt"
	"testing"
	"time"
)

// An address goes from one node to another, as the one of a control plane does that kube-vip or keepalived moves: whose kubelet has it comes from there.
func TestAddressHandedOver(t *testing.T) {
	const vip = "10.0.0.100"
	move := func(p *tale, at int) {
		p.lives("worker-1", vip, 2, at)
		p.lives("worker-1", "10.0.0.1", at+5, 90*minute)
		p.lives("worker-2", "10.0.0.2", 4, at)
		p.lives("worker-2", vip, at+17, 90*minute)
	}
	takes := func(p *tale, name, address string, from, to int) {
		for s := from; s < to; s += 7 * minute {
			p.taken(s, name, address)
		}
	}
	for _, c := range []struct {
		name string
		play func(p *tale)
		want [2]string // of worker-1 and worker-2
	}{
		{"with all", func(p *tale) {
			move(p, 30*minute)
			takes(p, "worker-1", vip, minute, 30*minute)
			takes(p, "worker-2", vip, 30*minute+12, 90*minute)
		}, [2]string{"", "medium"}},
		{"with a watch that the next one began there before the log", func(p *tale) {
			p.one(1, "worker-2", does("watch pods"), comes(vip))
			move(p, 30*minute)
			takes(p, "worker-2", vip, 30*minute+12, 90*minute)
		}, [2]string{"", ""}},
		{"to nobody for a quarter of an hour, and back", func(p *tale) {
			p.lives("worker-1", vip, 2, 30*minute)
			p.lives("worker-1", "10.0.0.1", 30*minute+5, 45*minute)
			p.lives("worker-1", vip, 45*minute+10, 90*minute)
			p.lives("worker-2", "10.0.0.2", 4, 90*minute)
			takes(p, "worker-1", vip, 46*minute, 90*minute)
		}, [2]string{"", ""}},
		{"while a connection is open for five minutes", func(p *tale) {
			move(p, 30*minute)
			for s := 30 * minute; s < 35*minute; s += 20 {
				p.one(s, "worker-2", comes("10.0.0.2"))
			}
			takes(p, "worker-2", vip, 32*minute, 90*minute)
		}, [2]string{"", "medium"}},
		{"there and back", func(p *tale) {
			p.lives("worker-1", vip, 2, 30*minute)
			p.lives("worker-1", "10.0.0.1", 30*minute+5, 45*minute)
			p.lives("worker-1", vip, 45*minute+10, 90*minute)
			p.lives("worker-2", "10.0.0.2", 4, 30*minute)
			p.lives("worker-2", vip, 30*minute+17, 45*minute)
			p.lives("worker-2", "10.0.0.2", 45*minute+15, 90*minute)
			takes(p, "worker-1", vip, 45*minute+11, 90*minute)
			takes(p, "worker-2", vip, 30*minute+18, 45*minute)
		}, [2]string{"", "medium"}},
		{"for a minute", func(p *tale) {
			p.lives("worker-1", vip, 2, 30*minute)
			p.lives("worker-1", "10.0.0.1", 30*minute+5, 31*minute+20)
			p.lives("worker-1", vip, 31*minute+25, 90*minute)
			p.lives("worker-2", "10.0.0.2", 4, 30*minute)
			p.lives("worker-2", vip, 30*minute+7, 31*minute+20)
			p.lives("worker-2", "10.0.0.2", 31*minute+25, 90*minute)
			takes(p, "worker-1", vip, 32*minute, 90*minute)
			p.taken(30*minute+30, "worker-2", vip)
		}, [2]string{"", ""}},

		{"the kubelet stays at its own address", func(p *tale) {
			move(p, 30*minute)
			p.lives("worker-2", "10.0.0.2", 30*minute+4, 90*minute)
			takes(p, "worker-2", vip, 31*minute, 90*minute)
		}, [2]string{"", "critical"}},
		{"its requests last for longer", func(p *tale) {
			move(p, 30*minute)
			for s := 30 * minute; s < 90*minute; s += 20 {
				p.one(s, "worker-2", comes("10.0.0.2"))
			}
			takes(p, "worker-2", vip, 50*minute, 90*minute)
		}, [2]string{"", "critical"}},
		{"the former one keeps it", func(p *tale) {
			p.lives("worker-1", vip, 2, 90*minute)
			p.lives("worker-2", "10.0.0.2", 4, 30*minute)
			p.lives("worker-2", vip, 30*minute+17, 90*minute)
			takes(p, "worker-2", vip, 32*minute, 90*minute)
		}, [2]string{"", "critical"}},
		{"of nobody", func(p *tale) {
			p.lives("worker-1", "10.0.0.1", 2, 90*minute)
			p.lives("worker-2", "10.0.0.2", 4, 30*minute)
			p.lives("worker-2", vip, 30*minute+17, 90*minute)
			takes(p, "worker-2", vip, 32*minute, 90*minute)
		}, [2]string{"", "critical"}},
		{"of nobody, after somebody used another node's credential there", func(p *tale) {
			p.lives("worker-1", "10.0.0.1", 2, 20*minute)
			p.lives("worker-1", vip, 20*minute, 30*minute)
			p.lives("worker-1", "10.0.0.1", 30*minute, 90*minute)
			p.lives("worker-2", "10.0.0.2", 4, 30*minute)
			p.lives("worker-2", vip, 30*minute+17, 90*minute)
			takes(p, "worker-2", vip, 32*minute, 90*minute)
		}, [2]string{"", "critical"}},
		{"an hour after the former one left", func(p *tale) {
			p.lives("worker-1", vip, 2, 10*minute)
			p.lives("worker-1", "10.0.0.1", 10*minute, 90*minute)
			p.lives("worker-2", "10.0.0.2", 4, 70*minute)
			p.lives("worker-2", vip, 70*minute, 90*minute)
			takes(p, "worker-2", vip, 72*minute, 90*minute)
		}, [2]string{"", "critical"}},
		{"without a sign of life", func(p *tale) {
			for s := 31 * minute; s < 90*minute; s += 20 {
				p.one(s, "worker-2", comes(vip))
			}
			p.lives("worker-1", vip, 2, 30*minute)
			p.lives("worker-1", "10.0.0.1", 30*minute+5, 90*minute)
			p.lives("worker-2", "10.0.0.2", 4, 30*minute)
			takes(p, "worker-2", vip, 32*minute, 90*minute)
		}, [2]string{"", "critical"}},
		{"another node's own address", func(p *tale) {
			p.lives("worker-1", "10.0.0.4", 2, 30*minute)
			p.lives("worker-1", "10.0.0.1", 30*minute+5, 90*minute)
			p.lives("worker-2", "10.0.0.2", 4, 30*minute)
			p.lives("worker-2", "10.0.0.4", 30*minute+17, 90*minute)
			takes(p, "worker-2", "10.0.0.4", 32*minute, 90*minute)
		}, [2]string{"", "critical"}},

		{"with one sign of life a minute", func(p *tale) {
			p.lives("worker-1", vip, 2, 30*minute)
			p.lives("worker-1", "10.0.0.1", 30*minute+5, 90*minute)
			p.lives("worker-2", "10.0.0.2", 4, 30*minute)
			for s := 30*minute + 17; s < 90*minute; s += minute {
				p.one(s, "worker-2", lease("worker-2"), comes(vip))
			}
			takes(p, "worker-2", vip, 32*minute, 90*minute)
		}, [2]string{"", "critical"}},
		{"and both come from there later", func(p *tale) {
			p.lives("worker-1", vip, 2, 30*minute)
			p.lives("worker-1", "10.0.0.1", 30*minute+5, 40*minute)
			p.lives("worker-1", vip, 40*minute+5, 90*minute)
			p.lives("worker-2", "10.0.0.2", 4, 30*minute)
			p.lives("worker-2", vip, 30*minute+17, 90*minute)
			takes(p, "worker-1", vip, 60*minute, 90*minute)
			takes(p, "worker-2", vip, 60*minute, 90*minute)
		}, [2]string{"critical", "critical"}},
		{"some minutes after something was taken from there", func(p *tale) {
			p.lives("worker-1", vip, 2, 28*minute)
			p.lives("worker-1", "10.0.0.1", 28*minute+5, 90*minute)
			p.lives("worker-2", "10.0.0.2", 4, 30*minute+30)
			p.taken(30*minute, "worker-2", vip)
			p.lives("worker-2", vip, 35*minute, 90*minute)
		}, [2]string{"", "critical"}},
		{"by a node that once came from its own one", func(p *tale) {
			p.one(1, "worker-1", comes("10.0.0.1"))
			p.lives("worker-1", vip, 2, 30*minute)
			p.lives("worker-1", "10.0.0.1", 30*minute+5, 90*minute)
			p.lives("worker-2", "10.0.0.2", 4, 30*minute)
			p.lives("worker-2", vip, 30*minute+17, 90*minute)
			p.taken(30*minute-5, "worker-1", vip)
		}, [2]string{"medium", "medium"}},
		{"there and back at the end of a minute", func(p *tale) {
			p.lives("worker-1", vip, 2, 30*minute)
			p.lives("worker-1", "10.0.0.1", 30*minute+1, 45*minute+45)
			p.lives("worker-1", vip, 45*minute+52, 90*minute)
			p.lives("worker-2", "10.0.0.2", 4, 30*minute)
			p.lives("worker-2", vip, 30*minute+17, 45*minute+49)
			p.lives("worker-2", "10.0.0.2", 45*minute+55, 90*minute)
			takes(p, "worker-1", vip, 46*minute+11, 90*minute)
			takes(p, "worker-2", vip, 30*minute+18, 45*minute)
		}, [2]string{"", "medium"}},
		{"a minute after somebody came from there", func(p *tale) {
			p.lives("worker-1", vip, 2, 32*minute)
			p.lives("worker-1", "10.0.0.1", 32*minute+5, 90*minute)
			p.lives("worker-2", "10.0.0.2", 4, 33*minute+10)
			p.one(32*minute+20, "worker-2", comes(vip))
			p.lives("worker-2", vip, 33*minute+12, 90*minute)
		}, [2]string{"", "high"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, want := range c.want {
				p := &tale{}
				c.play(p)
				p.lives("worker-3", "10.0.0.3", 6, 90*minute)
				if got, all := worst(t, p, housed(4), fmt.Sprintf("worker-%d", i+1)); got != want {
					t.Errorf("worker-%d: %q, want %q\n%s", i+1, got, want, all)
				}
			}
		})
	}
}

// What looks as if the address might be handed over yet is reported when that did not happen within some minutes, and not at the end of the log.
func TestNotHandedOver(t *testing.T) {
	const vip = "10.0.0.100"
	ends := &tale{}
	ends.lives("worker-1", vip, 2, 30*minute)
	ends.lives("worker-1", "10.0.0.1", 30*minute+5, 35*minute)
	ends.lives("worker-2", "10.0.0.2", 4, 33*minute+30)
	ends.taken(33*minute+20, "worker-2", vip)
	if got, all := worst(t, ends, housed(4), "worker-2"); got != "critical" {
		t.Errorf("the log ends: %q\n%s", got, all)
	}
	for name, play := range map[string]func(p *tale){
		"the next node falls silent": func(p *tale) {
			p.lives("worker-1", vip, 2, 30*minute)
			p.lives("worker-1", "10.0.0.1", 30*minute+5, 90*minute)
			p.lives("worker-2", "10.0.0.2", 4, 33*minute+30)
			p.taken(33*minute+20, "worker-2", vip)
		},
		"the former one leaves it to nobody": func(p *tale) {
			p.one(1, "worker-1", comes("10.0.0.1"))
			p.lives("worker-1", vip, 2, 33*minute)
			p.lives("worker-1", "10.0.0.1", 33*minute+5, 90*minute)
			p.taken(33*minute-5, "worker-1", vip)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, s, d := &tale{}, housed(4), NewDetectors([]*Rule{nodeCredentialMisuse()}, DetectorOptions{})
			play(p)
			p.lives("worker-3", "10.0.0.3", 6, 90*minute)
			p.sort()
			var when []time.Time
			for _, r := range p.requests {
				observeLent(d, r, s)
				d.Advance(time.Time{}, s, func(f *Detection) {
					if f.Reason == SecretTaken {
						when = append(when, r.Time)
					}
				})
			}
			if len(when) != 1 || when[0].After(at(50*minute)) {
				t.Errorf("reported at %v", when)
			}
		})
	}
}
