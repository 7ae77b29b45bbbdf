package web

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/tally"
)

// Checks of an earlier state of the store are shown as such, and made anew though the store does not change any more.
func TestOutdatedChecks(t *testing.T) {
	s := newSite(t, time.Hour)
	s.commit(excess(at0(0), "n1", "s1", "kubelet", "b1"))
	outdated, version := true, ""
	s.o.Prove = func(_ context.Context, _ *tally.Tally, _ time.Duration, f *report.Facts) error {
		f.Outdated, version = outdated, f.StoreVersion
		return nil
	}
	h := s.server()
	h.data.cache.fresh, h.data.cache.times = 0, 0
	for _, outdated = range []bool{true, true, false} {
		var x report.Report
		ok(t, json.Unmarshal(do(h, request("/api/v1/report")).Body.Bytes(), &x))
		if x.Readiness.Outdated != outdated || version == "" {
			t.Errorf("outdated is %v, want %v, of version %q", x.Readiness.Outdated, outdated, version)
		}
	}
}
