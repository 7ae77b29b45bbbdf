package app

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// What a group of findings says of its requests, where it stands for several, is no better than the worst that they may have been.
func TestUseOfGroup(t *testing.T) {
	f := func(name, product, apart string, g tally.Group, outcome checks.Outcome, harmless bool) {
		t.Helper()
		k := tally.Key{Rule: rules.ExcessAccess, Node: "w1", Verb: "get", Resource: "pods", Namespace: "shop", Name: "web", Product: product, Apart: apart}
		if u := (&proof{}).use(&k, &g); u.Outcome != outcome || u.Harmless() != harmless {
			t.Errorf("%s: %+v, harmless %t; want outcome %d, harmless %t", name, u, u.Harmless(), outcome, harmless)
		}
	}
	missing := func(count, low int64) tally.Group {
		return tally.Group{Reason: rules.ObjectMissing, Count: count, Low: low}
	}
	f("a pod that was just deleted", "kubelet", rules.JustGone, missing(1, 1), checks.OutcomeNotFound, true)
	f("asked for again", "kubelet", rules.JustGone, missing(9, 9), checks.OutcomeNotFound, true)
	f("long gone, or another node's", "kubelet", "", missing(1, 1), checks.OutcomeNotFound, false)
	f("no kubelet", "calico-node", rules.JustGone, missing(1, 1), checks.OutcomeNotFound, false)
	f("one of them succeeded", "kubelet", rules.JustGone, missing(2, 1), checks.OutcomeOther, false)
	f("refused by admission", "calico-node", "", tally.Group{Reason: rules.AdmissionRefused, Count: 1, Low: 1}, checks.OutcomeRefused, true)
	f("refused again and again", "calico-node", rules.RefusedLater, tally.Group{Reason: rules.AdmissionRefused, Count: 2, Low: 2}, checks.OutcomeRefused, true)
	f("refused more than once", "calico-node", "", tally.Group{Reason: rules.AdmissionRefused, Count: 2, Low: 2}, checks.OutcomeUnknown, false)
	f("what kubeadm does without", "kubeadm", rules.Tolerated, tally.Group{Reason: rules.RefusalTolerated, Count: 2, Low: 2}, checks.OutcomeSucceeded, true)
	f("one that it does not", "kubeadm", rules.Tolerated, tally.Group{Reason: rules.RefusalTolerated, Count: 2, Low: 1}, checks.OutcomeOther, false)
	f("an image pull secret that cannot be", "kubelet", rules.Tolerated, tally.Group{Reason: rules.NameImpossible, Count: 2, Low: 2}, checks.OutcomeSucceeded, true)
	f("and a theft", "kubelet", rules.Tolerated, tally.Group{Reason: rules.NameImpossible, Count: 2, Low: 1}, checks.OutcomeOther, false)
	f("an optional secret that cannot be", "kubelet", rules.NoName, tally.Group{Reason: rules.NameImpossible, Count: 2, Low: 2}, checks.OutcomeSucceeded, false)
	f("many groups", "", "", tally.Group{Wide: true, Count: 2, Low: 2}, checks.OutcomeUnknown, false)
}

// Whether something was a kubelet's own until just before is not known where nobody watched pods for the minute before.
func TestUseThatNobodyWatched(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	p := &proof{state: &stateProof{To: noon.Add(time.Hour), Seen: []cluster.Interval{{From: noon, To: noon.Add(time.Hour)}}}}
	for _, c := range []struct {
		name, product, resource, apart string
		reason                         rules.Reason
		at                             time.Duration
		want                           bool
	}{
		{"before the state", "kubelet", "pods", "", rules.ObjectMissing, -time.Hour, true},
		{"just after it began", "kubelet", "secrets", "", rules.ObjectMissing, 59 * time.Second, true},
		{"when it covers the minute before", "kubelet", "pods", "", rules.ObjectMissing, time.Minute, false},
		{"known to be gone", "kubelet", "pods", rules.JustGone, rules.ObjectMissing, -time.Hour, false},
		{"another client", "calico-node", "pods", "", rules.ObjectMissing, -time.Hour, false},
		{"what no pod leads to", "kubelet", "services", "", rules.ObjectMissing, -time.Hour, false},
		{"refused by admission", "kubelet", "pods", rules.RefusedLater, rules.AdmissionRefused, -time.Hour, false},
		{"before the API server knew the pod", "kubelet", "secrets", "", rules.BindingDuringLag, -time.Hour, true},
		{"before it knew, and the state covers it", "kubelet", "secrets", "", rules.BindingDuringLag, time.Minute, false},
		{"another client, before it knew", "calico-node", "secrets", "", rules.BindingDuringLag, -time.Hour, false},
	} {
		k := tally.Key{Rule: rules.ExcessAccess, Node: "w1", Verb: "get", Resource: c.resource, Namespace: "shop", Name: "web", Product: c.product, Apart: c.apart}
		g := tally.Group{Reason: c.reason, Count: 1, Low: 1, First: noon.Add(c.at), Last: noon.Add(c.at)}
		if u := p.use(&k, &g); u.Unseen != c.want {
			t.Errorf("%s: %t", c.name, u.Unseen)
		}
	}
	k := tally.Key{Rule: rules.ExcessAccess, Node: "w1", Verb: "get", Resource: "pods", Namespace: "shop", Name: "web", Product: "kubelet"}
	if u := (&proof{}).use(&k, &tally.Group{Reason: rules.ObjectMissing, Count: 1, Low: 1, First: noon}); !u.Unseen {
		t.Error("without a state somebody watched")
	}
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

// The key of a group says how its requests ended, and lag takes some of them out of it; of a group that holds several ends nothing good is said.
func TestUsesOfGroup(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	group := func(reason rules.Reason, low int64) tally.Group {
		return tally.Group{Reason: reason, Count: 5, Low: low, First: at, Last: at.Add(9 * time.Hour)}
	}
	f := func(name, apart string, lag lagUses, g tally.Group, harmless, counts int64) {
		t.Helper()
		k := tally.Key{Rule: rules.ExcessAccess, Node: "w1", Verb: "get", Resource: "pods", Namespace: "shop", Name: "web-0", Product: "kubelet", Apart: apart}
		var good, bad int64
		for _, u := range (&proof{lags: newLagBook(nil)}).usesOf(&k, &g, lag) {
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
	f("all had just gone, again and again", rules.JustGone, lagUses{}, group(rules.ObjectMissing, 5), 5, 0)
	f("what was not on the node", "", lagUses{}, group(rules.ObjectMissing, 5), 0, 5)
	f("all were refused", rules.RefusedLater, lagUses{}, group(rules.AdmissionRefused, 5), 5, 0)
	f("refused and more, in a store of before", "", lagUses{}, group(rules.AdmissionRefused, 5), 0, 5)
	f("some were lag", rules.JustGone, lagUses{count: 2, low: 2}, group(rules.ObjectMissing, 5), 5, 0)
	f("all were lag", "", lagUses{count: 5}, group(rules.BindingNeeded, 0), 5, 0)
	f("one succeeded", rules.JustGone, lagUses{}, group(rules.ObjectMissing, 4), 0, 1)
	wide := group("", 5)
	wide.Wide = true
	f("a group of many", "Others", lagUses{}, wide, 0, 5)
}

// Whatever a report lists as a blocker or as a hole keeps some check of readiness from passing, each by an item of its own; but for what the evidence tells by
// node, API server and hour: silences, a source that is behind, and reads that are missing.
func TestWhatSpeaksAgainstItIsAnItem(t *testing.T) {
	run := func(plant func(*tally.Tally, *report.Facts)) (r *report.Report, items map[string]bool) {
		sum, f := tally.New(), report.Facts{HasState: true, Authorization: report.Authorization{Inferred: true, Mode: "Node,RBAC"}}
		sum.Add(&tally.Entry{Time: time.Unix(1e9, 0).UTC(), IsNode: true, Node: "w1", Verdict: nodeauthz.Allow})
		plant(sum, &f)
		items = map[string]bool{}
		results := checks.Run((&proof{tally: sum, facts: &f, to: sum.To, ledger: evidence.New()}).input())
		for i := range results {
			if !slices.ContainsFunc(checks.Of(checks.Ready), func(c checks.Check) bool { return c.Name == results[i].Check }) {
				continue
			}
			for j := range results[i].Evidence {
				if e := &results[i].Evidence[j]; e.State != checks.Passed && e.Code != checks.CodeNothingSeen {
					items[fmt.Sprintf("%s %+v", results[i].Check, e)] = true
				}
			}
		}
		return report.Make(sum, f), items
	}
	_, base := run(func(*tally.Tally, *report.Facts) {})
	told := []rules.Reason{rules.LogSilent, rules.NodeSilent, rules.NodesSilent, rules.Delayed, rules.SecretReadsMissing}
	n := 0
	f := func(name string, plant func(*tally.Tally, *report.Facts)) {
		t.Helper()
		n++
		r, items := run(plant)
		if len(r.Readiness.Blockers)+len(r.Readiness.Holes) == 0 {
			t.Errorf("%s: the report lists neither a blocker nor a hole", name)
		}
		for item := range items {
			if !base[item] {
				return
			}
		}
		t.Errorf("%s: no item in addition to those without: %v", name, items)
	}
	found := func(k tally.Key, severity rules.Severity) func(*tally.Tally, *report.Facts) {
		return func(sum *tally.Tally, _ *report.Facts) {
			reason := k.Reason
			if k.Rule == rules.ExcessAccess {
				k.Reason = ""
			}
			sum.Add(&tally.Entry{ID: tally.ID{7}, Time: sum.To, Findings: []tally.Finding{{Key: k, Reason: reason, Severity: severity}}})
		}
	}
	for _, name := range checks.DecidingRules() {
		f("disabled: "+name, func(_ *tally.Tally, f *report.Facts) { f.Disabled = []string{name} })
	}
	for _, kind := range []codes.Kind{codes.Log, codes.Policy, codes.Node, codes.State, codes.Agreement, codes.Mode, codes.Rule} {
		g := codes.Gap{Kind: kind, Code: "x"}
		f("a gap in "+string(kind), func(_ *tally.Tally, f *report.Facts) { f.Gaps = []codes.Gap{g} })
		f("a lack of "+string(kind), func(_ *tally.Tally, f *report.Facts) { f.Lacks = []codes.Gap{g} })
	}
	f("unread", func(_ *tally.Tally, f *report.Facts) { f.Lacks = []codes.Gap{{Kind: codes.Log, Code: codes.LogUnread}} })
	f("no state", func(_ *tally.Tally, f *report.Facts) { f.HasState = false })
	f("malformed", func(_ *tally.Tally, f *report.Facts) { f.Events.Malformed = 1 })
	f("undecided", func(sum *tally.Tally, _ *report.Facts) { sum.Sums.Undecided = 1 })
	f("disagreement", func(sum *tally.Tally, _ *report.Facts) { sum.Disagreements = make([]tally.Disagreement, 1) })
	f("more disagreements", func(sum *tally.Tally, _ *report.Facts) { sum.Sums.DisagreeMore = 1 })
	for _, a := range []report.Authorization{{Mode: "RBAC"}, {}, {Mode: "RBAC", Inferred: true, Overruled: true}, {Mode: "RBAC,Node", Inferred: true, Overruled: true}} {
		f(fmt.Sprintf("mode %+v", a), func(_ *tally.Tally, f *report.Facts) { f.Authorization = a })
	}
	for _, rule := range rules.All() {
		for _, r := range rule.Reasons {
			switch {
			case r.Reason == rules.Privileged: // it conforms, and depends on no binding
			case rule.Name == rules.ExcessAccess:
				f(string(r.Reason), found(tally.Key{Rule: rule.Name, Node: "w1", Reason: r.Reason, Binding: rbac.BindingRef{Kind: "ClusterRoleBinding", Name: "b"}}, rules.High))
			case rule.Name == rules.NodeIdentity, r.Reason == rules.SharedCertificate:
				f(string(r.Reason), found(tally.Key{Rule: rule.Name, Node: "w1", Reason: r.Reason}, rules.High))
			case rule.Name == rules.CoverageGap && r.Gap != codes.Doubt && !slices.Contains(told, r.Reason):
				f(string(r.Reason), found(tally.Key{Rule: rule.Name, Name: "x", Reason: r.Reason}, rules.Medium))
			}
		}
	}
	f("many gaps", found(tally.Key{Rule: rules.CoverageGap}, rules.Medium))
	if n < 45 {
		t.Errorf("only %d cases", n)
	}
}

// Where all times are cut to whole seconds, nothing tells what came first within a second: the API server is not contradicted. One time that is not cut ends that.
func TestWholeSeconds(t *testing.T) {
	day := threeHours(t, 47, days.Options{Minor: 36, Features: days.Deployments})
	apply := func(m days.Mutation, d *days.Day) *days.Day {
		t.Helper()
		d, ok := m.Apply(d)
		if !ok {
			t.Fatalf("%s does not apply", m.Name)
		}
		return d
	}
	cut := apply(days.WholeSeconds(3), day)
	f := func(name string, want checks.State, code checks.Code, d *days.Day) {
		t.Helper()
		if s, codes := codesOf(provenDay(t, d), "agreement"); s != want || !slices.Contains(codes, string(code)) {
			t.Errorf("%s (%s): %s, %q; want %s, %q", name, cut.Applied[0].What, s, codes, want, code)
		}
	}
	f("cut", checks.Unproven, checks.CodeWholeSeconds, cut)
	for i, e := range cut.Events {
		if e.IsNode() && i > len(cut.Events)/2 {
			one := *cut
			one.Events = slices.Clone(cut.Events)
			changed := *e
			changed.Staged = e.Staged.Add(time.Microsecond)
			one.Events[i] = &changed
			f("all but one", checks.Failed, checks.CodeDisagreement, &one)
			break
		}
	}
	off, _ := days.Named("gate-off", 3)
	f("a disagreement on what no pod leads to", checks.Failed, checks.CodeDisagreement, apply(days.WholeSeconds(3), apply(off, day)))
	lacks, _ := days.Named("state-without-pods", 3)
	f("a disagreement on pods that no second explains", checks.Failed, checks.CodeDisagreement, apply(days.WholeSeconds(3), apply(lacks, day)))
}
