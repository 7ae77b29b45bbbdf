// Package sinktest is the one suite of tests that each sink passes.
//
// What goes in: a function that opens the sink with a receiver that the test controls. What comes out: failures of the test. The package
// imports sinks, and is imported by tests alone.
package sinktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/sinks"
)

// Sink is a sink under test and its receiver, which starts in good order.
type Sink struct {
	Sender sinks.Sender
	// Received returns what has arrived by now, in that order, as JSON that the receiver can read; of CloudEvents, their data.
	Received func(t *testing.T) []sinks.Finding
	// Fail makes the receiver refuse for the time being, or take in again. nil where a receiver cannot.
	Fail func(on bool)
	// Hang makes the receiver not answer until it is turned off. nil where a receiver cannot.
	Hang func(on bool)
	// Refuse makes the receiver refuse for good whatever has the message Poison. nil where a receiver cannot.
	Refuse func()
}

// Poison is the message of the finding that a Refuse receiver refuses.
const Poison = "poison"

// patience is how long a very slow machine may take.
const patience = 2 * time.Minute

// Run runs the suite; open opens a new sink for each of its tests, and leaves nothing behind when t ends but the Sender, which the suite closes.
func Run(t *testing.T, open func(t *testing.T) *Sink) {
	t.Helper()
	for _, test := range []struct {
		name string
		f    func(*testing.T, *Sink)
	}{
		{"in order, once", inOrder}, {"hostile strings", hostile}, {"tried again while it is down", down}, {"context ends", cancelled},
		{"refused for good", refused}, {"closed while it hangs", closedHanging}, {"many callers, closed meanwhile", concurrent},
		{"nothing to send", nothing},
	} {
		t.Run(test.name, func(t *testing.T) { test.f(t, open(t)) })
	}
}

// Findings makes n findings that differ.
func Findings(n int) []sinks.Finding {
	out := make([]sinks.Finding, n)
	for i := range out {
		at := time.Date(2026, 11, 21, 6, 0, i%60, i*1000, time.UTC)
		out[i] = sinks.Finding{
			ID: fmt.Sprintf("id-%05d", i), Cluster: "test", Rule: "rbac-excess-access", Severity: "high", Node: fmt.Sprintf("worker-%d", i),
			Verb: "get", Resource: "secrets", Namespace: "shop", Name: "db", UserAgent: "calico-node",
			Binding: sinks.Binding{Kind: "ClusterRoleBinding", Name: "system:node"}, Allowed: true, Message: "a message", Count: int64(i + 1),
			First: at, Last: at.Add(time.Second), AuditIDs: []string{fmt.Sprintf("audit-%05d", i)}, Runbook: "docs/rules/rbac-excess-access.md",
		}
	}
	return out
}

func queue(s *Sink) *sinks.Queue {
	return sinks.NewQueue(s.Sender, sinks.QueueOptions{MaxBatch: 7, Backoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond, MaxRetryAfter: time.Millisecond, Timeout: patience})
}

func closeQueue(t *testing.T, q *sinks.Queue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := q.Close(ctx); err != nil {
		t.Errorf("closing: %v", err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func inOrder(t *testing.T, s *Sink) {
	q := queue(s)
	want := Findings(50)
	for i := range want {
		q.Add(want[i : i+1])
	}
	closeQueue(t, q)
	if diff := cmp.Diff(want, s.Received(t)); diff != "" {
		t.Errorf("received (-want +got):\n%s", diff)
	}
	if st := q.Stats(); st.Sent != 50 || st.Dropped() != 0 || st.Failures != 0 || st.Length != 0 || st.Bytes != 0 || st.LastSuccess.IsZero() {
		t.Errorf("figures: %+v", st)
	}
}

func hostile(t *testing.T, s *Sink) {
	all := Findings(6)
	for i, text := range []string{
		"</script><b>&amp;\"'\\", "line\nfeed\r\n\x00\x1b[31mred\x7f", "\xff\xfe\xc0broken", "\u2028\u2029\u202e\ufeff", strings.Repeat("é", 5000), "{\"id\":\"x\"}\n{}",
	} {
		f := &all[i]
		f.Node, f.Namespace, f.Name, f.UserAgent, f.Message, f.Detail, f.AuditIDs = text, text, text, text, text, text, []string{text}
		f.Cluster, f.Binding.Name = text, text
	}
	q := queue(s)
	q.Add(all)
	closeQueue(t, q)
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	var want []sinks.Finding // with U+FFFD for what is not UTF-8
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, s.Received(t)); diff != "" {
		t.Errorf("received (-want +got):\n%s", diff)
	}
}

// down: nothing is lost and the order stays; what was sent before an error may come again.
func down(t *testing.T, s *Sink) {
	if s.Fail == nil {
		t.Log("this receiver cannot fail")
		return
	}
	want := Findings(20)
	q := queue(s)
	q.Add(want[:5])
	eventually(t, "the first findings arrive", func() bool { return q.Stats().Length == 0 })
	s.Fail(true)
	q.Add(want[5:])
	eventually(t, "sending fails several times", func() bool { return q.Stats().Failures >= 3 })
	if st := q.Stats(); st.Length != 15 || st.FailingSince.IsZero() || st.Dropped() != 0 {
		t.Errorf("while it is down: %+v", st)
	}
	s.Fail(false)
	closeQueue(t, q)
	if diff := cmp.Diff(want, once(s.Received(t))); diff != "" {
		t.Errorf("received (-want +got):\n%s", diff)
	}
	if st := q.Stats(); st.Sent != 20 || st.Dropped() != 0 || !st.FailingSince.IsZero() {
		t.Errorf("afterwards: %+v", st)
	}
}

// once leaves out what came again.
func once(all []sinks.Finding) []sinks.Finding {
	var out []sinks.Finding
	for _, f := range all {
		if !slices.ContainsFunc(out, func(o sinks.Finding) bool { return o.ID == f.ID }) {
			out = append(out, f)
		}
	}
	return out
}

func cancelled(t *testing.T, s *Sink) {
	q := queue(s)
	defer closeQueue(t, q)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := s.Sender.Send(ctx, Findings(1))
	var p *sinks.PermanentError
	if errors.As(err, &p) {
		t.Errorf("the end of a context is no refusal: %v", err)
	}
}

func refused(t *testing.T, s *Sink) {
	if s.Refuse == nil {
		t.Log("this receiver refuses nothing")
		return
	}
	s.Refuse()
	all := Findings(10)
	all[3].Message = Poison
	q := queue(s)
	q.Add(all)
	closeQueue(t, q)
	if diff := cmp.Diff(slices.Delete(slices.Clone(all), 3, 4), once(s.Received(t))); diff != "" {
		t.Errorf("received (-want +got):\n%s", diff)
	}
	if st := q.Stats(); st.Sent != 9 || st.Refused != 1 || st.Dropped() != 1 {
		t.Errorf("figures: %+v", st)
	}
}

// closedHanging: Close ends when its context does, whatever the receiver does.
func closedHanging(t *testing.T, s *Sink) {
	if s.Hang == nil {
		t.Log("this receiver always answers")
		return
	}
	s.Hang(true)
	defer s.Hang(false)
	q := queue(s)
	q.Add(Findings(3))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := q.Close(ctx); err == nil || !strings.Contains(err.Error(), "3 findings were not sent") {
		t.Errorf("closing says %v", err)
	}
	if st := q.Stats(); st.Abandoned != 3 || st.Length != 0 {
		t.Errorf("figures: %+v", st)
	}
}

func concurrent(t *testing.T, s *Sink) {
	q := queue(s)
	var wg sync.WaitGroup
	all := Findings(200)
	for w := range 4 {
		wg.Go(func() {
			for i := w; i < len(all); i += 4 {
				q.Add(all[i : i+1])
				_ = q.Stats()
			}
		})
	}
	for range 3 {
		wg.Go(func() { closeQueue(t, q) })
	}
	wg.Wait()
	closeQueue(t, q)
	got := s.Received(t)
	st := q.Stats()
	if int64(len(got)) != st.Sent || st.Sent+st.Abandoned != 200 || st.Length != 0 {
		t.Errorf("received %d, figures: %+v", len(got), st)
	}
}

func nothing(t *testing.T, s *Sink) {
	q := queue(s)
	q.Add(nil)
	closeQueue(t, q)
	if got := s.Received(t); len(got) != 0 {
		t.Errorf("received %d", len(got))
	}
}
