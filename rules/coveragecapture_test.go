package rules_test

import (
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/rules"
)

// again is the capture's log, so many times one after the other, with what is in a part of it left out.
func (c *judgedCapture) again(times int, without func(round int, r *rules.Request) bool) []*rules.Request {
	span := c.requests[len(c.requests)-1].Time.Sub(c.requests[0].Time) + time.Second
	var out []*rules.Request
	for round := range times {
		for _, r := range c.requests {
			if without != nil && without(round, r) {
				continue
			}
			later := *r
			later.Time = r.Time.Add(time.Duration(round) * span)
			out = append(out, &later)
		}
	}
	return out
}

// Of an hour of what a real cluster did, nothing is missing, and no credential is in two places; of ten minutes that are cut out of it, or of one
// node, it is reported.
func TestCoverageOfCaptures(t *testing.T) {
	var both []*rules.Rule
	for _, r := range rules.All() {
		if r.Name == rules.CoverageGap || r.Name == "node-credential-misuse" {
			both = append(both, r)
		}
	}
	for _, name := range []string{"capture", "capture-rbac-only"}[:effort.Of(2, 1)] {
		c := capture(t, name)
		for what, x := range map[string]struct {
			without func(round int, r *rules.Request) bool
			want    rules.Reason // that of all that is found
		}{
			"whole":          {nil, ""},
			"a part cut out": {func(round int, _ *rules.Request) bool { return round >= 25 && round < 36 }, rules.LogSilent},
			"a node cut out": {func(round int, r *rules.Request) bool { return round >= 25 && r.Node == "worker-3" }, rules.NodeSilent},
			"kubelets alone": {func(_ int, r *rules.Request) bool { return rules.Product(r.Event.UserAgent) != "hollow-kubelet" }, ""},
		} {
			found := 0
			hour := judgedCapture{state: c.state, requests: c.again(60, x.without)}
			for _, f := range detect(&hour, both, func(*rules.Request) bool { return true }) {
				if found++; f.Reason != x.want || f.Severity > rules.Medium {
					t.Errorf("%s, %s: %s %s: %s", name, what, f.Severity, f.Rule, said(f))
				}
			}
			if x.want != "" && found == 0 {
				t.Errorf("%s, %s: nothing is found", name, what)
			}
		}
	}
}
