package report

import (
	"bytes"
	"slices"
	"strings"
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

// Only an open critical incident comes before all else on the first screen. Others have their line.
func TestUrgentIncident(t *testing.T) {
	for _, c := range []struct {
		state    incidents.State
		severity string
		want     bool
	}{
		{incidents.Open, "critical", true}, {incidents.Quiet, "critical", false}, {incidents.Closed, "critical", false}, {incidents.Open, "high", false},
	} {
		r := &Report{Incidents: []incidents.Incident{{State: c.state, Severity: c.severity, Kind: incidents.OfNode, Credential: "worker-1"}}}
		s := r.Summary()
		remark := slices.ContainsFunc(s.Remarks, func(s string) bool {
			return strings.HasPrefix(s, "Incidents: 1 open; look first at node worker-1 (critical)")
		})
		line := slices.ContainsFunc(s.Lines, func(l Line) bool { return l.Name == "Incidents" })
		if remark != c.want || line == c.want {
			t.Errorf("%s, %s: remarks %q, lines %v", c.state, c.severity, s.Remarks, s.Lines)
		}
	}
}

// What a report does not list of incidents is counted wherever they are written.
func TestIncidentsMoreAreSaid(t *testing.T) {
	r := &Report{Incidents: make([]incidents.Incident, 7), IncidentsMore: map[incidents.State]int{incidents.Open: 3, incidents.Closed: 2}}
	var text, short strings.Builder
	if err := (Text{}).WriteIncidents(&text, r); err != nil || !strings.HasSuffix(text.String(), "\nand 5 more incidents\n") {
		t.Errorf("%v: %s", err, &text)
	}
	if (Text{}).incidents(&short, r); !strings.Contains(short.String(), "and 7 more incidents") {
		t.Errorf("%s", &short)
	}
	var out bytes.Buffer
	if err := WriteIncidentsJSON(&out, r); err != nil || !strings.Contains(out.String(), `"incidentsMore": {`) {
		t.Errorf("%v: %s", err, &out)
	}
	r.IncidentsMore = nil
	text.Reset()
	if err := (Text{}).WriteIncidents(&text, r); err != nil || strings.Contains(text.String(), "more incident") {
		t.Errorf("%v: %s", err, &text)
	}
}
