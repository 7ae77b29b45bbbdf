package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/rules"
)

// The counts add up to the writes, contradictions come first, and a name from the log makes no kind of its own.
func TestRestriction(t *testing.T) {
	l := newLog(t)
	l.add("worker-1 patch nodes worker-1", admission(nodeadmission.Allow, nodeadmission.ObservedAllow))
	l.add("worker-1 create pods shop/web", code(201), admission(nodeadmission.Deny, nodeadmission.ObservedAllow))
	l.add("worker-1 patch nodes worker-2", code(403), admission(nodeadmission.Deny, nodeadmission.ObservedDeny))
	l.add("worker-1 delete pods shop/web", code(403), admission(nodeadmission.Allow, nodeadmission.ObservedDeny))
	for range 3 {
		l.add("worker-1 patch nodes/status worker-1", admission(nodeadmission.Unknown, nodeadmission.ObservedAllow),
			func(r *rules.Request) { r.Admission.Missing = nodeadmission.MissingBody })
	}
	l.add("worker-1 create events shop/e", admission(nodeadmission.Allow, nodeadmission.ObservedOther))
	l.add("worker-1 delete pods shop/db", admission(nodeadmission.Deny, nodeadmission.ObservedAllow), func(r *rules.Request) { r.Admission.Race = true })
	l.add("worker-1 update pods/invented shop/db", admission(nodeadmission.Allow, nodeadmission.ObservedAllow))
	l.add("worker-1 get pods shop/db")
	r := l.b.Report(facts(11))
	want := NodeRestriction{Allowed: 2, RefusedAsPredicted: 1, Contradictions: 2, Unknown: 3, Races: 1, NotObserved: 1, Writes: []Writes{
		{"create", "pods", "", rules.OutcomeBypassed, "", 1},
		{"delete", "pods", "", rules.OutcomeSurprised, "", 1},
		{"patch", "nodes", "status", rules.OutcomeUnknown, "body", 3},
		{"create", "(other)", "", rules.OutcomeUnobserved, "", 1},
		{"patch", "nodes", "", rules.OutcomeAllowed, "", 1},
		{"patch", "nodes", "", rules.OutcomePredicted, "", 1},
		{"delete", "pods", "", rules.OutcomeRace, "", 1},
		{"update", "pods", "(other)", rules.OutcomeAllowed, "", 1},
	}}
	if diff := cmp.Diff(want, r.NodeRestriction); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got := text(t, r, Text{All: true})
	_, got, _ = strings.Cut(got, "\nNodeRestriction\n")
	got, _, _ = strings.Cut(got, "\n\n")
	if diff := cmp.Diff(`  writes of nodes: 2 allowed, 1 refused as predicted, 3 unknown, 2 contradictions, 1 race, 1 not observed
  x create pods: passed, and NodeRestriction refuses it  x1
  x delete pods: refused by NodeRestriction, and not as predicted  x1
  ? patch nodes/status: the log does not have the request body  x3`, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for form, s := range map[string]string{"HTML": asHTML(t, r), "Markdown": asMarkdown(t, r)} {
		if !strings.Contains(s, "refused by NodeRestriction, and not as predicted") || !strings.Contains(s, "2 contradictions") {
			t.Errorf("%s lacks the contradictions", form)
		}
	}
}
