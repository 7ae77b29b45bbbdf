package rules

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// What is denied while more objects lag than are kept apart is not taken for lag, too, because it is counted with them; and lag alone is, however
// much it is.
func TestFloodIsNoLag(t *testing.T) {
	for name, c := range map[string]struct {
		lines string
		want  Severity
	}{
		"requests behind a flood of lag": {"2h every 500ms for 2m n1 deny get secrets shop/s-{i} by curl/8\n2h every 5ms for 2m n1 lag get secrets shop/l-{i}", High},
		"lag alone":                      {"2h every 20ms for 2m n1 lag get secrets shop/l-{i}", Low},
	} {
		s := &stream{name: name, world: &world{}}
		for line := range strings.Lines("0m every 1m for 3h n{1-6} allow update leases kube-node-lease/{node}\n" + c.lines) {
			if err := s.add(t, strings.Fields(line)); err != nil {
				t.Fatal(err)
			}
		}
		slices.SortStableFunc(s.requests, func(a, b *Request) int { return a.Time.Compare(b.Time) })
		found := 0
		for _, d := range play(t, s, nil, false) {
			if d.Rule == DenySpike {
				if found++; d.Severity != c.want || d.Subject != "n1" || d.Time.Sub(s.requests[0].Time) < time.Hour {
					t.Errorf("%s: %s %+v", name, d.Severity, d)
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: no spike", name)
		}
	}
}
