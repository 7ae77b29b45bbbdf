package web

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/tally"
)

// roles has a role for each binding.
type roles struct{ Live }

func (roles) Binding(_ context.Context, b report.Binding) (*BindingState, error) {
	return &BindingState{Exists: "no", Role: "ClusterRole of-" + b.Name}, nil
}

// The page of many bindings says how many it leaves out, and those that it shows have their roles.
func TestManyBindings(t *testing.T) {
	s := newSite(t, time.Hour)
	s.o.Live = roles{}
	var entries []tally.Entry
	for i := range listedAtMost + 30 {
		entries = append(entries, excess(at0(time.Duration(i)*time.Millisecond), "n1", "s1", "agent", fmt.Sprintf("b%03d", i)))
	}
	s.commit(entries...)
	h := s.server()
	var page BindingsPage
	ok(t, json.Unmarshal(do(h, request("/api/v1/bindings")).Body.Bytes(), &page))
	for i, b := range page.Bindings {
		if want := map[bool]string{true: "ClusterRole of-" + b.Binding.Name}[i < listedAtMost]; b.Role != want {
			t.Errorf("binding %d, %s: role %q, want %q", i, b.Binding.Name, b.Role, want)
		}
	}
	if text := do(h, request("/bindings")).Body.String(); len(page.Bindings) != listedAtMost+30 || !strings.Contains(text, "And 30 more bindings") {
		t.Errorf("%d bindings, and the page does not say that it leaves 30 out", len(page.Bindings))
	}
}
