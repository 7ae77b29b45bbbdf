package evidence

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/nodetrail/nodetrail/audit"
)

// mixed is what kubelets of some nodes do within an hour, renewals and reads, in the order of time.
func mixed(nodes int) []seen {
	var out []seen
	for i := range 20 {
		for n := range nodes {
			node := fmt.Sprintf("ip-10-0-%d-%d.eu-west-1.compute.internal", n/250, n%250)
			at := noon.Add(time.Duration(i*150) * time.Second).Add(time.Duration(n) * time.Millisecond)
			out = append(out, renewal(node, at), request(node, "get", "", "pods", "shop", "web", at), request(node, "patch", "", "pods", "shop", "web", at))
			if i%4 == 0 {
				out = append(out, request(node, "watch", "", "configmaps", "shop", "web", at), request(node, "watch", "", "services", "", "", at))
			}
		}
	}
	return out
}

func BenchmarkObserve(b *testing.B) {
	for _, nodes := range []int{10, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			events := mixed(nodes)
			l := ledgerOf(New(), events...)
			b.ReportAllocs()
			i, before := 0, processorTime(b)
			for b.Loop() {
				l.Observe(&events[i].ev, events[i].o)
				if i++; i == len(events) {
					i = 0
				}
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// processorTime is that of the process: the cores may be shared.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano())
}

// In steady state nothing is allocated.
func TestObserveDoesNotAllocate(t *testing.T) {
	events := mixed(50)
	for i := range events {
		events[i].ev = *events[i].ev.Clone()
	}
	l := ledgerOf(New(), events...)
	if n := testing.AllocsPerRun(20, func() { ledgerOf(l, events...) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A day of 5,000 nodes takes little memory. Nothing of an event is kept.
func TestMemoryOf5000Nodes(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l := New()
	for h := range 24 {
		for n := range 5000 {
			s := renewal(fmt.Sprintf("ip-10-0-%d-%d.eu-west-1.compute.internal", n/250, n%250), noon.Add(time.Duration(h)*time.Hour))
			for i := range 20 {
				s.ev.RequestReceived = s.ev.RequestReceived.Add(time.Duration(i) * time.Second)
				l.Observe(&s.ev, s.o)
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if mb := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20; mb > 60 {
		t.Errorf("%d MB", mb)
	} else {
		t.Logf("%d MB", mb)
	}
	runtime.KeepAlive(l)
}

// An event's own memory may be written again after the call.
func TestObserveKeepsNothing(t *testing.T) {
	for name, s := range map[string]seen{
		"a node": renewal("worker-1", noon), "a server": serverRenewal("apiserver-x", noon),
		"a foreign Lease": renewal("worker-1", noon).change(func(ev *audit.Event) { ev.ObjectRef.Name = "worker-2" }),
	} {
		mutable := func(text string) (string, []byte) {
			b := []byte(text)
			return unsafeString(b), b
		}
		l, all := New(), [][]byte(nil)
		for _, field := range []*string{&s.o.Node, &s.ev.ObjectRef.Name, &s.ev.UserAgent, &s.ev.User.Username, &s.o.Source} {
			text, b := mutable(*field)
			*field = text
			all = append(all, b)
		}
		l.Observe(&s.ev, s.o)
		want := dump(t, l)
		for _, b := range all {
			for i := range b {
				b[i] = 'x'
			}
		}
		got := dump(t, l)
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s: %s is %q, was %q", name, k, got[k], v)
			}
		}
	}
}

func unsafeString(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}
