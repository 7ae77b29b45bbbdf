package version_test

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/captured"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/version"
)

type event struct {
	RequestReceivedTimestamp time.Time
	UserAgent                string
	User                     struct{ Username string }
}

// events are the events of a capture, whoever made the request.
func events(t *testing.T, name string) (out []event) {
	t.Helper()
	f, err := os.Open("../internal/demo/" + name + "/audit.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(z); ; {
		var ev event
		switch err := d.Decode(&ev); {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			t.Fatal(err)
		}
		out = append(out, ev)
	}
}

// tell plays a capture to an accumulator, as an engine would, and returns how many decisions of hypotheses it took.
func tell(t *testing.T, name string, list []nodeauthz.Features, change func(*version.Request)) (*version.Accumulator, int) {
	t.Helper()
	c := captured.Open(t, name, "Node,RBAC")
	a, answers := version.NewAccumulator(list), 0
	for _, ev := range events(t, name) {
		a.Agent(ev.RequestReceivedTimestamp, ev.UserAgent, ev.User.Username)
	}
	asked := make([]*nodeauthz.Authorizer, len(list))
	for i, f := range list {
		asked[i] = nodeauthz.NewAuthorizer(c.State.Graph, f, captured.Skew)
	}
	c.Replay(func(j *pipeline.Judgement) {
		if !j.IsNode || j.Observed.Decision == "" {
			return
		}
		r := &version.Request{AuditID: j.Event.AuditID, Time: j.Time, Shape: shapeOf(j), Implied: j.Observed.NodeVerdict, Forbidden: j.Observed.Decision == "forbid", Reason: j.Observed.Reason}
		if change != nil {
			change(r)
		}
		a.Observe(r, func(i int) nodeauthz.Answer {
			answers++
			return asked[i].Decide(j.Attrs, j.Time)
		})
	})
	return a, answers
}

func shapeOf(j *pipeline.Judgement) version.Shape {
	return version.Shape{Verb: j.Attrs.Verb, APIGroup: j.Attrs.APIGroup, Resource: j.Attrs.Resource, Subresource: j.Attrs.Subresource}
}

func minors(fits []nodeauthz.Features) (out []int) {
	for _, f := range fits {
		if !slices.Contains(out, f.Minor) {
			out = append(out, f.Minor)
		}
	}
	slices.Sort(out)
	return out
}

func TestCaptureOf137(t *testing.T) {
	a, _ := tell(t, "capture-1.37", version.Hypotheses(), nil)
	for _, c := range a.Conclusions() {
		if c.Basis != version.Decisions || version.Name(c.Features) != "1.37" || c.Against != 0 {
			t.Errorf("%s: %s by %s, against it %d %v", c.Hour, version.Name(c.Features), c.Basis, c.Against, c.Examples)
		}
		if c.Requests < 1000 {
			t.Errorf("%d requests", c.Requests)
		}
	}
	if got := version.Name(a.List()[a.InForce(a.Conclusions()[0].Hour.Add(time.Minute)).Members[0]]); got != "1.37" {
		t.Errorf("%s is in force", got)
	}
}

// Decisions and reasons leave several minors, and the capture's clients call themselves v0.0.0, which tells nothing.
func TestCaptureOf136(t *testing.T) {
	list := version.Hypotheses()
	a, answers := tell(t, "capture", list, nil)
	all := a.Conclusions()
	if len(all) != 1 {
		t.Fatalf("%d hours", len(all))
	}
	c := all[0]
	if c.Basis != version.Preference || version.Name(c.Features) != "1.36" || c.Against != 0 || c.AgentRequests != 0 {
		t.Errorf("%s by %s of %+v (%d), against it %d %v", version.Name(c.Features), c.Basis, c.Agent, c.AgentRequests, c.Against, c.Examples)
	}
	if got := minors(c.Fits); slices.Contains(got, 37) || slices.Contains(got, 28) || !slices.Contains(got, 35) {
		t.Errorf("the minors %v fit", got)
	}
	if most := int(c.Requests+c.Held) + int(c.Held)*len(list); answers > most || answers < int(c.Requests) {
		t.Errorf("%d decisions for %d requests, at most %d expected", answers, c.Requests, most)
	}
}

// A gate that is not at its default is found and named; with an older API server's form of the reasons.
func TestSelectorsOff(t *testing.T) {
	f, err := nodeauthz.FeaturesFor("1.33")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Set("AuthorizeNodeWithSelectors", false); err != nil {
		t.Fatal(err)
	}
	c := captured.Open(t, "capture", "Node,RBAC")
	truth := nodeauthz.NewAuthorizer(c.State.Graph, f, captured.Skew)
	list := version.Hypotheses()
	asked := make([]*nodeauthz.Authorizer, len(list))
	for i, f := range list {
		asked[i] = nodeauthz.NewAuthorizer(c.State.Graph, f, captured.Skew)
	}
	a := version.NewAccumulator(list)
	c.Replay(func(j *pipeline.Judgement) {
		if !j.IsNode {
			return
		}
		ans := truth.Decide(j.Attrs, j.Time)
		if ans.Race {
			return
		}
		a.Observe(&version.Request{AuditID: j.Event.AuditID, Time: j.Time, Shape: shapeOf(j), Implied: ans.Verdict, Forbidden: ans.Verdict == nodeauthz.Deny, Reason: ans.Reason},
			func(i int) nodeauthz.Answer { return asked[i].Decide(j.Attrs, j.Time) })
	})
	for _, c := range a.Conclusions() {
		if c.Against != 0 || c.Features.AuthorizeNodeWithSelectors || version.Name(c.Features) != "1.33 AuthorizeNodeWithSelectors=false" {
			t.Errorf("%s, against it %d; the minors %v fit", version.Name(c.Features), c.Against, minors(c.Fits))
		}
		for _, f := range c.Fits {
			if f.AuthorizeNodeWithSelectors {
				t.Errorf("%s fits", version.Name(f))
			}
		}
	}
}

func TestNothingFits(t *testing.T) {
	a, _ := tell(t, "capture-1.37", version.Hypotheses(), func(r *version.Request) {
		if r.Forbidden {
			r.Reason = "node: another reason"
		}
	})
	for _, c := range a.Conclusions() {
		if c.Basis != version.Contradicted || c.Against == 0 || len(c.Examples) == 0 || len(c.Examples) > 5 {
			t.Errorf("%s by %s, against it %d %v", version.Name(c.Features), c.Basis, c.Against, c.Examples)
		}
	}
}

// An API server that is replaced writes another version's reasons from then on.
func TestUpgrade(t *testing.T) {
	list := version.Hypotheses()
	a := version.NewAccumulator(list)
	start := time.Date(2026, 11, 21, 6, 10, 0, 0, time.UTC)
	const reason = "can only read resources of this type"
	for i := range 240 {
		r := &version.Request{AuditID: "a", Time: start.Add(time.Duration(i) * time.Minute), Implied: nodeauthz.Deny, Forbidden: true, Reason: reason}
		if r.Time.Hour() >= 8 {
			r.Reason = "node: " + reason + "\nrbac: RBAC: clusterrole.rbac.authorization.k8s.io \"gone\" not found"
		}
		a.Observe(r, func(h int) nodeauthz.Answer {
			ans := nodeauthz.Answer{Verdict: nodeauthz.Deny, Reason: reason}
			if list[h].Minor >= 37 {
				ans.Reason = "node: " + reason
			}
			return ans
		})
		a.Agent(r.Time, "kube-controller-manager/v1.35.4 (linux/amd64) kubernetes/1", "system:serviceaccount:kube-system:node-controller") // not yet replaced
		a.Agent(r.Time, "kube-apiserver/v1.36.4 (linux/amd64) kubernetes/1", "system:apiserver")
		a.Agent(r.Time, "kube-apiserver/v1.30.4 (linux/amd64) kubernetes/1", "system:node:n1") // anybody can claim it
		a.Agent(r.Time, "kube-scheduler/v0.0.0 (linux/amd64) kubernetes/1", "system:kube-scheduler")
	}
	want := []string{"1.36", "1.36", "1.37", "1.37", "1.37"}
	if all := a.Conclusions(); all[0].Basis != version.UserAgent || all[0].Agent.Version != "v1.36.4" || all[0].AgentRequests != 50 {
		t.Errorf("the first hour: %+v", all[0])
	}
	for i, c := range a.Conclusions() {
		if got := version.Name(c.Features); got != want[i] || c.Against != 0 || (c.Basis == version.Decisions) != (want[i] == "1.37") {
			t.Errorf("%s: %s by %s, want %s", c.Hour, got, c.Basis, want[i])
		}
	}
}

// Whatever a service account of kube-system calls itself, and however often, the API servers' own requests count.
func TestAgentsOfOthersTakeNoRoom(t *testing.T) {
	a := version.NewAccumulator(version.Hypotheses())
	start := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	for i := range 1000 {
		a.Agent(start, fmt.Sprintf("kube-controller-manager/v1.30.%d", i), "system:serviceaccount:kube-system:web")
		a.Agent(start, fmt.Sprintf("kube-apiserver/v1.31.%d", i), "system:serviceaccount:kube-system:web")
	}
	a.Agent(start.Add(time.Minute), "kube-apiserver/v1.36.4 (linux/amd64) kubernetes/1", "system:apiserver")
	a.Agent(start.Add(time.Minute), "kube-scheduler/v1.29.4 (linux/amd64) kubernetes/1", "system:kube-scheduler")
	c := a.Conclusions()[0]
	if !slices.Equal(c.Servers, []int{36}) || version.Name(c.Features) != "1.36" || c.Agent.Version != "v1.36.4" {
		t.Errorf("the API servers are %v; %s by %s %+v", c.Servers, version.Name(c.Features), c.Basis, c.Agent)
	}
}

// A node that asks for many different resources does not keep the log from showing the version.
func TestManyShapes(t *testing.T) {
	list := version.Hypotheses()
	a := version.NewAccumulator(list)
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	ask := func(resource, reason string, n int) {
		r := &version.Request{AuditID: resource, Time: at, Shape: version.Shape{Verb: "get", Resource: resource}, Implied: nodeauthz.Deny, Forbidden: true, Reason: reason}
		for range n {
			at = at.Add(time.Second)
			a.Observe(r, func(h int) nodeauthz.Answer {
				ans := nodeauthz.Answer{Verdict: nodeauthz.Deny}
				if reason != "" {
					ans = nodeauthz.Answer{Verdict: nodeauthz.Deny, Reason: "can only read resources of this type"}
					if list[h].Minor < 30 {
						ans.Reason = "another"
					}
				}
				return ans
			})
		}
	}
	for i := range 1000 {
		ask(fmt.Sprint("junk-", i), "", 1)
	}
	ask("nodes", "another", 3)
	if c := a.Conclusions()[0]; c.Basis != version.Preference || c.Features.Minor != 29 || c.Against != 0 {
		t.Errorf("%s by %s, against it %d", version.Name(c.Features), c.Basis, c.Against)
	}
}
