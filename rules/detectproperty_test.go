package rules

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// randomStream is a few hours of some nodes, with bursts of one kind or another.
func randomStream(rnd *rand.Rand) *stream {
	s := &stream{name: "random", world: &world{created: map[string]int{"n1": rnd.IntN(4 * 3600)}}}
	verdicts := []string{"deny", "deny", "deny", "allow", "race", "lag", "unsure", "passed"}
	what := []string{
		"get secrets shop/o%d", "list secrets shop/o%d", "get configmaps shop/o%d", "create serviceaccounts/token shop/o%d", "get pods shop/o%d",
		"list secrets shop/", "list pods", "patch nodes/status n%d",
	}
	add := func(at time.Duration, node int, verdict, request string) {
		s.add1(at, fmt.Sprintf("n%d", node), verdict, request)
	}
	for at := time.Duration(0); at < 4*time.Hour; at += time.Duration(1+rnd.IntN(120)) * time.Second {
		add(at, rnd.IntN(6), verdicts[rnd.IntN(len(verdicts))], named(what[rnd.IntN(len(what))], rnd.IntN(12)))
	}
	for range 12 {
		begin, length := time.Duration(rnd.Int64N(int64(4*time.Hour))), time.Duration(1+rnd.IntN(900))*time.Second
		every := time.Duration(200+rnd.IntN(30_000)) * time.Millisecond
		verdict, request, node, nodes, objects := verdicts[rnd.IntN(len(verdicts))], what[rnd.IntN(len(what))], rnd.IntN(6), 1+rnd.IntN(6), 1+rnd.IntN(80)
		for i, at := 0, begin; at < begin+length; i, at = i+1, at+every {
			add(at, (node+rnd.IntN(nodes))%6, verdict, named(request, i%objects))
		}
	}
	slices.SortStableFunc(s.requests, func(a, b *Request) int { return a.Time.Compare(b.Time) })
	for i, r := range s.requests {
		r.Event.AuditID = fmt.Sprintf("%05d", i)
	}
	return s
}

func named(request string, n int) string {
	if strings.Contains(request, "%d") {
		return fmt.Sprintf(request, n)
	}
	return request
}

func (s *stream) add1(at time.Duration, node, verdict, request string) {
	r := request1(node, verdict, request)
	r.Time = r.Time.Add(at)
	s.requests = append(s.requests, r)
}

func request1(node, verdict, what string) *Request {
	r := request(as("system:node:"+node, "system:nodes"), does(what))
	if err := judgedAs(r, verdict); err != nil {
		panic(err)
	}
	return r
}

// Any order within the lateness, any calls of Advance, and a stop at any point give the same.
func TestDetectorsDoNotDependOnOrder(t *testing.T) {
	found := map[string]int{}
	for seed := range effort.Of(uint64(16), 6) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		s := randomStream(rnd)
		plain := play(t, s, nil, false)
		for _, f := range plain {
			found[f.Rule]++
		}
		for _, restarts := range []bool{false, true} {
			if diff := gocmp.Diff(plain, play(t, s, rnd, restarts)); diff != "" {
				t.Fatalf("seed %d, restarts %t (-plain +shuffled):\n%s", seed, restarts, diff)
			}
		}
	}
	for _, r := range overTimeRules() {
		if found[r.Name] < effort.Of(10, 3) {
			t.Errorf("%s was found %d times: the test shows little", r.Name, found[r.Name])
		}
	}
}

// What is left out because its log is not in order differs from what lasted, and from what was waited for in vain.
func TestDisordered(t *testing.T) {
	d := NewDetectors(overTimeRules(), DetectorOptions{Finished: true})
	observe := func(stage audit.Stage, at, answered time.Duration) (leftOut, disordered bool) {
		r := request1("n1", "deny", "get secrets shop/a")
		r.Event.Stage, r.Event.StageTime, r.Time = stage, r.Time.Add(answered), r.Time.Add(at)
		leftOut = d.Observe(r, nil)
		return leftOut, leftOut && d.Disordered(r)
	}
	for _, at := range []time.Duration{0, 20 * time.Minute} {
		if leftOut, _ := observe(audit.StageResponseComplete, at, at+time.Second); leftOut {
			t.Error("left out in order")
		}
	}
	d.Advance(time.Time{}, nil, func(*Detection) {})
	for _, c := range []struct {
		name                string
		stage               audit.Stage
		at, answered        time.Duration
		leftOut, disordered bool
	}{
		{"less than the lateness", audit.StageResponseComplete, 19 * time.Minute, 19 * time.Minute, false, false},
		{"another log", audit.StageResponseComplete, 17 * time.Minute, 17*time.Minute + time.Second, true, true},
		{"a watch that ends", audit.StageResponseComplete, 10 * time.Minute, 20 * time.Minute, true, false},
		{"a watch that ended in another log", audit.StageResponseComplete, 2 * time.Minute, 12 * time.Minute, true, true},
		{"no answer", audit.StageRequestReceived, 18*time.Minute - 5*time.Second, 18*time.Minute - 5*time.Second, true, false},
		{"no answer in another log", audit.StageRequestReceived, 16 * time.Minute, 16 * time.Minute, true, true},
	} {
		if leftOut, disordered := observe(c.stage, c.at, c.answered); leftOut != c.leftOut || disordered != c.disordered {
			t.Errorf("%s: left out %t, disordered %t; want %t, %t", c.name, leftOut, disordered, c.leftOut, c.disordered)
		}
	}
}

// A single time that is far ahead makes nothing late.
func TestLeap(t *testing.T) {
	d := NewDetectors(overTimeRules(), DetectorOptions{})
	observe := func(at time.Duration) {
		r := request1("n1", "deny", "get secrets shop/a")
		r.Time = r.Time.Add(at)
		observeLent(d, r, nil)
		d.Advance(time.Time{}, nil, func(*Detection) {})
	}
	observe(0)
	observe(1000 * time.Hour)
	observe(time.Minute)
	observe(5 * time.Minute)
	if d.Late() != 0 {
		t.Error("late for a single request that is ahead")
	}
	observe(0)
	if d.Late() != 1 {
		t.Errorf("%d late, want 1", d.Late())
	}
	observe(7 * time.Hour) // after a silence
	observe(7*time.Hour + time.Second)
	observe(5 * time.Hour)
	if d.Late() != 2 {
		t.Errorf("%d late, want 2", d.Late())
	}
}

// A lateness that is changed counts from then on.
func TestConfigure(t *testing.T) {
	d := NewDetectors(All(), DetectorOptions{})
	observe := func(at time.Duration) {
		r := request1("n1", "deny", "get secrets shop/a")
		r.Time = r.Time.Add(at)
		observeLent(d, r, nil)
		d.Advance(time.Time{}, nil, func(*Detection) {})
	}
	d.Configure(DetectorOptions{Lateness: 10 * time.Minute, Kubelets: []string{"my-kubelet"}})
	observe(0)
	observe(20 * time.Minute)
	observe(11 * time.Minute)
	if d.Late() != 0 {
		t.Errorf("%d late, want none", d.Late())
	}
	d.Configure(DetectorOptions{})
	observe(20 * time.Minute)
	observe(11 * time.Minute)
	if d.Late() != 1 {
		t.Errorf("%d late, want 1", d.Late())
	}
}

// storm are requests of 5,000 nodes: what is denied, and what is allowed and may be news for what was denied.
func storm(d *Detectors, minutes int, found func(*Detection)) {
	r := request1("n", "deny", "get secrets shop/a")
	a := request1("n", "allow", "get secrets shop/a")
	for m := range minutes {
		for n := range 5000 {
			node := fmt.Sprintf("ip-10-%d-%d.eu-west-1.compute.internal", n/250, n%250)
			for i := range 4 {
				r.Node, a.Node = node, node
				r.Time = at(60*m + n%60)
				a.Time = r.Time
				r.Attrs.Name = fmt.Sprintf("a-secret-with-a-long-name-%d", (m*4+i)%100)
				a.Attrs.Name = fmt.Sprintf("another-secret-with-a-long-name-%d", i)
				r.Event.AuditID = fmt.Sprintf("6f0f9f9e-0000-4000-8000-%06d%02d%04d", n, m, i)
				observeLent(d, r, nil)
				observeLent(d, a, nil)
			}
		}
		d.Advance(time.Time{}, nil, found)
	}
}

// 5,000 nodes that are all denied more and more, of more objects than are watched, stay within 50 MB, and what is found of the spike is one
// finding a minute.
func TestDetectorsAreBounded(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	d := NewDetectors([]*Rule{nodeDenySpike(), persistentNodeDeny(), secretEnumeration()}, DetectorOptions{})
	found := map[string]int{}
	storm(d, effort.Of(13, 2), func(f *Detection) { found[f.Rule]++ })
	runtime.GC()
	runtime.ReadMemStats(&after)
	if mb := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20; mb > 50 {
		t.Errorf("%d MB", mb)
	} else {
		t.Logf("%d MB", mb)
	}
	if found["node-deny-spike"] > 20 {
		t.Errorf("found %v", found)
	}
	t.Log(found)
	for _, r := range d.Changes() {
		if len(r.Value) > 8<<20 {
			t.Errorf("%s %s takes %d bytes to store", r.Kind, r.Key, len(r.Value))
		}
	}
	runtime.KeepAlive(d)
}

// FuzzDetectorsRestore holds what is read of a store to: no panic, then or later, and an error or what can be stored again.
func FuzzDetectorsRestore(f *testing.F) {
	d := NewDetectors(overTimeRules(), DetectorOptions{})
	s := randomStream(rand.New(rand.NewPCG(1, 2)))
	for i, r := range s.requests {
		observeLent(d, r, nil)
		d.Advance(time.Time{}, nil, func(*Detection) {})
		if i%500 == 499 {
			for _, m := range d.Changes() {
				if len(m.Value) < 4096 {
					f.Add(m.Kind, m.Key, m.Value)
				}
			}
		}
	}
	f.Add("deny-spike", "n1", []byte(`{"seen":-9223372036854775808,"last":9223372036854775807,"now":{}}`))
	f.Add("denials", "7", []byte(`{"step":-9223372036854775808,"denied":[null]}`))
	f.Add("persistent-deny", "n1", []byte(`[null]`))
	f.Add("enumeration", "n1", []byte(`{"o":[null]}`))
	f.Add("watermark", "", []byte(`9999-12-31T23:59:59Z`))
	f.Fuzz(func(t *testing.T, kind, key string, value []byte) {
		d := NewDetectors(overTimeRules(), DetectorOptions{})
		err := d.Restore([]Remembered{{Kind: kind, Key: key, Value: value}})
		_ = err // broken bytes may be
		for i := range 30 {
			r := request1("n1", "deny", fmt.Sprintf("get secrets shop/o%d", i))
			r.Time = r.Time.Add(time.Duration(i) * 20 * time.Second)
			observeLent(d, r, nil)
		}
		d.Flush(nil, func(f *Detection) {
			if sayDetection(f) == "" || len(f.AuditIDs) > 5 {
				t.Errorf("%+v", f)
			}
		})
		again := NewDetectors(overTimeRules(), DetectorOptions{})
		if err := again.Restore(d.Changes()); err != nil {
			t.Errorf("cannot read what was stored: %v", err)
		}
	})
}
