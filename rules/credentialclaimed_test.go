package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// claiming is a world in which worker-1 has further addresses from a second on, which count ten minutes later, as cluster.Nodes has it.
type claiming struct {
	*world
	since int
	more  []string
}

func (w *claiming) NodeAddressSets(name string, t time.Time) [][]string {
	sets := w.sets[name]
	if name == "worker-1" && (t.IsZero() || t.Sub(at(w.since)) >= 10*time.Minute) {
		sets = append(slices.Clip(sets), slices.Concat(w.more, sets[len(sets)-1]))
	}
	return sets
}

func (w *claiming) NodeAddresses(name string) []string {
	return slices.Concat(w.NodeAddressSets(name, time.Time{})...)
}

// Whoever holds a node's credential can write his address into its Node. While the kubelet is silent, nothing takes it back: then it is the Node's if a
// kubelet lives there.
func TestClaimedAddress(t *testing.T) {
	const thief, six = "203.0.113.9", "2001:db8::9"
	const then = 30 * minute
	silent := func(p *tale) { p.lives("worker-1", "10.0.0.1", 2, 20*minute) }
	taken := func(after int, address string) func(p *tale) {
		return func(p *tale) { p.taken(then+after, "worker-1", address) }
	}
	lives := func(from, to int, address string) func(p *tale) {
		return func(p *tale) { p.lives("worker-1", address, then+from, then+to) }
	}
	renews := func(p *tale) { p.one(then+70, "worker-1", lease("worker-1"), comes(thief)) }
	for _, c := range []struct {
		name  string
		claim int // when the Node gets the address
		more  []string
		want  string // of what was taken
		play  []func(p *tale)
	}{
		{"a minute after the Node got it", then, []string{thief}, "critical", []func(p *tale){silent, taken(60, thief)}},
		{"nine minutes after", then, []string{thief}, "critical", []func(p *tale){silent, taken(9*minute, thief)}},
		{"eleven minutes after", then, []string{thief}, "", []func(p *tale){silent, taken(11*minute, thief)}},
		{"before the Node gets it", then + 5*minute, []string{thief}, "critical", []func(p *tale){silent, taken(60, thief)}},
		{"and the kubelet comes back", then, []string{thief}, "critical", []func(p *tale){silent, taken(60, thief), lives(20*minute, 60*minute, "10.0.0.1")}},
		{"by a kubelet that was silent until later", then, []string{thief}, "critical", []func(p *tale){taken(60, thief), lives(20*minute, 60*minute, "10.0.0.1")}},
		{"with one renewal", then, []string{thief}, "critical", []func(p *tale){silent, taken(60, thief), renews}},
		{"with many renewals at once", then, []string{thief}, "critical", []func(p *tale){silent, taken(60, thief), func(p *tale) {
			for s := range 8 {
				p.one(then+62+s, "worker-1", lease("worker-1"), comes(thief))
			}
		}}},
		{"with refused renewals", then, []string{thief}, "critical", []func(p *tale){silent, taken(60, thief), func(p *tale) {
			for s := 0; s < 20*minute; s += 10 {
				p.one(then+s, "worker-1", lease("worker-1"), code(403), comes(thief))
			}
		}}},
		{"by somebody who renewed it for long, and does not any more", then, []string{thief}, "critical", []func(p *tale){silent, lives(-9*minute, -2*minute, thief), taken(60, thief)}},
		{"by IPv6, where no Node has any", then, []string{six}, "critical", []func(p *tale){silent, taken(60, six)}},
		{"by IPv6, while the kubelet is there", then, []string{six}, "critical", []func(p *tale){lives(-20*minute, hour, "10.0.0.1"), taken(60, six)}},
		{"while the kubelet is there", then, []string{thief}, "critical", []func(p *tale){lives(-20*minute, hour, "10.0.0.1"), taken(60, thief)}},
		{"with another address that he has claimed, too", then, []string{thief, "203.0.113.10"}, "critical", []func(p *tale){silent, taken(60, thief), taken(120, "203.0.113.10")}},
		{"by somebody who renews for two minutes", then, []string{thief}, "medium", []func(p *tale){silent, taken(60, thief), lives(55, 3*minute, thief)}},

		{"by a kubelet that moved", then, []string{thief}, "", []func(p *tale){silent, taken(60, thief), lives(50, hour, thief)}},
		{"by a kubelet that moved, whose Node gets it later", then + 3*minute, []string{thief}, "", []func(p *tale){silent, taken(20, thief), lives(10, hour, thief)}},
		{"by a kubelet that moved and stops after five minutes", then, []string{thief}, "", []func(p *tale){silent, taken(60, thief), lives(50, 7*minute, thief)}},
		{"by a kubelet that moved to IPv6", then, []string{six}, "", []func(p *tale){silent, taken(60, six), lives(50, hour, six)}},
		{"by a kubelet that starts slowly", then, []string{thief}, "", []func(p *tale){silent, taken(60, thief), lives(5*minute, hour, thief)}},
		{"by a kubelet of which the log has no renewals", then, []string{thief}, "", []func(p *tale){func(p *tale) {
			for s := 0; s < 20*minute; s += 30 {
				p.one(s, "worker-1", does("get nodes worker-1"), home)
			}
		}, taken(60, thief)}},
	} {
		p := &tale{}
		p.lives("worker-2", "10.0.0.2", 4, 3*hour)
		p.lives("worker-3", "10.0.0.3", 6, 3*hour)
		for _, play := range c.play {
			play(p)
		}
		w := &claiming{world: housed(3), since: c.claim, more: c.more}
		all := p.detects(t, nodeCredentialMisuse(), w)
		got := ""
		for _, said := range all {
			if severity, _, _ := strings.Cut(strings.TrimSpace(strings.TrimLeft(said, "0123456789:")), ":"); strings.Contains(said, "get secrets shop/db") && got != "critical" {
				got = severity
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q\n%s", c.name, got, c.want, strings.Join(all, "\n"))
		}
		if again := p.run(t, nodeCredentialMisuse(), w, nil, 1, true); !slices.Equal(again, all) {
			t.Errorf("%s, over a restart: got %q, want %q", c.name, again, all)
		}
	}
}

// A log that ends before it shows whether a kubelet lives at an address that its Node has just got says that of nobody who does so until then.
func TestClaimedAddressAtTheEnd(t *testing.T) {
	const claimed = "203.0.113.9"
	for _, c := range []struct {
		lives, more int // for how many seconds it renews the Lease, and the log continues
		want        string
	}{
		{20, 0, ""}, {60, 0, ""}, {3 * minute, 0, ""}, {9 * minute, 0, ""}, // a kubelet
		{0, 0, "medium"}, {0, 5 * minute, "medium"}, {1, 5 * minute, "medium"}, {60, 8 * minute, "medium"}, {1, 15 * minute, "critical"},
	} {
		p, end := &tale{}, 30*minute+c.lives+c.more+2
		p.lives("worker-1", "10.0.0.1", 2, 20*minute)
		p.lives("worker-2", "10.0.0.2", 4, end)
		p.lives("worker-3", "10.0.0.3", 6, end)
		p.taken(30*minute, "worker-1", claimed)
		p.lives("worker-1", claimed, 30*minute+1, 30*minute+1+c.lives)
		said := fmt.Sprint(p.detects(t, nodeCredentialMisuse(), &claiming{world: housed(3), since: 29 * minute, more: []string{claimed}}))
		if got := strings.Contains(said, c.want+": get secrets"); c.want == "" && strings.Contains(said, "get secrets") || c.want != "" && !got {
			t.Errorf("%d and %d seconds: want %q, got %s", c.lives, c.more, c.want, said)
		}
	}
}

// What is used while the kubelet is silent, and takes its place, is somebody else's all the same if he has written its address into the Node.
func TestClaimedAddressUsed(t *testing.T) {
	const thief = "203.0.113.9"
	for _, c := range []struct {
		name, want string
		play       func(p *tale)
	}{
		{"once", "was used from ", func(p *tale) { p.one(31*minute, "worker-1", does("list services"), comes(thief)) }},
		{"next to another one that is claimed", "was used from ", func(p *tale) {
			for s := 31 * minute; s < 40*minute; s += 20 {
				p.one(s, "worker-1", does("list services"), comes(thief))
				p.one(s+9, "worker-1", does("list services"), comes("203.0.113.10"))
			}
		}},
		{"in place of the kubelet, with some renewals", "is now used from", func(p *tale) {
			p.lives("worker-1", thief, 31*minute, 33*minute)
			for s := 33 * minute; s < 50*minute; s += 20 {
				p.one(s, "worker-1", does("list services"), comes(thief))
			}
		}},
		{"by a kubelet that moved", "", func(p *tale) { p.lives("worker-1", thief, 31*minute, hour) }},
	} {
		p := &tale{}
		p.lives("worker-2", "10.0.0.2", 4, hour)
		p.lives("worker-3", "10.0.0.3", 6, hour)
		p.lives("worker-1", "10.0.0.1", 2, 20*minute)
		c.play(p)
		said := strings.Join(p.detects(t, nodeCredentialMisuse(), &claiming{world: housed(3), since: 30 * minute, more: []string{thief, "203.0.113.10"}}), "\n")
		if c.want == "" && said != "" || !strings.Contains(said, c.want) {
			t.Errorf("%s: want %q, got %s", c.name, c.want, said)
		}
	}
}
