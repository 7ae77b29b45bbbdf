package pipeline

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rules"
)

var epoch = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

// get is an event of a node's read of a secret, received at ms and answered a millisecond later.
func get(id string, stage audit.Stage, ms int, decision, reason string) audit.Event {
	ev := audit.Event{
		AuditID: id, Stage: stage, Verb: "get", RequestURI: "/api/v1/namespaces/shop/secrets/db", HasObjectRef: true,
		ObjectRef: audit.ObjectRef{Resource: "secrets", Namespace: "shop", Name: "db", APIVersion: "v1"},
		User:      audit.User{Username: "system:node:n1", Groups: []string{"system:nodes"}}, UserAgent: "kubelet/v1.36.3",
		RequestReceived: at(ms), StageTime: at(ms + 1), Decision: decision, Reason: reason,
	}
	if stage == audit.StageRequestReceived {
		ev.StageTime = at(ms)
	} else {
		ev.Code = 200
	}
	return ev
}

// bound binds a pod that leads from the secret to n1 when it is given the event's pod.
type boundBy struct{ g *nodeauthz.Graph }

func (b boundBy) ReadAudit(*audit.Event) *cluster.Read { return nil }

func (b boundBy) ApplyRead(ev *audit.Event, _ *cluster.Read) {
	b.g.SetPod(&nodeauthz.Pod{Namespace: "shop", Name: "web", UID: "u", NodeName: "n1", Secrets: []string{"db"}},
		nodeauthz.Stamp{Time: ev.StageTime, Source: nodeauthz.SourceAudit})
}

type seenJudgement struct {
	ID, Verdict string
	Race        bool
	Decision    string
}

func newTestStream(t testing.TB, mode string, opt Options, out func(*Judgement) error) (*Stream, *nodeauthz.Graph) {
	t.Helper()
	f, err := nodeauthz.FeaturesFor("")
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseMode(mode)
	if err != nil {
		t.Fatal(err)
	}
	g := nodeauthz.NewGraph()
	g.CoverFrom(at(-100_000))
	opt.Skew = 100 * time.Millisecond
	j := &Judge{Node: nodeauthz.NewAuthorizer(g, f, opt.Skew), Rules: rules.All(), Memory: rules.NewMemory(), Mode: m}
	return NewStream(j, boundBy{g}, opt, out), g
}

func collect(into *[]seenJudgement) func(*Judgement) error {
	return func(j *Judgement) error {
		*into = append(*into, seenJudgement{j.Event.AuditID, j.Answer.Verdict.String(), j.Answer.Race, j.Event.Decision})
		return nil
	}
}

func feed(t *testing.T, s *Stream, size int, events ...audit.Event) (released int) {
	t.Helper()
	batches := 0
	for len(events) > 0 {
		n := min(size, len(events))
		batches++
		if err := s.Batch(&Batch{Events: events[:n], Release: func() { released++ }}); err != nil {
			t.Fatal(err)
		}
		events = events[n:]
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if released != batches {
		t.Errorf("%d of %d batches were released", released, batches)
	}
	return released
}

func binding(ms int) audit.Event {
	return audit.Event{
		AuditID: fmt.Sprint("bind-", ms), Stage: audit.StageResponseComplete, Verb: "create", HasObjectRef: true, Code: 201,
		ObjectRef:       audit.ObjectRef{Resource: "pods", Subresource: "binding", Namespace: "shop", Name: "web"},
		RequestReceived: at(ms - 1), StageTime: at(ms), User: audit.User{Username: "system:kube-scheduler"},
	}
}

// A request that was received before a binding may be logged before it: the race is seen all the same.
func TestLaterEventsMakeRaces(t *testing.T) {
	var got []seenJudgement
	s, _ := newTestStream(t, "Node,RBAC", Options{}, collect(&got))
	feed(t, s, 1,
		get("early", audit.StageResponseComplete, 0, "forbid", "no"),
		get("near", audit.StageResponseComplete, 950, "forbid", "no"),
		binding(1000),
		get("just after", audit.StageResponseComplete, 1050, "allow", ""),
		get("after", audit.StageResponseComplete, 1200, "allow", ""),
		get("far", audit.StageResponseComplete, 60_000, "allow", ""),
	)
	want := []seenJudgement{
		{"early", "deny", false, "forbid"}, {"near", "deny", true, "forbid"}, {"just after", "allow", true, "allow"},
		{"after", "allow", false, "allow"}, {"far", "allow", false, "allow"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestOneVerdictForEachRequest(t *testing.T) {
	f := func(name string, opt Options, want []seenJudgement, counts Counts, events ...audit.Event) {
		t.Helper()
		for _, size := range []int{1, 2, 100} {
			var got []seenJudgement
			s, _ := newTestStream(t, "Node,RBAC", opt, collect(&got))
			feed(t, s, size, events...)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s, batches of %d (-want +got)\n%s", name, size, d)
			}
			if d := cmp.Diff(counts, s.Counts()); d != "" {
				t.Errorf("%s, batches of %d: counts (-want +got)\n%s", name, size, d)
			}
		}
	}
	received, started, complete := audit.StageRequestReceived, audit.StageResponseStarted, audit.StageResponseComplete
	one := []seenJudgement{{"a", "deny", false, "forbid"}}
	f("all stages", Options{}, one, Counts{Node: 3, Judged: 1},
		get("a", received, 0, "", ""), get("a", started, 0, "forbid", ""), get("a", complete, 0, "forbid", ""))
	f("the beginning comes last", Options{}, one, Counts{Node: 2, Judged: 1},
		get("a", complete, 0, "forbid", ""), get("a", received, 0, "", ""))
	f("twice the same stage", Options{}, one, Counts{Node: 4, Judged: 1, Duplicates: 2},
		get("a", received, 0, "", ""), get("a", received, 0, "", ""), get("a", complete, 0, "forbid", ""), get("a", complete, 0, "forbid", ""))
	other := get("a", complete, 0, "forbid", "")
	other.RequestURI += "2"
	f("one audit ID for all, by the client's choice", Options{}, append(one, one[0], one[0]), Counts{Node: 3, Judged: 3},
		get("a", complete, 0, "forbid", ""), other, get("a", complete, 5, "forbid", ""))
	f("a watch ends ten minutes later", Options{}, []seenJudgement{{"a", "deny", false, "forbid"}, {"b", "deny", false, "forbid"}},
		Counts{Node: 3, Judged: 2},
		get("a", started, 0, "forbid", ""), get("b", complete, 599_000, "forbid", ""), get("a", complete, 0, "forbid", ""))
	f("no response in the log", Options{}, []seenJudgement{{"b", "deny", false, "forbid"}, {"a", "deny", false, ""}}, Counts{Node: 2, Judged: 2},
		get("a", received, 0, "", ""), get("b", complete, 10, "forbid", ""))
	f("a response after the wait", Options{OpenFor: time.Second}, []seenJudgement{{"b", "deny", false, "forbid"}, {"a", "deny", false, ""}},
		Counts{Node: 3, Judged: 2},
		get("a", received, 0, "", ""), get("b", complete, 10_000, "forbid", ""), get("a", complete, 0, "forbid", ""))
	f("no audit ID", Options{}, []seenJudgement{{"", "deny", false, "forbid"}, {"", "deny", false, "forbid"}}, Counts{Node: 2, Judged: 2},
		get("", complete, 0, "forbid", ""), get("", complete, 0, "forbid", ""))
	f("outside of the window", Options{Window: Window{Since: at(5), Until: at(10)}}, []seenJudgement{{"b", "deny", false, "forbid"}},
		Counts{Node: 1, Judged: 1, OutOfWindow: 2, Later: 1},
		get("a", complete, 4, "forbid", ""), get("b", complete, 5, "forbid", ""), get("c", complete, 10, "forbid", ""))
}

// Whatever the bounds, each request is judged once, with the same verdict.
func TestBoundsLoseNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var events []audit.Event
	for i := range 500 {
		id := fmt.Sprint(i)
		if rng.IntN(2) == 0 {
			events = append(events, get(id, audit.StageRequestReceived, i, "", ""))
		}
		events = append(events, get(id, audit.StageResponseComplete, i, "forbid", ""))
	}
	// As webhook retries make it: some again, and out of order within reason.
	events = append(events, events[400:450]...)
	rng.Shuffle(len(events), func(i, j int) {
		if d := i - j; -20 < d && d < 20 {
			events[i], events[j] = events[j], events[i]
		}
	})
	for _, opt := range []Options{{}, {MaxWaiting: 1}, {MaxBatches: 1}, {MaxOpen: 1}, {MaxWaiting: 3, MaxBatches: 2, MaxOpen: 2}} {
		judged := map[string]int{}
		s, _ := newTestStream(t, "auto", opt, func(j *Judgement) error {
			judged[j.Event.AuditID]++
			if j.Answer.Verdict != nodeauthz.Deny {
				t.Errorf("%+v: %s: %s", opt, j.Event.AuditID, j.Answer.Verdict)
			}
			return nil
		})
		feed(t, s, 7, append([]audit.Event{}, events...)...)
		for i := range 500 {
			if n := judged[fmt.Sprint(i)]; n != 1 {
				t.Fatalf("%+v: request %d was judged %d times", opt, i, n)
			}
		}
	}
}

func TestAnErrorEndsTheStream(t *testing.T) {
	full := errors.New("no space left")
	s, _ := newTestStream(t, "Node,RBAC", Options{}, func(*Judgement) error { return full })
	if err := s.Batch(&Batch{Events: []audit.Event{get("a", audit.StageResponseComplete, 0, "allow", "")}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

func TestSeenForgetsTheOldest(t *testing.T) {
	s := newSeen(100)
	id := func(i int) uint64 { return s.hash(&audit.Event{AuditID: fmt.Sprint(i)}) }
	there := func(i int) bool {
		bits, mark := s.get(id(i))
		if (bits != 0) != (mark == uint32(i+1)) {
			t.Fatalf("request %d has the bits %d and the mark %d", i, bits, mark)
		}
		return bits != 0
	}
	for i := range 1000 {
		if i > 0 && !there(i-1) {
			t.Fatalf("request %d was forgotten at once", i-1)
		}
		s.set(id(i), stageBit(audit.StageResponseComplete), uint32(i+1))
	}
	if there(0) {
		t.Error("nothing was forgotten")
	}
	kept := 0
	for i := range 1000 {
		if there(i) {
			kept++
		}
	}
	if kept < 100 || kept > 200 {
		t.Errorf("%d of 1000 are remembered", kept)
	}
}

// TestStageWhileWaiting holds that a stage which comes while its request waits to be judged is known when it comes again after that.
func TestStageWhileWaiting(t *testing.T) {
	s, _ := newTestStream(t, "Node,RBAC", Options{}, func(*Judgement) error { return nil })
	started, complete := get("w", audit.StageResponseStarted, 0, "allow", ""), get("w", audit.StageResponseComplete, 0, "allow", "")
	complete.StageTime = at(5)
	feed(t, s, 1, started, complete, get("later", audit.StageResponseComplete, 60_000, "allow", ""), complete, started)
	if c := s.Counts(); c.Duplicates != 2 || c.Judged != 2 {
		t.Errorf("%+v", c)
	}
}
