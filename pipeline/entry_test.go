package pipeline

import "testing"

func TestSameReason(t *testing.T) {
	const node = "no relationship found between node 'a' and this object"
	for _, x := range []struct {
		observed, node string
		want           bool
	}{
		{node, node, true}, {"", "", true}, {node + "\nRBAC: role missing", node, true}, {"RBAC: role missing\n" + node, node, true},
		{"RBAC: role missing", "", true}, {"something", "", false}, {node + " too", node, false}, {"not " + node, node, false},
		{"", node, false}, {node, "", false}, {"rbac: RBAC: role missing", "", true}, {"webhook: no", "", false},
		{"node: " + node + "\nrbac: RBAC: role missing", "node: " + node, true}, {"node: " + node, node, false},
	} {
		if got := sameReason(x.observed, x.node); got != x.want {
			t.Errorf("sameReason(%q, %q) = %t", x.observed, x.node, got)
		}
	}
}
