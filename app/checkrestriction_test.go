package app

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// restrictionDay is what is known of a window of some hours.
type restrictionDay struct {
	hours   int
	refused []int    // hours in which the plugin refused something in its own words
	servers []string // API servers that renew their Lease in each hour
	bypass  *tally.Key
	blind   bool // nobody looked for refusals
}

// result is the check's state with its items in short.
func (d *restrictionDay) result(t *testing.T) (string, []string) {
	t.Helper()
	from := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	p := proof{
		minWindow: time.Duration(d.hours) * time.Hour, to: from.Add(time.Duration(d.hours) * time.Hour), ledger: evidence.New(),
		tally: &tally.Tally{Groups: map[tally.Key]*tally.Group{}},
	}
	for h := range d.hours {
		for _, name := range d.servers {
			p.ledger.Observe(&audit.Event{
				Stage: audit.StageResponseComplete, Verb: "update", Code: 200, RequestReceived: from.Add(time.Duration(h) * time.Hour), User: audit.User{Username: "system:apiserver"},
				ObjectRef: audit.ObjectRef{Resource: "leases", APIGroup: "coordination.k8s.io", Namespace: "kube-system", Name: name},
			}, evidence.Origin{})
		}
	}
	if !d.blind {
		p.restricted = newRestrictionBook()
		for _, h := range d.refused {
			p.restricted.add(&pipeline.Judgement{Request: rules.Request{
				Time: from.Add(time.Duration(h)*time.Hour + time.Minute), Admission: rules.Admission{Observed: nodeadmission.ObservedDeny},
			}})
		}
		p.restricted.add(&pipeline.Judgement{Request: rules.Request{Time: from, Admission: rules.Admission{Observed: nodeadmission.ObservedOther}}})
	}
	if d.bypass != nil {
		p.tally.Groups[*d.bypass] = &tally.Group{Count: 2, Severity: rules.Critical, AuditIDs: []string{"a"}, First: from, Last: from}
	}
	in := checks.Input{Options: checks.Options{MinWindow: p.minWindow}}
	p.restriction(&in)
	results := checks.Run(&in)
	r := &results[slices.IndexFunc(results, func(r checks.Result) bool { return r.Check == "node-restriction-on" })]
	var items []string
	for _, i := range r.Evidence {
		items = append(items, fmt.Sprintf("%s %s %d-%d", i.State, i.Code, int(i.From.Sub(from).Hours()), int(i.To.Sub(from).Hours())))
	}
	return r.State.String(), items
}

func TestRestriction(t *testing.T) {
	one, two := []string{"apiserver-a"}, []string{"apiserver-a", "apiserver-b"}
	bypass := &tally.Key{Rule: rules.RestrictionBypass, Node: "worker-1", Verb: "patch", Resource: "nodes", Name: "worker-1"}
	foreign := &tally.Key{Rule: rules.ForeignWrite, Node: "worker-1", Verb: "patch", Resource: "nodes", Name: "worker-2"}
	for _, c := range []struct {
		name  string
		day   restrictionDay
		state string
		items []string
	}{
		{"refused in each hour", restrictionDay{hours: 3, refused: []int{0, 1, 2}, servers: one}, "passed", nil},
		{"not in one of them", restrictionDay{hours: 3, refused: []int{0, 2}, servers: one}, "unproven", []string{"unproven restriction-not-seen 1-2"}},
		{"in none", restrictionDay{hours: 3, servers: one}, "unproven", []string{"unproven restriction-not-seen 0-3"}},
		{"one of two servers refused", restrictionDay{hours: 2, refused: []int{0, 1}, servers: two}, "unproven", []string{"unproven restriction-of-one-server 0-2"}},
		{"nobody knows how many servers there are", restrictionDay{hours: 2, refused: []int{0}}, "unproven",
			[]string{"unproven restriction-of-one-server 0-1", "unproven restriction-not-seen 1-2"}},
		{"a write passed", restrictionDay{hours: 1, refused: []int{0}, servers: one, bypass: bypass}, "failed", []string{"failed restriction-bypassed 0-0"}},
		{"a write of another's object passed", restrictionDay{hours: 1, refused: []int{0}, servers: one, bypass: foreign}, "failed", []string{"failed restriction-bypassed 0-0"}},
		{"a write passed, of a store", restrictionDay{hours: 1, bypass: bypass, blind: true}, "failed", []string{"failed restriction-bypassed 0-0"}},
		{"of a store", restrictionDay{hours: 1, blind: true}, "unproven", []string{"unproven not-looked-at 0-0"}},
	} {
		state, items := c.day.result(t)
		for i := range items {
			if c.name == "of a store" {
				items[i] = "unproven not-looked-at 0-0" // it has no times
			}
		}
		if state != c.state || !slices.Equal(items, c.items) {
			t.Errorf("%s: %s %q, want %s %q", c.name, state, items, c.state, c.items)
		}
	}
}
