package app

import (
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/days"
)

// A window that ends before the log says nothing about what nodes did later. The report must not keep quiet about that.
func TestNoticeOfALogThatContinues(t *testing.T) {
	day := threeHours(t, 60, days.Options{})
	for name, c := range map[string]struct {
		window Limit
		want   bool
	}{
		"no end":                    {Limit{}, false},
		"an hour before the end":    {Limit{At: day.To.Add(-time.Hour)}, true},
		"at the end":                {Limit{At: day.To.Add(time.Second)}, false},
		"before the log":            {Limit{At: day.From.Add(-time.Hour)}, false}, // another sentence says that nothing is in it
		"only the beginning is cut": {Limit{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := analyzedDay(t, day, func(o *AnalyzeOptions) {
				if o.Until = c.window; name == "only the beginning is cut" {
					o.Since = Limit{At: day.From.Add(time.Hour)}
				}
			})
			if said := strings.Join(a.Notices(), "\n"); strings.Contains(said, "the log continues after --until") != c.want {
				t.Errorf("notices: %q", said)
			}
		})
	}
}
