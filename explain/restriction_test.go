package explain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/rules"
)

// What NodeRestriction says of a write is a code and in words: of an event with what the API server did, of a question with what can be known without a body.
func TestNodeRestriction(t *testing.T) {
	p := shop(t)
	v, err := nodeadmission.VersionOf("1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	p.o.Admission = nodeadmission.New(v, nodeadmission.State{}, 0)
	ask := func(text string) *NodeRestriction { return p.ask(t, text, "06:00:30").NodeRestriction }
	const refusal = `nodes "worker-2" is forbidden: node "worker-1" is not allowed to modify node "worker-2"`
	want := &NodeRestriction{Verdict: "deny", Code: 403, Message: refusal, Observed: "none", Words: []string{"NodeRestriction refuses it with 403: " + refusal + "."}}
	if diff := cmp.Diff(want, ask("worker-1 patch nodes worker-2")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want = &NodeRestriction{Verdict: "unknown", Missing: "body", Observed: "none", Words: []string{"What NodeRestriction says depends on the request body."}}
	if diff := cmp.Diff(want, ask("worker-1 create pods shop/x")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, text := range []string{"worker-1 get secrets shop/db", "worker-1 create /healthz", "worker-1 list nodes"} {
		if got := ask(text); got != nil {
			t.Errorf("%s: %+v", text, got)
		}
	}
	if text := string(written(t, p.ask(t, "worker-1 patch nodes worker-2", "06:00:30").WriteText)); !strings.Contains(text, "  NodeRestriction refuses it with 403: "+refusal) {
		t.Errorf("the text lacks the answer:\n%s", text)
	}
}

// An event is explained by what it was judged to be.
func TestNodeRestrictionOfEvent(t *testing.T) {
	x := shop(t).Explainer
	for _, c := range []struct {
		verdict nodeadmission.Verdict
		said    nodeadmission.Observed
		race    bool
		outcome rules.Outcome
		words   string
	}{
		{nodeadmission.Deny, nodeadmission.ObservedAllow, false, rules.OutcomeBypassed, "NodeRestriction refuses it with 403: no. The API server let it pass: NodeRestriction is not in force there."},
		{nodeadmission.Deny, nodeadmission.ObservedDeny, false, rules.OutcomePredicted, "NodeRestriction refuses it with 403: no. The API server refused it with the same message."},
		{nodeadmission.Allow, nodeadmission.ObservedDeny, false, rules.OutcomeSurprised, "NodeRestriction allows it. The API server refused it: no."},
		{nodeadmission.Allow, nodeadmission.ObservedDeny, true, rules.OutcomeRace, "NodeRestriction allows it. It is a race: within the skew the answer of NodeRestriction is another one."},
		{nodeadmission.Allow, nodeadmission.ObservedAllow, false, rules.OutcomeAllowed, "NodeRestriction allows it."},
	} {
		a := Request{Node: "worker-1", Verb: "patch", Resource: "nodes", Name: "worker-1"}
		j := judgementOf(a.Attributes(), clockAt(t, "06:00:30"))
		j.Event.Code, j.Event.StatusMessage = 403, "no"
		j.Admission = rules.Admission{Answer: nodeadmission.Answer{Verdict: c.verdict, Race: c.race}, Observed: c.said}
		if c.verdict == nodeadmission.Deny {
			j.Admission.Code, j.Admission.Message = 403, "no"
		}
		got := x.Event(j).NodeRestriction
		if got == nil || got.Outcome != c.outcome || strings.Join(got.Words, " ") != c.words {
			t.Errorf("%v, %v: %+v", c.verdict, c.said, got)
		}
	}
}
