package app

import (
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

const oncePod = `{"observedAt":"2026-11-21T06:00:00Z","type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"shop","name":"web","uid":"p"},"spec":{"nodeName":"w1"}}}
{"observedAt":"2026-11-21T06:10:00Z","type":"DELETED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"shop","name":"web","uid":"p"},"spec":{"nodeName":"w1"}}}
`

// What a group of findings says of its requests, where it stands for several, is no better than the worst that they may have been.
func TestUseOfGroup(t *testing.T) {
	state := cluster.NewState()
	if err := state.Load([]string{"-"}, strings.NewReader(oncePod)); err != nil {
		t.Fatal(err)
	}
	features, err := nodeauthz.FeaturesFor("1.36")
	if err != nil {
		t.Fatal(err)
	}
	p := proof{setup: judging.New(state, judging.Options{Features: features, Mode: &pipeline.Mode{}})}
	at := func(minute, second int) time.Time { return time.Date(2026, 11, 21, 6, minute, second, 0, time.UTC) }
	f := func(name, node, product string, g tally.Group, outcome checks.Outcome, harmless bool) {
		t.Helper()
		k := tally.Key{Rule: rules.ExcessAccess, Node: node, Verb: "get", Resource: "pods", Namespace: "shop", Name: "web", Product: product}
		if u := p.use(&k, &g); u.Outcome != outcome || u.Harmless() != harmless {
			t.Errorf("%s: %+v, harmless %t; want outcome %d, harmless %t", name, u, u.Harmless(), outcome, harmless)
		}
	}
	missing := func(count, low int64, first, last time.Time) tally.Group {
		return tally.Group{Reason: rules.ObjectMissing, Count: count, Low: low, First: first, Last: last}
	}
	f("a pod that was just deleted", "w1", "kubelet", missing(1, 1, at(10, 20), at(10, 20)), checks.OutcomeNotFound, true)
	f("asked for again", "w1", "kubelet", missing(9, 9, at(10, 5), at(10, 50)), checks.OutcomeNotFound, true)
	f("long gone", "w1", "kubelet", missing(1, 1, at(12, 0), at(12, 0)), checks.OutcomeNotFound, false)
	f("asked for until long after", "w1", "kubelet", missing(2, 2, at(10, 20), at(11, 30)), checks.OutcomeNotFound, false)
	f("another node's", "w2", "kubelet", missing(1, 1, at(10, 20), at(10, 20)), checks.OutcomeNotFound, false)
	f("no kubelet", "w1", "calico-node", missing(1, 1, at(10, 20), at(10, 20)), checks.OutcomeNotFound, false)
	f("one of them succeeded", "w1", "kubelet", missing(2, 1, at(10, 20), at(10, 20)), checks.OutcomeOther, false)
	f("refused by admission", "w1", "calico-node", tally.Group{Reason: rules.AdmissionRefused, Count: 1, Low: 1}, checks.OutcomeRefused, true)
	f("refused more than once", "w1", "calico-node", tally.Group{Reason: rules.AdmissionRefused, Count: 2, Low: 2}, checks.OutcomeUnknown, false)
	f("many groups", "w1", "", tally.Group{Wide: true, Count: 2, Low: 2}, checks.OutcomeUnknown, false)
}

// A store has no state by its times: what needs it is unproven, and nothing else is made up.
func TestInputWithoutState(t *testing.T) {
	in := (&proof{tally: tally.New(), facts: &report.Facts{}}).input()
	for _, r := range checks.Run(in) {
		if r.State == checks.Passed && r.Check != "rules-on" {
			t.Errorf("%s passes: %+v", r.Check, r)
		}
	}
}
