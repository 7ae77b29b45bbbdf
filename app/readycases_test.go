package app

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/report"
)

// None of these days is READY. Each is named by a check, whose next step helps.
func TestDaysThatAreNotReady(t *testing.T) {
	reads := without(func(_ *days.Day, e *days.Event) bool {
		return slices.Contains([]string{"get", "list", "watch"}, e.Verb)
	})
	for i, c := range []struct {
		name   string
		change func(*days.Day)
		check  string
		next   checks.Code
	}{
		{"a day without reads", reads, "reads-logged", checks.NextLogReads},
		{"kube-audit-admin", mutate(3, "remove-all-reads"), "policy-known", checks.NextGivePolicyInForce}, // the log has more than it writes
		{"a policy that drops node GETs", mutate(3, "remove-node-gets"), "policy-known", checks.NextGivePolicy},
		{"an add-on that gets 404", mutate(3, "addon-404"), "nothing-depends", checks.NextMoveClients},
		{"a backend's 404 by proxy", mutate(3, "proxied-404"), "nothing-depends", checks.NextMoveClients},
		{"ten minutes and a stray event", mutate(3, "remove-all-but-fragments"), "window-covered", checks.NextGetLog},
		{"fragments", mutate(3, "remove-tenth"), "window-covered", checks.NextGetLog},
		{"a node logged twice", mutate(3, "remove-all-but-two"), "window-covered", checks.NextGetLog},
		{"a node that is silent but for its Lease", mutate(3, "remove-silent-node"), "reads-logged", checks.NextLogReads},
		{"a padded URI", mutate(3, "plant-padded"), "nothing-depends", checks.NextMoveClients},
		{"a URI that is padded beyond the limit", mutate(3, "plant-oversized"), "nothing-depends", checks.NextMoveClients},
		{"a torn line", mutate(3, "plant-torn"), "every-event-judged", checks.NextReadEvents},
		{"system:node bound to bootstrappers", mutate(3, "binding-bootstrappers"), "nothing-depends", checks.NextMoveClients},
		{"system:node bound to a service account", mutate(3, "binding-serviceaccount"), "nothing-depends", checks.NextMoveClients},
		{"a service account that gives others what it may have by system:node", mutate(3, "gives-rights"), "nothing-depends", checks.NextMoveClients},
		{"a service account that may ask for a group by system:node", mutate(3, "may-ask-for-group"), "nothing-depends", checks.NextMoveClients},
		{"a node that impersonates", mutate(3, "node-impersonates"), "nothing-depends", checks.NextMoveClients},
		{"somebody who impersonates a node", mutate(3, "impersonates-node"), "nothing-depends", checks.NextMoveClients},
		{"a node that acts as a user, in a group by its binding", mutate(3, "node-acts-with-group"), "nothing-depends", checks.NextMoveClients},
		{"a node that acts as a user, with a UID by its binding", mutate(3, "node-acts-with-uid"), "nothing-depends", checks.NextMoveClients},
		{"a node that acts as a user, with extra by its binding", mutate(3, "node-acts-with-extra"), "nothing-depends", checks.NextMoveClients},
		{"a node that acts as a user, by constrained impersonation", mutate(3, "node-acts-with-constrained"), "nothing-depends", checks.NextMoveClients},
		{"an aggregated API server's 403", mutate(3, "read-refused-behind"), "nothing-depends", checks.NextMoveClients},
		{"an authorizer without reasons", mutate(3, "allowed-without-reason"), "node-authorizer-on", checks.NextTurnNodeOn},
		{"reads in races", mutate(3, "reads-in-races"), "races-decided", checks.NextLookAtRaces},
	} {
		if i%effort.Of(1, 6) != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			day := *threeHours(t, 13, days.Options{Servers: 2, Features: days.Deployments | days.Drains})
			day.Events, day.State = slices.Clone(day.Events), slices.Clone(day.State)
			c.change(&day)
			a := analyzedDay(t, &day)
			if v := checks.Conclude(checks.Ready, a.Facts.Checks, nil); v.Good(true) {
				t.Errorf("%q", v.Answer)
			}
			for _, r := range a.Facts.Checks {
				if r.Check == c.check && (r.State == checks.Passed || r.Next.Code != c.next) {
					t.Errorf("%s is %s, next %q", c.check, r.State, r.Next.Code)
				}
			}
			for _, r := range a.Report.Readiness.Checks {
				if r.Name == c.check && (r.State == "passed" || r.Next == "" || len(r.Evidence) == 0 || r.Evidence[0].Message == "") {
					t.Errorf("the report says %+v", r)
				}
			}
		})
	}
}

// Whatever a binding that goes gives and no request shows, the day is not READY.
func TestRightsThatNoRequestShows(t *testing.T) {
	openInEachForm(t, "binding-unseen", "bindings-inventoried", checks.CodeRightUnseen, 100, 16)
}

// openInEachForm holds that a check does not pass for any form that the mutation has with so many seeds, and says so by the code, if one is given. There are so many forms at least.
func openInEachForm(t *testing.T, mutation, check string, code checks.Code, seeds uint64, forms int) {
	t.Helper()
	all := days.Mutations(0)
	m, seen := all[slices.IndexFunc(all, func(m days.Mutation) bool { return m.Name == mutation })], map[string]bool{}
	for m.Seed = range seeds {
		bad, ok := m.Apply(threeHours(t, 13, days.Options{}))
		if !ok {
			t.Fatal("it does not apply")
		}
		if what := bad.Applied[0].What; !seen[what] {
			seen[what] = true
			if got := open(provenDay(t, bad))[check]; len(got) == 0 || code != "" && !slices.Contains(got, string(code)) {
				t.Errorf("%s: %q", what, got)
			}
		}
	}
	if len(seen) < forms {
		t.Errorf("only %d kinds", len(seen))
	}
}

// A line that was torn is harmless only where what is left shows that it was nobody's: not before the status, and not of a node. What an API server
// writes behind it when it is started again is judged.
func TestReadyWithTornLineOfOthers(t *testing.T) {
	for _, node := range []bool{false, true} {
		for _, glued := range []bool{false, true} {
			for _, late := range []bool{false, true} {
				day := *threeHours(t, 13, days.Options{Servers: 2, Features: days.Deployments | days.Drains})
				day.Events = slices.Clone(day.Events)
				i := slices.IndexFunc(day.Events, func(e *days.Event) bool {
					return node && e.IsNode() && e.Verb == "get" || !node && strings.HasSuffix(e.User.Username, ":replicaset-controller")
				})
				e := *day.Events[i]
				if !node { // what it does otherwise is state
					e.Verb, e.URI, e.Request, e.Ref = "get", "/api/v1/namespaces/a/services/b", nil, &days.Ref{Resource: "services", Namespace: "a", Name: "b"}
				}
				e.Cut, e.Glued = len(e.Line())-100, glued
				if !late {
					e.Cut = bytes.Index(e.Line(), []byte(`"responseStatus"`)) - 5
				}
				day.Events[i] = &e
				a := analyzedDay(t, &day)
				for _, r := range a.Facts.Checks {
					if r.Check != "every-event-judged" {
						continue
					}
					passed := r.State == checks.Passed
					if passed != (late && !node) || len(r.Evidence) != 1 || (r.Evidence[0].Code == checks.CodeOfNoNode) != passed {
						t.Errorf("node %t, glued %t, late %t: %s %+v", node, glued, late, r.State, r.Evidence)
					}
				}
				if v := checks.Conclude(checks.Ready, a.Facts.Checks, nil); v.Good(true) != (late && !node) {
					t.Errorf("node %t, glued %t, late %t: %q %v", node, glued, late, v.Answer, open(a.Facts.Checks))
				}
			}
		}
	}
}

// A node that joined, by the state, and whose registration is not in the log, leaves open what else happened at that start.
func TestReadyMissesARegistration(t *testing.T) {
	found := 0
	for seed := range uint64(10) {
		if found == effort.Of(10, 1) {
			break
		}
		day := threeHours(t, 40+seed, days.Options{Features: days.Deployments | days.Join})
		registers := func(e *days.Event) bool {
			return e.IsNode() && e.Verb == "create" && e.Code == 201 && e.Ref.Resource == "nodes" && e.Received.Before(day.To.Add(-40*time.Minute)) && e.Received.After(day.From.Add(time.Minute))
		}
		if !slices.ContainsFunc(day.Events, registers) {
			continue
		}
		found++
		if got := open(provenDay(t, day)); len(got) > 0 {
			t.Errorf("seed %d: %v", seed, got)
		}
		without(func(_ *days.Day, e *days.Event) bool { return registers(e) })(day)
		if got := open(provenDay(t, day)); !slices.Contains(got["rare-paths-seen"], string(checks.CodeStartIncomplete)) {
			t.Errorf("seed %d, without the registration: %v", seed, got)
		}
	}
	if found == 0 {
		t.Error("no node joins")
	}
}

// A week of EKS, whose policy hides what nodes get of nodes, and one of two API servers whose log lacks some hours of one of them, are not enough. With the
// waivers that the report prints, as it prints them, they are READY WITH WAIVERS.
func TestReadyWithPrintedWaivers(t *testing.T) {
	span := effort.Of(7*24*time.Hour, 5*time.Hour)
	for _, c := range []struct {
		name    string
		options days.Options
		change  func(*days.Day)
		waived  string
	}{
		{"EKS", days.Options{Nodes: 2, Profile: "eks"}, nil, "policy-known"},
		{"a lost rotation", days.Options{Nodes: 2, Servers: 2}, without(func(d *days.Day, e *days.Event) bool {
			from := d.To.Add(-4 * time.Hour)
			return e.Server == 1 && e.Staged.After(from) && e.Staged.Before(from.Add(2*time.Hour))
		}), "servers-seen"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.options.Span = span
			clean, err := days.Clean(14, c.options)
			if err != nil {
				t.Fatal(err)
			}
			if c.change != nil {
				c.change(clean)
			}
			a := analyzedDay(t, clean)
			if v := checks.Conclude(checks.Ready, a.Facts.Checks, a.Facts.Waivers); v.Answer != checks.AnswerNotEnough || !slices.Contains(v.Unproven, c.waived) {
				t.Fatalf("without waivers: %q, %v", v.Answer, open(a.Facts.Checks))
			}
			if _, err := checks.ParseWaivers([]byte(a.Report.Paste)); err == nil || !strings.Contains(err.Error(), "it has no owner") {
				t.Errorf("nobody has filled it in: %v", err)
			}
			filled := strings.NewReplacer(`owner: ""`, "owner: jane", `reason: ""`, "reason: known").Replace(a.Report.Paste)
			waivers, err := checks.ParseWaivers([]byte(filled))
			if err != nil {
				t.Fatalf("%v in what the report prints:\n%s", err, filled)
			}
			again := analyzedDay(t, clean, func(o *AnalyzeOptions) { o.Waivers = waivers })
			if v := checks.Conclude(checks.Ready, again.Facts.Checks, again.Facts.Waivers); v.Answer != checks.AnswerReadyWaived || v.Good(false) {
				t.Errorf("with waivers: %q, %v", v.Answer, open(again.Facts.Checks))
			}
			if again.Report.Paste != "" && strings.Contains(again.Report.Paste, c.waived) {
				t.Errorf("waivers are printed once more:\n%s", again.Report.Paste)
			}
		})
	}
}

// What looks like lag, and is not shown to be, counts: of a client that is no kubelet, of what Node never allowed later, and long after a start.
func TestLagIsNoExcuse(t *testing.T) {
	clean := threeHours(t, 7, days.Options{Minor: 35, Features: days.GraphLag | days.Deployments})
	var lagged []*days.Event
	for _, e := range clean.Events {
		if e.IsNode() && e.Verb == "watch" && e.Received.Before(clean.From.Add(20*time.Minute)) && strings.HasPrefix(e.DecisionReason, "RBAC:") {
			lagged = append(lagged, e)
		}
	}
	if len(lagged) < 2 {
		t.Fatalf("%d requests lag", len(lagged))
	}
	one := lagged[0]
	ofOne := func(e *days.Event) bool { return e.AuditID == one.AuditID }
	for name, change := range map[string]func(*days.Day){
		"a client that is no kubelet": each(func(e *days.Event) bool {
			e.UserAgent = "agent/v1"
			return ofOne(e)
		}),
		"never allowed later": without(func(_ *days.Day, e *days.Event) bool {
			return e.IsNode() && e.Ref != nil && e.Ref.Resource == one.Ref.Resource && e.Ref.Namespace == one.Ref.Namespace && e.Ref.Name == one.Ref.Name &&
				e.User.Username == one.User.Username && e.Received.After(one.Received) && !ofOne(e)
		}),
		"no API server started": without(func(_ *days.Day, e *days.Event) bool {
			return isLease(e, "kube-system") && e.Received.Before(one.Received.Add(2*time.Minute))
		}),
	} {
		day := *clean
		day.Events = slices.Clone(clean.Events)
		change(&day)
		if shut := open(provenDay(t, &day)); len(shut["agreement"]) == 0 || len(shut["nothing-depends"]) == 0 {
			t.Errorf("%s: %v", name, shut)
		}
		if n := previewed(t, &day); n.Breaks == 0 {
			t.Errorf("%s: what-if says %+v", name, n)
		}
	}
	if shut := open(provenDay(t, clean)); len(shut) > 0 {
		t.Errorf("as it was: %v", shut)
	}
	// Without the Node authorizer nothing is allowed on the next try.
	if n := previewed(t, clean, func(o *WhatIfOptions) { o.ThenMode = "RBAC" }); n.Race > 0 || n.Breaks == 0 {
		t.Errorf("without Node: what-if says %+v", n)
	}
	if n := previewed(t, clean); n.Breaks > 0 || n.Race == 0 {
		t.Errorf("as it was: what-if says %+v", n)
	}
	for _, name := range []string{"forced-watch", "moved-pod"} {
		day := *threeHours(t, 21, days.Options{Features: days.Deployments})
		mutate(3, name)(&day)
		if n := previewed(t, &day); n.Breaks > 0 {
			t.Errorf("%v: what-if says %+v", day.Applied, n)
		}
	}
	// A start shows by the renewals alone, too, where the policy does not log that the server looks for its Lease, if it missed one.
	var start time.Time
	for _, e := range clean.Events {
		if isLease(e, "kube-system") && e.Verb == "get" {
			start = e.Received
		}
	}
	day := *clean
	day.Events = slices.Clone(clean.Events)
	without(func(_ *days.Day, e *days.Event) bool {
		return isLease(e, "kube-system") && !e.Received.After(start) && e.Received.After(start.Add(-18*time.Second))
	})(&day)
	if shut := open(provenDay(t, &day)); len(shut) > 0 {
		t.Errorf("without the API server's look at its Lease: %v", shut)
	}
}

// previewed is what WhatIf says of a day without what bindings give to nodes.
func previewed(t *testing.T, d *days.Day, change ...func(*WhatIfOptions)) report.WhatIfCounts {
	t.Helper()
	of := dayOptions(t, d)
	o := WhatIfOptions{ChangeOptions: ChangeOptions{Authorization: of.Authorization, Input: of.Input}}
	for _, c := range change {
		c(&o)
	}
	r, err := WhatIf(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for i := range r.Report.Groups {
		if g := &r.Report.Groups[i]; g.Outcome == report.Breaks.String() || g.Outcome == report.Race.String() {
			total += g.Count
		}
	}
	if n := r.Report.Requests; total != n.Breaks+n.Race {
		t.Errorf("the groups hold %d requests, and %+v", total, n)
	}
	return r.Report.Requests
}

// That RBAC allowed the only request of a node says nothing of the Node authorizer, unless that one allows such a request to every node.
func TestOrderNeedsCounterEvidence(t *testing.T) {
	for name, want := range map[string]checks.State{"plant-request": checks.Unproven, "node-not-asked": checks.Failed} {
		day := *threeHours(t, 13, days.Options{})
		mutate(3, name)(&day)
		before := map[string]bool{}
		for _, e := range threeHours(t, 13, days.Options{}).Events {
			before[string(e.Line())] = true
		}
		day.Events = slices.DeleteFunc(slices.Clone(day.Events), func(e *days.Event) bool { return e.IsNode() && before[string(e.Line())] })
		for _, r := range analyzedDay(t, &day).Facts.Checks {
			if r.Check == "node-authorizer-on" && r.State != want {
				t.Errorf("%s: %s, want %s", name, r.State, want)
			}
		}
	}
}

// Events without times, as something that renames their fields leaves them, are in no window, and the day is not READY.
func TestReadyWithoutTimes(t *testing.T) {
	day := threeHours(t, 13, days.Options{Servers: 2, Features: days.Deployments | days.Drains})
	log := strings.NewReader(strings.NewReplacer("requestReceivedTimestamp", "requestreceivedtimestamp", "stageTimestamp", "stagetimestamp").Replace(string(day.Log())))
	results := provenDay(t, day, func(o *AnalyzeOptions) { o.Stdin = log })
	if v := checks.Conclude(checks.Ready, results, nil); v.Good(true) {
		t.Errorf("%q", v.Answer)
	}
}
