package scenarios

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Metrics say what the store says, as long as nodetrail was not started anew.
//
// Seen to fail with metrics that count each agreement twice.
func testMetrics(t *testing.T, w *world) {
	w.eventually(t, "metrics and report are equal", func() error {
		// Kubelets continue meanwhile, so that it may take some attempts.
		r, err := w.trail.Report(w.ctx)
		if err != nil {
			return err
		}
		m, err := w.trail.Metrics()
		if err != nil {
			return err
		}
		want, got := map[string]float64{}, map[string]float64{}
		put := func(name string, stored int64, metric string, labels ...string) {
			want[name] += float64(stored)
			got[name] = m.Sum(metric, labels...)
		}
		put("allow", r.Verdicts.Allow, "nodetrail_requests_total", "verdict=allow")
		put("deny", r.Verdicts.Deny, "nodetrail_requests_total", "verdict=deny")
		put("unknown", r.Verdicts.Unknown, "nodetrail_requests_total", "verdict=unknown")
		put("races", r.Verdicts.Races.Allow+r.Verdicts.Races.Deny, "nodetrail_requests_total", "race=true")
		put("agree", r.Agreement.Agree, "nodetrail_agreement_total", "outcome=agree", "race=false")
		put("agree in races", r.Agreement.Races.Agree, "nodetrail_agreement_total", "outcome=agree", "race=true")
		for i := range r.Findings {
			f := &r.Findings[i]
			put(f.Rule, f.Count, "nodetrail_findings_total", "rule="+f.Rule)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("-report +metrics:\n%s", diff)
		}
		return nil
	})
}
