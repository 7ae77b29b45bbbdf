package rules

import (
	"slices"
	"strings"
	"testing"
)

// A kubelet that was silent when the log began may come back long after somebody used its credential: where it lives then tells that he was somebody else.
func TestSecretTakenInLongSilence(t *testing.T) {
	const thief = "203.0.113.9"
	once := func(p *tale) { p.taken(3*minute, "worker-1", thief) }
	back := func(at int) func(p *tale) {
		return func(p *tale) { p.lives("worker-1", "10.0.0.1", at*minute, 3*hour) }
	}
	got := housed(3)
	got.sets["worker-1"] = [][]string{{"10.0.0.1"}, {thief}}
	for _, c := range []struct {
		name     string
		s        State
		severity string
		play     []func(p *tale)
	}{
		{"back after five minutes", housed(3), "critical", []func(p *tale){once, back(8)}},
		{"back after twelve minutes", housed(3), "critical", []func(p *tale){once, back(15)}},
		{"back after an hour", housed(3), "critical", []func(p *tale){once, back(65)}},
		{"back after two hours", housed(3), "critical", []func(p *tale){once, back(130)}},
		{"a second theft from there", housed(3), "critical", []func(p *tale){func(p *tale) {
			p.one(1*minute, "worker-1", does("get configmaps shop/web"), comes(thief))
			p.taken(20*minute, "worker-1", thief)
		}, back(65)}},
		{"never back", housed(3), "", []func(p *tale){once}},
		{"back for a moment", housed(3), "", []func(p *tale){once, func(p *tale) { p.one(65*minute, "worker-1", lease("worker-1"), home) }}},
		{"from an address that the Node gets", got, "", []func(p *tale){once, back(65)}},
		{"from the Node's address", housed(3), "", []func(p *tale){func(p *tale) { p.taken(3*minute, "worker-1", "10.0.0.1") }, back(65)}},
		{"behind a NAT, until it comes directly", housed(3), "", []func(p *tale){once, func(p *tale) { p.lives("worker-1", thief, minute, hour) }, back(75)}},
		{"behind a NAT with several addresses", housed(3), "", []func(p *tale){once, func(p *tale) { p.lives("worker-1", "203.0.113.10", 20*minute, hour) }, back(75)}},
		{"where nothing tells of the Node", nil, "", []func(p *tale){once, back(65)}},
	} {
		p := &tale{}
		p.lives("worker-2", "10.0.0.2", 4, 3*hour)
		p.lives("worker-3", "10.0.0.3", 6, 3*hour)
		for _, play := range c.play {
			play(p)
		}
		found := p.detects(t, nodeCredentialMisuse(), c.s)
		said := strings.Join(slices.DeleteFunc(slices.Clone(found), func(f string) bool { return !strings.Contains(f, "get secrets shop/db") }), "\n")
		if strings.Contains(said, "critical: ") != (c.severity == "critical") || c.severity == "" && said != "" {
			t.Errorf("%s: want %q\n%s", c.name, c.severity, strings.Join(found, "\n"))
		}
		if again := p.run(t, nodeCredentialMisuse(), c.s, nil, 1, true); !slices.Equal(again, found) {
			t.Errorf("%s, over a restart: got %q, want %q", c.name, again, found)
		}
	}
}

// The log has nothing of the kubelet, and the state says that the control plane heard nothing of it: it was somebody else.
func TestSecretTakenOfADeadNode(t *testing.T) {
	const thief, never = "203.0.113.9", 100 * hour
	for _, c := range []struct {
		name         string
		silent       [2]int // the node, in seconds
		took, lives  int    // when something is taken, and from when on Leases are renewed from there; 0: never
		from         string
		ends, known  int // the log and the state; 0: the state does not end
		want, listed string
	}{
		{"dead", [2]int{-hour, never}, 20 * minute, 0, thief, hour, 0, "critical", "medium"},
		{"dead, and somebody renews its Lease", [2]int{-hour, never}, 20 * minute, 20 * minute, thief, hour, 0, "critical", ""},
		{"dead, at the end of the log", [2]int{-hour, never}, 58 * minute, 0, thief, hour, 0, "critical", ""},
		{"dead, at the end of the state", [2]int{-hour, never}, 58 * minute, 0, thief, hour, hour, "medium", ""},
		{"after the end of the state", [2]int{-hour, never}, 20 * minute, 0, thief, hour, 10 * minute, "", ""},
		{"a kubelet starts behind a NAT", [2]int{-hour, 20*minute + 30}, 20 * minute, 20 * minute, thief, hour, 0, "", ""},
		{"a kubelet starts late behind a NAT", [2]int{-hour, 22 * minute}, 20 * minute, 20 * minute, thief, hour, 0, "", ""},
		{"a kubelet starts at the end of the log", [2]int{-hour, never}, 58 * minute, 58 * minute, thief, hour, 0, "", ""},
		{"dead from its own address", [2]int{-hour, never}, 20 * minute, 0, "10.0.0.1", hour, 0, "", ""},
		{"dead afterwards", [2]int{21 * minute, never}, 20 * minute, 0, thief, hour, 0, "", ""},
		{"alive, as far as is known", [2]int{-2 * hour, -hour}, 20 * minute, 0, thief, hour, 0, "", ""},
	} {
		p, w := &tale{}, housed(3)
		w.silent, w.until = map[string][2]int{"worker-1": c.silent}, c.known
		p.lives("worker-2", "10.0.0.2", 4, c.ends)
		p.lives("worker-3", "10.0.0.3", 6, c.ends)
		if c.lives != 0 {
			p.lives("worker-1", c.from, c.lives, c.ends)
		}
		p.taken(c.took, "worker-1", c.from)
		found := p.detects(t, nodeCredentialMisuse(), w)
		has := func(what string) bool {
			return slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, " "+what) })
		}
		const silent = "credential of node worker-1, which had been silent since "
		if c.want == "" && len(found) > 0 || c.want != "" && !has(c.want+": get secrets shop/db succeeded with the "+silent) || c.listed != "" && !has(c.listed+": the "+silent) {
			t.Errorf("%s: %s", c.name, strings.Join(found, "\n"))
		}
		if again := p.run(t, nodeCredentialMisuse(), w, nil, 1, true); !slices.Equal(again, found) {
			t.Errorf("%s, over a restart: got %q, want %q", c.name, again, found)
		}
	}
}
