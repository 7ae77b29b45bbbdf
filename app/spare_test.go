package app

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
)

// A client can do without a binding that goes only if it can in the end, too, however long before it asked.
func TestReadyNeedsSpareRightsInTheEnd(t *testing.T) {
	for _, m := range days.Mutations(1) {
		if !strings.HasPrefix(m.Name, "spare-") {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			d, ok := m.Apply(threeHours(t, 12, days.Options{}))
			if !ok {
				t.Fatal("it does not apply")
			}
			for _, window := range []time.Duration{d.Options.Span - 2*time.Minute, 130 * time.Minute} { // the early one ended before the latter
				got := open(provenDay(t, d, func(o *AnalyzeOptions) { o.MinWindow = window }))
				if m.Effect == days.Harmless {
					if len(got) > 0 {
						t.Errorf("%s: %v", window, got)
					}
				} else if !slices.Equal(got["nothing-depends"], []string{string(checks.CodeOtherEnded)}) {
					t.Errorf("%s: %v, want %s", window, got, checks.CodeOtherEnded)
				}
			}
		})
	}
}
