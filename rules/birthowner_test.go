package rules

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// owning is a world in which Nodes have a further address from a second on, as cluster.Nodes tells it: it counts ten minutes later.
type owning struct {
	*world
	later map[string]map[string]int // by Node, the second since which it has an address
	known int                       // the second from which on the state covers the addresses
}

func (w *owning) NodeAddressSets(name string, t time.Time) [][]string {
	sets := slices.Clone(w.sets[name])
	for address, since := range w.later[name] {
		if !t.Before(at(since).Add(10 * time.Minute)) {
			sets = append(sets, append(slices.Clone(sets[len(sets)-1]), address))
		}
	}
	return sets
}

func (w *owning) NodesWith(address string, t time.Time) (out []string) {
	for _, name := range w.nodes {
		if sets := w.NodeAddressSets(name, t); len(sets) > 0 && hasName(sets[len(sets)-1], address) {
			out = append(out, name)
		}
	}
	return out
}

// unconfirmed is a world in which worker-1 has every address alone, though it is not confirmed yet.
type unconfirmed struct{ *owning }

func (unconfirmed) NodesWith(string, time.Time) []string { return []string{"worker-1"} }

func (w *owning) AddressesKnown(t time.Time) bool {
	return !t.Before(at(w.known)) && w.world.AddressesKnown(t)
}

// Before Kubernetes 1.32 the log has no IDs of certificates. A machine that joins again from another one of its addresses is that of its Node, and nobody else is.
func TestJoinsAgainFromAnotherAddress(t *testing.T) {
	const home, second, v6, loopback, thief = "10.0.0.1", "203.0.113.1", "fd00::1", "127.0.0.1", "10.9.9.9"
	const token = `user "system:bootstrap:abcdef" `
	a := kubeletsAsk("worker-1")
	play := func(lease, from string) func(*births) {
		return func(b *births) { b.lives("worker-1", 0, 2400, "", lease); b.ask(1200, a, "new", from) }
	}
	with := func(lease, from string, more func(*births)) func(*births) {
		return func(b *births) { play(lease, from)(b); more(b) }
	}
	sets := func(all ...[]string) map[string][][]string {
		return map[string][][]string{"worker-1": all, "worker-2": {{"10.0.0.2", "worker-2"}}, "worker-9": {{"10.0.0.9", "worker-9"}}}
	}
	nodes := []string{"worker-1", "worker-2", "worker-9"}
	all := &owning{world: &world{nodes: nodes, sets: sets([]string{home, second, v6, "fe80::1", loopback, "worker-1"})}}
	one := &owning{world: &world{nodes: nodes, sets: sets([]string{home, "worker-1"})}}
	late := func(second int) *owning {
		return &owning{world: one.world, later: map[string]map[string]int{"worker-1": {thief: second}}}
	}
	twice := sets([]string{home, second, "worker-1"})
	twice["worker-2"] = [][]string{{"10.0.0.2", second, "worker-2"}}
	for _, c := range []struct {
		name     string
		s        State
		critical bool
		play     func(*births)
	}{
		{"by its external address", all, false, play(home, second)},
		{"by its second family", all, false, play(home, v6)},
		{"by its second family, written otherwise", all, false, play(home, "fd00:0::1")},
		{"from its second family", all, false, play(v6, home)},
		{"from a loopback address", all, false, play(loopback, home)},
		{"from the other family's loopback address", all, false, play("::1", home)},
		{"by an address that it has had for ten minutes", late(600), false, play(home, thief)},

		{"somebody else", all, true, play(home, thief)},
		{"somebody else, by the other family", all, true, play(home, "fd00::9")},
		{"somebody else, by a family that the Node does not have", one, true, play(home, v6)},
		{"somebody else, of a kubelet that comes from a loopback address", all, true, play(loopback, thief)},
		{"somebody on the machine of another node, of a kubelet that comes from a loopback address", all, true, play(loopback, "10.0.0.2")},
		{"somebody on the machine of another node", all, true, play(home, "10.0.0.2")},
		{"from a loopback address, which may be that of any machine", all, true, play(home, loopback)},
		{"from a link-local address", all, true, play(home, "fe80::1")},
		{"an address that the Node got moments before", late(1198), true, play(home, thief)},
		{"an address that the Node got minutes before", late(601), true, play(home, thief)},
		{"an address that the Node got minutes before, of a kubelet that comes from a loopback address", late(601), true, play(loopback, thief)},
		{"an address that the Node got since", late(1300), true, play(home, thief)},
		{"an address that the Node had before", &owning{world: &world{nodes: nodes, sets: sets([]string{home, second}, []string{home})}}, true, play(home, second)},
		{"an address that the kubelet's was not together with", &owning{world: &world{nodes: nodes, sets: sets([]string{home}, []string{second})}}, true, play(home, second)},
		{"an address that is not confirmed", unconfirmed{&owning{world: &world{nodes: nodes, sets: sets([]string{second}, nil)}}}, true, play(loopback, second)},
		{"an address that another Node has, too", &owning{world: &world{nodes: nodes, sets: twice}}, true, play(home, second)},
		{"an address from which another node comes", all, true, with(home, second, func(b *births) { b.lives("worker-2", 0, 2400, "", second) })},
		{"an address from which another node came first", all, true, with(home, v6, func(b *births) { b.lives("worker-2", 900, 910, "", v6) })},
		{"a kubelet behind a gateway", all, true, with(thief, home, func(b *births) { b.lives("worker-2", 0, 2400, "", thief) })},
		{"a kubelet behind a gateway that the Node names", all, true, with(second, home, func(b *births) { b.lives("worker-2", 0, 2400, "", second) })},
		{"a Node that was made moments before", &owning{world: &world{nodes: nodes, sets: all.sets, created: map[string]int{"worker-1": 700}}}, true, play(home, second)},
		{"the state begins moments before", &owning{world: all.world, known: 700}, true, play(home, second)},
		{"the state has ended", &owning{world: &world{nodes: nodes, sets: all.sets, until: 1100}}, true, play(home, second)},
		{"a state without the Node", &owning{world: &world{nodes: []string{"worker-9"}}}, true, play(home, second)},
		{"no state", nil, true, play(home, second)},
	} {
		b := newBirths(t)
		b.lives("worker-9", 0, 2400, "", "10.0.0.9") // the log advances
		c.play(b)
		got := b.findings(c.s)
		want := " low: " + token + "asked for a certificate of node worker-1, which exists"
		if c.critical {
			want = " critical: " + token + "got a certificate of node worker-1 while its kubelet was running"
		}
		if len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, want)
		}
		if again := b.run(t, bootstrapImpersonation(), c.s, nil, 1, true); !slices.Equal(again, got) {
			t.Errorf("%s, over a restart: got %q, want %q", c.name, again, got)
		}
	}
}
