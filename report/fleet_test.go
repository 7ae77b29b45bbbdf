package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/checks"
)

// The list of clusters as text and JSON: a line each whatever the names hold, and of old answers and stores that cannot be read the reason.
func TestWriteFleet(t *testing.T) {
	at := time.Date(2026, 11, 25, 6, 0, 0, 0, time.UTC)
	f := &Fleet{Now: at, Clusters: []FleetCluster{
		{Name: "prod", Schema: "nodetrail_prod", At: &at, Current: true, Last: &at, Nodes: 52, Readiness: AnswerIn(checks.Ready, "ready with waivers", 2, 0, 0, true), Confinement: AnswerIn(checks.Confined, "confined", 0, 0, 0, true)},
		{Name: "old\n\x1b[31m\u202e", Schema: "o", At: &at, Last: &at, Incidents: 3, Readiness: AnswerIn(checks.Ready, "ready", 0, 0, 0, false), Confinement: AnswerIn(checks.Confined, "", 0, 0, 0, false)},
		{Schema: "nodetrail", Readiness: AnswerIn(checks.Ready, "", 0, 0, 0, false), Confinement: AnswerIn(checks.Confined, "", 0, 0, 0, false)},
		{Schema: "x", Trouble: "its schema\nis old", Readiness: AnswerIn(checks.Ready, "", 0, 0, 0, false), Confinement: AnswerIn(checks.Confined, "", 0, 0, 0, false)},
	}}
	var b bytes.Buffer
	if err := (Text{}).WriteFleet(&b, "text", f); err != nil {
		t.Fatal(err)
	}
	want := `4 clusters: 1 ready, 1 confined, 3 incidents open

CLUSTER                      READY                 CONFINED             OPEN INCIDENTS  NODES  LAST REQUEST              NOTE
prod                         Ready with 2 waivers  Confined             0               52     2026-11-25T06:00:00.000Z  -
old\u{a}\u{1b}[31m\u{202e}   Not enough evidence   Not enough evidence  3               0      2026-11-25T06:00:00.000Z  no analyzer gave an answer since 2026-11-25T06:00:00.000Z; the last ones were "ready" and "unknown"
(no name, schema nodetrail)  Not enough evidence   Not enough evidence  0               0      -                         no analyzer gave an answer yet
(no name, schema x)          Not enough evidence   Not enough evidence  0               0      -                         its schema\u{a}is old
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	b.Reset()
	if err := (Text{}).WriteFleet(&b, "json", f); err != nil {
		t.Fatal(err)
	}
	var got Fleet
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || cmp.Diff(f, &got) != "" {
		t.Errorf("%v: %s", err, cmp.Diff(f, &got))
	}
	b.Reset()
	if err := (Text{}).WriteFleet(&b, "text", &Fleet{Now: at}); err != nil || strings.Count(b.String(), "\n") != 1 {
		t.Errorf("%v: %q", err, b.String())
	}
}
