package sinks

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

type out struct {
	mu  sync.Mutex
	all []Finding
}

func (o *out) send(f []Finding) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, f...)
}

func (o *out) take() []Finding {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.all
	o.all = nil
	return all
}

func entry(id, node string, at time.Time, findings ...tally.Finding) tally.Entry {
	for i := range findings {
		findings[i].AuditID = id
		findings[i].Key.Node = node
	}
	return tally.Entry{ID: tally.IDOf(id), Time: at, IsNode: true, Node: node, Findings: findings}
}

func excess(name string, severity rules.Severity) tally.Finding {
	return tally.Finding{Key: tally.Key{Rule: rules.ExcessAccess, Verb: "get", Resource: "secrets", Name: name}, Severity: severity, Params: codes.Params{codes.Text(codes.ParamMessage, "m"+severity.String())}}
}

func TestGrouper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o out
		g := NewGrouper(GrouperOptions{Cluster: "c", Every: time.Minute}, o.send)
		at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
		g.Add([]tally.Entry{entry("1", "a", at, excess("x", rules.High), excess("y", rules.High)), entry("2", "b", at, excess("x", rules.High))})
		first := o.take()
		if len(first) != 3 || first[0].Count != 1 || first[0].ID == first[1].ID || first[0].ID == first[2].ID {
			t.Fatalf("at once: %+v", first)
		}
		// The same again: nothing for a minute, then once with counts.
		for i := range 10 {
			e := entry(fmt.Sprint(10+i), "a", at.Add(time.Duration(10-i)*time.Second), excess("x", rules.Medium))
			if i == 5 {
				e.Findings[0].Severity, e.Findings[0].Params, e.Findings[0].Allowed = rules.Critical, codes.Params{codes.Text(codes.ParamMessage, "worst")}, true
			}
			g.Add([]tally.Entry{e})
		}
		dup := entry("1", "a", at, excess("x", rules.High))
		dup.Duplicate = true
		g.Add([]tally.Entry{dup})
		time.Sleep(50 * time.Second)
		synctest.Wait()
		if got := o.take(); len(got) != 0 {
			t.Fatalf("before the minute is over: %+v", got)
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		want := first[0]
		want.Continued, want.Count, want.Severity, want.Message, want.Params, want.Allowed, want.Authorized = true, 10, "critical", "worst", codes.Params{codes.Text(codes.ParamMessage, "worst")}, true, true
		want.First, want.Last = at.Add(time.Second), at.Add(10*time.Second)
		want.AuditIDs = []string{"10", "11", "12", "13", "14"}
		if diff := cmp.Diff([]Finding{want}, o.take()); diff != "" {
			t.Errorf("after a minute (-want +got):\n%s", diff)
		}
		if n := g.Groups(); n != 1 {
			t.Errorf("%d groups are remembered, want only the one that continues", n)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := g.Groups(); n != 0 {
			t.Errorf("%d groups are remembered indefinitely", n)
		}
		// What is forgotten is sent at once again; what is pending at the end is sent too.
		g.Add([]tally.Entry{entry("30", "a", at, excess("x", rules.Low))})
		g.Add([]tally.Entry{entry("31", "a", at, excess("x", rules.Low))})
		g.Close()
		g.Close()
		if got := o.take(); len(got) != 2 || got[0].ID != first[0].ID || got[1].AuditIDs[0] != "31" {
			t.Errorf("at the end: %+v", got)
		}
	})
}

// A client that makes names without end does not make groups without end, and what it does is still reported.
func TestGrouperIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o out
		g := NewGrouper(GrouperOptions{MaxGroups: 100}, o.send)
		const n = 10_000
		for i := range n {
			node := fmt.Sprint("node-", i%150)
			g.Add([]tally.Entry{entry(fmt.Sprint(i), node, time.Now(), excess(strings.Repeat("x", i%300)+fmt.Sprint(i), rules.High))})
		}
		if got := g.Groups(); got > 210 {
			t.Errorf("%d groups", got)
		}
		g.Close()
		sum := int64(0)
		for _, f := range o.take() {
			sum += f.Count
		}
		if sum != n {
			t.Errorf("%d findings were reported, want %d", sum, n)
		}
	})
}

// A year that JSON cannot have does not poison a batch.
func TestTimesBeyondJSON(t *testing.T) {
	for _, at := range []time.Time{
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -12*3600)), time.Date(0, 1, 1, 0, 0, 0, 0, time.FixedZone("", 12*3600)), {},
	} {
		var o out
		g := NewGrouper(GrouperOptions{}, o.send)
		g.Add([]tally.Entry{entry("1", "a", at, excess("x", rules.High))})
		g.Close()
		for _, f := range o.take() {
			if _, err := JSON.Encode(&f); err != nil {
				t.Errorf("%s: %v", at, err)
			}
		}
	}
}

// The JSON of a finding is what receivers rely on.
func TestFindingJSON(t *testing.T) {
	f := newFinding("c", &tally.Key{Rule: "node-identity", Node: "a"})
	f.ID, f.Count, f.First, f.Last = "id", 1, time.Unix(0, 0).UTC(), time.Unix(1, 5e8).UTC()
	b, err := JSON.Encode(&f)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"id","cluster":"c","rule":"node-identity","reason":"","params":[],"severity":"","node":"a","verb":"","apiGroup":"","resource":"","subresource":"","namespace":"","name":"",` +
		`"userAgent":"","binding":{"kind":"","namespace":"","name":""},"users":[],"groups":[],"impersonated":[],"addresses":[],"answers":[],"allowed":false,"authorized":false,"message":"","detail":"","count":1,"first":"1970-01-01T00:00:00Z",` +
		`"last":"1970-01-01T00:00:01.5Z","auditIDs":[],"runbook":"docs/rules/node-identity.md"}`
	if diff := cmp.Diff(want, string(b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCloudEventID(t *testing.T) {
	a := Finding{ID: "x", Cluster: "c\n", AuditIDs: []string{"1"}}
	b := a
	b.AuditIDs = []string{"2"}
	again := a
	if AsCloudEvent(&a).ID != AsCloudEvent(&again).ID || AsCloudEvent(&a).ID == AsCloudEvent(&b).ID {
		t.Error("an event's ID is not that of one sending")
	}
	if s := AsCloudEvent(&a).Source; strings.Contains(s, "\n") || s == AsCloudEvent(&Finding{}).Source {
		t.Errorf("source %q", s)
	}
}

// A group is called the same as it occurs and as a store has it.
func TestFromGroup(t *testing.T) {
	var o out
	g := NewGrouper(GrouperOptions{Cluster: "c"}, o.send)
	defer g.Close()
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	e := entry("1", "a", at, excess("x", rules.High))
	g.Add([]tally.Entry{e})
	sum := tally.New()
	sum.Add(&e)
	for k, group := range sum.Groups {
		if diff := cmp.Diff(o.take(), []Finding{FromGroup("c", &k, group, nil)}); diff != "" {
			t.Errorf("(-occurs +stored):\n%s", diff)
		}
	}
	if len(sum.Groups) != 1 {
		t.Errorf("%d groups", len(sum.Groups))
	}
}
