package version_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/version"
)

// Feature gates and versions do not change while an API server runs. Where no hypothesis fits all hours of a life, that is said of each of them; a start, another
// release and hours that the log lacks begin another life.
//
// Seen to fail where each hour is held against the hypotheses by itself.
func TestLives(t *testing.T) {
	list := version.Hypotheses()
	start := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	const on, off, open = "on", "off", "open" // what requests show of the gate AuthorizeNodeWithSelectors
	for _, c := range []struct {
		name    string
		hours   []string
		started int // the hour in which an API server starts, -1 for none
		release int // the hour from which on it is another release
		skipped int // the hour before which some are not in the log
		want    []bool
	}{
		{"nothing shows", []string{open, open}, -1, -1, -1, []bool{false, false}},
		{"always on", []string{on, open, on}, -1, -1, -1, []bool{false, false, false}},
		{"always off", []string{open, off, open, off}, -1, -1, -1, []bool{false, false, false, false}},
		{"once off", []string{on, off, on}, -1, -1, -1, []bool{true, true, true}},
		{"off at the end", []string{on, open, open, off}, -1, -1, -1, []bool{true, true, true, true}},
		{"both in one hour", []string{open, on + off, open}, -1, -1, -1, []bool{true, true, true}},
		{"off since a start", []string{on, on, open, off, off}, 2, -1, -1, []bool{false, false, false, false, false}},
		{"a start, and once off", []string{on, open, on, off, on}, 1, -1, -1, []bool{false, false, true, true, true}},
		{"a start between both", []string{on, on + off, off}, 1, -1, -1, []bool{false, false, false}},
		{"off since another release", []string{on, on, off, off}, -1, 2, -1, []bool{false, false, false, false}},
		{"off since hours that are not in the log", []string{on, off}, -1, -1, 1, []bool{false, false}},
	} {
		a := version.NewAccumulator(list)
		hour := start
		for i, shows := range c.hours {
			if i == c.skipped {
				hour = hour.Add(3 * time.Hour)
			}
			patch := 3
			if c.release >= 0 && i >= c.release {
				patch = 4
			}
			a.Agent(hour, fmt.Sprintf("kube-apiserver/v1.33.%d (linux/amd64) kubernetes/1", patch), "system:apiserver")
			if i == c.started {
				a.Started(hour.Add(20 * time.Minute))
			}
			ask := func(gate string, minute int) {
				implied := nodeauthz.Allow
				if gate == on {
					implied = nodeauthz.Deny
				}
				r := &version.Request{AuditID: gate, Time: hour.Add(time.Duration(minute) * time.Minute), Shape: version.Shape{Verb: "list", Resource: "pods"}, Implied: implied}
				a.Observe(r, func(h int) nodeauthz.Answer {
					if list[h].AuthorizeNodeWithSelectors {
						return nodeauthz.Answer{Verdict: nodeauthz.Deny, Static: true}
					}
					return nodeauthz.Answer{Verdict: nodeauthz.Allow, Static: true}
				})
			}
			switch shows {
			case on, off:
				ask(shows, 5)
			case on + off:
				ask(on, 5)
				ask(off, 50)
			}
			hour = hour.Add(time.Hour)
		}
		for i, got := range a.Conclusions() {
			if got.Moved != c.want[i] {
				t.Errorf("%s, hour %d: moved is %t: %s", c.name, i, got.Moved, version.Name(got.Features))
			}
		}
	}
}

// A request that fits another version than what is in force is a doubt, until that version is what the hour concludes.
func TestDoubtsOfWhatComesIntoForce(t *testing.T) {
	list := version.Hypotheses()
	start := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	answer := func(h int) nodeauthz.Answer {
		if list[h].AuthorizeNodeWithSelectors {
			return nodeauthz.Answer{Verdict: nodeauthz.Deny, Static: true}
		}
		return nodeauthz.Answer{Verdict: nodeauthz.Allow, Static: true}
	}
	for _, c := range []struct {
		name    string
		implied []nodeauthz.Verdict // of what is held against all versions after the doubt
		doubts  bool
	}{
		{"nothing follows", nil, true},
		{"the gate is on", []nodeauthz.Verdict{nodeauthz.Deny}, true},
		{"the gate is off", []nodeauthz.Verdict{nodeauthz.Allow}, false},
	} {
		a := version.NewAccumulator(list)
		a.Agent(start, "kube-apiserver/v1.33.3 (linux/amd64) kubernetes/1", "system:apiserver")
		r := version.Request{AuditID: "doubt", Time: start.Add(5 * time.Minute), Shape: version.Shape{Verb: "list", Resource: "pods"}, Implied: nodeauthz.Allow}
		if _, doubt := a.Doubts(&r, answer); !doubt {
			t.Fatalf("%s: no doubt", c.name)
		}
		for _, implied := range c.implied {
			a.Observe(&version.Request{AuditID: "told", Time: start.Add(6 * time.Minute), Shape: r.Shape, Implied: implied}, answer)
		}
		got := a.Conclusions()[0]
		if (got.Doubts > 0) != c.doubts || (len(got.Doubted) > 0) != c.doubts {
			t.Errorf("%s: %d doubts %q under %s", c.name, got.Doubts, got.Doubted, version.Name(got.Features))
		}
	}
}
