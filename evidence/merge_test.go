package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
)

// However events are ordered, split between analyzers, sent twice, stored and restored: the ledger is the same.
func TestMergesInAnyOrder(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		events := day(r, 4, 3)
		want := dump(t, ledgerOf(New(), events...))
		shuffled := append(append([]seen{}, events...), events[:len(events)/3]...) // some come twice
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(want, dump(t, ledgerOf(New(), shuffled...))); diff != "" {
			t.Fatalf("seed %d, in another order (-want +got):\n%s", seed, diff)
		}

		analyzers := []*Ledger{New(), New(), New()}
		store := New()
		for i := range shuffled {
			l := analyzers[r.IntN(3)]
			l.Observe(&shuffled[i].ev, shuffled[i].o)
			switch r.IntN(2000) {
			case 0:
				exchange(t, l, store, true)
			case 1: // it restarts with what is stored
				exchange(t, l, store, true)
				*l = *New()
				exchange(t, store, l, false)
			case 2:
				l.Merge(analyzers[r.IntN(3)])
			}
		}
		for _, l := range analyzers {
			exchange(t, l, store, true)
		}
		if diff := cmp.Diff(want, dump(t, store)); diff != "" {
			t.Fatalf("seed %d, by three analyzers (-want +got):\n%s", seed, diff)
		}
		merged := New()
		for _, l := range analyzers {
			merged.Merge(l)
			merged.Merge(l)
		}
		if diff := cmp.Diff(want, dump(t, merged)); diff != "" {
			t.Fatalf("seed %d, merged (-want +got):\n%s", seed, diff)
		}
	}
}

// What is beyond a bound goes by name or hour, not by order of arrival, and leaves a mark.
func TestBoundsDoNotDependOnOrder(t *testing.T) {
	most := limits{nodes: 5, servers: 2, sources: 2, hours: 3}
	var events []seen
	for n := range 20 {
		for h := range 6 {
			s := renewal(fmt.Sprintf("n%02d", n), noon.Add(time.Duration(h)*time.Hour+time.Duration(n)*time.Minute))
			s.o.Source = fmt.Sprintf("s%d", n%4)
			events = append(events, s, serverRenewal(fmt.Sprintf("apiserver-%d", n%5), s.ev.RequestReceived))
		}
	}
	events = append(events, renewal("a", noon.Add(4*time.Hour)), renewal(string(bytes.Repeat([]byte("x"), MaxName+1)), noon.Add(5*time.Hour)))
	want := dump(t, ledgerOf(newLimited(most), events...))
	l := ledgerOf(newLimited(most), events...)
	h := HourOf(noon)
	if at, ok := l.Dropped(); !ok || at != h+2 {
		t.Errorf("dropped %t, %d: want hour %d", ok, at, h+2)
	}
	l.settle()
	if diff := cmp.Diff([]string{"a", "n00", "n01", "n02", "n03"}, l.Nodes(h+4, h+4)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if got := l.Overflow(h + 5); got != allOverflow {
		t.Errorf("overflow is %b", got)
	}
	if got := l.Overflow(h + 3); got != OverNodes|OverServers|OverSources {
		t.Errorf("overflow is %b", got)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		half, other := newLimited(most), newLimited(most)
		ledgerOf(half, events[:len(events)/2]...)
		ledgerOf(other, events[len(events)/2:]...)
		if r.IntN(2) == 0 {
			half.Merge(other)
		} else {
			exchange(t, other, half, true)
		}
		if diff := cmp.Diff(want, dump(t, half)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

// Changes hands out each change once, and again if it was not stored.
func TestChanges(t *testing.T) {
	l := ledgerOf(New(), renewal("a", minutes(1)), renewal("b", minutes(1)))
	broken := errors.New("the store is full")
	if err := l.Changes(func(Key, []byte) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	count := func() (n int) {
		if err := l.Changes(func(Key, []byte) error { n++; return nil }); err != nil {
			t.Error(err)
		}
		return n
	}
	if n := count(); n != 3 {
		t.Errorf("%d changes, want two nodes and a source", n)
	}
	if n := count(); n != 0 {
		t.Errorf("%d changes of nothing", n)
	}
	ledgerOf(l, renewal("a", minutes(1)))
	if n := count(); n != 0 {
		t.Errorf("%d changes by an event that was there", n)
	}
	ledgerOf(l, renewal("a", minutes(2)))
	if n := count(); n != 1 {
		t.Errorf("%d changes by one renewal, want the node", n)
	}
}

// Several analyzers may store values of one key.
func TestPutMerges(t *testing.T) {
	k := Key{KindNode, HourOf(noon), "a"}
	value := func(l *Ledger) (v []byte) {
		t.Helper()
		if err := l.Records(func(at Key, b []byte) error {
			if at == k {
				v = bytes.Clone(b)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return v
	}
	one, two := renewal("a", minutes(1)), renewal("a", minutes(30))
	l := New()
	for _, e := range []seen{one, two} {
		if err := l.Put(k, value(ledgerOf(New(), e))); err != nil {
			t.Fatal(err)
		}
	}
	want := value(ledgerOf(New(), one, two))
	if got := value(l); !bytes.Equal(got, want) {
		t.Errorf("%x: want %x", got, want)
	}
	if err := l.Put(k, []byte{9}); err == nil || !bytes.Equal(value(l), want) {
		t.Errorf("a damaged value is merged: error %v, %x", err, value(l))
	}
}

// What another analyzer dropped is dropped here too.
func TestDroppedHoursAreForgotten(t *testing.T) {
	h := HourOf(noon)
	l := ledgerOf(New(), renewal("a", minutes(1)), renewal("a", minutes(61)))
	if err := l.Put(Key{Kind: KindDropped, Hour: h}, []byte{codecVersion}); err != nil {
		t.Fatal(err)
	}
	ledgerOf(l, renewal("a", minutes(2)))
	if at, ok := l.Dropped(); !ok || at != h || l.Node("a", h) != nil || l.Node("a", h+1) == nil {
		t.Errorf("dropped %t, hour %d, %v", ok, at, l.Node("a", h))
	}
}

// A value has one form: another that would mean the same is refused, as is what means nothing.
func TestDamagedValues(t *testing.T) {
	empty := slices.Repeat([]byte{0}, 13+int(Acts)+2*int(Longs)) // parts, first and last of a node
	node := func(slots ...byte) []byte { return slices.Concat([]byte{codecVersion}, empty, slots) }
	server := func(rest ...byte) []byte { return append([]byte{codecVersion, 0, 0}, rest...) }
	for name, c := range map[string]struct {
		kind  Kind
		value []byte
		ok    bool
	}{
		"two slots":            {KindNode, node(2, 5, 7, 1), true},
		"another usual step":   {KindNode, node(2, 4, 7, 0, 5, 0), false},
		"a step of nothing":    {KindNode, node(2, 0, 7, 1), false},
		"past the hour":        {KindNode, node(2, 15, 0xc3, 5, 1), false},
		"too many":             {KindNode, node(2, 5, 7, 2), false},
		"too few":              {KindNode, node(3, 5, 7, 1), false},
		"more behind":          {KindNode, node(0, 0), false},
		"a long number":        {KindNode, node(0x80, 0), false},
		"no slots":             {KindNode, node(), false},
		"the first form":       {KindNode, slices.Concat([]byte{withoutActs}, empty[2*int(Longs)+int(Acts)+1:], []byte{0}), true},
		"acts in that form":    {KindNode, slices.Concat([]byte{withoutActs}, empty, []byte{0}), false},
		"the third form":       {KindNode, slices.Concat([]byte{withoutLooks}, empty[2*Longs+2:], []byte{0}), true},
		"gets in that form":    {KindNode, slices.Concat([]byte{withoutLooks}, empty, []byte{0}), false},
		"the fourth form":      {KindNode, slices.Concat([]byte{withoutSpans}, empty[2*Longs:], []byte{0}), true},
		"spans in that form":   {KindNode, slices.Concat([]byte{withoutSpans}, empty, []byte{0}), false},
		"the fifth form":       {KindNode, slices.Concat([]byte{withoutLanes}, empty, []byte{0}), true},
		"lanes in that form":   {KindNode, slices.Concat([]byte{withoutLanes}, empty[:17], []byte{0x80, 0x20}, empty[18:], []byte{0}), false},
		"a part in that form":  {KindNode, slices.Concat([]byte{withoutLanes}, empty[:17], []byte{0xff, 0x1f}, empty[18:], []byte{0}), true},
		"lanes":                {KindNode, slices.Concat([]byte{codecVersion}, empty[:17], []byte{0x80, 0x20}, empty[18:], []byte{0}), true},
		"past all lanes":       {KindNode, slices.Concat([]byte{codecVersion}, empty[:17], []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10}, empty[18:], []byte{0}), false},
		"another form":         {KindNode, append([]byte{codecVersion + 1}, node(0)[1:]...), false},
		"nothing":              {KindNode, nil, false},
		"versions":             {KindServer, server(0, 2, 1, 'a', 1, 'b'), true},
		"versions in disorder": {KindServer, server(0, 2, 1, 'b', 1, 'a'), false},
		"a version twice":      {KindServer, server(0, 2, 1, 'a', 1, 'a'), false},
		"too few for many":     {KindServer, server(1, 1, 1, 'a'), false},
		"an empty version":     {KindServer, server(0, 1, 0), false},
		"an unknown overflow":  {KindOverflow, []byte{codecVersion, 0x80}, false},
		"an unknown kind":      {77, node(0), false},
	} {
		k := Key{c.kind, HourOf(noon), "a"}
		if c.kind == KindOverflow {
			k.Name = ""
		}
		l := New()
		if err := l.Put(k, c.value); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		} else if n := len(dump(t, l)); (n == 1) != c.ok {
			t.Errorf("%s: %d records", name, n)
		}
	}
}

// Where the program that wrote a record did not look for acts, all were done: nothing is missed because a program was replaced, whatever comes later.
func TestRecordsWithoutActs(t *testing.T) {
	l := ledgerOf(New(), request("worker-1", "get", "", "pods", "shop", "web", noon))
	n := l.Node("worker-1", HourOf(noon))
	if n.Acted[ActGetPod] != partOf(noon) || n.Acted[ActReportPod] != 0 {
		t.Errorf("acts %b", n.Acted)
	}
	old := n.appendAs([]byte{withoutActs}, withoutActs)
	for _, into := range []*Ledger{New(), l} {
		if err := into.Put(Key{KindNode, HourOf(noon), "worker-1"}, old); err != nil {
			t.Fatal(err)
		}
		for act, parts := range into.Node("worker-1", HourOf(noon)).Acted {
			if parts != allParts {
				t.Errorf("%s: %b", Act(act), parts)
			}
		}
	}
}

// Where the program that wrote a record had one lane, no watch that ends later is missed in any lane, and what had no beginning still has none.
func TestRecordsWithoutLanes(t *testing.T) {
	k := Key{KindNode, HourOf(noon), "worker-1"}
	old := slices.Concat([]byte{withoutLanes}, make([]byte, 17), []byte{byte(partOf(noon)), 0, 0, 0, byte(partOf(noon)), byte(partOf(noon)), 0, 0}, make([]byte, 3))
	l := New()
	if err := l.Put(k, old); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		ledgerOf(l, request("worker-1", "watch", "", "pods", "", "", noon).change(func(ev *audit.Event) { ev.AuditID = strings.Repeat("x", i) }))
	}
	n := l.Node("worker-1", HourOf(noon))
	for kind, want := range []int{0, 1, 0, 0} {
		if got := (n.Ended[kind] &^ n.Began[kind]).Count(); got != want {
			t.Errorf("%s: %d watches without a beginning, want %d", Long(kind), got, want)
		}
	}
	if n.Ended[LongStanding].Count() != lanes {
		t.Errorf("50 watches are in %d lanes", n.Ended[LongStanding].Count())
	}
}

// Where the program that wrote a record did not look for gets of Nodes, none is missed, whatever comes later in the hour.
func TestRecordsWithoutLooks(t *testing.T) {
	start := request("worker-1", "create", "", "nodes", "", "worker-1", noon).change(func(ev *audit.Event) { ev.Code = 409 })
	old := ledgerOf(New(), request("worker-1", "get", "", "pods", "shop", "web", noon)).Node("worker-1", HourOf(noon)).appendAs([]byte{withoutLooks}, withoutLooks)
	for name, l := range map[string]*Ledger{"alone": New(), "merged": ledgerOf(New(), start)} {
		if err := l.Put(Key{KindNode, HourOf(noon), "worker-1"}, old); err != nil {
			t.Fatal(err)
		}
		n := l.Node("worker-1", HourOf(noon))
		if n.Acted[ActGetNode] != allParts || n.Acted[ActGetPod] != partOf(noon) || n.Acted[ActReportPod] != 0 || (n.Owes != 0) != (name == "merged") {
			t.Errorf("%s: acts %b, owes %b", name, n.Acted, n.Owes)
		}
	}
}

// What kubelets did for which pod is known by hour, survives its record, and is not missed where the record is of a program that did not look for it.
func TestPods(t *testing.T) {
	h := HourOf(noon)
	reports := request("worker-1", "patch", "", "pods", "shop", "told", noon)
	reports.ev.ObjectRef.Subresource = "status"
	l := ledgerOf(New(), request("worker-1", "get", "", "pods", "shop", "web", noon), request("worker-1", "delete", "", "pods", "shop", "db", noon), reports)
	copied := New()
	if err := l.Records(copied.Put); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*Ledger{l, copied} {
		for _, c := range []struct {
			act             Act
			namespace, name string
			first           Hour
			want            bool
		}{
			{ActGetPod, "shop", "web", h - 1, true}, {ActGetPod, "shop", "web", h + 1, false}, {ActReportPod, "shop", "web", h, false},
			{ActReportPod, "shop", "told", h, true}, {ActGetPod, "shop", "db", h, false}, {ActGetPod, "sho", "pweb", h, false}, {ActGetPod, "web", "shop", h, false},
		} {
			if got := l.DidFor(c.act, c.namespace, c.name, c.first, h+2); got != c.want {
				t.Errorf("%s %s/%s from hour %d: %t", c.act, c.namespace, c.name, c.first, got)
			}
		}
	}
	others := ledgerOf(New(), request("worker-1", "get", "", "secrets", "shop", "db", noon), request("worker-1", "delete", "", "pods", "shop", "db", noon))
	if got := others.Source("", h).Pods; got != (Pods{}) {
		t.Errorf("got and reported no pod, and have %v", got)
	}
	old := l.Source("", h).appendAs([]byte{withoutPods}, withoutPods)
	if err := copied.Put(Key{Kind: KindSource, Hour: h}, old); err != nil {
		t.Fatal(err)
	}
	if !copied.DidFor(ActReportPod, "shop", "other", h, h) {
		t.Error("something is missed where nobody looked for it")
	}
}

// A kubelet's hour takes some dozens of bytes.
func TestRecordsAreShort(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	sizes, n := 0, 0
	if err := ledgerOf(New(), day(r, 5, 10)...).Records(func(k Key, v []byte) error {
		if k.Kind == KindNode {
			sizes += len(v)
			n++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if mean := sizes / n; mean > 80 {
		t.Errorf("%d bytes a node and hour", mean)
	} else {
		t.Logf("%d bytes a node and hour", mean)
	}
}

// What a store gives back may be anything: it is refused, or is the one form of a value, and merging it twice is merging it once.
func FuzzPut(f *testing.F) {
	l := ledgerOf(New(), day(rand.New(rand.NewPCG(5, 5)), 2, 2)...)
	l.overflows(l.book(HourOf(noon)), OverNodes)
	l.drop(HourOf(noon) - 9)
	if err := l.Records(func(k Key, v []byte) error {
		f.Add(uint8(k.Kind), int32(k.Hour), k.Name, bytes.Clone(v))
		return nil
	}); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, kind uint8, hour int32, name string, value []byte) {
		k := Key{Kind(kind), Hour(hour), name}
		l := New()
		if err := l.Put(k, value); err != nil {
			if len(dump(t, l)) > 0 {
				t.Errorf("%v, and something was merged", err)
			}
			return
		}
		if err := l.Put(k, value); err != nil {
			t.Error(err)
		}
		n := 0
		if err := l.Records(func(at Key, v []byte) error {
			if n++; at != k || !bytes.Equal(v, value) {
				t.Errorf("%+v %x came back as %+v %x", k, value, at, v)
			}
			return nil
		}); err != nil || n > 1 || n == 0 && !(k.Kind == KindOverflow && value[1] == 0) {
			t.Errorf("%d records, %v", n, err)
		}
		// It can be resumed.
		ledgerOf(l, renewal("a", noon), serverRenewal("apiserver-x", noon))
	})
}

// Any event can be observed, and then stored.
func FuzzObserve(f *testing.F) {
	f.Add("a", "update", leaseGroup, "leases", nodeLeases, "a", "kubelet/v1", int64(0), int64(5), int32(200), uint8(3))
	f.Add("a", "watch", "", "pods", "", "", "kubelet/v1", int64(-1), int64(1<<40), int32(200), uint8(3))
	f.Add("", "get", leaseGroup, "leases", serverLeases, "apiserver-x", "kube-apiserver/v1", int64(9), int64(9), int32(200), uint8(3))
	f.Fuzz(func(t *testing.T, node, verb, group, resource, namespace, name, agent string, from, to int64, code int32, stage uint8) {
		const most = 1 << 40
		s := request(node, verb, group, resource, namespace, name, time.Unix(from%most, 0))
		s.ev.StageTime, s.ev.Code, s.ev.Stage, s.ev.UserAgent = time.Unix(to%most, 0), code, audit.Stage(stage), agent
		if node == "" {
			s.ev.User.Username = serverUser
		}
		l := ledgerOf(New(), s)
		copied := New()
		exchange(t, l, copied, true)
		if diff := cmp.Diff(dump(t, l), dump(t, copied)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Of an hour that an earlier version stored nobody knows which requests had no decision.
func TestUndecidedOfBefore(t *testing.T) {
	s := SourceHour{Requests: 1, Undecided: 1, ByNode: 1}
	l := New()
	if err := l.Put(Key{KindSource, 1000, "a"}, s.appendAs([]byte{withoutLooks}, withoutLooks)); err != nil {
		t.Fatal(err)
	}
	if x := l.Source("a", 1000); x.Undecided != 0 || x.ByNode != 1 {
		t.Errorf("%+v", x)
	}
	if err := l.Put(Key{KindSource, 1001, "a"}, s.append([]byte{codecVersion})); err != nil {
		t.Fatal(err)
	}
	if x := l.Source("a", 1001); x.Undecided != 1 {
		t.Errorf("%+v", x)
	}
}
