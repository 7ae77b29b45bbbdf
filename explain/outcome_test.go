package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// What became of a finding's requests heads its explanation. Where nothing tells, the verdict is headed by whose it is.
func TestOutcomeHeads(t *testing.T) {
	x, _, _ := bare(t)
	binding := &Binding{Kind: "ClusterRoleBinding", Name: "b"}
	for _, c := range []struct {
		outcome *Outcome
		want    string
	}{
		{&Outcome{Succeeded: true, Authorized: true, Answers: []int32{200}, Binding: binding}, "ALLOWED by RBAC, 200 OK  "},
		{&Outcome{Succeeded: true, Authorized: true, Answers: []int32{200, 403}, Binding: binding}, "ALLOWED by RBAC at least once, 200 OK, 403 Forbidden  "},
		{&Outcome{Authorized: true, Answers: []int32{404}}, "ALLOWED, 404 Not Found  "},
		{&Outcome{Answers: []int32{403}, Binding: binding}, "REFUSED, 403 Forbidden  "},
		{&Outcome{Answers: []int32{404}}, "ANSWERED, 404 Not Found  "},
		{&Outcome{Answers: []int32{0}}, "Node authorizer: DENY  "},
		{&Outcome{Binding: binding}, "Node authorizer: DENY  "},
		{nil, "Node authorizer: DENY  "},
	} {
		ex := x.Request((&Request{Node: "n1", Verb: "get", Resource: "secrets", Namespace: "shop", Name: "db"}).Attributes(), epoch)
		ex.Verdict, ex.Outcome = "deny", c.outcome
		first, rest, _ := strings.Cut(string(written(t, ex.WriteText)), "\n")
		if !strings.HasPrefix(first, c.want+"get secrets shop/db by node n1") {
			t.Errorf("%+v: %s", c.outcome, first)
		}
		if below := strings.HasPrefix(rest, "  Node authorizer: DENY\n"); below == strings.HasPrefix(first, "Node authorizer") {
			t.Errorf("%+v: the verdict below the first line: %t", c.outcome, below)
		}
	}
}

// What came after the end of the state is missing: the answer says so first. What could be reached at the end stays on the list.
func TestNodeAfterTheStatesEnd(t *testing.T) {
	x, g, _ := bare(t)
	g.SetPod(&nodeauthz.Pod{Namespace: "shop", Name: "p", UID: "1", NodeName: "n1", Secrets: []string{"db"}}, seen(0))
	end := epoch.Add(time.Minute)
	if r := x.Node("n1", epoch.Add(time.Second), end, nil); !r.Known || r.StateEnd != nil {
		t.Errorf("before the end: %+v", r.Notes)
	}
	g.EndsAt(nodeauthz.KindPod, end.Add(time.Second))
	x.o.StateEnd = end
	r := x.Node("n1", epoch.Add(time.Hour), time.Time{}, nil)
	if r.Known || r.RightsKnown || r.StateEnd == nil || !r.StateEnd.Equal(end) || len(r.Notes) == 0 || !strings.HasPrefix(r.Notes[0], "The state ends at "+clock(end.UTC())) {
		t.Errorf("after the end: known %t, %v", r.Known, r.Notes)
	}
	found := false
	for _, o := range r.Rotate {
		found = found || o.Kind == rotateSecret && o.Name == "db"
	}
	if !found {
		t.Errorf("not to be rotated: %+v", r.Rotate)
	}
}
