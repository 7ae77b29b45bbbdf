package days

import (
	"testing"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/rules"
)

// However nodes of an ordinary cluster reach their API servers, and whatever a clock says, no finding is above low and there is no incident.
func TestSettingsAreQuiet(t *testing.T) {
	for _, s := range Settings() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			for seed := range effort.Of(uint64(4), 1) {
				o := Options{Span: leastSpan, Nodes: 4, Servers: 2, Minor: 34 + int(seed%3), Features: Deployments | Drains | CronJobs | Replaced, NoBinding: seed%2 == 1}
				r := analyze(t, s.Apply(clean(t, 90+seed, o), seed))
				for i := range r.Findings {
					if f := &r.Findings[i]; f.Severity != rules.Low.String() {
						t.Errorf("seed %d: %s %s: %s, %s to %s", seed, f.Severity, f.Rule, f.Message, f.First, f.Last)
					}
				}
				for i := range r.Incidents {
					t.Errorf("seed %d: an incident of %s", seed, r.Incidents[i].Credential)
				}
			}
		})
	}
}
