package app

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
)

var skewAdvice = regexp.MustCompile(`'--skew (\d+s)'`)

// TestClocksApart shifts what one of three API servers writes. The notice names a skew by which the API servers agree, and comes only if clocks are apart.
func TestClocksApart(t *testing.T) {
	advised := func(seed uint64, by time.Duration, features days.Features, also ...func(*AnalyzeOptions)) (skew time.Duration, agreement checks.State) {
		t.Helper()
		day := threeHours(t, seed, days.Options{Servers: 3, Features: days.Deployments | features})
		for i, ev := range day.Events {
			if ev.Server == 2 {
				shifted := *ev
				shifted.Received, shifted.Staged = ev.Received.Add(by), ev.Staged.Add(by)
				day.Events[i] = &shifted
			}
		}
		slices.SortStableFunc(day.Events, func(a, b *days.Event) int { return a.Staged.Compare(b.Staged) })
		a := analyzedDay(t, day, also...)
		if m := skewAdvice.FindStringSubmatch(strings.Join(a.Notices(), "\n")); m != nil {
			var err error
			if skew, err = time.ParseDuration(m[1]); err != nil {
				t.Fatal(err)
			}
		}
		agreement, _ = codesOf(a.Facts.Checks, "agreement")
		return skew, agreement
	}
	found := 0
	for _, by := range []time.Duration{0, 300 * time.Millisecond, -300 * time.Millisecond, 1050 * time.Millisecond, 1500 * time.Millisecond, -1200 * time.Millisecond, -3400 * time.Millisecond, 2300 * time.Millisecond, -20 * time.Second} {
		for seed := range uint64(4) {
			skew, agreement := advised(seed+1, by, 0)
			if by.Abs() < time.Second && (skew > 0 || agreement != checks.Passed) {
				t.Errorf("seed %d, %s: --skew %s, agreement %s", seed, by, skew, agreement)
			}
			if -fewApart < by && by < 0 && agreement == checks.Failed && skew == 0 { // one that is ahead looks like one that lags
				t.Errorf("seed %d, %s: the check agreement fails, and nothing is advised", seed, by)
			}
			if skew == 0 {
				continue
			}
			found++
			if most := min(by.Abs(), clocksApart) + time.Second; skew < 2*time.Second || skew > most {
				t.Errorf("seed %d, %s: --skew %s is advised", seed, by, skew)
			}
			if by.Abs() > clocksApart {
				continue
			}
			again, agreement := advised(seed+1, by, 0, func(o *AnalyzeOptions) { o.Skew = skew })
			if again > 0 || agreement != checks.Passed {
				t.Errorf("seed %d, %s: with --skew %s, agreement is %s, and --skew %s is advised", seed, by, skew, agreement, again)
			}
		}
	}
	for seed := range uint64(4) { // an API server that does not know yet what the state has is no clock
		if skew, _ := advised(seed+1, 0, days.GraphLag); skew > 0 {
			t.Errorf("seed %d, with lag: --skew %s is advised", seed, skew)
		}
	}
	if two := (&ClocksApart{Requests: 3, objects: map[skewObject]bool{{name: "a"}: true, {name: "b"}: true}}); two.several() {
		t.Error("two objects are several")
	}
	for most, want := range map[time.Duration]bool{fewApart: true, fewApart + 1: false} {
		if one := (&ClocksApart{Requests: 1, Most: most}); one.few() != want {
			t.Errorf("one request, %s apart: %t", most, !want)
		}
	}
	if found < 4 {
		t.Errorf("%d of the days have a notice", found)
	}
}
