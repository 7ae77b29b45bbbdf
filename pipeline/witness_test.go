package pipeline

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/rules"
)

// recordsOf is all that a ledger holds.
func recordsOf(t testing.TB, l *evidence.Ledger) map[string]string {
	t.Helper()
	out := map[string]string{}
	if err := l.Records(func(k evidence.Key, v []byte) error {
		out[fmt.Sprintf("%d %d %s", k.Kind, k.Hour, k.Name)] = fmt.Sprintf("%x", v)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// sameEvidence holds what is stored against what a stream saw of the lines.
func sameEvidence(t testing.TB, lines []logLine, store *modelStore) {
	t.Helper()
	l := evidence.New()
	s := NewStream(judgeOf(t, loaded(t, captureJournal), "Node,RBAC"), nil, Options{Ledger: l}, func(*Judgement) error { return nil })
	if err := s.Batch(&Batch{Events: batchOf(lines).Events}); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	want := recordsOf(t, l)
	if len(want) < 5 {
		t.Fatalf("the capture has %d records", len(want))
	}
	if diff := cmp.Diff(want, recordsOf(t, store.ledger)); diff != "" {
		t.Errorf("evidence (-analyze +engine):\n%s", diff)
	}
}

// witnessed reports whether what an answered operation shows is stored: the time of a request of its node.
func (s *modelStore) witnessed(o operation) bool {
	var ok bool
	(&audit.Decoder{}).Chunk([]byte(o.line()), 1, func(ev *audit.Event) {
		h := evidence.HourOf(ev.RequestReceived)
		n := s.ledger.Node(fmt.Sprintf("n%d", o.id%twins%4), h)
		second := uint16(ev.RequestReceived.Unix()-int64(h)*3600) + 1
		ok = n != nil && n.First <= second && second <= n.Last
	}, func(audit.Malformed) {})
	return ok || o.stage != ended
}

// A commit shows what events of later batches show, too. If all of its own partitions are lost, that must not be lost with it.
func TestEvidenceOfALostCommit(t *testing.T) {
	d := newDriver(t)
	d.take("kafka:c/0", "1", false, of(2, ended))
	d.judge()
	d.take("file:b", "1", false, of(11, ended)) // whose clock is far ahead: it waits
	d.beginCommit()
	if n := len(d.e.commits.under.parts); n != 1 {
		t.Fatalf("%d partitions are in the commit", n)
	}
	d.fenceOff("kafka:c/0")
	if d.store.witnessed(of(11, ended)[0]) {
		t.Fatal("what is fenced off is stored")
	}
	d.finish() // which looks at what is acknowledged
	for _, o := range append(of(2, ended), of(11, ended)...) {
		if !d.store.witnessed(o) {
			t.Errorf("the evidence of request %d is lost", o.id)
		}
	}
}

// What fails is tried again with the same evidence, and what comes meanwhile follows.
func TestEvidenceOfAFailedCommit(t *testing.T) {
	d := newDriver(t)
	d.take("file:a", "1", false, of(2, ended))
	d.judge()
	d.beginCommit()
	d.endCommit(0)
	d.take("file:a", "2", false, of(6, ended))
	d.judge()
	d.finish()
	if !d.store.witnessed(of(2, ended)[0]) || !d.store.witnessed(of(6, ended)[0]) {
		t.Error("evidence is lost")
	}
}

// An engine forgets hours that are over once they are stored, and merges what comes late for them.
func TestEngineForgetsHours(t *testing.T) {
	d := newDriver(t)
	d.take("file:a", "1", false, of(2, ended))
	d.judge()
	d.beginCommit()
	d.endCommit(9)
	h := evidence.HourOf(d.clock.now())
	d.take("webhook:w", "", false, of(1, ended))
	d.e.parts.open["webhook:w"].latest = d.clock.now().Add(4 * time.Hour)
	d.clock.advance(5 * time.Hour)
	d.judge()
	d.beginCommit()
	d.endCommit(9)
	if own := d.e.opt.Ledger.Node("n2", h); own != nil {
		t.Error("the engine keeps an hour that is over")
	}
	d.take("file:a", "3", false, of(6, ended)) // of the same node and hour
	d.judge()
	d.finish()
	for _, id := range []int{1, 2, 6} {
		if !d.store.witnessed(of(id, ended)[0]) {
			t.Errorf("the evidence of request %d is lost", id)
		}
	}
}

// kubelets is a batch of what kubelets of some nodes do at a time, in steady state.
func kubelets(n, nodes, ms int) []audit.Event {
	var all []audit.Event
	for i := range n {
		ev := get("", audit.StageResponseComplete, ms+i*10, "allow", "")
		node := fmt.Sprintf("ip-10-0-%d-%d.eu-west-1.compute.internal", i%nodes/250, i%nodes%250)
		ev.User.Username, ev.UserAgent = "system:node:"+node, "kubelet/v1.36.3 (linux/amd64) kubernetes/abc"
		ev.AuditID = fmt.Sprint(ms, "-", i)
		if i%2 == 0 {
			ev.Verb, ev.RequestURI = "update", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+node
			ev.ObjectRef = audit.ObjectRef{APIGroup: "coordination.k8s.io", APIVersion: "v1", Resource: "leases", Namespace: "kube-node-lease", Name: node}
		}
		all = append(all, ev)
	}
	return all
}

// What is shown to a ledger costs no allocation once a node's hour has begun.
func TestWitnessDoesNotAllocate(t *testing.T) {
	l := evidence.New()
	w := witness{ledger: l, judge: &Judge{Memory: rules.NewMemory()}}
	var spare []byte
	hour := kubelets(200, 50, 0)
	round := func() {
		for i := range hour {
			w.see(&hour[i])
		}
		spare = w.changes(spare[:0], at(0))
	}
	round()
	if got := testing.AllocsPerRun(100, round); got > 0 {
		t.Errorf("%.1f allocations for 200 events and a commit", got)
	}
}
