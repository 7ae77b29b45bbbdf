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
