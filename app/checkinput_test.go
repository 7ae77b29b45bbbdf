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

// Of a group whose requests were all harmless as far as it tells, the book tells how each of them ended; of those that it did not count nothing good is said.
func TestUsesOfGroupByBook(t *testing.T) {
	k := tally.Key{Rule: rules.ExcessAccess, Node: "w1", Verb: "get", Resource: "pods", Namespace: "shop", Name: "web-0", Product: "kubelet"}
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	group := tally.Group{Reason: rules.ObjectMissing, Count: 5, Low: 5, First: at, Last: at.Add(9 * time.Hour)}
	f := func(name string, refused, gone int, lag lagUses, g tally.Group, harmless, counts int64) {
		t.Helper()
		p := proof{lags: newLagBook(nil)}
		for range refused {
			countOf(p.lags.refused, &k)
		}
		for range gone {
			countOf(p.lags.gone, &k)
		}
		var good, bad int64
		for _, u := range p.usesOf(&k, &g, lag) {
			if u.Lag || u.Harmless() {
				good += u.Count
			} else {
				bad += u.Count
			}
		}
		if good != harmless || bad != counts {
			t.Errorf("%s: %d are harmless and %d count, want %d and %d", name, good, bad, harmless, counts)
		}
	}
	f("all had just gone, again and again", 0, 5, lagUses{}, group, 5, 0)
	f("all but one", 0, 4, lagUses{}, group, 4, 1)
	f("some were refused", 2, 3, lagUses{}, group, 5, 0)
	f("some were refused, of one nothing is known", 2, 2, lagUses{}, group, 4, 1)
	f("some were lag", 0, 3, lagUses{count: 2, low: 2}, group, 5, 0)
	f("all were lag", 0, 0, lagUses{count: 5}, group, 5, 0)
	succeeded := group
	succeeded.Low = 4
	f("one succeeded", 0, 4, lagUses{}, succeeded, 0, 1)
	wide := group
	wide.Wide = true
	f("a group of many", 0, 5, lagUses{}, wide, 0, 5)
}
