package nodeadmission_test

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeadmission"
)

func moment(after time.Duration) nodeadmission.Moment {
	return nodeadmission.Moment{Time: epoch.Add(after)}
}

// evicted asks the plugin over a store who may evict the pod a/p. It puts what is said in few words.
func evicted(t testing.TB, s *nodeadmission.Store, skew, after time.Duration) string {
	t.Helper()
	got := plugin(t, "1.36.3", s.State(nil), skew).Decide(write("create", "", "pods", "eviction", "a", "p", "{}"), epoch.Add(after))
	return fmt.Sprintf("%v %d %s %t", got.Verdict, got.Code, got.Missing, got.Race)
}

// TestStore follows a pod from before the state began to after its end.
func TestStore(t *testing.T) {
	s := nodeadmission.NewStore()
	s.CoverFrom(nodeadmission.KindPod, epoch)
	n2, n1 := &nodeadmission.Pod{UID: "u", Node: "n2"}, &nodeadmission.Pod{UID: "v", Node: "n1"}
	// In no order, and some of it twice.
	s.SetPod("a", "p", nil, moment(40*time.Second))
	s.SetPod("a", "p", n2, moment(10*time.Second))
	s.SetPod("a", "p", n1, nodeadmission.Moment{Time: epoch.Add(20 * time.Second), Slop: 2 * time.Second})
	s.SetPod("a", "p", n1, moment(30*time.Second))
	s.SetPod("a", "p", n2, moment(12*time.Second))
	s.Uncovered(nodeadmission.KindPod, epoch.Add(50*time.Second), epoch.Add(60*time.Second))
	for _, c := range []struct {
		after time.Duration
		want  string
	}{
		{-time.Second, "unknown 0 pod false"},
		{0, "deny 404  false"},
		{10 * time.Second, "deny 403  true"},
		{15 * time.Second, "deny 403  false"},
		{20*time.Second - time.Millisecond, "deny 403  true"},
		{20 * time.Second, "allow 0  true"},
		{22*time.Second - 1, "allow 0  true"},
		{22*time.Second + 2*time.Millisecond, "allow 0  false"},
		{31 * time.Second, "allow 0  false"},
		{40 * time.Second, "deny 404  true"},
		{45 * time.Second, "deny 404  false"},
		{55 * time.Second, "unknown 0 pod false"},
		{60*time.Second + 1, "deny 404  false"},
	} {
		if got := evicted(t, s, time.Millisecond, c.after); got != c.want {
			t.Errorf("%v: %s, want %s", c.after, got, c.want)
		}
	}
	s.Prune(epoch.Add(25 * time.Second))
	for after, want := range map[time.Duration]string{10 * time.Second: "unknown 0 pod false", 26 * time.Second: "allow 0  false", 45 * time.Second: "deny 404  false"} {
		if got := evicted(t, s, time.Millisecond, after); got != want {
			t.Errorf("%v after pruning: %s, want %s", after, got, want)
		}
	}
	s.Prune(epoch.Add(2 * time.Minute))
	if got := evicted(t, s, 0, 3*time.Minute); got != "deny 404  false" {
		t.Errorf("after its end was forgotten: %s", got)
	}
}

// TestStoreMemory holds 150,000 pods of 5,000 nodes, and as many that came and went, within bounds.
func TestStoreMemory(t *testing.T) {
	pods := effort.Of(150_000, 30_000)
	churn := pods
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / 1e6
	}
	before := heap()
	s := nodeadmission.NewStore()
	for i := range pods {
		_, namespace, name := podOf(i)
		s.SetPod(namespace, name, bigPod(i), moment(0))
	}
	loaded := heap() - before
	for i := range churn {
		ns, name := "ns-"+strconv.Itoa(i%100), "gone-"+strconv.Itoa(i)+"-7c9fd6b5d8-x2x4z"
		at := time.Duration(i) * time.Millisecond
		s.SetPod(ns, name, bigPod(pods+i), moment(at))
		s.SetPod(ns, name, nil, moment(at+time.Minute))
	}
	gone := heap() - before
	s.Prune(epoch.Add(time.Hour))
	pruned := heap() - before
	t.Logf("%.0f MB for %d pods, %.0f MB after as many came and went, %.0f MB once they are forgotten", loaded, pods, gone, pruned)
	if each := float64(pods) / 150_000; loaded > 35*each || gone > 75*each || pruned > 45*each {
		t.Errorf("%.0f MB, %.0f MB, %.0f MB", loaded, gone, pruned)
	}
	runtime.KeepAlive(s)
}

// bigPod has what a usual pod has: the labels of its ReplicaSet and a token.
func bigPod(i int) *nodeadmission.Pod {
	app := "app-" + strconv.Itoa(i%3000)
	node, _, _ := podOf(i)
	return &nodeadmission.Pod{
		UID: fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i), Node: node, ServiceAccount: app,
		Labels: map[string]string{"app": app, "pod-template-hash": "7c9fd6b5d8"}, Uses: []nodeadmission.Use{{Kind: nodeadmission.UseAudience}},
	}
}

// BenchmarkStore looks up one pod of 150,000 after the other.
func BenchmarkStore(b *testing.B) {
	s := nodeadmission.NewStore()
	s.CoverFrom(nodeadmission.KindPod, epoch)
	for i := range benchPods {
		_, namespace, name := podOf(i)
		s.SetPod(namespace, name, bigPod(i), moment(0))
	}
	names := make([][2]string, 4096)
	for i := range names {
		_, names[i][0], names[i][1] = podOf(i * 36)
	}
	at := epoch.Add(time.Hour)
	b.ReportAllocs()
	b.ResetTimer()
	defer processorTime(b)()
	for i := range b.N {
		n := &names[i%len(names)]
		if p, _ := s.Pod(n[0], n[1], at); p == nil {
			b.Fatal("no pod")
		}
	}
}
