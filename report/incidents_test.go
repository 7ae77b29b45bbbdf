package report

import (
	"testing"

	"github.com/nodetrail/nodetrail/incidents"
)

func TestIncidentCounts(t *testing.T) {
	for want, in := range map[string]incidents.Incident{
		"1 finding, about no single object":                      {Findings: 1},
		"2 findings, about no single object":                     {Findings: 2},
		"1 request succeeded, 0 were refused or failed":          {Requests: 1, Succeeded: 1, Findings: 1},
		"0 requests succeeded, 1 was refused or failed":          {Requests: 1, Refused: 1, Findings: 1},
		"1,000 requests succeeded, 2,000 were refused or failed": {Requests: 3000, Succeeded: 1000, Refused: 2000, Findings: 3},
	} {
		if got := IncidentCounts(&in); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
