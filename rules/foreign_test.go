package rules

import "testing"

func TestForeignWrite(t *testing.T) {
	rule := foreignNodeWrite()
	w := &world{
		pods: map[string]string{"shop/mine": "worker-1", "shop/yours": "worker-2", "shop/moved": "worker-2"},
		left: map[string]string{"shop/moved": "worker-1"},
	}
	var s State = w
	f := func(name, want string, changes ...with) {
		t.Helper()
		if got := check(t, rule, s, nil, request(changes...)); got != want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
	body := func(name string) with { return func(r *Request) { r.Event.ObjectRef.Name = name } }
	const through = " by node worker-1 went through: NodeRestriction is not in force"

	f("its Node", "", does("patch nodes worker-1"), byRBAC(200))
	f("another Node", "critical: patch nodes worker-2"+through, does("patch nodes worker-2"), byRBAC(200))
	f("another Node, refused", "high: patch nodes worker-2 by node worker-1 was refused", does("patch nodes worker-2"))
	f("another Node, refused by admission", "high: patch nodes worker-2 by node worker-1 was refused by admission", does("patch nodes worker-2"), byRBAC(403))
	f("another Node, gone", "high: delete nodes worker-2 by node worker-1 passed authorization and failed with code 404",
		does("delete nodes worker-2"), byRBAC(404))
	f("another Node's status", "critical: patch nodes/status worker-2"+through, does("patch nodes/status worker-2"), byRBAC(200))
	f("the same name in another case", "critical: update nodes Worker-1"+through, does("update nodes Worker-1"), byRBAC(200))
	f("a Node is made", "critical: create nodes worker-2"+through, does("create nodes"), body("worker-2"), byRBAC(201))
	f("its Node is made", "", does("create nodes"), body("worker-1"), byRBAC(201))
	f("a Node is made, and the log has no name", "", does("create nodes"), byRBAC(201))
	f("all Nodes are deleted", "critical: deletecollection all nodes"+through, does("deletecollection nodes"), byRBAC(200))
	f("another Node is read", "", does("get nodes worker-2"), byRBAC(200))

	f("its Lease", "", does("update leases.coordination.k8s.io kube-node-lease/worker-1"), byRBAC(200))
	f("another's Lease", "critical: update leases.coordination.k8s.io kube-node-lease/worker-2"+through,
		does("update leases.coordination.k8s.io kube-node-lease/worker-2"), byRBAC(200))
	f("a Lease that is no node's", "", does("update leases.coordination.k8s.io kube-system/leader"), byRBAC(200))
	f("its CSINode", "", does("create csinodes.storage.k8s.io"), body("worker-1"), byRBAC(201))
	f("another's CSINode", "high: patch csinodes.storage.k8s.io worker-2 by node worker-1 was refused", does("patch csinodes.storage.k8s.io worker-2"))
	f("nodes of another group", "", does("patch nodes.metrics.k8s.io worker-2"), byRBAC(200))

	f("its pod", "", does("patch pods/status shop/mine"), byRBAC(200))
	f("another's pod", "critical: patch pods/status shop/yours"+through, does("patch pods/status shop/yours"), byRBAC(200))
	f("another's pod is deleted", "high: delete pods shop/yours by node worker-1 was refused", does("delete pods shop/yours"))
	f("another's pod is evicted", "critical: create pods/eviction shop/yours"+through, does("create pods/eviction shop/yours"), byRBAC(201))
	f("its pod is evicted", "", does("create pods/eviction shop/mine"), byRBAC(201))
	f("a pod that has just left", "", does("patch pods/status shop/moved"), byRBAC(200))
	f("a pod that no node has", "", does("patch pods/status shop/gone"), byRBAC(404))
	f("another's pod is read", "", does("get pods shop/yours"), byRBAC(200))
	f("a mirror pod is made", "", does("create pods shop/"), body("yours"), byRBAC(201))
	f("a program in another's pod", "", does("create pods/exec shop/yours"), byRBAC(101))

	f("not a node", "", as("admin", "system:masters"), does("patch nodes worker-2"), byRBAC(200))
	f("no node's name", "", as("system:node:", "system:nodes"), does("patch nodes worker-2"), byRBAC(200))
	f("a path", "", does("patch nodes worker-2"), path("/api/v1"))

	w.blind = true
	f("the state does not cover the pod", "", does("patch pods/status shop/yours"), byRBAC(200))
	s = nil
	f("there is no state", "", does("patch pods/status shop/yours"), byRBAC(200))
	f("a Node needs none", "critical: patch nodes worker-2"+through, does("patch nodes worker-2"), byRBAC(200))
}
