package rules

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// One of several API servers has a clock that is ahead. All of them deliver to the same lane, the others up to half a minute late. Nothing of theirs is late, the
// burst of refused reads is found, and no silence is made up.
func TestClockAhead(t *testing.T) {
	for _, ahead := range []time.Duration{0, 3 * time.Minute, 5 * time.Minute, 50 * time.Minute} {
		t.Run(ahead.String(), func(t *testing.T) {
			type arrival struct {
				r    *Request
				came time.Time
			}
			var all []arrival
			add := func(r *Request, late time.Duration) { all = append(all, arrival{r, r.Time.Add(late)}) }
			for s := 0; s < 2*hour; s += 10 {
				for n := 1; n <= 3; n++ {
					r := request(as(fmt.Sprintf("system:node:worker-%d", n), "system:nodes"), does("get nodes"), code(200))
					if err := judgedAs(r, "allow"); err != nil {
						t.Fatal(err)
					}
					r.Event.AuditID = fmt.Sprintf("%d-%d", s, n)
					if r.Time = at(s).Add(time.Duration(n) * time.Second); n == 1 {
						r.Time = r.Time.Add(ahead)
						add(r, -ahead)
						continue
					}
					add(r, time.Second)
				}
			}
			for i := range 60 {
				r := request(as("system:node:worker-2", "system:nodes"), does(fmt.Sprintf("get secrets shop/s-%d", i)))
				if err := judgedAs(r, "deny"); err != nil {
					t.Fatal(err)
				}
				r.Event.AuditID, r.Time = fmt.Sprintf("burst-%d", i), at(hour).Add(time.Duration(i)*20*time.Millisecond)
				add(r, 30*time.Second)
			}
			slices.SortStableFunc(all, func(a, b arrival) int { return a.came.Compare(b.came) })
			var found []*Detection
			l := NewLanes(NewDetectors(All(), DetectorOptions{}))
			step := func(now, clock time.Time) {
				l.Know([]KnownLane{{Name: "webhook"}}, now)
				l.Advance(now, clock, time.Minute, nil, func(d *Detection) { found = append(found, d) }, func() {})
			}
			for _, a := range all {
				var row Observations
				row.Lane("webhook", time.Time{})
				row.Add(AppendObservation(nil, a.r, a.came))

				if _, err := l.Take(row.Bytes()); err != nil {
					t.Fatal(err)
				}
				step(a.came, time.Time{})
				if w := l.Watermark(); w.After(a.came.Add(-DefaultLateness)) {
					t.Fatalf("at %v time is %v", a.came, w)
				}
			}
			end := all[len(all)-1].came
			step(end.Add(2*time.Hour), end.Add(2*time.Hour))
			if l.d.Late() > 0 || l.Held() > 0 {
				t.Errorf("%d requests are late, %d are held", l.d.Late(), l.Held())
			}
			searched := false
			for _, d := range found {
				searched = searched || d.Rule == "secret-enumeration" && d.Subject == "worker-2"
				if d.Rule == CoverageGap && (d.Reason == LogSilent || d.Reason == NodesSilent) {
					t.Errorf("%+v", d)
				}
			}
			if !searched {
				t.Error("the search for secrets is not found")
			}
		})
	}
}
