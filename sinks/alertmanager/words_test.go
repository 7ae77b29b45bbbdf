package alertmanager

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/tally"
)

// mute says the same of everything.
type mute struct{}

func (mute) Finding(*tally.Key, *tally.Group) string { return "x" }
func (mute) Identity(rules.Reason) string            { return "x" }
func (mute) Check(*checks.Item) string               { return "x" }
func (mute) Next(*checks.Next) string                { return "x" }
func (mute) Say(codes.Code, codes.Params) string     { return "x" }

// Labels do not depend on words. They have the reason where it tells groups apart, and one label only for the others, whose reason changes.
func TestLabelsDoNotDependOnWords(t *testing.T) {
	now := time.Now()
	for _, r := range rules.All() {
		labels := map[string]bool{}
		for _, d := range r.Reasons {
			k := tally.Key{Rule: r.Name, Node: "worker-1"}
			if rules.ByReason(r.Name) {
				k.Reason = d.Reason
			}
			g := tally.Group{Count: 1, First: now, Last: now, Severity: r.Severity, Reason: d.Reason, Params: codes.Params{codes.Text("name", "x")}}
			of := func(f sinks.Finding) map[string]string {
				b := newBook(&Options{URLs: []string{"http://a"}, MaxAlerts: 10, ResolveAfter: time.Hour})
				b.fold(&f, now, live)
				if len(b.order) != 1 {
					t.Fatalf("%d alerts", len(b.order))
				}
				again := b.order[0].finding() // as it is kept
				if keyOf(&again) != b.order[0].key || again.Reason != d.Reason || !again.Params.Equal(g.Params) {
					t.Errorf("%s: kept as %+v", d.Reason, again)
				}
				return b.order[0].labels(b.o)
			}
			english, silent := of(sinks.FromGroup("c", &k, &g, nil)), of(sinks.FromGroup("c", &k, &g, mute{}))
			if diff := cmp.Diff(english, silent); diff != "" {
				t.Errorf("%s (-English +mute):\n%s", d.Reason, diff)
			}
			if (english["reason"] == string(d.Reason)) != rules.ByReason(r.Name) {
				t.Errorf("%s: labels %v", d.Reason, english)
			}
			labels[english["reason"]] = true
		}
		if !rules.ByReason(r.Name) && len(labels) != 1 {
			t.Errorf("%s: %v", r.Name, labels)
		}
	}
}
