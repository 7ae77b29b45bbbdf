package rules

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Where connections are moved elsewhere and back, nobody has two addresses: a kubelet renews its Lease from one place at a time. Whoever renews next to it is found.
func TestDetour(t *testing.T) {
	const elsewhere = "192.0.2.9"
	for _, c := range []struct {
		name   string
		moved  int // how many nodes are moved
		from   int // the second of 30 in which that is, 20 if 0
		lasts  int // for how many seconds
		stay   int // the kubelet renews at home from then on
		beats  int // how many renewals from there at most, if not 0
		took   int // when worker-1 takes a secret from there
		silent bool
		lives  bool // another kubelet lives there
		visits bool // another node came from there once
		want   string
	}{
		{name: "all nodes", moved: 6, lasts: 26, took: 32},
		{name: "two nodes", moved: 2, lasts: 26, took: 32},
		{name: "two nodes, over the end of a minute", moved: 2, lasts: 55, took: 42},
		{name: "two nodes, for three minutes", moved: 2, lasts: 3 * minute, took: 2 * minute},
		{name: "one node", moved: 1, lasts: 26, took: 32, want: "medium"},
		{name: "two nodes, right after they renewed", moved: 2, from: 18, lasts: 26, took: 19},
		{name: "one node, to where another one was", moved: 1, lasts: 26, took: 32, visits: true, want: "medium"},
		{name: "one node, for two minutes", moved: 1, lasts: 2 * minute, took: 70, want: "medium"},
		{name: "one node, to where another kubelet lives", moved: 1, lasts: 26, took: 32, lives: true},

		{name: "somebody with two credentials", moved: 2, lasts: 26, stay: 20, took: 32, want: "critical"},
		{name: "somebody with two credentials, from where a kubelet lives", moved: 2, lasts: 26, stay: 20, took: 32, lives: true, want: "critical"},
		{name: "somebody who renews on when the kubelets are back", moved: 2, lasts: 3 * minute, stay: 40, took: 2 * minute, want: "critical"},
		{name: "one renewal", moved: 2, lasts: 26, beats: 1, took: 32, want: "critical"},
		{name: "somebody who takes something before", moved: 6, lasts: 26, took: 2, want: "critical"},
		{name: "somebody who takes something after", moved: 6, lasts: 26, took: 62, want: "critical"},
		{name: "somebody who takes something minutes after", moved: 6, lasts: 26, took: 152, want: "critical"},
		{name: "somebody who renews after the kubelets have stopped", moved: 2, lasts: 26, took: 32, silent: true, want: "critical"},
	} {
		p, from := &tale{}, 30*minute+cmp.Or(c.from, 20)
		back := from + c.lasts
		p.kubelets(6, 0, hour, 10, func(node, s int) bool {
			away := node <= c.moved && s >= from && (s < back || c.silent)
			return away && (c.stay == 0 || s < from+c.stay) && !(c.stay == 20)
		}, home)
		n := map[int]int{}
		p.kubelets(c.moved, from, back, 10, func(node, _ int) bool {
			n[node]++
			return c.beats > 0 && n[node] > c.beats
		}, comes(elsewhere))
		p.taken(30*minute+c.took, "worker-1", elsewhere)
		if c.lives {
			p.lives("worker-7", elsewhere, 3, hour)
		}
		if c.visits {
			p.one(20*minute, "worker-7", comes(elsewhere))
		}
		s := housed(6)
		s.sets["worker-7"], s.addresses["worker-7"] = [][]string{{"10.0.0.7"}}, []string{"10.0.0.7"}
		if got, all := worst(t, p, s, "worker-1"); got != c.want {
			t.Errorf("%s: %q, want %q\n%.2000s", c.name, got, c.want, all)
		}
	}
}

// Whoever renews the Lease of a dead kubelet from two addresses makes no detour: no kubelet lived at the first one.
func TestDetourOfADeadKubelet(t *testing.T) {
	const one, two = "192.0.2.8", "192.0.2.9"
	p := &tale{}
	p.lives("worker-1", "10.0.0.1", 1, 20*minute)
	p.lives("worker-2", "10.0.0.2", 2, hour)
	p.lives("worker-1", one, 30*minute, 30*minute+20)
	p.lives("worker-1", two, 30*minute+21, 30*minute+50)
	p.lives("worker-1", one, 30*minute+52, 31*minute+20)
	p.taken(30*minute+32, "worker-1", two)
	if got, all := worst(t, p, housed(2), "worker-1"); got != "critical" {
		t.Errorf("%q\n%.2000s", got, all)
	}
}

// What an API server wrote whose clock is behind was not taken when it says.
func TestDetourByWrongClock(t *testing.T) {
	const elsewhere = "192.0.2.9"
	p, s := &tale{}, housed(3)
	p.kubelets(3, 0, hour, 10, func(node, s int) bool { return node < 3 && s >= 30*minute+20 && s < 30*minute+50 }, home)
	p.kubelets(2, 30*minute+20, 30*minute+50, 10, nil, comes(elsewhere))
	p.sort()
	p.one(30*minute+32, "worker-1", does("get secrets shop/db"), verdict(nodeauthz.Allow), comes(elsewhere))
	late := p.requests[len(p.requests)-1]
	d, got, told := NewDetectors([]*Rule{nodeCredentialMisuse()}, DetectorOptions{}), None, false
	found := func(f *Detection) { got = max(got, f.Severity) }
	for _, r := range p.requests[:len(p.requests)-1] {
		observeLent(d, r, s)
		if d.Advance(time.Time{}, s, found); !told && !r.Time.Before(at(36*minute)) {
			told = true
			observeLent(d, late, s)
		}
	}
	d.Flush(s, found)
	if got != Critical {
		t.Errorf("%s", got)
	}
}

// A kubelet that lives at an address of the control plane is for moments at that of its machine, when the other one is elsewhere.
func TestHomeForMoments(t *testing.T) {
	const vip = "10.0.0.100"
	for lasts, want := range map[int]string{35: "", 95: ""} {
		for _, took := range []int{-25, -5, 2, 20, lasts + 3, lasts + 40} {
			p, from := &tale{}, 30*minute+20
			p.lives("worker-1", vip, 1, from)
			p.lives("worker-1", "10.0.0.1", from+2, from+lasts)
			p.lives("worker-1", vip, from+lasts+1, hour)
			p.lives("worker-2", "10.0.0.2", 4, hour)
			address := vip
			if took >= 0 && took < lasts {
				address = "10.0.0.1"
			}
			p.taken(from+took, "worker-1", address)
			if got, all := worst(t, p, housed(2), "worker-1"); got != want {
				t.Errorf("for %d s, taken at %d: %q, want %q\n%.2000s", lasts, took, got, want, all)
			}
		}
	}
}

// Somebody who takes something from elsewhere while a kubelet is on a detour is found.
func TestTheftDuringADetour(t *testing.T) {
	const vip, thief = "10.0.0.100", "203.0.113.9"
	p, from := &tale{}, 30*minute+20
	p.lives("worker-1", "10.0.0.1", 1, 5*minute) // the first address that it used
	p.lives("worker-1", vip, 5*minute+1, from)
	p.lives("worker-1", "10.0.0.1", from+2, from+75)
	p.lives("worker-1", vip, from+76, hour)
	p.lives("worker-2", "10.0.0.2", 4, hour)
	for _, at := range []int{from + 10, from + 30, from + 60} {
		p.taken(at, "worker-1", thief)
	}
	found, n := p.detects(t, nodeCredentialMisuse(), housed(2)), 0
	for _, f := range found {
		if strings.Contains(f, "critical: ") && strings.Contains(f, thief) {
			n++
		}
	}
	if n != 2 { // the first and the second one are of one minute
		t.Errorf("%d of 2\n%.2000s", n, strings.Join(found, "\n"))
	}
}

// The slots of minutes, some of which come late or are far apart.
func TestBeats(t *testing.T) {
	h := &habit{}
	enter := func(minute int64, slots ...int64) {
		var bits uint8
		for _, s := range slots {
			bits |= 1 << s
		}
		h.Beats = h.Beats.enter(minute-h.Minute, bits)
		h.Minute = max(h.Minute, minute)
	}
	enter(100, 0, 5)
	enter(101, 2)
	enter(103, 1)
	for slot, want := range map[int64]bool{600: true, 601: false, 605: true, 606: false, 608: true, 612: false, 619: true, 620: false, 623: false, 624: false, 559: false} {
		if got := h.beat(slot); got != want {
			t.Errorf("slot %d: %t", slot, got)
		}
	}
	enter(112, 3)
	if !h.beat(619) || h.beat(608) || !h.beat(675) {
		t.Error("ten minutes")
	}
	enter(500, 0)
	if h.beat(675) || !h.beat(3000) || h.beat(2999) {
		t.Error("after hours")
	}
	enter(510, 0)
	for slot := int64(3001); slot < 3060; slot++ {
		if h.beat(slot) {
			t.Errorf("slot %d after ten minutes", slot)
		}
	}
}
