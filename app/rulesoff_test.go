package app

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// What a rule did not look at while it was off is not known, whatever the configuration says by the time of the report.
func TestRulesThatWereOff(t *testing.T) {
	t.Parallel()
	d := threeHours(t, 22, days.Options{Servers: 1})
	rerun := rerunOf(t, d)
	state := func(disable string) string {
		t.Helper()
		r := rerun(d, func(config []byte) []byte { return fmt.Appendf(config, "rules: {disable: %s}\n", disable) })
		return stateOf(r, "rules-on")
	}
	if got := state("[]"); got != "passed" {
		t.Errorf("with all rules: %s", got)
	}
	if got := state("[" + rules.CoverageGap + "]"); got == "passed" {
		t.Errorf("without the rule: %s", got)
	}
	if got := state("[]"); got == "passed" {
		t.Errorf("after it was off: %s", got)
	}
}

func TestRulesOffInTheWindow(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	var b offBook
	stored := b.changes([]string{"a"}, now)
	if again := b.changes([]string{"a"}, now.Add(time.Minute)); len(stored) != 1 || len(again) != 0 {
		t.Fatalf("stored %d and %d", len(stored), len(again))
	}
	if again := b.changes([]string{"a"}, now.Add(offEvery)); len(again) != 1 {
		t.Errorf("it stays off: stored %d", len(again))
	}
	stored = b.changes([]string{"b"}, now.Add(6*time.Minute)) // a is on again
	slices.SortFunc(stored, func(x, y tally.Remembered) int { return len(x.Key) - len(y.Key) })
	if len(stored) != 2 {
		t.Errorf("stored %v", stored)
	}
	for _, c := range []struct {
		begin time.Duration
		want  int
	}{{0, 3}, {5 * time.Minute, 3}, {7 * time.Minute, 1}} {
		if got := offDuring([]string{"c"}, stored, now.Add(c.begin)); len(got) != c.want {
			t.Errorf("from %s on: %v", c.begin, got)
		}
	}
	if again := b.changes(nil, now.Add(7*time.Minute)); len(again) != 1 || len(b.changes(nil, now.Add(time.Hour))) != 0 {
		t.Errorf("all are on: stored %v", again)
	}
}
