package conformance

import (
	"flag"
	"fmt"
	"runtime"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

var speed = flag.Bool("speed", false, "measure the speed of both sides")

// TestSpeed measures a decision of both sides, side by side over one cluster of the size of upstream's benchmark, and the same with
// a writer. It asserts no time: the page has the figures.
func TestSpeed(t *testing.T) {
	if !*speed {
		return
	}
	w := bigWorld(t)
	for _, writer := range []bool{false, true} {
		stop := func() {}
		prefix := ""
		if writer {
			prefix, stop = "with a writer: ", w.write()
		}
		for _, c := range speedCases() {
			q := c.request
			q.Groups = []string{"system:nodes"}
			theirs, ours := w.measure(t, &q, c.allow)
			t.Logf("%-60s %9.0f %9.0f %6.1f", prefix+c.name, theirs, ours, theirs/ours)
			result.Speed = append(result.Speed, SpeedCase{prefix + c.name, theirs, ours})
		}
		stop()
	}
}

type speedCase struct {
	name    string
	request Request
	allow   bool
}

func speedCases() []speedCase {
	get := func(name, group, resource, ns, object string, allow bool) speedCase {
		return speedCase{name, Request{User: "system:node:node0", Verb: "get", APIGroup: group, Resource: resource, Namespace: ns, Name: object}, allow}
	}
	cases := []speedCase{
		get("allowed configmap", "", "configmaps", "ns0", "configmap-pod0-node0", true),
		get("allowed secret via pod", "", "secrets", "ns0", "secret-pod0-node0", true),
		get("allowed shared secret via pod", "", "secrets", "ns0", "shared", true),
		get("allowed secret via volume", "", "secrets", "ns0", "secret-of-pv-pod0-node0", true),
		get("allowed claim", "", "persistentvolumeclaims", "ns0", "pvc-pod0-node0", true),
		get("allowed volume", "", "persistentvolumes", "", "pv-pod0-node0", true),
		get("allowed attachment", "storage.k8s.io", "volumeattachments", "", "attachment0-node0", true),
		get("allowed pod", "", "pods", "ns0", "pod0-node0", true),
		get("denied configmap", "", "configmaps", "ns0", "configmap-pod0-node1", false),
		get("denied secret via pod", "", "secrets", "ns0", "secret-pod0-node1", false),
		get("denied secret via volume", "", "secrets", "ns0", "secret-of-pv-pod0-node1", false),
		get("denied claim", "", "persistentvolumeclaims", "ns0", "pvc-pod0-node1", false),
		get("denied volume", "", "persistentvolumes", "", "pv-pod0-node1", false),
		get("denied attachment", "storage.k8s.io", "volumeattachments", "", "attachment0-node1", false),
		get("denied configmap of 5,000 nodes' pods", "", "configmaps", "crowd", "everyone", false),
		get("denied secret of 5,000 nodes' pods", "", "secrets", "crowd", "everyone", false),
		get("static allow", "", "services", "", "", true),
	}
	cases[len(cases)-1].request.Verb = "list"
	return cases
}

// bigWorld is upstream's benchmark cluster, 500 nodes with 200 pods each, and 5,000 nodes more whose pods share a configmap.
func bigWorld(t *testing.T) *speedWorld {
	t.Helper()
	f, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	w := &speedWorld{up: newUpstream(), graph: nodeauthz.NewGraph(), at: nodeauthz.Stamp{Time: epoch(), Source: nodeauthz.SourceWatch}}
	w.graph.CoverFrom(epoch())
	w.ours = nodeauthz.NewAuthorizer(w.graph, f, time.Second)
	const nodes, podsPerNode, crowd = 500, 200, 5000
	for n := range nodes {
		node := "node" + strconv.Itoa(n)
		for p := range podsPerNode {
			w.pod(samplePod("ns"+strconv.Itoa(p), fmt.Sprintf("pod%d-%s", p, node), node))
			w.volume(p, node)
		}
		for a := range 20 {
			o := &OnNode{Name: fmt.Sprintf("attachment%d-%s", a, node), Node: node}
			w.up.attachments.set(nil, attachmentObject(o))
			w.graph.SetVolumeAttachment(o.Name, "", node, w.at)
		}
	}
	for n := range crowd {
		p := secretPod("crowd", "crowd-"+strconv.Itoa(n), "crowd-"+strconv.Itoa(n), "everyone")
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "everyone"}}}})
		w.pod(p)
	}
	return w
}

type speedWorld struct {
	up    *upstream
	graph *nodeauthz.Graph
	ours  *nodeauthz.Authorizer
	at    nodeauthz.Stamp
}

func (w *speedWorld) pod(p *corev1.Pod) {
	w.up.pods.set(nil, p)
	mine := nodeauthz.PodOf(p, nodeauthz.PodClaims{})
	w.graph.SetPod(&mine, w.at)
}

func (w *speedWorld) volume(p int, node string) {
	pod := fmt.Sprintf("pod%d-%s", p, node)
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + pod}}
	pv.Spec.FlexVolume = &corev1.FlexPersistentVolumeSource{SecretRef: &corev1.SecretReference{Name: "secret-of-pv-" + pod}}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns" + strconv.Itoa(p), Name: "pvc-" + pod}
	w.up.volumes.set(nil, pv)
	mine := nodeauthz.PersistentVolumeOf(pv)
	w.graph.SetPersistentVolume(&mine, w.at)
}

// write replaces a pod a hundred times a second on both sides.
func (w *speedWorld) write() (stop func()) {
	var wg sync.WaitGroup
	var done atomic.Bool
	wg.Go(func() {
		at := w.at
		for i := 0; !done.Load(); i++ {
			p := samplePod("ns0", "written", "node0")
			p.UID = types.UID(strconv.Itoa(i))
			w.up.pods.set(nil, p)
			mine := nodeauthz.PodOf(p, nodeauthz.PodClaims{})
			at.Time = at.Time.Add(time.Millisecond)
			w.graph.SetPod(&mine, at)
			if i%100 == 0 {
				w.graph.Prune(at.Time.Add(-time.Minute))
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	return func() { done.Store(true); wg.Wait() }
}

// measure gives the lower quartile of sixteen rounds in which the two sides take turns: what else the machine does makes rounds
// slower, never faster.
func (w *speedWorld) measure(t *testing.T, q *Request, allow bool) (theirs, ours float64) {
	t.Helper()
	a := q.Attributes()
	now := epoch().Add(time.Hour)
	if w.up.ask(a).allowed != allow || (w.ours.Decide(a, now).Verdict == nodeauthz.Allow) != allow {
		t.Errorf("%s: not %t", q.String(), allow)
	}
	var up, us []float64
	for range 16 {
		up = append(up, perCall(func() { w.up.ask(a) }))
		us = append(us, perCall(func() { w.ours.Decide(a, now) }))
	}
	sort.Float64s(up)
	sort.Float64s(us)
	return up[len(up)/4], us[len(us)/4]
}

// perCall runs f on all processors for about ten milliseconds and returns nanoseconds a call and processor.
func perCall(f func()) float64 {
	var calls atomic.Int64
	var wg sync.WaitGroup
	n := runtime.GOMAXPROCS(0)
	begin := time.Now()
	for range n {
		wg.Go(func() {
			done := int64(0)
			for time.Since(begin) < 10*time.Millisecond {
				for range 64 {
					f()
				}
				done += 64
			}
			calls.Add(done)
		})
	}
	wg.Wait()
	return float64(time.Since(begin).Nanoseconds()) * float64(n) / float64(calls.Load())
}
