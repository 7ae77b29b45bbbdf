package nodeadmission_test

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

const (
	benchNodes = 5000
	benchPods  = 150_000
)

func podOf(i int) (node, namespace, name string) {
	return "node-" + strconv.Itoa(i%benchNodes), "ns-" + strconv.Itoa(i%100), "pod-" + strconv.Itoa(i) + "-7c9fd6b5d8-x2x4z"
}

// nodeStatus and podStatus are patches such as kubelets send.
const (
	nodeStatus = `{"status":{"$setElementOrder/conditions":[{"type":"MemoryPressure"},{"type":"DiskPressure"},{"type":"PIDPressure"},{"type":"Ready"}],"conditions":[` +
		`{"lastHeartbeatTime":"2026-11-22T08:17:59Z","type":"MemoryPressure"},{"lastHeartbeatTime":"2026-11-22T08:17:59Z","type":"DiskPressure"},` +
		`{"lastHeartbeatTime":"2026-11-22T08:17:59Z","type":"PIDPressure"},{"lastHeartbeatTime":"2026-11-22T08:17:59Z","type":"Ready"}]}}`
	podStatus = `{"metadata":{"uid":"8f2c7137-968f-4f7c-9148-d2e926fac1a3"},"status":{"$setElementOrder/conditions":[{"type":"Initialized"},{"type":"Ready"}],` +
		`"conditions":[{"lastTransitionTime":"2026-11-22T08:17:59Z","status":"True","type":"Ready"}],"phase":"Running","podIP":"10.0.0.7"}}`
)

// BenchmarkWrite measures one answer to a write that is allowed, and in the same run nodeauthz's decision of the same write and of a read. A write
// costs both of its own. The pods and Nodes are looked up in a store as large as the graph, and 4,096 requests in turn keep the caches cold.
func BenchmarkWrite(b *testing.B) {
	graph, store := nodeauthz.NewGraph(), nodeadmission.NewStore()
	graph.CoverFrom(epoch)
	store.CoverFrom(nodeadmission.KindPod, epoch)
	store.CoverFrom(nodeadmission.KindNode, epoch)
	for i := range benchNodes {
		node, _, _ := podOf(i)
		store.SetNode(node, &nodeadmission.Node{UID: "u" + node}, moment(0))
	}
	nodeNames := make([]string, benchNodes)
	for i := range benchPods {
		node, namespace, name := podOf(i)
		graph.SetPod(&nodeauthz.Pod{Namespace: namespace, Name: name, NodeName: node, UID: "u" + name, Secrets: []string{"tls-" + strconv.Itoa(i)}},
			nodeauthz.Stamp{Time: epoch, Source: nodeauthz.SourceWatch})
		pod := bigPod(i)
		if i < benchNodes {
			nodeNames[i] = pod.Node
		}
		pod.Node = nodeNames[i%benchNodes] // as package cluster reads them: the pods of a node share its name
		store.SetPod(namespace, name, pod, moment(0))
	}
	features, err := nodeauthz.FeaturesFor("1.36")
	if err != nil {
		b.Fatal(err)
	}
	auth := nodeauthz.NewAuthorizer(graph, features, time.Second)
	a := plugin(b, "1.36.3", store.State(nil), time.Second)
	at := epoch.Add(time.Hour)
	for _, kind := range []struct {
		name string
		of   func(i int) *nodeadmission.Request
	}{
		{"lease", func(i int) *nodeadmission.Request {
			node, _, _ := podOf(i)
			return write("update", "coordination.k8s.io", "leases", "", "kube-node-lease", node, "")
		}},
		{"event", func(int) *nodeadmission.Request { return write("create", "", "events", "", "ns", "e", "") }},
		{"delete-pod", func(i int) *nodeadmission.Request {
			_, namespace, name := podOf(i)
			return write("delete", "", "pods", "", namespace, name, "")
		}},
		{"pod-status-metadata", func(i int) *nodeadmission.Request {
			_, namespace, name := podOf(i)
			return write("patch", "", "pods", "status", namespace, name, "")
		}},
		{"pod-status-body", func(i int) *nodeadmission.Request {
			_, namespace, name := podOf(i)
			return write("patch", "", "pods", "status", namespace, name, podStatus)
		}},
		{"node-status-body", func(i int) *nodeadmission.Request {
			node, _, _ := podOf(i)
			return write("patch", "", "nodes", "status", "", node, nodeStatus)
		}},
	} {
		requests := make([]*nodeadmission.Request, 4096)
		for i := range requests {
			requests[i] = kind.of(i * 36)
			requests[i].Node, _, _ = podOf(i * 36)
			attrs := requests[i].Attributes.(*authorizer.AttributesRecord)
			attrs.User = &user.DefaultInfo{Name: "system:node:" + requests[i].Node, Groups: []string{"system:nodes", "system:authenticated"}}
			if got := a.Decide(requests[i], at); got.Verdict == nodeadmission.Deny || got.Race {
				b.Fatalf("%s: %+v", kind.name, got)
			}
		}
		b.Run("admission/"+kind.name, func(b *testing.B) {
			b.ReportAllocs()
			defer processorTime(b)()
			for i := range b.N {
				a.Decide(requests[i%len(requests)], at)
			}
		})
		b.Run("authorization/"+kind.name, func(b *testing.B) {
			b.ReportAllocs()
			defer processorTime(b)()
			for i := range b.N {
				auth.Decide(requests[i%len(requests)].Attributes, at)
			}
		})
	}
	b.Run("read/secret", func(b *testing.B) {
		reads := make([]*authorizer.AttributesRecord, 4096)
		for i := range reads {
			node, namespace, _ := podOf(i * 36)
			reads[i] = &authorizer.AttributesRecord{
				User: &user.DefaultInfo{Name: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}},
				Verb: "get", Resource: "secrets", Namespace: namespace, Name: "tls-" + strconv.Itoa(i*36), APIVersion: "v1", ResourceRequest: true,
			}
			if got := auth.Decide(reads[i], at); got.Verdict != nodeauthz.Allow {
				b.Fatalf("%+v", got)
			}
		}
		b.ReportAllocs()
		b.ResetTimer()
		defer processorTime(b)()
		for i := range b.N {
			auth.Decide(reads[i%len(reads)], at)
		}
	})
}

// processorTime reports the time on a processor for each operation, which other work on the machine hardly changes.
func processorTime(b *testing.B) func() {
	b.Helper()
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}
