package rules

import (
	"fmt"
	"testing"
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
