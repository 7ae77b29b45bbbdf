package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The addresses of nodes that are gone are given to others. That several nodes had an address one after the other makes no gateway of it.
func TestAddressesOfNodesThatAreGone(t *testing.T) {
	for _, c := range []struct {
		name, from string
		silent     bool
	}{
		{"from another node, next to the kubelet", "10.0.0.2", false},
		{"from outside, next to the kubelet", "203.0.113.9", false},
		{"from another node, the kubelet is silent", "10.0.0.2", true},
		{"from outside, the kubelet is silent", "203.0.113.9", true},
	} {
		var want []string
		for _, before := range []struct {
			name              string
			tenants, lives, d int // the tenants, how long each is there, and how long until the next
			deleted           bool
		}{
			{"no node", 0, 0, 0, true},
			{"one node", 1, 20 * minute, 4 * hour, true},
			{"two nodes", 2, 20 * minute, 4 * hour, true},
			{"three nodes", 3, 20 * minute, 4 * hour, true},
			{"three nodes that were replaced at once", 3, 8 * minute, 9 * minute, true},
			{"three nodes with other addresses since", 3, 8 * minute, 2 * hour, false},
		} {
			p, w, from := &tale{}, housed(3), 0
			for i := range before.tenants {
				for k := 1; k <= 3; k++ {
					name, own := fmt.Sprintf("old-%d-%d", i, k), fmt.Sprintf("10.0.0.%d", k)
					w.nodes = append(w.nodes, name)
					w.sets[name], w.addresses[name] = [][]string{{own}}, []string{own}
					p.lives(name, own, from+k, from+before.lives)
					if before.deleted {
						w.gone[name] = from + before.lives
					} else {
						other := fmt.Sprintf("10.0.%d.%d", i+1, k)
						w.sets[name], w.addresses[name] = [][]string{{own}, {other}}, []string{own, other}
					}
				}
				from += before.d
			}
			to := from + 2*hour
			end := to
			if c.silent {
				end = from + 40*minute
			}
			p.lives("worker-1", "10.0.0.1", from+1, end)
			p.lives("worker-2", "10.0.0.2", from+2, to)
			p.lives("worker-3", "10.0.0.3", from+3, to)
			for s := from + hour; s < from+hour+3*minute; s += 20 {
				p.taken(s, "worker-1", c.from)
			}
			p.sort()
			var got []string
			for _, s := range p.run(t, nodeCredentialMisuse(), w, nil, 1, false) {
				_, text, _ := strings.Cut(s, " ") // without the time
				got = append(got, text)
			}
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) || len(got) == 0 {
				t.Errorf("%s, after %s: %q, want %q", c.name, before.name, got, want)
			}
		}
	}
}

// A gateway stays one while nodes behind it come and go, whether its address is that of a Node as well or not.
func TestGatewayWhoseNodesGo(t *testing.T) {
	for _, through := range [][2]string{{"10.0.0.9", "10.0.0.8"}, {"198.51.100.1", "198.51.100.2"}} {
		p, w := &tale{}, housed(9)
		for i := 1; i <= 9; i++ {
			name, from, to := fmt.Sprintf("worker-%d", i), 0, 3*hour
			switch {
			case i <= 3:
				to = 40 * minute
				w.gone[name] = to
			case i <= 7:
				from, to = i*5*minute, (i+8)*10*minute // from 20 minutes on
				w.gone[name] = to
			}
			for s := from; s < to; s += 10 {
				p.one(s+i, name, lease(name), comes(through[s/10%2]))
				if s%300 == 0 {
					p.taken(s+i, name, through[1])
				}
			}
		}
		if got := p.detects(t, nodeCredentialMisuse(), w); len(got) > 0 {
			t.Errorf("%s: %q", through, got)
		}
	}
}

// A node that is gone keeps no address, and one that comes seldom keeps it.
func TestAddressOwnerThatIsGone(t *testing.T) {
	for _, c := range []struct {
		name   string
		silent int // minutes
		want   string
		shared bool
	}{
		{"there", 0, "", true}, {"silent for a while", 50, "", true}, {"gone", 70, "worker-2", false},
	} {
		b := &births{}
		b.lives("worker-1", 0, 600, "X509SHA256=1", "10.0.0.1")
		at := 600 + c.silent*minute
		b.lives("worker-2", at, at+600, "X509SHA256=2", "10.0.0.1")
		d := newBirthDetector(DetectorOptions{}).(*birthDetector)
		for _, r := range b.requests {
			d.follow(r, &followed{name: r.Node}, stepOf(r.Time), nil)
		}
		step := stepOf(b.requests[len(b.requests)-1].Time)
		if owner, shared := d.ownerOf("10.0.0.1", step), d.shared("10.0.0.1", step); owner != c.want || shared != c.shared {
			t.Errorf("%s: the owner is %q, several %t; want %q, %t", c.name, owner, shared, c.want, c.shared)
		}
	}
}

// Nodes that come from an address hours apart.
func TestOwnersHoursApart(t *testing.T) {
	w := housed(3)
	w.sets["worker-2"], w.addresses["worker-2"] = [][]string{{"10.0.0.9"}, {"10.0.0.2"}}, []string{"10.0.0.9", "10.0.0.2"}
	for _, c := range []struct{ name, address, want string }{
		{"no Node has it", "198.51.100.1", "worker-1 worker-2 worker-3"},
		{"a Node had it", "10.0.0.9", "worker-3"},
		{"a Node has it, which is silent", "10.0.0.1", "worker-1 worker-3"},
	} {
		d := newCredentialDetector(DetectorOptions{}).(*credentialDetector)
		for i, name := range []string{"worker-1", "worker-2", "worker-3"} {
			n, when := d.known(name), at(i*2*hour)
			d.own(n, useV4, c.address, minuteAt(when), w)
			n.note(&use{useKey: useKey{useV4, c.address}, first: when, last: when, count: 1}, minuteAt(when))
		}
		if got := strings.Join(d.owners.get(c.address).Nodes, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
