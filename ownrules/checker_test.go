package ownrules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

// state knows one pod and one node.
type state struct{ rules.State }

func (state) NodeRegistered(name string, _ time.Time) (bool, bool)       { return name == "w1", name != "w3" }
func (state) Leads(*authorizer.AttributesRecord, string, time.Time) bool { return false }
func (state) Had(*authorizer.AttributesRecord, string, time.Time) bool   { return false }
func (state) PodsWatched(time.Time) bool                                 { return true }
func (state) NodeExists(name string, _ time.Time) (bool, bool)           { return name == "w1", true }
func (state) NodeAddressSets(string, time.Time) [][]string               { return nil }

func (state) NodeAddresses(name string) []string {
	if name == "w1" {
		return []string{"10.0.0.1", "::1", "w1"}
	}
	return nil
}

func (state) PodNode(namespace, name string, _ time.Time) (string, bool) {
	return "w2", namespace == "shop" && name == "web"
}

// request is one that a test changes.
func request() *rules.Request {
	return &rules.Request{
		Event: &audit.Event{
			UserAgent: "curl/8.0", SourceIPs: []string{"1.2.3.4", "10.0.0.9"}, Code: 200, RequestURI: "/api/v1/namespaces/shop/pods/web?x=y", User: audit.User{Username: "system:node:w1", Groups: []string{"system:nodes"}, CredentialID: "X509SHA256=ab"},
			ObjectRef: audit.ObjectRef{Name: "web"},
		},
		Attrs: &authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "system:node:w1"}, Verb: "get", Resource: "pods", Namespace: "shop", Name: "web", ResourceRequest: true},
		Time:  time.Date(2026, 11, 21, 6, 4, 30, 0, time.UTC), Node: "w1", IsNode: true, Allowed: true,
		Answer: nodeauthz.Answer{Verdict: nodeauthz.Deny, Reason: "no relationship"}, Observed: rules.Observed{Decision: "allow", NodeVerdict: nodeauthz.Deny},
		Grant: rbac.Grant{Binding: rbac.BindingRef{Kind: "RoleBinding", Namespace: "shop", Name: "readers"}, Role: rbac.RoleRef{Name: "reader"}}, HasGrant: true,
		Admission: rules.Admission{Answer: nodeadmission.Answer{Verdict: nodeadmission.Deny, Message: "no"}, Observed: nodeadmission.ObservedAllow},
	}
}

// found are the names of what the set finds, with a sign for what failed.
func found(all []rules.OwnFinding) []string {
	var out []string
	for _, f := range all {
		name := f.Finding.Rule
		switch f.Finding.Reason {
		case rules.OwnFailed:
			name += "?"
		case rules.OwnCostly:
			name += "!"
		}
		out = append(out, name)
	}
	return out
}

// Every field is read from a real request and state.
func TestFields(t *testing.T) {
	want := map[string]string{
		"request.verb": "get", "request.resource": "pods", "request.subresource": "", "request.apiGroup": "", "request.namespace": "shop", "request.name": "web", "request.path": "",
		"request.uri": "/api/v1/namespaces/shop/pods/web?x=y", "request.isNode": "true", "request.node": "w1", "request.user": "system:node:w1", "request.groups": "system:nodes", "request.impersonator": "",
		"request.credential": "X509SHA256=ab", "request.userAgent": "curl/8.0", "request.client": "curl", "request.kubelet": "false", "request.address": "10.0.0.9", "request.addresses": "1.2.3.4, 10.0.0.9",
		"request.allowed": "true", "request.succeeded": "true", "request.code": "200", "request.time": "2026-11-21T06:04:30Z", "request.hour": "6",
		"verdict.node": "deny", "verdict.observed": "deny", "verdict.denied": "true", "verdict.needsRBAC": "true", "verdict.race": "false", "verdict.reason": "no relationship", "verdict.decision": "allow",
		"verdict.binding": "shop/readers", "verdict.role": "reader",
		"admission.verdict": "deny", "admission.observed": "allow", "admission.outcome": "passed-not-refused", "admission.bypassed": "true", "admission.message": "no",
		"state.nodeRegistered": "true", "state.nodeExists": "true", "state.nodeAddresses": "10.0.0.1, ::1, w1", "state.addressOfNode": "false", "state.podNode": "w2",
	}
	in := subject{r: request(), s: state{}}
	for i := range fields {
		f := &fields[i]
		if got, is := want[f.Path()]; !is || f.shown(&in) != got {
			t.Errorf("%s: %q, want %q", f.Path(), f.shown(&in), got)
		}
		if f.Values != nil && !slices.Contains(f.Values, f.shown(&in)) {
			t.Errorf("%s: %q is none of its values", f.Path(), f.shown(&in))
		}
		empty := subject{r: &rules.Request{Event: &audit.Event{}, Attrs: &authorizer.AttributesRecord{}}}
		if f.Values != nil && !slices.Contains(f.Values, f.shown(&empty)) {
			t.Errorf("%s of an empty request: %q is none of its values", f.Path(), f.shown(&empty))
		}
		if f.Optional() != (f.shown(&empty) == "unknown") || f.Optional() != (f.Group == "state") {
			t.Errorf("%s: what is not known of an empty request: %q", f.Path(), f.shown(&empty))
		}
	}
	if len(fields) != len(want) {
		t.Errorf("%d fields, %d wanted", len(fields), len(want))
	}
}

func TestCheck(t *testing.T) {
	for match, want := range map[string]string{
		"true": "a-rule", "false": "", `request.verb == "get" && request.client == "curl"`: "a-rule", `request.verb == "get" && request.client == "kubelet"`: "",
		`request.verb == "list" || verdict.needsRBAC`: "a-rule", `'!(request.verb in ["get", "list"])'`: "", `'"system:nodes" in request.groups'`: "a-rule",
		`state.podNode != request.node && !state.addressOfNode`: "a-rule", `has(state.podNode) && state.podNode == "w1"`: "",
		`request.time > timestamp("2026-11-21T06:00:00Z") && request.time.getDayOfWeek() == 6`: "a-rule",
		`1 / (request.code - 200) == 1`:                                 "a-rule?",
		`1 / (request.code - 200) == 1 && request.verb == "list"`:       "", // false, whatever the other part is
		`1 / (request.code - 200) == 1 && request.verb == "get"`:        "a-rule?",
		`1 / (request.code - 200) == 1 || request.verb == "get"`:        "a-rule",
		`dyn(request).verb == "get"`:                                    "a-rule?", // only what was type-checked is there
		`request == request`:                                            "a-rule?",
		`request.userAgent.matches("^cu.l/") && request.name == "web"`:  "a-rule",
		`'request.uri.contains("?x=") && request.address != "1.2.3.4"'`: "a-rule",
	} {
		s, err := load(rule(match))
		if err != nil {
			t.Fatalf("%s: %v", match, err)
		}
		c := s.Checker()
		for range 2 { // the second time by what is remembered
			if got := strings.Join(found(c.Check(request(), state{}, rules.NewMemory())), " "); got != want {
				t.Errorf("%s: %q", match, got)
			}
		}
	}
}

// An expression that is cheap for the texts that Kubernetes has is stopped when a request brings longer ones, and says so.
func TestCostAtRunTime(t *testing.T) {
	s, err := load(rule(`'(request.uri + request.user).contains("x")'`) + "- {name: b-rule, severity: critical, message: m, match: request.isNode}\n")
	if err != nil {
		t.Fatal(err)
	}
	c := s.Checker()
	r := request()
	if got := found(c.Check(r, nil, nil)); !slices.Equal(got, []string{"a-rule", "b-rule"}) {
		t.Error(got)
	}
	r.Event.RequestURI = strings.Repeat("é", 1<<20)
	all := c.Check(r, nil, nil)
	if got := found(all); !slices.Equal(got, []string{"a-rule!", "b-rule"}) {
		t.Error(got)
	}
	f := all[0].Finding
	if f.Severity != rules.Low || f.Params.Text(rules.ParamLimit) != fmt.Sprint(maxCost) || f.Subject != "" || f.Apart != string(rules.OwnCostly) {
		t.Errorf("%+v", f)
	}
}

func TestFinding(t *testing.T) {
	s, err := load("rules: [{name: r, severity: critical, title: A title, message: 'by {request.client} of {request.user}', match: 'request.code == 200'}]")
	if err != nil {
		t.Fatal(err)
	}
	r := request()
	f := s.Checker().Check(r, nil, nil)[0]
	want := rules.Finding{Rule: "r", Reason: rules.OwnMatch, Severity: rules.Critical, Subject: "w1", Allowed: true, Params: codes.Params{{Key: codes.ParamMessage, Value: "by curl of system:node:w1"}}}
	if fmt.Sprint(f.Finding) != fmt.Sprint(want) || f.Rule.Title() != "A title" || f.Rule.Runbook() != rules.OwnPage {
		t.Errorf("%+v", f.Finding)
	}
	r.IsNode, r.Node = false, ""
	r.Event.User.Username = "\x1b[31m" + strings.Repeat("é", 4000)
	f = s.Checker().Check(r, nil, nil)[0]
	if f.Finding.Subject != r.Event.User.Username || len(f.Finding.Params[0].Value) > 2*maxShown || !utf8.ValidString(f.Finding.Params[0].Value) {
		t.Errorf("%+v", f.Finding)
	}
}

// What filters and what they remember say is what the whole expression says, for random expressions and requests; and nothing panics.
func TestFiltersChangeNothing(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range effort.Of(60, 10) {
		var b strings.Builder
		b.WriteString("rules:\n")
		for i := range 1 + rnd.IntN(90) {
			fmt.Fprintf(&b, "- {name: r%d, severity: low, message: '%s', match: '%s'}\n", i, "{request.name} {state.podNode} {request.groups} {request.time}", randomMatch(rnd, 3))
		}
		s, err := load(b.String())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		c, other := s.Checker(), newChecker(s)
		for range 200 {
			r, st := randomRequest(rnd)
			var want []string
			other.in = subject{r: r, s: st, m: rules.NewMemory()}
			for _, rule := range s.rules {
				switch yes, err := other.eval(rule.compiled.whole); {
				case err != nil:
					want = append(want, rule.Name+"?")
				case yes:
					want = append(want, rule.Name)
				}
			}
			got := found(c.Check(r, st, rules.NewMemory()))
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: got %v\nwant %v\n%s", seed, got, want, b.String())
			}
		}
	}
}

// randomMatch is an expression that is true or false, or fails.
func randomMatch(rnd *rand.Rand, depth int) string {
	if depth > 0 {
		switch rnd.IntN(6) {
		case 0, 1, 2:
			return randomMatch(rnd, depth-1) + " && " + randomMatch(rnd, depth-1)
		case 3:
			return "(" + randomMatch(rnd, depth-1) + " || " + randomMatch(rnd, depth-1) + ")"
		case 4:
			return "!(" + randomMatch(rnd, depth-1) + ")"
		}
	}
	f := &fields[rnd.IntN(len(fields))]
	p := f.Path()
	switch f.kind {
	case boolean:
		return p
	case number:
		return []string{p + " == 200", p + " >= 400", "10 / " + p + " > 1", p + " in [1, 6, 403]"}[rnd.IntN(4)]
	case list:
		return []string{"size(" + p + ") > 1", `"system:nodes" in ` + p, p + `[1] == "a"`}[rnd.IntN(3)]
	case timestamp:
		return p + ` > timestamp("2026-11-21T06:00:00Z")`
	}
	if f.Values != nil {
		return fmt.Sprintf("%s != %q", p, f.Values[rnd.IntN(len(f.Values))])
	}
	return []string{
		p + ` == "a"`, p + ` in ["get", "pods", "w1", "curl"]`, p + `.startsWith("s")`, "size(" + p + ") > 3", "int(" + p + ") == 1", p + `.matches("^[a-z]+$")`, p + " == request.name", "has(" + p + ")",
	}[rnd.IntN(8)]
}

func randomRequest(rnd *rand.Rand) (*rules.Request, rules.State) {
	word := func() string {
		words := []string{"", "a", "get", "pods", "secrets", "w1", "w2", "w3", "web", "shop", "curl", "kubelet/v1.36 (linux)", "system:nodes", "12", "\x00\x1b[2J", "\xff\xfe", "\u202e", strings.Repeat("x", 300), "secret" + strings.Repeat("y", 300), "10.0.0.1"}
		return words[rnd.IntN(len(words))]
	}
	words := func() []string {
		out := make([]string, rnd.IntN(4))
		for i := range out {
			out[i] = word()
		}
		return out
	}
	yes := func() bool { return rnd.IntN(2) == 0 }
	r := &rules.Request{
		Event: &audit.Event{
			UserAgent: word(), SourceIPs: words(), Code: int32(rnd.IntN(3) * 200), RequestURI: word(), IsImpersonated: yes(), User: audit.User{Username: word(), Groups: words(), CredentialID: word()},
			Impersonated: audit.User{Username: word(), Groups: words()}, ObjectRef: audit.ObjectRef{Name: word()}, StatusMessage: word(),
		},
		Attrs: &authorizer.AttributesRecord{Verb: word(), Resource: word(), Namespace: word(), Name: word(), APIGroup: word(), Subresource: word(), Path: word(), ResourceRequest: yes()},
		Time:  time.Unix(int64(rnd.IntN(1<<31)), 0), Node: word(), IsNode: yes(), Allowed: yes(),
		Answer:   nodeauthz.Answer{Verdict: nodeauthz.Verdict(rnd.IntN(4)), Reason: word(), Race: yes()},
		Observed: rules.Observed{Decision: word(), NodeVerdict: nodeauthz.Verdict(rnd.IntN(4))}, HasGrant: yes(), Grant: rbac.Grant{Binding: rbac.BindingRef{Namespace: word(), Name: word()}},
		Admission: rules.Admission{Answer: nodeadmission.Answer{Verdict: nodeadmission.Verdict(rnd.IntN(4)), Message: word(), Race: yes()}, Observed: nodeadmission.Observed(rnd.IntN(4))},
	}
	if rnd.IntN(8) == 0 {
		r.Time = time.Time{}
	}
	if yes() {
		return r, nil
	}
	return r, state{}
}
