package rules

import (
	"fmt"
	"strings"
	"testing"
)

// The former holder of an address still comes from there, so that two nodes do, and nothing was handed over. It is found whoever comes first in each minute.
func TestHandedOverToNobody(t *testing.T) {
	const vip = "10.0.0.100"
	for _, first := range []string{"worker-1", "worker-2"} {
		p := &tale{}
		for s := 0; s < 90*minute; s += minute {
			if first == "worker-1" || s > 31*minute {
				p.one(s, first, comes(vip))
			}
		}
		p.lives("worker-1", vip, 8, 90*minute)
		p.lives("worker-2", "10.0.0.2", 4, 30*minute)
		p.lives("worker-2", vip, 30*minute+17, 90*minute)
		for s := 32*minute + 3; s < 90*minute; s += 7 * minute {
			p.taken(s, "worker-2", vip)
		}
		p.lives("worker-3", "10.0.0.3", 6, 90*minute)
		got, all := worst(t, p, housed(4), "worker-2")
		if n := strings.Count(all, "critical"); got != "critical" || n != 9 {
			t.Errorf("%s first: %q, %d of 9\n%s", first, got, n, all)
		}
		p.sort()
		inOrder := fmt.Sprint(p.run(t, nodeCredentialMisuse(), housed(4), nil, 1, false))
		if n := strings.Count(inOrder, "critical"); n != 9 {
			t.Errorf("%s first, in order: %d of 9\n%s", first, n, inOrder)
		}
	}
}

// A kubelet of a machine with both families starts anew and comes by the other one from then on. Somebody who stopped it may do the same.
func TestKubeletGoesOverToTheOtherFamily(t *testing.T) {
	for n, want := range map[int]string{1: "", 3: "medium"} {
		p := &tale{}
		for i := 2; i <= n; i++ {
			p.lives(fmt.Sprintf("worker-%d", i), fmt.Sprintf("10.0.0.%d", i), i, 90*minute)
		}
		p.lives("worker-1", "10.0.0.1", 2, 20*minute)
		p.lives("worker-1", "2001:db8::1", 20*minute+7, 90*minute)
		p.taken(10*minute, "worker-1", "10.0.0.1")
		p.taken(20*minute+9, "worker-1", "2001:db8::1")
		p.taken(50*minute, "worker-1", "2001:db8::1")
		if got, all := worst(t, p, housed(n), "worker-1"); got != want {
			t.Errorf("%d nodes: %q, want %q\n%s", n, got, want, all)
		}
	}
}

// While connections from a node's former address may be open, another address is as strange as ever.
func TestStrangeAddressDuringAMove(t *testing.T) {
	const vip = "10.0.0.100"
	p := &tale{}
	p.lives("worker-1", vip, 2, 30*minute)
	p.lives("worker-1", "10.0.0.1", 30*minute+5, 90*minute)
	p.lives("worker-2", "10.0.0.2", 4, 30*minute)
	p.lives("worker-2", vip, 30*minute+17, 90*minute)
	p.lives("worker-3", "10.0.0.3", 6, 90*minute)
	p.one(35*minute+3, "worker-2", comes("198.51.100.9"))
	if got, all := worst(t, p, housed(4), "worker-2"); got != "high" {
		t.Errorf("%q\n%s", got, all)
	}
}

// A kubelet that renews every half minute lives where it comes from, too.
func TestSlowRenewals(t *testing.T) {
	for _, every := range []int{10, 30} {
		p := &tale{}
		for i := 1; i <= 4; i++ {
			name, own := fmt.Sprintf("worker-%d", i), fmt.Sprintf("10.0.0.%d", i)
			for s := i; s < 3*hour; s += every {
				from := own
				if s > hour {
					from = "203.0.113.9"
				}
				p.one(s, name, lease(name), comes(from))
			}
			p.taken(10*minute, name, own)
			p.taken(2*hour, name, "203.0.113.9")
		}
		if got, all := worst(t, p, housed(4), "worker-1"); got == "critical" {
			t.Errorf("every %d s: %q\n%s", every, got, all)
		}
	}
}

// Where a log begins all nodes appear at once, and none lives anywhere yet.
func TestOtherFamilyAsTheLogBegins(t *testing.T) {
	for _, at := range []int{1, 5, 130} {
		p := &tale{}
		for i := 1; i <= 5; i++ {
			name, v4, v6 := fmt.Sprintf("worker-%d", i), fmt.Sprintf("10.0.0.%d", i), fmt.Sprintf("2001:db8::%d", i)
			renews := v6
			if i > 3 {
				renews = v4
			}
			p.lives(name, renews, 2*i, 40*minute)
			for s := i; s < 40*minute; s += 20 {
				p.one(s, name, comes(v4))
			}
		}
		p.one(0, "worker-1", comes("10.0.0.1"))
		p.taken(at, "worker-1", "2001:db8::1")
		if got, all := worst(t, p, housed(5), "worker-1"); got == "critical" {
			t.Errorf("at second %d: %q\n%s", at, got, all)
		}
	}
}
