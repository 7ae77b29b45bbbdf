//go:build unix

package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// BenchmarkEtcdSnapshot loads a snapshot of a large cluster: a third pods, and events, Secrets, nodes, and ten minutes of their Leases. NODETRAIL_ETCD_MB is
// its size, by default 64 (it comes out somewhat larger). The peak is the process's memory while it loads, where the system tells it.
func BenchmarkEtcdSnapshot(b *testing.B) {
	size := 64
	if s := os.Getenv("NODETRAIL_ETCD_MB"); s != "" {
		var err error
		if size, err = strconv.Atoi(s); err != nil || size < 1 || size > 8192 {
			b.Fatalf("NODETRAIL_ETCD_MB=%q: want 1 to 8192", s)
		}
	}
	path := filepath.Join(b.TempDir(), "snapshot.db")
	written := largeSnapshot(b, path, int64(size)<<20)
	debug.FreeOSMemory()
	b.SetBytes(written)
	before := processor(b)
	for b.Loop() {
		_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // Linux measures the peak anew
		s := NewState()
		if err := s.Load([]string{path}, nil); err != nil {
			b.Fatal(err)
		}
		if s.Summary().Objects["Pod"] == 0 {
			b.Fatal("no pods")
		}
	}
	b.ReportMetric(peak(), "peak-MB")
	b.ReportMetric((processor(b)-before).Seconds()/float64(b.N), "cpu-s/op")
}

// processor is how long the process has used processors.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak is the most memory that the process had, in MB; 0 if the system does not tell.
func peak() float64 {
	b, _ := os.ReadFile("/proc/self/status") // there is none on other systems
	for line := range bytes.Lines(b) {
		if f := strings.Fields(string(line)); len(f) == 3 && f[0] == "VmHWM:" {
			kb, _ := strconv.ParseFloat(f[1], 64)
			return kb / 1024
		}
	}
	return 0
}

// largeSnapshot writes a snapshot of about that size and returns how large it is.
func largeSnapshot(b *testing.B, path string, size int64) int64 {
	b.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, NoFreelistSync: true})
	if err != nil {
		b.Fatal(err)
	}
	e := &etcdDB{t: b, db: db, made: map[string]uint64{}}
	e.update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("key"))
		return err
	})
	text := func(n int) string { return strings.Repeat("lorem ipsum ", n/12) }
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	day := func(i int) string { return at.Add(-time.Duration(i%86400) * time.Second).Format(time.RFC3339) }
	pods, events, secrets := int(size/3/6500), int(size/4/1100), int(size/4/4200)
	nodes := pods/30 + 1
	for i := range secrets {
		e.put(fmt.Sprintf("/registry/secrets/ns-%d/secret-%d", i%200, i), []byte("k8s\x00"+text(4100)))
	}
	for i := range pods {
		e.put(fmt.Sprintf("/registry/pods/ns-%d/pod-%d", i%200, i), proto(b, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"ns-%d","name":"pod-%d",
			"uid":"00000000-0000-4000-8000-%012d","creationTimestamp":%q,"annotations":{"example.com/padding":%q}},"spec":{"nodeName":"node-%d","serviceAccountName":"app",
			"containers":[{"name":"main","image":"registry.example/main","envFrom":[{"secretRef":{"name":"secret-%d"}}]}]},
			"status":{"conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":%q}]}}`, i%200, i, i, day(i), text(6000), i%nodes, i, day(i))))
	}
	for i := range nodes {
		e.put(fmt.Sprintf("/registry/minions/node-%d", i), proto(b, fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-%d","uid":"n-%d",
			"creationTimestamp":%q,"annotations":{"example.com/padding":%q}}}`, i, i, day(i), text(9000))))
	}
	event := proto(b, fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"event","creationTimestamp":%q,"annotations":{"example.com/padding":%q}}}`, day(0), text(900)))
	for i := range events {
		e.put(fmt.Sprintf("/registry/events/ns-%d/event-%d", i%200, i), event)
	}
	for second := 0; second < 600; second += 10 {
		now := at.Add(time.Duration(second) * time.Second)
		for i := range nodes {
			e.put(fmt.Sprintf("/registry/leases/kube-node-lease/node-%d", i), proto(b, fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease",
				"metadata":{"namespace":"kube-node-lease","name":"node-%d","creationTimestamp":"2026-11-20T00:00:00Z","managedFields":[{"manager":"kubelet","time":%q}]},
				"spec":{"holderIdentity":"node-%d","renewTime":%q}}`, i, now.Format(time.RFC3339), i, now.Format("2006-01-02T15:04:05.000000Z"))))
		}
	}
	e.compact(e.rev - 1)
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}
