package app

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// A watch that outlives what the node may read is a theft, also where the node might read it when the watch began. It counts while it is open.
func TestWatchOutlivesTheRight(t *testing.T) {
	for _, c := range []struct {
		seconds  string
		open     bool
		critical bool
	}{{"3600", false, false}, {"31536000", false, true}, {"31536000", true, true}} {
		d := threeHours(t, 11, days.Options{Minor: 36, NoBinding: true})
		i := slices.IndexFunc(d.Events, func(e *days.Event) bool {
			return e.IsNode() && e.Verb == "watch" && e.Ref != nil && e.Ref.Resource == "secrets" && e.Code == 200 && e.Stage == days.StageStarted
		})
		if i < 0 {
			t.Fatal("no watch of a secret")
		}
		id := d.Events[i].AuditID
		events := d.Events[:0:0]
		for _, e := range d.Events {
			if e.AuditID == id {
				if c.open && e.Stage == days.StageComplete {
					continue
				}
				own := *e
				before, after, _ := strings.Cut(e.URI, "timeoutSeconds=")
				_, after, _ = strings.Cut(after, "&")
				own.URI = before + "timeoutSeconds=" + c.seconds + "&" + after
				e = &own
			}
			events = append(events, e)
		}
		d.Events = events
		a := analyzedDay(t, d)
		critical := slices.ContainsFunc(a.Report.Findings, func(f report.Finding) bool {
			return f.Reason == rules.LongWatch && f.Severity == rules.Critical.String() && f.Count == 1
		})
		if passed := slices.Contains(checks.Conclude(checks.Confined, a.Facts.Checks, nil).Passed, "one-holder"); critical != c.critical || passed == c.critical {
			t.Errorf("%s seconds, open %t: critical %t, one-holder passed %t", c.seconds, c.open, critical, passed)
		}
	}
}
