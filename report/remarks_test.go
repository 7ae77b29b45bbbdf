package report

import (
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/codes"
)

// What makes all verdicts doubtful is on the first screen, and no harmless note.
func TestRemarksOfEvidence(t *testing.T) {
	by := func(d time.Duration) codes.Params {
		return codes.Params{codes.Duration(codes.ParamBy, d), codes.Time(codes.ParamAt, time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC))}
	}
	for _, c := range []struct {
		gap  codes.Gap
		want string
	}{
		{codes.Gap{Kind: codes.State, Code: codes.StateEndsEarly, Params: by(26 * time.Hour)}, "Said. Verdicts after that can be wrong. Give a state that covers the log (--state)."},
		{codes.Gap{Kind: codes.Doubt, Code: codes.StateBeginsLate, Params: by(26 * time.Hour)}, "Said. Give a state that covers the log (--state)."},
		{codes.Gap{Kind: codes.Doubt, Code: codes.StateBeginsLate, Params: by(time.Second)}, ""},
		{codes.Gap{Kind: codes.Doubt, Code: codes.LinesUnreadable}, "Said, such as mid.log:1000: unexpected end."},
		{codes.Gap{Kind: codes.Log, Code: codes.LinesUnreadable}, "Said, such as mid.log:1000: unexpected end."},
		{codes.Gap{Kind: codes.Doubt, Code: codes.RecorderBehind, Params: by(time.Second)}, ""},
	} {
		r := &Report{Events: Events{Malformed: 40, MalformedAt: []Place{{File: "mid.log", Line: 1000, Cause: "unexpected end"}}}}
		r.Readiness.Doubts = []Hole{{c.gap, "said"}}
		notes := 0
		if c.want == "" {
			notes = 1
		}
		if s := r.Summary(); strings.Join(s.Remarks, "|") != c.want || s.Notes != notes {
			t.Errorf("%s, %s: %q, %d notes", c.gap.Code, c.gap.Kind, s.Remarks, s.Notes)
		}
	}
}
