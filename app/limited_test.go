package app

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/report"
)

// Kubernetes 1.32 limits nodes to their own Nodes and pods. What a client read of others before the upgrade, by the Node authorizer, only RBAC allows behind it: then
// the binding cannot go. Up to the upgrade the client needs it only later, and kubelets, which ask for their own, never do.
func TestReadyAcrossTheUpgradeThatLimitsNodes(t *testing.T) {
	for seed := range uint64(3) {
		for _, upgrade := range []bool{true, false} {
			for _, reads := range []string{"", "list pods", "get node", "list nodes of its own", "get pod that went", "get pod made again"} {
				t.Run(fmt.Sprintf("%d upgrade %t %s", seed, upgrade, reads), func(t *testing.T) {
					t.Parallel()
					o := days.Options{Minor: 31, Servers: 2, Features: days.Deployments | days.Drains}
					if upgrade {
						o.Features |= days.Upgrade
					}
					day := threeHours(t, 60+seed, o)
					plantRead(t, day, reads)
					results := provenDay(t, day)
					want := map[checks.Code]bool{}
					if reads == "list pods" || reads == "get node" {
						want[checks.CodeNeedsLater], want[checks.CodeNeedsSinceLimited] = !upgrade, upgrade
					}
					for _, r := range results {
						if r.Check != "nothing-depends" {
							continue
						}
						if passed := r.State == checks.Passed; passed == want[checks.CodeNeedsSinceLimited] {
							t.Errorf("%s: %+v", r.State, r.Evidence)
						}
						for _, code := range []checks.Code{checks.CodeNeedsLater, checks.CodeNeedsSinceLimited} {
							if got := slices.ContainsFunc(r.Evidence, func(i checks.Item) bool { return i.Code == code }); got != want[code] {
								t.Errorf("%s: %t, want %t", code, got, want[code])
							}
						}
					}
				})
			}
		}
	}
}

// A version of an hour is that of most of its requests. What an API server is after its last start shows by its release alone, and counts from its first renewal on.
func TestReadyAfterAnUpgradeInTheLastMinutes(t *testing.T) {
	for _, reads := range []string{"", "list pods"} {
		for _, releases := range [][]string{{"v1.33.2"}, {"v1.32.4", "v1.33.2"}, {"v1.31.99"}} {
			day := threeHours(t, 62, days.Options{Minor: 31, Servers: 2, Features: days.Deployments})
			plantRead(t, day, reads)
			for i, release := range releases {
				since := day.Events[len(day.Events)-1].Staged.Add(time.Duration(i-len(releases)) * 3 * time.Minute)
				for j, e := range day.Events {
					if e.User.Username == "system:apiserver" && e.Received.After(since) && strings.HasPrefix(e.UserAgent, "kube-apiserver/v1.") {
						x := *e
						x.UserAgent = "kube-apiserver/" + release + " (linux/amd64) kubernetes/abc"
						day.Events[j] = &x
					}
				}
			}
			fails := reads != "" && releases[0] != "v1.31.99"
			for _, r := range provenDay(t, day) {
				if r.Check == "nothing-depends" && (r.State == checks.Failed) != fails {
					t.Errorf("%q, %s: %s: %+v", reads, releases, r.State, r.Evidence)
				}
			}
		}
	}
}

// Where the versions of hours do not tell what API servers are in the end, their releases do, in the last hour of each.
//
// Seen to fail where only the versions of hours count.
func TestLimitedInTheEnd(t *testing.T) {
	const last = evidence.Hour(500_000)
	told := func(h evidence.Hour, v codes.Version) codes.Version {
		v.From, v.To = h.Start(), h.End()
		return v
	}
	off := map[string]bool{selectorsGate: false}
	old := told(last, codes.Version{Name: "1.31"})
	type seen struct {
		server string
		hour   evidence.Hour
		at     string
	}
	for name, c := range map[string]struct {
		versions []codes.Version
		gates    map[string]bool // of what is in force in the end
		seen     []seen
		want     bool
	}{
		"nothing":                             {},
		"an old version":                      {versions: []codes.Version{old}, seen: []seen{{"a", last, "v1.31.14"}}},
		"a new version":                       {versions: []codes.Version{told(last, codes.Version{Name: "1.32"})}, want: true},
		"a new version with the gate off":     {versions: []codes.Version{told(last, codes.Version{Name: "1.33", FeatureGates: off, AnyPod: true})}, seen: []seen{{"a", last, "v1.33.1"}}},
		"a new version that emulates an old":  {versions: []codes.Version{told(last, codes.Version{Name: "1.33 emulating 1.31", AnyPod: true})}, seen: []seen{{"a", last, "v1.33.1"}}},
		"an old version with the gate on":     {versions: []codes.Version{told(last, codes.Version{Name: "1.31", FeatureGates: map[string]bool{selectorsGate: true}})}, want: true},
		"another server with the gate on":     {versions: []codes.Version{told(last, codes.Version{Name: "1.31", Also: "1.31 " + selectorsGate + "=true"})}, want: true},
		"the gate off, and on since a start":  {versions: []codes.Version{told(last, codes.Version{Name: "1.33", FeatureGates: off, Also: "1.33", AnyPod: true})}, want: true},
		"a new release in an hour of an old":  {versions: []codes.Version{old}, seen: []seen{{"a", last, "v1.31.14"}, {"a", last, "v1.33.1"}}, want: true},
		"the same, the gate being off":        {versions: []codes.Version{old}, gates: off, seen: []seen{{"a", last, "v1.31.14"}, {"a", last, "v1.33.1"}}},
		"the same in an hour that was given":  {versions: []codes.Version{told(last, codes.Version{Name: "1.31", Basis: "given"})}, seen: []seen{{"a", last, "v1.33.1"}}},
		"a release that nobody knows":         {versions: []codes.Version{old}, seen: []seen{{"a", last, "v1.77.1"}}, want: true},
		"more releases than are kept":         {versions: []codes.Version{old}, seen: []seen{{"a", last, "v1.31.1"}, {"a", last, "v1.31.2"}, {"a", last, "v1.31.3"}, {"a", last, "v1.31.4"}, {"a", last, "v1.33.1"}}, want: true},
		"upgraded in the hour before":         {versions: []codes.Version{told(last-1, codes.Version{Name: "1.31"}), old}, seen: []seen{{"a", last - 1, "v1.31.14"}, {"a", last - 1, "v1.32.4"}}, want: true},
		"one server of two":                   {versions: []codes.Version{old}, seen: []seen{{"a", last, "v1.31.14"}, {"b", last, "v1.32.4"}}, want: true},
		"one that does not write any more":    {versions: []codes.Version{old}, seen: []seen{{"a", last, "v1.31.14"}, {"b", last - 1, "v1.32.4"}}, want: true},
		"one that has ended":                  {versions: []codes.Version{old}, seen: []seen{{"a", last, "v1.31.14"}, {"ended", last - 1, "v1.32.4"}}},
		"an upgrade that was taken back":      {versions: []codes.Version{told(last-1, codes.Version{Name: "1.32"}), old}, seen: []seen{{"a", last - 1, "v1.32.4"}, {"a", last, "v1.31.14"}}},
		"hours that only the ledger tells of": {versions: []codes.Version{told(last-2, codes.Version{Name: "1.31"})}, seen: []seen{{"a", last, "v1.32.4"}}, want: true},
	} {
		ledger := evidence.New()
		for _, s := range c.seen {
			ledger.Observe(&audit.Event{
				Stage: audit.StageResponseComplete, Verb: "update", Code: 200, Decision: "allow", RequestReceived: s.hour.Start().Add(time.Minute), StageTime: s.hour.Start().Add(time.Minute),
				UserAgent: "kube-apiserver/" + s.at + " (linux/amd64) kubernetes/abc", User: audit.User{Username: "system:apiserver"},
				ObjectRef: audit.ObjectRef{APIGroup: "coordination.k8s.io", Resource: "leases", Namespace: "kube-system", Name: "apiserver-" + s.server},
			}, evidence.Origin{Source: "s"})
		}
		a := report.Authorization{Versions: c.versions, FeatureGates: c.gates}
		if got := limitedInTheEnd(&a, ledger, last-5, last, func(server string) bool { return server == "apiserver-ended" }); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// What breaks without the bindings breaks by the version at the end of the log. A role is suggested in any case: the client needs it at the next upgrade.
func TestWhatBreaksAcrossTheUpgradeThatLimitsNodes(t *testing.T) {
	role := filepath.Join(t.TempDir(), "role.yaml")
	if err := os.WriteFile(role, []byte(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads}
rules: [{apiGroups: [""], resources: [pods, nodes], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reads}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:authenticated"}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ upgrade, bound bool }{{true, true}, {false, true}, {true, false}} {
		upgrade := x.upgrade
		for _, reads := range effort.Of([]string{"", "list pods", "get node", "list nodes of its own", "get pod that went", "get pod made again"}, []string{"list pods"}) {
			o := days.Options{Minor: 31, Servers: 2, Features: days.Deployments | days.Drains, NoBinding: !x.bound}
			if upgrade {
				o.Features |= days.Upgrade
			}
			day := threeHours(t, 61, o)
			plantRead(t, day, reads)
			needs := reads == "list pods" || reads == "get node"
			change := func() ChangeOptions {
				o := dayOptions(t, day)
				return ChangeOptions{Authorization: o.Authorization, Input: o.Input}
			}
			w, err := WhatIf(t.Context(), WhatIfOptions{ChangeOptions: change()})
			if err != nil {
				t.Fatal(err)
			}
			broken := func(g report.WhatIfGroup) bool { return g.Outcome == report.Breaks.String() && g.Client != "kubeadm" }
			if got := slices.ContainsFunc(w.Report.Groups, broken); got != (needs && upgrade && x.bound) {
				t.Errorf("%+v, %q: breaks %t", x, reads, got)
			}
			with := change()
			with.With = []string{role}
			if w, err = WhatIf(t.Context(), WhatIfOptions{ChangeOptions: with}); err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(w.Report.Groups, broken) {
				t.Errorf("%+v, %q: breaks, though another binding allows it", x, reads)
			}
			s, err := Suggest(t.Context(), SuggestOptions{ChangeOptions: change()})
			if err != nil {
				t.Fatal(err)
			}
			suggested := func(c report.SuggestedClient) bool { return c.Client == "node-reporter" }
			if got := slices.ContainsFunc(s.Suggestion.Clients, suggested); got != (needs && x.bound) {
				t.Errorf("%+v, %q: suggested %t", x, reads, got)
			}
		}
	}
}

// plantRead has an agent read with a node's credential in the first half hour.
func plantRead(t *testing.T, day *days.Day, what string) {
	t.Helper()
	i := slices.IndexFunc(day.Events, func(e *days.Event) bool {
		right := e.Verb == "get"
		if strings.HasPrefix(what, "get pod ") {
			right = e.Verb == "delete" && e.Ref.Resource == "pods"
		}
		return e.IsNode() && right && e.Code == 200 && e.Received.After(day.From.Add(10*time.Minute))
	})
	if i < 0 || day.Events[i].Received.After(day.From.Add(75*time.Minute)) {
		t.Fatal("no node gets anything, or deletes a pod")
	}
	e := *day.Events[i]
	if strings.HasPrefix(what, "get pod ") { // a kubelet's late look
		at := e.Received.Add(20 * time.Second)
		e.Verb, e.Code, e.Request, e.AuditID, e.Received, e.Staged = "get", 404, nil, "planted-read", at, at.Add(time.Millisecond)
		if what == "get pod made again" { // on another node
			e.Code = 200
		}
		i = slices.IndexFunc(day.Events, func(e *days.Event) bool { return e.Staged.After(at) })
		day.Events = slices.Insert(day.Events, i, &e)
		return
	}
	node := e.User.Username[len("system:node:"):]
	other := ""
	for _, x := range day.Events {
		if x.IsNode() && x.User.Username != e.User.Username {
			other = x.User.Username[len("system:node:"):]
		}
	}
	e.AuditID, e.UserAgent, e.Received, e.Staged = "planted-read", "node-reporter/v1.0", e.Received.Add(time.Millisecond), e.Staged.Add(time.Millisecond)
	switch what {
	case "":
		return
	case "list pods":
		e.Verb, e.URI, e.Ref = "list", "/api/v1/pods?limit=500", &days.Ref{Resource: "pods"}
	case "get node":
		e.URI, e.Ref = "/api/v1/nodes/"+other, &days.Ref{Resource: "nodes", Name: other}
	case "list nodes of its own":
		e.Verb, e.URI, e.Ref = "list", "/api/v1/nodes?fieldSelector=metadata.name%3D"+node, &days.Ref{Resource: "nodes", Name: node}
	}
	day.Events = slices.Insert(day.Events, i+1, &e)
}
