package nodeid

import (
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	f := func(username string, groups []string, node string, isNode bool) {
		t.Helper()
		if gotNode, got := Of(username, groups); gotNode != node || got != isNode {
			t.Errorf("%s %q: %q, %v, want %q, %v", username, groups, gotNode, got, node, isNode)
		}
	}
	nodes := []string{"system:authenticated", "system:nodes"}
	f("system:node:worker-1", nodes, "worker-1", true)
	f("system:node:", nodes, "", true)
	f("system:node:system:node:worker-1", nodes, "system:node:worker-1", true)
	f("system:node:worker-1", nodes[:1], "", false)
	f("system:node:worker-1", []string{"system:masters", "system:node", "System:Nodes"}, "", false)
	f("system:node:worker-1", nil, "", false)
	f("system:node", nodes, "", false)
	f("system:nodes:worker-1", nodes, "", false)
	f("System:node:worker-1", nodes, "", false)
	f("xsystem:node:worker-1", nodes, "", false)
	f("kubelet", nodes, "", false)
	f("", nodes, "", false)
}

func TestCanBeName(t *testing.T) {
	for _, s := range []string{"a", "worker-1", "ip-10-0-0-1.eu-west-1.compute.internal", "0", strings.Repeat("a", 253)} {
		if !CanBeName(s) {
			t.Errorf("%q is a node's name", s)
		}
	}
	for _, s := range []string{"", "A", "-a", "a-", "a.-b", "a-.b", "a..b", ".a", "a.", "a_b", "a b", "é", strings.Repeat("a", 254), "a\n"} {
		if CanBeName(s) {
			t.Errorf("%q is no node's name", s)
		}
	}
}

func TestResembles(t *testing.T) {
	for _, c := range []struct {
		username string
		groups   []string
		want     bool
	}{
		{"system:node:worker-1", []string{"system:nodes"}, true}, {"system:node:worker-1", nil, true}, {"system:node:", nil, true},
		{"kubelet", []string{"system:authenticated", "system:nodes"}, true}, {"system:nodes", nil, false}, {"jane", []string{"system:node:worker-1"}, false},
	} {
		if got := Resembles(c.username, c.groups); got != c.want {
			t.Errorf("%s in %q: %t", c.username, c.groups, got)
		}
	}
}
