package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
)

// What is stored of the groups of nodes tells the same as what was seen, as long as it is in the window.
func TestStoredGroups(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	b := newGroupBook()
	add := func(at time.Time, name string, groups ...string) {
		ev := &audit.Event{User: audit.User{Username: name, Groups: append(groups, "system:authenticated")}}
		b.add(&pipeline.Judgement{Request: rules.Request{Event: ev, Time: at}})
	}
	add(at, "system:node:a", "system:nodes", "z", "a", "other")
	add(at.Add(time.Minute), "system:node:b", "a", "other", "system:nodes", "z")
	add(at.Add(-48*time.Hour), "system:node:b", "system:nodes", "old")
	add(at, "system:node:c", "system:nodes")
	add(at, "jane", "system:nodes", "staff")
	named := []string{"z", "old", "a", "staff", "system:nodes"}
	stored := b.changes("x")
	if again := b.changes("x"); len(stored) != 2 || len(again) != 0 {
		t.Errorf("%d changes, then %d", len(stored), len(again))
	}
	f := func(got *groupBook, want ...[]string) {
		t.Helper()
		if diff := cmp.Diff(want, got.named(named)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	f(nil)
	f(b, []string{"a", "z"}, []string{"old"})
	f(storedGroups(stored, at.Add(-24*time.Hour)), []string{"a", "z"})
	for i := range maxNodeGroups {
		add(at, "system:node:d", "system:nodes", fmt.Sprint("group-", i))
	}
	if !b.full || !storedGroups(b.changes("x"), at).full {
		t.Error("too many sets of groups are not reported")
	}
}
