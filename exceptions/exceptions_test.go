package exceptions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/tally"
)

var day = time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)

func set(t *testing.T, match string) *Set {
	t.Helper()
	s, err := New([]Exception{{Rule: "rbac-excess-access", Match: match, Owner: "a", Reason: "b", Expires: day}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func calico() *Finding {
	return &Finding{
		Rule: "rbac-excess-access", Reason: "binding-needed", Severity: "high", Node: "worker-1", Verb: "list", APIGroup: "networking.k8s.io", Resource: "networkpolicies",
		UserAgent: "calico-node", Binding: "legacy:system:node", Allowed: true,
	}
}

func TestMatch(t *testing.T) {
	for match, want := range map[string]bool{
		"":                                   true,
		"true":                               true,
		`finding.userAgent == "calico-node"`: true,
		`finding.userAgent == "fluentd"`:     false,
		`finding.node.startsWith("worker-") && !(finding.resource in ["secrets", "configmaps"])`: true,
		`finding.node.matches("^worker-[0-9]+$") && finding.allowed`:                             true,
		`finding.severity == "critical" || finding.apiGroup.endsWith("k8s.io")`:                  true,
		`1 / size(finding.name) == 1`:                                                            false, // fails: it does not match
	} {
		if got := set(t, match).Covers(calico(), day); got != want {
			t.Errorf("%s: %t", match, got)
		}
	}
	other := calico()
	other.Rule = "node-identity"
	if set(t, "").Covers(other, day) {
		t.Error("a finding of another rule")
	}
}

func TestExpiry(t *testing.T) {
	s := set(t, "")
	if !s.Covers(calico(), day.Add(24*time.Hour-1)) || s.Covers(calico(), day.Add(24*time.Hour)) {
		t.Error("it ends with its last day")
	}
	if len(s.Matches(calico())) != 1 {
		t.Error("one that is expired matches still")
	}
	var none *Set
	if none.Covers(calico(), day) || none.All() != nil {
		t.Error("none")
	}
}

func TestRefused(t *testing.T) {
	head := "exceptions: [{rule: node-identity, owner: a, reason: b, expires: 2026-12-31, match: '"
	for text, want := range map[string]string{
		"exceptions: [{rule: nonsense, owner: a, reason: b, expires: 2026-12-31}]": `line 1: exception 1: there is no rule "nonsense"`,
		"exceptions: [{rule: node-identity, reason: b, expires: 2026-12-31}]":      "exception 1: it has no owner",
		"exceptions: [{rule: node-identity, owner: a, expires: 2026-12-31}]":       "exception 1: it has no reason",
		"exceptions: [{rule: node-identity, owner: a, reason: b}]":                 "exception 1: it has no expiry date (expires)",
		"exceptions: []\nwaivers: []":                                              "line 2: unknown key waivers",
		head + "finding.nod == \"a\"'}]":                                           "undefined field 'nod'",
		head + "finding.node == 1'}]":                                              "found no matching overload for '_==_'",
		head + "finding.node'}]":                                                   "match: the expression is a string, not true or false",
		head + "finding.node =='}]":                                                "Syntax error",
		head + "[1, 2].all(x, x > 0)'}]":                                           "undeclared reference to 'all'",
		head + strings.Repeat("(", 5000) + "'}]":                                   "longer than 4096 bytes",
		head + dear() + "'}]":                                                      "more than 20000: make it simpler",
	} {
		_, err := Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n  ") && !strings.Contains(want, "field") {
			t.Errorf("%.80s: %v, want %s", text, err, want)
		}
	}
	if _, err := Parse(nil); err != nil {
		t.Error(err)
	}
}

// dear looks at long texts again and again.
func dear() string {
	all := make([]string, 30)
	for i := range all {
		all[i] = fmt.Sprintf("(finding.node+finding.name+finding.node+finding.name).matches(%q)", fmt.Sprint("(a|b)*", i))
	}
	return strings.Join(all, " || ")
}

// What is printed to be pasted covers the finding, whatever it is named, once it is filled in.
func TestPaste(t *testing.T) {
	for _, name := range []string{"db", `it's "quoted" \ and
two lines: #`, "é\u202e\x00"} {
		f := calico()
		f.Name, f.Namespace = name, "shop"
		text := Paste(f, day)
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), "no owner") {
			t.Errorf("%q: %v", name, err)
		}
		all, err := Parse([]byte(strings.Replace(strings.Replace(text, `owner: ""`, "owner: a", 1), `reason: ""`, "reason: b", 1)))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		s, err := New(all)
		if err != nil {
			t.Fatal(err)
		}
		other := *f
		other.Node = "worker-2"
		if !s.Covers(f, day) || s.Covers(&other, day) {
			t.Errorf("%s", text)
		}
	}
}

// What is pasted covers what was found, and nothing worse: no other reason of the rule, and no request from another address.
func TestPasteCoversNothingWorse(t *testing.T) {
	from := func(all ...string) *Finding {
		f := calico()
		f.Address, f.others = all[0], all[1:]
		return f
	}
	worse := calico()
	worse.Reason = "secret-taken"
	for _, x := range []struct {
		pasted, now *Finding
		want        bool
	}{
		{calico(), calico(), true},
		{calico(), worse, false},
		{calico(), from("198.51.100.7"), true}, // its address says nothing
		{from("10.0.0.1"), from("10.0.0.1"), true},
		{from("10.0.0.1"), from("198.51.100.7"), false},
		{from("10.0.0.1"), from("10.0.0.1", "198.51.100.7"), false},
		{from("10.0.0.1", "10.0.0.2"), from("10.0.0.2", "10.0.0.1"), true},
		{from("10.0.0.1", "10.0.0.2"), from("198.51.100.7"), false},
	} {
		text := strings.Replace(strings.Replace(Paste(x.pasted, day), `owner: ""`, "owner: a", 1), `reason: ""`, "reason: b", 1)
		all, err := Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		s, err := New(all)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Covers(x.now, day); got != x.want {
			t.Errorf("%s\ncovers %q of %q: %v", text, x.now.Reason, append([]string{x.now.Address}, x.now.others...), got)
		}
	}
}

// An exception for an address is none for requests from another one, though they are the same finding.
func TestAddressesOfAFinding(t *testing.T) {
	from := func(all ...string) *Finding {
		f := calico()
		f.Address = all[0]
		var o tally.Origins
		for _, a := range all {
			o.Add(&tally.Origin{User: "system:node:n", Address: tally.Address{Address: a}})
		}
		f.From(&o)
		return f
	}
	const one, both = `finding.address == "10.0.0.1"`, `finding.address in ["10.0.0.1", "10.0.0.2"]`
	for _, x := range []struct {
		match string
		f     *Finding
		want  bool
	}{
		{one, from("10.0.0.1"), true}, {one, from("10.0.0.2"), false}, {one, from("10.0.0.1", "198.51.100.7"), false}, {one, from("198.51.100.7", "10.0.0.1"), false},
		{both, from("10.0.0.1", "10.0.0.2"), true}, {both, from("10.0.0.2", "10.0.0.1"), true}, {both, from("10.0.0.2", "10.0.0.1", "10.0.0.3"), false}, {"", from("10.0.0.1", "10.0.0.2"), true},
	} {
		if got := set(t, x.match).Covers(x.f, day); got != x.want {
			t.Errorf("%s of %s and %q: %t", x.match, x.f.Address, x.f.others, got)
		}
	}
}
