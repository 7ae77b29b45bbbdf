package report

import (
	"testing"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// A part of the log that is missing is a hole; one that decides nothing is a warning alone.
func TestGapsInTheLog(t *testing.T) {
	for severity, want := range map[rules.Severity]int{rules.Low: 0, rules.Medium: 1} {
		l := newLog(t)
		l.add("worker-1 get secrets shop/db")
		l.b.AddEntry(&tally.Entry{ID: tally.ID{1}, Time: at(0), Findings: []tally.Finding{{
			Key: tally.Key{Rule: rules.CoverageGap, Reason: rules.LogLost}, Reason: rules.LogLost, Severity: severity, Params: codes.Params{codes.Text(codes.ParamMessage, "a gap")},
		}}})
		r := l.b.Report(Facts{HasState: true, Events: Events{Read: 1, Node: 1, Judged: 1}, Authorization: Authorization{Mode: "Node,RBAC"}})
		if len(r.Readiness.Holes) != want || len(r.Readiness.Warnings) != 1 || r.Readiness.Warnings[0] != "part of the log may be missing: a gap" {
			t.Errorf("%s: %+v", severity, r.Readiness)
		}
	}
}
