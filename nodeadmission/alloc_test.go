package nodeadmission_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/nodeadmission"
)

// Over a Store an answer allow that needs no body allocates nothing, nor does one to a patch of a status as kubelets send it.
func TestStoreAllocatesNothing(t *testing.T) {
	const node = "n1"
	store := nodeadmission.NewStore()
	for _, k := range []nodeadmission.Kind{nodeadmission.KindPod, nodeadmission.KindNode, nodeadmission.KindSlice} {
		store.CoverFrom(k, epoch)
	}
	slice := string(node)
	store.SetSlice("s", &slice, moment(0))
	store.SetNode(node, &nodeadmission.Node{UID: "u"}, moment(0))
	store.SetPod("ns", "once", &nodeadmission.Pod{UID: "u", Node: node, Uses: []nodeadmission.Use{{Kind: nodeadmission.UseAudience}}}, moment(0))
	for i := range 3 { // a pod with several versions, which lie elsewhere
		store.SetPod("ns", "often", &nodeadmission.Pod{UID: "u", Node: node, Labels: map[string]string{"a": string(rune('a' + i))}}, moment(time.Duration(i)*time.Second))
	}
	a := plugin(t, "1.36.3", store.State(nil), time.Second)
	at := epoch.Add(time.Hour)
	for name, r := range map[string]*nodeadmission.Request{
		"lease":          write("update", "coordination.k8s.io", "leases", "", "kube-node-lease", node, ""),
		"CSINode":        write("create", "storage.k8s.io", "csinodes", "", "", node, ""),
		"event":          write("create", "", "events", "", "ns", "e", ""),
		"own Node":       write("delete", "", "nodes", "", "", node, ""),
		"pod":            write("delete", "", "pods", "", "ns", "once", ""),
		"changed pod":    write("delete", "", "pods", "", "ns", "often", ""),
		"eviction":       write("create", "", "pods", "eviction", "ns", "once", ""),
		"resource slice": write("delete", "resource.k8s.io", "resourceslices", "", "", "s", ""),
		"pod's status":   write("patch", "", "pods", "status", "ns", "often", podStatus),
		"token":          write("create", "", "serviceaccounts", "token", "ns", "sa", fmt.Sprintf(tokenRequest, "once", "u")),
		"Node's status":  write("patch", "", "nodes", "status", "", node, nodeStatus),
	} {
		if got := a.Decide(r, at); got.Verdict != nodeadmission.Allow || got.Race {
			t.Errorf("%s: %+v", name, got)
		}
		if n := testing.AllocsPerRun(100, func() { a.Decide(r, at) }); n != 0 {
			t.Errorf("%s: %g allocations", name, n)
		}
	}
}
