package rules

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What became empty is stored as such once, unless its slot is used again: else a process that starts later would restore it.
func TestSlotSet(t *testing.T) {
	s := newSlotSet()
	for want := range 4 {
		if n := s.take(); n != want {
			t.Fatalf("slot %d, want %d", n, want)
		}
	}
	stored := func(want ...string) {
		t.Helper()
		var got []string
		for _, r := range s.changes(nil, "kind", &struct{}{}) {
			got = append(got, r.Kind+" "+r.Key+" "+string(r.Value))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	}
	s.empty(1)
	s.empty(2)
	s.drop(3)
	if n := s.take(); n != 1 {
		t.Errorf("slot %d, want the lowest that is free", n)
	}
	stored("kind 2 {}")
	stored()
}
