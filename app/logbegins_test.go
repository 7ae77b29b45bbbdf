package app

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/report"
)

// windowOf is what a report says of how much of the time its log has.
func windowOf(r *report.Report) (out []string) {
	if w := &r.Window; w.From != nil {
		out = append(out, fmt.Sprint(w.From.UTC(), " to ", w.To.UTC()))
	}
	for _, h := range r.Readiness.Doubts {
		if h.Code == codes.WindowShort || h.Code == codes.WindowUncovered {
			out = append(out, h.Message)
		}
	}
	return out
}

// A log has the ends of watches that began before it. Analyze and Report of what is stored say alike when such a log begins and whether it is long enough.
func TestStoreKnowsWhenTheLogBegins(t *testing.T) {
	day := threeHours(t, 23, days.Options{Servers: 2})
	for seed := range uint64(effort.Of(6, 2)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 9))
			d := *day
			begins := d.From.Add(time.Hour + time.Duration(r.Int64N(int64(time.Hour))))
			d.Events = slices.DeleteFunc(slices.Clone(d.Events), func(e *days.Event) bool { return e.Staged.Before(begins) })
			first := slices.MinFunc(d.Events, func(a, b *days.Event) int { return a.Received.Compare(b.Received) })
			if begins.Sub(first.Received) < time.Minute {
				t.Fatalf("the first request is of %s, and the log begins at %s", first.Received, begins)
			}
			window := d.To.Sub(begins) + []time.Duration{30 * time.Second, -30 * time.Second}[seed%2]
			a := analyzedDay(t, &d, func(o *AnalyzeOptions) { o.MinWindow = window })
			want := windowOf(a.Report)
			if short := len(want) > 1; short != (seed%2 == 0) {
				t.Errorf("Analyze says %q of a log of %s, where %s is asked for", want, d.To.Sub(begins), window)
			}
			got := windowOf(storedUntil(t, &d, a.Log.Counts.Read, true, func(r *report.Report) bool { return cmp.Equal(windowOf(r), want) }, window))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("window (-analyze +store):\n%s", diff)
			}
		})
	}
}

// Of requests that a release stored which did not look, nobody knows when their log began: it is not when a later release read on.
func TestStoreOfBeforeDoesNotTellWhenTheLogBegins(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	b := &logBegins{instance: "a", unknown: true, at: at}
	if got := b.changes(); len(got) != 0 {
		t.Errorf("stores %v", got)
	}
	b = &logBegins{instance: "a", at: at}
	if got := b.changes(); len(got) != 1 || string(got[0].Value) != "2026-11-21T06:00:00Z" {
		t.Errorf("stores %v", got)
	}
	for _, later := range []time.Duration{0, time.Second} {
		if b.at = at.Add(later); len(b.changes()) != 0 {
			t.Errorf("stores a time %s later", later)
		}
	}
	if b.at = at.Add(-time.Second); len(b.changes()) != 1 {
		t.Error("does not store an earlier time")
	}
}
