package nodeauthz

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

var epoch = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)

func watched(t time.Time) Stamp { return Stamp{Time: t, Source: SourceWatch} }

// bigPod has what a usual pod has: a token, a certificate bundle, a secret and a configmap of its application, one of its own.
func bigPod(i, nodes int) *Pod {
	ns := "ns-" + strconv.Itoa(i%100)
	app := "app-" + strconv.Itoa(i%3000)
	return &Pod{
		Namespace: ns, Name: "pod-" + strconv.Itoa(i) + "-7c9fd6b5d8-x2x4z", NodeName: "node-" + strconv.Itoa(i%nodes),
		UID:                    fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i),
		ServiceAccountName:     app,
		Secrets:                []string{app, "pull", "tls-" + strconv.Itoa(i)},
		ConfigMaps:             []string{"kube-root-ca.crt", app},
		PersistentVolumeClaims: []string{"data-" + strconv.Itoa(i)},
	}
}

func bigGraph(nodes, pods int) *Graph {
	g := NewGraph()
	g.CoverFrom(epoch)
	for i := range pods {
		g.SetPod(bigPod(i, nodes), watched(epoch))
	}
	for i := range pods / 10 {
		n := strconv.Itoa(i * 10)
		g.SetPersistentVolume(&PersistentVolume{Name: "pv-" + n, UID: "u" + n,
			Claim:   &NamespacedName{Namespace: "ns-" + strconv.Itoa(i*10%100), Name: "data-" + n},
			Secrets: []NamespacedName{{Namespace: "storage", Name: "csi"}}}, watched(epoch))
	}
	return g
}

func request(node, verb, resource, namespace, name string) *authorizer.AttributesRecord {
	return &authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}},
		Verb: verb, Resource: resource, Namespace: namespace, Name: name, APIVersion: "v1", ResourceRequest: true,
	}
}

// BenchmarkDecide is one decision at 5,000 nodes with 30 pods each.
func BenchmarkDecide(b *testing.B) {
	const nodes, pods = 5000, 150_000
	f, _ := FeaturesFor("")
	a := NewAuthorizer(bigGraph(nodes, pods), f, time.Second)
	at := epoch.Add(time.Hour)
	cases := []struct {
		name  string
		allow bool
		req   func(i int) *authorizer.AttributesRecord
	}{
		{"allow/secret-of-one-pod", true, func(i int) *authorizer.AttributesRecord {
			p := bigPod(i, nodes)
			return request(p.NodeName, "get", "secrets", p.Namespace, p.Secrets[2])
		}},
		{"allow/shared-secret", true, func(i int) *authorizer.AttributesRecord {
			p := bigPod(i, nodes)
			return request(p.NodeName, "get", "secrets", p.Namespace, "pull")
		}},
		{"allow/configmap", true, func(i int) *authorizer.AttributesRecord {
			p := bigPod(i, nodes)
			return request(p.NodeName, "watch", "configmaps", p.Namespace, "kube-root-ca.crt")
		}},
		{"allow/pod", true, func(i int) *authorizer.AttributesRecord {
			p := bigPod(i, nodes)
			return request(p.NodeName, "get", "pods", p.Namespace, p.Name)
		}},
		{"allow/pvc", true, func(i int) *authorizer.AttributesRecord {
			p := bigPod(i, nodes)
			return request(p.NodeName, "get", "persistentvolumeclaims", p.Namespace, p.PersistentVolumeClaims[0])
		}},
		{"allow/pv", true, func(i int) *authorizer.AttributesRecord {
			i = i / 10 * 10
			return request(bigPod(i, nodes).NodeName, "get", "persistentvolumes", "", "pv-"+strconv.Itoa(i))
		}},
		{"allow/static", true, func(i int) *authorizer.AttributesRecord {
			return request(bigPod(i, nodes).NodeName, "patch", "nodes", "", "")
		}},
		{"deny/secret-of-another", false, func(i int) *authorizer.AttributesRecord {
			p := bigPod(i, nodes)
			return request(bigPod(i+1, nodes).NodeName, "get", "secrets", p.Namespace, p.Secrets[2])
		}},
		{"deny/unknown-secret", false, func(i int) *authorizer.AttributesRecord {
			return request(bigPod(i, nodes).NodeName, "get", "secrets", "ns-1", "none-"+strconv.Itoa(i))
		}},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			reqs := make([]*authorizer.AttributesRecord, 4096)
			for i := range reqs {
				reqs[i] = c.req(i * 36)
				if got := a.Decide(reqs[i], at); (got.Verdict == Allow) != c.allow || got.Race {
					b.Fatalf("%+v: %+v", reqs[i], got)
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				a.Decide(reqs[i%len(reqs)], at)
			}
		})
	}
}

// BenchmarkLoad loads the pods of 5,000 nodes, then lets a further million come and go, and reports what the heap holds.
func BenchmarkLoad(b *testing.B) {
	const nodes, pods, churn = 5000, 150_000, 1_000_000
	for range b.N {
		before := heapInUse()
		g := bigGraph(nodes, pods)
		b.ReportMetric(float64(heapInUse()-before)/1e6, "MB-loaded")
		for i := range churn {
			p := bigPod(pods+i, nodes)
			t := epoch.Add(time.Duration(i) * time.Millisecond)
			g.SetPod(p, watched(t))
			g.DeletePod(p.Namespace, p.Name, p.UID, watched(t.Add(time.Minute)))
		}
		b.ReportMetric(float64(heapInUse()-before)/1e6, "MB-with-churn")
		g.Prune(epoch.Add(24 * time.Hour))
		b.ReportMetric(float64(heapInUse()-before)/1e6, "MB-pruned")
		runtime.KeepAlive(g)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkReachedBy asks what one of 5,000 nodes with 30 pods each reaches.
func BenchmarkReachedBy(b *testing.B) {
	g := bigGraph(5000, 150_000)
	b.ReportAllocs()
	for b.Loop() {
		if objects, _ := newest(g).ReachedBy("node-42", time.Time{}, time.Time{}); len(objects) == 0 {
			b.Fatal("nothing is reached")
		}
	}
}
