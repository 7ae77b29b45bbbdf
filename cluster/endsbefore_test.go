package cluster

import (
	"testing"

	"github.com/nodetrail/nodetrail/codes"
)

// A state ends early if more than the last sign of life and what may come after it lies between its end and the log's, or if the log shows what it missed.
func TestEndsBefore(t *testing.T) {
	pod := event(t, "1m", "ADDED", podJSON(t, "p", "u1", "w1", "1m", "1m", "")) + event(t, "2m", "MODIFIED", podJSON(t, "p", "u1", "w1", "1m", "1m", ""))
	marked := pod + `{"observedAt":"` + at(t, "2m").Format(journalTime) + `","type":"BOOKMARK","object":{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"7"}}}` + "\n"
	for _, c := range []struct {
		name, journal string
		over, unseen  bool
		until         string
		early         bool
		kind          codes.Kind
	}{
		{"with the log", pod, true, false, "121s", false, codes.Doubt},
		{"without signs of life", pod, true, false, "150s", true, codes.Doubt},
		{"quiet, with signs of life", marked, true, false, "3m", false, codes.Doubt},
		{"no sign of life for long", marked, true, false, "4m", true, codes.Doubt},
		{"a pod came", marked, true, true, "3m", true, codes.Doubt},
		{"minutes", marked, true, false, "8m", true, codes.State},
		{"more may follow", pod, false, true, "6m", false, codes.Doubt},
	} {
		s := load(t, c.journal)
		if c.over {
			s.InputsEnd(true)
		}
		if c.unseen {
			ev := request(t, "150s", "create", "pods", "new", "", "")
			ev.ResponseObject = nil
			s.ApplyAudit(ev)
		}
		if end, early := s.EndsBefore(at(t, c.until)); early != c.early || !end.Equal(at(t, "2m")) {
			t.Errorf("%s: ends at %s, early %t", c.name, end, early)
		}
		told := false
		for _, g := range s.Gaps(at(t, "2m"), at(t, c.until)) {
			if g.Code == codes.StateEndsEarly {
				if told = true; g.Kind != c.kind {
					t.Errorf("%s: %q", c.name, g.Kind)
				}
			}
		}
		if told != c.early {
			t.Errorf("%s: said %t", c.name, told)
		}
	}
}
