package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// flaw is what is wrong with a clean day, or with what is asked of it.
type flaw struct {
	check   string
	name    string
	options days.Options
	change  func(*days.Day)
	asked   func(*AnalyzeOptions)
}

// mutate is a flaw's change by mutations of those names.
func mutate(seed uint64, names ...string) func(*days.Day) {
	return func(d *days.Day) {
		for _, name := range names {
			m, _ := days.Named(name, seed)
			bad, ok := m.Apply(d)
			if !ok {
				panic(name + " does not apply")
			}
			*d = *bad
		}
	}
}

func isLease(e *days.Event, namespace string) bool {
	return e.Ref != nil && e.Ref.Resource == "leases" && e.Ref.Namespace == namespace
}

// each replaces the events for which change, which is given a copy, returns true.
func each(change func(e *days.Event) bool) func(*days.Day) {
	return func(d *days.Day) {
		for i, e := range d.Events {
			if c := *e; change(&c) {
				d.Events[i] = &c
			}
		}
	}
}

func without(gone func(d *days.Day, e *days.Event) bool) func(*days.Day) {
	return func(d *days.Day) {
		d.Events = slices.DeleteFunc(d.Events, func(e *days.Event) bool { return gone(d, e) })
	}
}

func withoutState(gone func(e *days.Entry) bool) func(*days.Day) {
	return func(d *days.Day) { d.State = slices.DeleteFunc(d.State, gone) }
}

// aQuarter is a stretch of twenty minutes in the second half of a day.
func aQuarter(d *days.Day, at time.Time) bool {
	from := d.To.Add(-80 * time.Minute)
	return !at.Before(from) && at.Before(from.Add(20*time.Minute))
}

// first returns what is true for the first event after the middle of a day for which is true.
func first(is func(e *days.Event) bool, change func(e *days.Event)) func(*days.Day) {
	return func(d *days.Day) {
		middle := d.From.Add(d.To.Sub(d.From) / 2)
		for i, e := range d.Events {
			if e.Received.After(middle) && is(e) {
				c := *e
				change(&c)
				d.Events[i] = &c
				return
			}
		}
		panic("there is no such event")
	}
}

// flaws are at least one for each check: what this check alone sees.
func flaws() []flaw {
	ofKubelet := func(verb, resource string) func(e *days.Event) bool {
		return func(e *days.Event) bool {
			return e.IsNode() && strings.HasPrefix(e.UserAgent, "kubelet/") && e.Verb == verb && e.Ref != nil && e.Ref.Resource == resource && e.Code < 300
		}
	}
	migrated := days.Options{NoBinding: true}
	return []flaw{
		{check: "window-covered", name: "a node's renewals of twenty minutes", change: without(func(d *days.Day, e *days.Event) bool {
			return isLease(e, "kube-node-lease") && e.Ref.Name == d.NodeNames[0] && aQuarter(d, e.Received)
		})},
		{check: "reads-logged", name: "a node's watches of one kind", change: without(func(d *days.Day, e *days.Event) bool {
			return e.Verb == "watch" && e.Ref.Resource == "services" && e.IsNode() && strings.HasSuffix(e.User.Username, d.NodeNames[1])
		})},
		{check: "policy-known", name: "no policy", change: mutate(1, "remove-policy")},
		{check: "policy-known", name: "a policy that hides what nodes get of nodes", change: mutate(1, "remove-node-gets")},
		{check: "policy-known", name: "a policy that hides one node's reads of secrets", change: func(d *days.Day) {
			d.Policy = strings.Replace(d.Policy, "rules:\n",
				"rules:\n- level: None\n  users: [\"system:node:"+d.NodeNames[0]+"\"]\n  verbs: [\"get\"]\n  resources: [{group: \"\", resources: [\"secrets\"]}]\n", 1)
		}},
		{check: "every-event-judged", name: "a torn line", change: first(ofKubelet("patch", "nodes"), func(e *days.Event) { e.Cut = 300 })},
		{check: "servers-seen", name: "a server's renewals of twenty minutes", options: days.Options{Servers: 3}, change: without(func(d *days.Day, e *days.Event) bool {
			return isLease(e, "kube-system") && strings.HasPrefix(e.Ref.Name, "apiserver-") && e.Server == 1 && aQuarter(d, e.Received)
		})},
		{check: "servers-seen", name: "a server that nothing shows", options: days.Options{Servers: 3}, asked: func(o *AnalyzeOptions) { o.ApiserverCount = 4 }},
		{check: "node-authorizer-on", name: "no decisions on renewals", change: each(func(e *days.Event) bool {
			e.Decision, e.DecisionReason = "", ""
			return isLease(e, "kube-node-lease")
		})},
		{check: "version-known", name: "a version that the log contradicts", asked: func(o *AnalyzeOptions) { o.KubernetesVersion = "1.37" }},
		{check: "nothing-depends", name: "a client that needs the binding", change: mutate(1, "plant-request")},
		{check: "nothing-depends", name: "a service account that needs the binding", change: func(d *days.Day) {
			mutate(1, "binding-serviceaccount")(d)
			d.Policy = strings.Replace(d.Policy, "rules:\n", "rules:\n- level: Metadata\n", 1) // of those as well who may act as the account
		}},
		{check: "bindings-inventoried", name: "no role system:node", options: migrated, change: withoutState(func(e *days.Entry) bool {
			return e.Name == "system:node" && strings.HasPrefix(e.Kind, "ClusterRole")
		})},
		{check: "identities-conform", name: "a kubelet with a user of its own", change: first(ofKubelet("patch", "nodes"), func(e *days.Event) {
			e.User = &days.User{Username: "kubelet-7", Groups: []string{"system:authenticated"}}
			e.AuditID = "of-kubelet-7"
			e.DecisionReason = `RBAC: allowed by ClusterRoleBinding "kubelet-7" of ClusterRole "system:kubelet-7" to User "kubelet-7"`
		})},
		{check: "races-decided", name: "a client in a race", change: mutate(1, "plant-in-race")},
		{check: "agreement", name: "an API server that refuses what the graph allows", change: first(ofKubelet("watch", "secrets"), func(e *days.Event) {
			e.Decision, e.DecisionReason, e.Code, e.Stage = "forbid", fmt.Sprintf("no relationship found between node '%s' and this object", strings.TrimPrefix(e.User.Username, "system:node:")), 403, days.StageComplete
			e.AuditID = "refused"
		})},
		{check: "rare-paths-seen", name: "no kubelet started", change: mutate(1, "remove-starts")},
		{check: "state-complete", name: "nobody watched in the end", change: func(d *days.Day) {
			d.State = slices.DeleteFunc(d.State, func(e *days.Entry) bool { return e.At.After(d.To.Add(-20 * time.Minute)) })
		}},
		{check: "rules-on", name: "a rule is off", asked: func(o *AnalyzeOptions) { o.Disable = []string{"audit-coverage-gap"} }},
	}
}

// Each check is needed: on some day it alone keeps the answer from READY, so that a check which always passes is found out. The next step is one that
// is known.
func TestEachCheckIsNeeded(t *testing.T) {
	needed := map[string]bool{}
	for _, f := range flaws() {
		needed[f.check] = true
		t.Run(f.check+", "+f.name, func(t *testing.T) {
			t.Parallel()
			clean := threeHours(t, 12, f.options)
			if f.change != nil {
				bad := *clean
				bad.Events, bad.State = slices.Clone(clean.Events), slices.Clone(clean.State)
				f.change(&bad)
				clean = &bad
			}
			var change []func(*AnalyzeOptions)
			if f.asked != nil {
				change = append(change, f.asked)
			}
			results := provenDay(t, clean, change...)
			if v := checks.Conclude(checks.Ready, results, nil); v.Good(true) {
				t.Fatalf("%q", v.Answer)
			}
			for i := range results {
				if results[i].Check == f.check { // the planted defect
					results[i] = checks.Result{Check: f.check, State: checks.Passed, Expected: 1, Seen: 1}
				}
			}
			if v := checks.Conclude(checks.Ready, results, nil); !v.Good(false) {
				t.Errorf("without the check the answer is %q by %v", v.Answer, open(results))
			}
		})
	}
	for _, c := range checks.Of(checks.Ready) {
		if !needed[c.Name] {
			t.Errorf("no day shows that %s is needed", c.Name)
		}
	}
}

// A service account whose pods have tokens makes requests. If the log has none of them, nobody knows whether it uses the binding; a pod that has just come may not
// have made one, and what the policy does not log nobody misses.
func TestSilentAccounts(t *testing.T) {
	m, _ := days.Named("drop-account", 1)
	for _, c := range []struct {
		name   string
		change func(*days.Day)
		want   bool
	}{
		{"no request", func(*days.Day) {}, true},
		{"a request", func(d *days.Day) { d.Events = append(d.Events, accountEvent(d, d.To.Add(-time.Minute))) }, false},
		{"a request of somebody else", func(d *days.Day) {
			e := accountEvent(d, d.To.Add(-time.Minute))
			e.User = &days.User{Username: "system:serviceaccount:shop:node-agent"}
			d.Events = append(d.Events, e)
		}, true},
		{"a request of before", func(d *days.Day) {
			d.Events = append([]*days.Event{accountEvent(d, d.From.Add(time.Second))}, d.Events...)
		}, true},
		{"no token", func(d *days.Day) {
			d.Events = slices.DeleteFunc(d.Events, func(e *days.Event) bool {
				return e.Ref != nil && e.Ref.Subresource == "token" && e.Ref.Name == "node-agent"
			})
		}, false},
		{"a token at the end", func(d *days.Day) {
			var last days.Event
			d.Events = slices.DeleteFunc(d.Events, func(e *days.Event) bool {
				is := e.Ref != nil && e.Ref.Subresource == "token" && e.Ref.Name == "node-agent"
				if is {
					last = *e
				}
				return is
			})
			last.Received = d.To.Add(-5 * time.Minute)
			last.Staged = last.Received.Add(time.Millisecond)
			d.Events = append(d.Events, &last)
			slices.SortStableFunc(d.Events, func(a, b *days.Event) int { return a.Staged.Compare(b.Staged) })
		}, false},
		{"the policy hides what it reads", func(d *days.Day) {
			d.Policy = strings.Replace(d.Policy, "rules:\n", "rules:\n- level: None\n  userGroups: [\"system:serviceaccounts\"]\n  resources: [{group: apps}]\n", 1)
		}, false},
		{"the policy hides which paths it asks for", func(d *days.Day) {
			d.Policy = strings.Replace(d.Policy, "rules:\n", "rules:\n- level: None\n  nonResourceURLs: [\"/healthz\"]\n", 1)
		}, true},
	} {
		for m.Seed = range uint64(effort.Of(9, 3)) {
			day, ok := m.Apply(threeHours(t, 13, days.Options{}))
			if !ok {
				t.Fatal("it does not apply")
			}
			if strings.Contains(day.Applied[0].What, "Group") && c.name != "no request" && c.name != "a request" {
				continue
			}
			c.change(day)
			if got := slices.Contains(open(provenDay(t, day))["bindings-inventoried"], string(checks.CodeAccountSilent)); got != c.want {
				t.Errorf("%s, %s: %t", c.name, day.Applied[0].What, got)
			}
		}
	}
}

// accountEvent is a request of a service account.
func accountEvent(d *days.Day, at time.Time) *days.Event {
	e := *d.Events[len(d.Events)/2]
	e.AuditID, e.Verb, e.URI, e.Ref = "0b0b0b0b-0000-4000-8000-000000000001", "get", "/api/v1/namespaces/shop/services/web", &days.Ref{Version: "v1", Resource: "services", Namespace: "shop", Name: "web"}
	e.User = &days.User{Username: "system:serviceaccount:kube-system:node-agent", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}}
	e.UserAgent, e.Impersonated, e.Request, e.Received, e.Staged, e.Code = "agent/1", nil, nil, at, at.Add(time.Millisecond), 200
	e.Decision, e.DecisionReason = "allow", `RBAC: allowed by ClusterRoleBinding "agent" of ClusterRole "agent" to ServiceAccount "node-agent/kube-system"`
	return &e
}
