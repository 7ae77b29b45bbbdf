package rules

import (
	"strings"
	"testing"
)

// Where the connections of a fleet are moved elsewhere for seconds, as a load balancer moves them that fails over and back, nobody has two addresses.
func TestDetour(t *testing.T) {
	const elsewhere = "192.0.2.9"
	from, to := 30*minute+20, 30*minute+46
	for _, c := range []struct {
		name   string
		moved  int  // how many nodes are moved
		stay   bool // while somebody else renews from there, the kubelets renew at home
		took   int  // when worker-1 takes a secret from there
		silent bool // the kubelets that are moved are silent afterwards
		quiet  bool
	}{
		{name: "all nodes", moved: 6, took: 30*minute + 32, quiet: true},
		{name: "two nodes", moved: 2, took: 30*minute + 32, quiet: true},
		{name: "one node", moved: 1, took: 30*minute + 32},
		{name: "somebody with two credentials", moved: 2, stay: true, took: 30*minute + 32},
		{name: "somebody who takes something before", moved: 6, took: 30*minute + 2},
		{name: "somebody who takes something after", moved: 6, took: 30*minute + 58},
		{name: "somebody who takes something in the next minute", moved: 6, took: 31*minute + 32},
		{name: "somebody who renews after the kubelets have stopped", moved: 2, took: 30*minute + 32, silent: true},
	} {
		p := &tale{}
		p.kubelets(6, 0, hour, 10, func(node, s int) bool {
			return node <= c.moved && (!c.stay && s >= from && s < to || c.silent && s >= from)
		}, home)
		p.kubelets(c.moved, from, to, 10, nil, comes(elsewhere))
		p.taken(c.took, "worker-1", elsewhere)
		found := p.detects(t, nodeCredentialMisuse(), housed(6))
		if quiet := len(found) == 0; quiet != c.quiet {
			t.Errorf("%s: %s", c.name, strings.Join(found, "\n"))
		}
	}
}
