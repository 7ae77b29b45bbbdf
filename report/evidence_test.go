package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// A client has its nodes, objects, last request and trend; requests that failed anyway do not count.
func TestClients(t *testing.T) {
	l := newLog(t)
	day := func(d int) change { return func(r *rules.Request) { r.Time = at(0).AddDate(0, 0, d) } }
	late := func(d int, what string, changes ...change) {
		j := judged(what, append(changes, day(d))...)
		for _, rule := range rules.All() {
			if rule.Check == nil {
				continue
			}
			if f, found := rule.Find(&j.Request, nil, l.memory); found && rule.Name == rules.ExcessAccess {
				e := tally.Entry{Time: j.Time, IsNode: true, Node: j.Node, Findings: []tally.Finding{{
					Key: tally.Key{
						Rule: f.Rule, Node: j.Node, Verb: j.Attrs.Verb, Resource: j.Attrs.Resource, Namespace: j.Attrs.Namespace, Name: j.Attrs.Name,
						Product: rules.Product(j.Event.UserAgent), Binding: j.Grant.Binding,
					}, Severity: f.Severity, Reason: f.Reason, Params: f.Params,
				}}}
				l.b.AddEntry(&e)
			}
		}
	}
	legacy, calico := byRBAC("legacy"), agent("calico-node/v3")
	late(0, "worker-1 get secrets shop/db", legacy, calico)
	late(2, "worker-2 get secrets shop/db", legacy, calico)
	late(2, "worker-2 get secrets shop/db", legacy, calico)
	late(1, "worker-2 get pods shop/gone", legacy, calico, code(404))
	got := l.b.Report(facts(4)).Readiness.Clients
	want := []Client{{
		UserAgent: "calico-node", Binding: "ClusterRoleBinding legacy", Requests: 3, Nodes: 2, First: at(0), Last: at(0).AddDate(0, 0, 2),
		Days: []Day{{"2026-11-21", 1}, {"2026-11-22", 0}, {"2026-11-23", 2}},
		Needs: []Need{
			{Node: "worker-2", Verb: "get", Resource: "secrets", Namespace: "shop", Name: "db", Count: 2, Last: at(0).AddDate(0, 0, 2)},
			{Node: "worker-1", Verb: "get", Resource: "secrets", Namespace: "shop", Name: "db", Count: 1, Last: at(0)},
		},
		ref: Binding{"ClusterRoleBinding", "", "legacy"},
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Client{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range MaxNeeds + 3 {
		late(0, fmt.Sprintf("worker-1 get secrets shop/s%d", i), legacy, calico)
	}
	if c := l.b.Report(facts(4)).Readiness.Clients[0]; len(c.Needs) != MaxNeeds || c.More != 5 {
		t.Errorf("%d needs and %d more", len(c.Needs), c.More)
	}
}

func TestIdentitiesByReason(t *testing.T) {
	similar := func(name string) codes.Params { return codes.Params{codes.Text(rules.ParamSimilar, name)} }
	for _, x := range []struct {
		rule, node string
		reason     rules.Reason
		params     codes.Params
		want       string
	}{
		{rules.NodeIdentity, "n", rules.GroupMissing, nil, "group missing"},
		{rules.NodeIdentity, "n", rules.NameForm, nil, "name form"},
		{rules.NodeIdentity, "n", rules.NameEmpty, nil, "name form"},
		{rules.NodeIdentity, "n", rules.NoNodeIdentity, nil, "no node identity"},
		{rules.NodeIdentity, "x", rules.NodeMissing, nil, "unregistered name"},
		{rules.NodeIdentity, "X", rules.NameLetterCase, similar("x"), "letter case"},
		{rules.NodeIdentity, strings.Repeat("X", 180), rules.NameLetterCase, similar(strings.Repeat("x", 180)), "letter case"},
		{rules.NodeIdentity, "ghost, which differs in its letter case", rules.NodeMissing, nil, "unregistered name"},
		{rules.NodeIdentity, "x", rules.NameDomain, similar("x.y"), "host name"},
		{rules.CredentialMisuse, "n", rules.SharedCertificate, nil, "shared certificate"},
		{rules.CredentialMisuse, "n", rules.SecondAddress, nil, ""},
		{rules.ExcessAccess, "n", rules.BindingNeeded, nil, ""},
	} {
		b := NewBuilder()
		for _, client := range []string{"b", "a", "b"} {
			b.AddEntry(&tally.Entry{Time: at(0), Findings: []tally.Finding{{
				Key: tally.Key{Rule: x.rule, Node: x.node, Reason: x.reason, Product: client}, Reason: x.reason, Severity: rules.High, Params: x.params,
			}}})
		}
		want := []Identity{}
		if x.want != "" {
			key, group := tally.Key{Node: x.node}, tally.Group{Reason: x.reason, Params: x.params}
			want = append(want, Identity{x.node, x.reason, x.want, wording.English{}.Finding(&key, &group), 3, []string{"a", "b"}, at(0)})
		}
		r := b.Report(facts(1))
		if diff := cmp.Diff(want, r.Readiness.Identities); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", x.rule, x.reason, diff)
		}
		if x.want != "" && len(r.Readiness.Blockers) != 1 {
			t.Errorf("%s %s: blockers %q", x.rule, x.reason, r.Readiness.Blockers)
		}
	}
}

// Each node that the cluster has must be in the log.
func TestUnseenNodes(t *testing.T) {
	l := newLog(t)
	l.many(3)
	f := facts(3)
	f.Nodes = []string{"worker-3", "worker-1", "worker-2"}
	x := l.b.Report(f).Readiness
	want := []Hole{{
		codes.Gap{Kind: codes.Node, Code: codes.NodesUnseen, Params: codes.Params{
			codes.Int(codes.ParamCount, 2), codes.Text(codes.ParamNode, "worker-2"), codes.Text(codes.ParamNode, "worker-3"),
		}}, "2 nodes of the cluster made no request that was logged: worker-2, worker-3",
	}}
	if diff := cmp.Diff(want, x.Holes); diff != "" || !slices.Equal(x.Unseen, []string{"worker-2", "worker-3"}) {
		t.Errorf("unseen %q (-want +got):\n%s", x.Unseen, diff)
	}
	f.Nodes = []string{"worker-1"}
	if x := l.b.Report(f).Readiness; len(x.Holes) > 0 {
		t.Errorf("all were seen: %v", x.Holes)
	}
}

// A node's silence is a hole until it is over; nobody knows whether one of a day is.
func TestSilentNode(t *testing.T) {
	f := func(name string, first, last time.Duration, holes int) {
		t.Helper()
		b := NewBuilder()
		end := at(0).Add(48 * time.Hour)
		b.AddEntry(&tally.Entry{Time: end, IsNode: true, Node: "worker-2", Verdict: nodeauthz.Allow, Observed: nodeauthz.Allow})
		for _, when := range []time.Duration{first, last} {
			b.AddEntry(&tally.Entry{Time: end.Add(when), Findings: []tally.Finding{{
				Key: tally.Key{Rule: rules.CoverageGap, Node: "worker-1", Reason: rules.NodeSilent}, Reason: rules.NodeSilent, Severity: rules.Low,
			}}})
		}
		if got := b.Report(facts(1)).Readiness; len(got.Holes) != holes || len(got.Warnings) != 1 {
			t.Errorf("%s: %v, %q", name, got.Holes, got.Warnings)
		}
	}
	f("lasts", -time.Hour, -10*time.Minute, 1)
	f("is over", -2*time.Hour, -time.Hour, 0)
	f("was reported for a day", -40*time.Hour, -16*time.Hour, 1)
}

// What the caller knows to be missing is a gap, reported once, and so is a rule without which nothing can be found.
func TestLacks(t *testing.T) {
	l := newLog(t)
	l.many(3)
	f := facts(3)
	lack := codes.Gap{Kind: codes.Log, Code: codes.LogUnread, Params: codes.Params{codes.Text(codes.ParamTrouble, "x")}}
	f.Lacks, f.Gaps, f.Disabled = []codes.Gap{lack}, []codes.Gap{lack}, []string{"secret-enumeration", "node-identity"}
	x := l.b.Report(f).Readiness
	want := []Hole{{lack, "the log was not read to its end: x"}, {codes.Gap{
		Kind: codes.Rule, Code: codes.RuleDisabled, Params: codes.Params{codes.Text(codes.ParamRule, rules.NodeIdentity)},
	}, "the rule node-identity was not checked"}}
	if diff := cmp.Diff(want, x.Holes); diff != "" || len(x.Warnings) != 2 {
		t.Errorf("%+v (-want +got):\n%s", x, diff)
	}
}

// Only what the migration deletes goes; where no bindings are known, what was used.
func TestBindingsToGo(t *testing.T) {
	ref := func(name string) Binding { return Binding{"ClusterRoleBinding", "", name} }
	used := &Readiness{Clients: []Client{{ref: ref("used")}, {ref: Binding{"Thing", "", "odd"}}, {ref: ref("used")}, {}}}
	f := func(known []NodeBinding, want ...string) {
		t.Helper()
		got := []string{}
		for _, b := range bindingsToGo(used, known) {
			got = append(got, b.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: %q, want %q", known, got, want)
		}
	}
	f(nil, "used")
	f([]NodeBinding{})
	f([]NodeBinding{
		{Binding: ref("legacy"), Role: "system:node", Fate: "goes"}, {Binding: ref("copied"), Role: "of-nodes", Fate: "goes"},
		{Binding: ref("canary"), Role: "system:node"}, {Binding: ref("used"), Role: "kubeadm:get-nodes"},
	}, "copied", "legacy")
}

func TestShellWord(t *testing.T) {
	for s, want := range map[string]string{
		"legacy:system:node": "legacy:system:node", "a b": "'a b'", "it's": `'it'\''s'`, "$(reboot)": "'$(reboot)'", "-o": "'./-o'", "": "''", "a\nb": `'a\u{a}b'`,
	} {
		if got := shellWord(s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}

// Whatever the names, the Markdown has the same lines, cells and fences, and nothing in it is markup that a name made.
func TestHostileMarkdown(t *testing.T) {
	pasted := regexp.MustCompile(`(?m)^    .*\n`)
	shape := func(s string) (int, int, int) {
		cells := len(regexp.MustCompile(`(^|[^\\])\|`).FindAllString(pasted.ReplaceAllString(s, ""), -1))
		return strings.Count(s, "\n"), cells, strings.Count(s, "\n   ```")
	}
	lines, cells, fences := shape(asMarkdown(t, hostileReport(t, "harmless")))
	link := regexp.MustCompile(`[^\\]\[|<[^jafp]|://`)
	for _, s := range append(hostileStrings(), "[x](http://evil.example)", "![x](y)", "a|b", "**b**", "@team", "~~~", "#") {
		got := asMarkdown(t, hostileReport(t, s))
		if l, c, f := shape(got); l != lines || c != cells || f != fences {
			t.Errorf("%q: %d lines, %d cells, %d fences; want %d, %d, %d:\n%s", s, l, c, f, lines, cells, fences, got)
		}
		text := regexp.MustCompile("(?s)   ```sh.*?\n   ```\n").ReplaceAllString(pasted.ReplaceAllString(got, ""), "")
		if m := link.FindString(text); m != "" {
			t.Errorf("%q: markup %q in\n%s", s, m, text)
		}
	}
}
