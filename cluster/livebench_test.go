package cluster

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/client-go/rest"
)

// manyPods serves so many pods of about 8 kB, and nothing else.
func manyPods(tb testing.TB, n int) *httptest.Server {
	env := strings.Repeat(`{"name":"VARIABLE_OF_SOME_LENGTH","value":"and a value that is longer than its name"},`, 40)
	managed := strings.Repeat(`{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-11-21T05:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{}},"f:ownerReferences":{".":{}}}}},`, 12)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case r.URL.Path != podsPath:
			status(w, 404, "NotFound")
		case q.Get("watch") != "":
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			w.Header().Set("Content-Type", "application/json")
			from, _ := strconv.Atoi(q.Get("continue"))
			limit, _ := strconv.Atoi(q.Get("limit"))
			to, next := min(from+limit, n), ""
			if to < n {
				next = strconv.Itoa(to)
			}
			_, _ = fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":%q},"items":[`, next)
			for i := from; i < to; i++ {
				if i > from {
					_, _ = w.Write([]byte{','})
				}
				_, _ = fmt.Fprintf(w, `{"metadata":{"name":"web-%d-7c9fd6b5d8-x2x4z","namespace":"ns-%d","uid":"%08x-0000-4000-8000-%012x","resourceVersion":"%d","creationTimestamp":"2026-11-21T05:00:00Z","managedFields":[%s{"manager":"m"}]},`+
					`"spec":{"nodeName":"node-%d","serviceAccountName":"app-%d","containers":[{"name":"c","image":"registry.example.com/app:1","env":[%s{"name":"T","valueFrom":{"secretKeyRef":{"name":"app-%d","key":"k"}}}]}],`+
					`"volumes":[{"name":"a","secret":{"secretName":"tls-%d"}},{"name":"b","configMap":{"name":"kube-root-ca.crt"}},{"name":"d","persistentVolumeClaim":{"claimName":"data-%d"}}]},`+
					`"status":{"phase":"Running","conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-11-21T05:00:00Z"}]}}`,
					i, i%100, i, i, i+1, managed, i%5000, i%3000, env, i%3000, i, i)
			}
			_, _ = w.Write([]byte("]}"))
		}
	}))
	tb.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// firstSync lists n pods and returns how much memory was in use at most, and is kept, in bytes.
func firstSync(tb testing.TB, n int) (most, kept uint64) {
	s := manyPods(tb, n)
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	state := NewState()
	live, err := NewLive(LiveConfig{Record: RecordConfig{Config: &rest.Config{Host: s.URL}}, Dir: tb.TempDir()}, state, zerolog.Nop())
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); live.Run(ctx) }()
	var stats runtime.MemStats
	peak := uint64(0)
	for !live.Synced() {
		runtime.ReadMemStats(&stats)
		peak = max(peak, stats.HeapInuse)
		time.Sleep(20 * time.Millisecond)
	}
	debug.FreeOSMemory()
	runtime.ReadMemStats(&stats)
	if got := state.Summary().Objects["Pod"]; got != n {
		tb.Errorf("%d pods", got)
	}
	cancel()
	<-done
	runtime.KeepAlive(live)
	return peak - min(before.HeapInuse, peak), stats.HeapAlloc - min(before.HeapAlloc, stats.HeapAlloc)
}

// BenchmarkFirstSync lists many pods.
func BenchmarkFirstSync(b *testing.B) {
	for _, pods := range []int{20_000, 150_000} {
		b.Run(strconv.Itoa(pods), func(b *testing.B) {
			for b.Loop() {
				most, kept := firstSync(b, pods)
				b.ReportMetric(float64(most)/(1<<20), "MB-peak")
				b.ReportMetric(float64(kept)/(1<<20), "MB-kept")
			}
		})
	}
}

// What is kept of a pod fits the promise of 500 MB for 150,000.
func TestMemoryOfAPod(t *testing.T) {
	const pods = 4_000
	if _, kept := firstSync(t, pods); kept > pods*2500 {
		t.Errorf("%d bytes are kept of each pod", kept/pods)
	} else {
		t.Logf("%d bytes are kept of each pod", kept/pods)
	}
}
