package nodeadmission_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
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

// Bodies such as kubelets send.
const (
	nodeStatus = `{"status":{"$setElementOrder/conditions":[{"type":"MemoryPressure"},{"type":"DiskPressure"},{"type":"PIDPressure"},{"type":"Ready"}],"conditions":[` +
		`{"lastHeartbeatTime":"2026-11-22T08:17:59Z","type":"MemoryPressure"},{"lastHeartbeatTime":"2026-11-22T08:17:59Z","type":"DiskPressure"},` +
		`{"lastHeartbeatTime":"2026-11-22T08:17:59Z","type":"PIDPressure"},{"lastHeartbeatTime":"2026-11-22T08:17:59Z","type":"Ready"}]}}`
	nodeLabels = `{"metadata":{"labels":{"beta.kubernetes.io/arch":"amd64","beta.kubernetes.io/os":"linux","kubernetes.io/arch":"amd64","kubernetes.io/hostname":"x",` +
		`"kubernetes.io/os":"linux","node.kubernetes.io/instance-type":"m5.large"}}}`
	podStatus = `{"metadata":{"uid":"8f2c7137-968f-4f7c-9148-d2e926fac1a3"},"status":{"$setElementOrder/conditions":[{"type":"Initialized"},{"type":"Ready"}],` +
		`"conditions":[{"lastTransitionTime":"2026-11-22T08:17:59Z","status":"True","type":"Ready"}],"phase":"Running","podIP":"10.0.0.7"}}`
	firstPodStatus = `{"metadata":{"uid":"8f2c7137-968f-4f7c-9148-d2e926fac1a3"},"status":{"$setElementOrder/conditions":[{"type":"PodReadyToStartContainers"},` +
		`{"type":"Initialized"},{"type":"Ready"},{"type":"ContainersReady"},{"type":"PodScheduled"}],"conditions":[` +
		`{"lastProbeTime":null,"lastTransitionTime":"2026-11-22T08:18:04Z","observedGeneration":1,"status":"False","type":"PodReadyToStartContainers"},` +
		`{"lastProbeTime":null,"lastTransitionTime":"2026-11-22T08:18:04Z","observedGeneration":1,"status":"True","type":"Initialized"},` +
		`{"lastProbeTime":null,"lastTransitionTime":"2026-11-22T08:18:04Z","observedGeneration":1,"status":"True","type":"Ready"},` +
		`{"lastProbeTime":null,"lastTransitionTime":"2026-11-22T08:18:04Z","observedGeneration":1,"status":"True","type":"ContainersReady"},` +
		`{"observedGeneration":1,"type":"PodScheduled"}],"containerStatuses":[{"image":"registry.example/app:1","imageID":"","lastState":{},"name":"c","ready":true,` +
		`"restartCount":0,"state":{"waiting":{"reason":"ContainerCreating"}}}],"hostIP":"192.0.2.2","hostIPs":[{"ip":"192.0.2.2"}],"observedGeneration":1,` +
		`"resources":{},"startTime":"2026-11-22T08:18:04Z"}}`
	tokenRequest = `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{},"spec":{"audiences":[""],"expirationSeconds":3607,"boundObjectRef":` +
		`{"kind":"Pod","apiVersion":"v1","name":%q,"uid":%q}},"status":{"token":"","expirationTimestamp":null}}`
	lease = `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"x","namespace":"kube-node-lease","uid":"8f2c7137-968f-4f7c-9148-d2e926fac1a3",` +
		`"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"x","uid":"1"}]},"spec":{"holderIdentity":"x","leaseDurationSeconds":40,"renewTime":"2026-11-22T08:18:04.000000Z"}}`
)

// kubeletWrites are the writes that kubelets make, by the number of a pod. A body is there at the level Request only.
func kubeletWrites(level string) map[string]func(i int) *nodeadmission.Request {
	body := func(text string) string {
		if level == "Metadata" {
			return ""
		}
		return text
	}
	own := func(verb, group, resource, subresource, namespace, text string) func(i int) *nodeadmission.Request {
		return func(i int) *nodeadmission.Request {
			node, _, _ := podOf(i)
			return write(verb, group, resource, subresource, namespace, node, body(text))
		}
	}
	pod := func(verb, subresource, text string) func(i int) *nodeadmission.Request {
		return func(i int) *nodeadmission.Request {
			_, namespace, name := podOf(i)
			return write(verb, "", "pods", subresource, namespace, name, body(text))
		}
	}
	return map[string]func(i int) *nodeadmission.Request{
		"update-leases":      own("update", "coordination.k8s.io", "leases", "", "kube-node-lease", lease),
		"update-csinodes":    own("update", "storage.k8s.io", "csinodes", "", "", `{"spec":{"drivers":[]}}`),
		"patch-nodes":        own("patch", "", "nodes", "", "", nodeLabels),
		"patch-nodes-status": own("patch", "", "nodes", "status", "", nodeStatus),
		"create-events": func(int) *nodeadmission.Request {
			return write("create", "", "events", "", "ns", "e", body(`{"reason":"Pulled"}`))
		},
		"delete-pods":             pod("delete", "", `{"gracePeriodSeconds":0}`),
		"patch-pods-status":       pod("patch", "status", podStatus),
		"patch-pods-status-first": pod("patch", "status", firstPodStatus),
		"create-serviceaccounts-token": func(i int) *nodeadmission.Request {
			_, namespace, name := podOf(i)
			return write("create", "", "serviceaccounts", "token", namespace, bigPod(i).ServiceAccount, body(fmt.Sprintf(tokenRequest, name, bigPod(i).UID)))
		},
	}
}

// BenchmarkWrite measures the decision of a node's write, which is the authorizer's and the plugin's answer, and that of a read, which is the
// authorizer's. The pods and Nodes are looked up in a store as large as the graph, and 4,096 requests in turn keep the caches cold. The ratio is of writes
// and reads in turn, 4,096 each. The pods are taken at random. In the order in which they were made ("as-made") what the graph has of them lies at equal
// distances, so that the processor fetches it ahead, for reads more than for writes; a log has its requests in no such order.
func BenchmarkWrite(b *testing.B) {
	auth, a := benchSides(b)
	random := rand.New(rand.NewPCG(15, 3)).Perm(benchPods)[:4096]
	made := make([]int, len(random))
	for i := range made {
		made[i] = i * 36
	}
	benchWrites(b, auth, a, random)
	b.Run("as-made", func(b *testing.B) { benchWrites(b, auth, a, made) })
}

// benchWrites is BenchmarkWrite for the given pods.
func benchWrites(b *testing.B, auth *nodeauthz.Authorizer, a *nodeadmission.Admission, pods []int) {
	b.Helper()
	at := epoch.Add(time.Hour)
	reads := make([]*authorizer.AttributesRecord, len(pods))
	for i, pod := range pods {
		_, namespace, _ := podOf(pod)
		reads[i] = &authorizer.AttributesRecord{
			User: benchUser(pod), Verb: "get", Resource: "secrets", Namespace: namespace, Name: "tls-" + strconv.Itoa(pod), APIVersion: "v1", ResourceRequest: true,
		}
		if got := auth.Decide(reads[i], at); got.Verdict != nodeauthz.Allow {
			b.Fatalf("%+v", got)
		}
	}
	read := func(i int) { auth.Decide(reads[i%len(reads)], at) }
	b.Run("read/get-secrets", func(b *testing.B) { each(b, read) })
	for _, level := range []string{"Metadata", "Request"} {
		kinds := kubeletWrites(level)
		for _, name := range slices.Sorted(maps.Keys(kinds)) {
			requests := make([]benchRequest, len(pods))
			for i, pod := range pods {
				r := kinds[name](pod)
				requests[i] = benchRequest{*r.Attributes.(*authorizer.AttributesRecord), r.Body}
				requests[i].attributes.User = benchUser(pod)
				requests[i].fill(r)
				got := a.Decide(r, at)
				if reads := nodeadmission.ReadsBody(r.Attributes.GetVerb(), r.Attributes.GetAPIGroup(), r.Attributes.GetResource(), r.Attributes.GetSubresource(), r.Name); got.Race ||
					got.Verdict != nodeadmission.Allow && (level == "Request" || !reads) || auth.Decide(r.Attributes, at).Verdict != nodeauthz.Allow {
					b.Fatalf("%s at level %s: %+v", name, level, got)
				}
			}
			var r nodeadmission.Request
			write := func(i int) {
				requests[i%len(requests)].fill(&r)
				auth.Decide(r.Attributes, at)
				a.Decide(&r, at)
			}
			b.Run("write/"+level+"/"+name, func(b *testing.B) { each(b, write) })
			b.Run("ratio/"+level+"/"+name, func(b *testing.B) {
				var used [2]int64
				for i := range b.N {
					for side, f := range []func(int){read, write} {
						before := usedTime(b)
						for k := range requests {
							f(i + k)
						}
						used[side] += usedTime(b) - before
					}
				}
				b.ReportMetric(float64(used[1])/float64(used[0]), "reads/write")
			})
		}
	}
}

// benchRequest is what an event has of a request. As in the pipeline, the request is made of it when it is decided.
type benchRequest struct {
	attributes authorizer.AttributesRecord
	body       []byte
}

func (q *benchRequest) fill(r *nodeadmission.Request) {
	*r = nodeadmission.Request{Attributes: &q.attributes, Name: q.attributes.Name, Body: q.body, Done: true}
	r.Node, r.IsNode = nodeauthz.NodeIdentity(q.attributes.User)
}

// benchSides are the authorizer and the plugin over 150,000 pods of 5,000 nodes.
func benchSides(b *testing.B) (*nodeauthz.Authorizer, *nodeadmission.Admission) {
	b.Helper()
	graph, store := nodeauthz.NewGraph(), nodeadmission.NewStore()
	graph.CoverFrom(epoch)
	store.CoverFrom(nodeadmission.KindPod, epoch)
	store.CoverFrom(nodeadmission.KindNode, epoch)
	nodeNames := make([]string, benchNodes)
	for i := range nodeNames {
		nodeNames[i], _, _ = podOf(i)
		store.SetNode(nodeNames[i], &nodeadmission.Node{UID: "u" + nodeNames[i], Labels: map[string]string{"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": "x"}}, moment(0))
	}
	for i := range benchPods {
		_, namespace, name := podOf(i)
		pod := bigPod(i)
		pod.Node = nodeNames[i%benchNodes] // as package cluster reads them: the pods of a node share its name
		graph.SetPod(&nodeauthz.Pod{Namespace: namespace, Name: name, NodeName: pod.Node, UID: pod.UID, ServiceAccountName: pod.ServiceAccount,
			Secrets: []string{"tls-" + strconv.Itoa(i)}}, nodeauthz.Stamp{Time: epoch, Source: nodeauthz.SourceWatch})
		store.SetPod(namespace, name, pod, moment(0))
	}
	features, err := nodeauthz.FeaturesFor("1.36")
	if err != nil {
		b.Fatal(err)
	}
	return nodeauthz.NewAuthorizer(graph, features, time.Second), plugin(b, "1.36.3", store.State(nil), time.Second)
}

func benchUser(i int) user.Info {
	node, _, _ := podOf(i)
	return &user.DefaultInfo{Name: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}}
}

func each(b *testing.B, f func(i int)) {
	b.Helper()
	b.ReportAllocs()
	defer processorTime(b)()
	for i := range b.N {
		f(i)
	}
}

// usedTime is the time on a processor so far, in nanoseconds.
func usedTime(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// processorTime reports the time on a processor for each operation, which other work on the machine hardly changes.
func processorTime(b *testing.B) func() {
	b.Helper()
	before := usedTime(b)
	return func() { b.ReportMetric(float64(usedTime(b)-before)/float64(b.N), "cpu-ns/op") }
}
