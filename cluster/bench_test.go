package cluster

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// BenchmarkLoad loads the capture's journal, unpacked.
func BenchmarkLoad(b *testing.B) {
	packed, err := os.ReadFile("testdata/capture.jsonl.gz")
	if err != nil {
		b.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		b.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if err := NewState().Load([]string{"-"}, bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}

// comeAndGo is a journal of n pods of 5,000 nodes, one each millisecond. Each is seen when it is bound, runs from two seconds later on and is gone after a
// minute. It has what a usual pod has, and a secret and a claim of its own.
func comeAndGo(n int) io.Reader {
	r, w := io.Pipe()
	go func() {
		out := bufio.NewWriter(w)
		begin := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
		seen := func(i int, after time.Duration, verb, phase string) {
			if i < 0 || i >= n {
				return
			}
			bound := begin.Add(time.Duration(i) * time.Millisecond)
			app, id := i%3000, uint32(i)*2654435761 // no two have the same
			fmt.Fprintf(out, `{"object":{"apiVersion":"v1","kind":"Pod","metadata":{"creationTimestamp":%[1]q,"labels":{"app":"app-%[2]d","pod-template-hash":"7c9fd6b5d8"},`+
				`"name":"app-%[2]d-7c9fd6b5d8-%08[3]x","namespace":"ns-%[4]d","resourceVersion":"%[5]d","uid":"%08[3]x-1a2b-4000-8000-%012[6]x"},"spec":{"containers":[{"name":"c","env":`+
				`[{"name":"A","valueFrom":{"secretKeyRef":{"name":"app-%[2]d","key":"k"}}}]}],"imagePullSecrets":[{"name":"pull"}],"nodeName":"node-%[7]d","serviceAccountName":"app-%[2]d",`+
				`"volumes":[{"name":"v","secret":{"secretName":"tls-%[6]d"}},{"name":"d","persistentVolumeClaim":{"claimName":"data-%[6]d"}},{"name":"t","projected":{"sources":[`+
				`{"serviceAccountToken":{"path":"token"}},{"configMap":{"name":"kube-root-ca.crt"}}]}},{"name":"c","configMap":{"name":"app-%[2]d"}}]},"status":{"phase":%[8]q,`+
				`"conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":%[1]q}]}},"observedAt":%[9]q,"type":%[10]q}`+"\n",
				bound.Format(time.RFC3339), app, id, i%100, 3*i+int(after/time.Second), i, i%5000, phase, bound.Add(after).Format(time.RFC3339Nano), verb)
		}
		for i := range n + 60_000 {
			seen(i-60_000, time.Minute, "DELETED", "Running")
			seen(i-2000, 2*time.Second, "MODIFIED", "Running")
			seen(i, 0, "ADDED", "Pending")
		}
		_ = w.CloseWithError(out.Flush())
	}()
	return r
}

// loadPods loads such a journal, and returns how much memory the state takes, in bytes.
func loadPods(tb testing.TB, n int) float64 {
	tb.Helper()
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before, s := heap(), NewState()
	if err := s.Load([]string{"-"}, comeAndGo(n)); err != nil {
		tb.Fatal(err)
	}
	if got := s.Summary().Objects[kindPod.String()]; got != n {
		tb.Fatalf("%d pods, want %d", got, n)
	}
	size := heap() - before
	runtime.KeepAlive(s)
	return size
}

// BenchmarkMillionPods lets a million pods come and go and reports what the heap holds of them, none of which is forgotten.
func BenchmarkMillionPods(b *testing.B) {
	for range b.N {
		b.ReportMetric(loadPods(b, 1_000_000)/1e6, "MB")
	}
}

// TestMemoryOfPods bounds the memory of pods that have come and gone, in all that a state holds: 680 bytes of each, and
// 7.5 MB that do not grow with them: what is in progress, and the last maxAtOnce that had no time to end in.
func TestMemoryOfPods(t *testing.T) {
	n := effort.Of(200_000, 20_000)
	if size, most := loadPods(t, n), 680*float64(n)+7.5e6; size > most {
		t.Errorf("%d pods take %.1f MB, more than %.1f MB", n, size/1e6, most/1e6)
	} else {
		t.Logf("%d pods take %.1f MB", n, size/1e6)
	}
}
