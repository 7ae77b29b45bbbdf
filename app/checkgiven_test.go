package app

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
)

// Who writes a role needs escalate for it, and who writes a binding bind for the role of just that kind, which the body names.
func TestSparing(t *testing.T) {
	for _, c := range []struct {
		verb, resource, name string
		request, response    string
		want                 []string
	}{
		{"update", "clusterroles", "r", "", "", []string{"escalate clusterroles r"}},
		{"create", "roles", "", "", `{"metadata":{"name":"r"}}`, []string{"escalate roles "}},
		{"create", "clusterrolebindings", "", "", "", []string{"bind clusterroles "}},
		{"create", "clusterrolebindings", "", `{"roleRef":{"kind":"ClusterRole","name":"view"}}`, "", []string{"bind clusterroles view"}},
		{"create", "rolebindings", "", "", "", []string{"bind clusterroles ", "bind roles "}},
		{"create", "rolebindings", "", `{"roleRef":{"kind":"Role","name":"view"}}`, "", []string{"bind roles view"}},
		{"create", "rolebindings", "", `{"roleRef":{"kind":"ClusterRole","name":"view"}}`, "", []string{"bind clusterroles view"}},
		{"update", "rolebindings", "b", `{"roleRef":{"kind":"ClusterRole","name":"other"}}`, `{"roleRef":{"kind":"Role","name":"view"}}`, []string{"bind roles view"}},
		{"patch", "rolebindings", "b", `{"roleRef":{"kind":"Role","name":"view"}}`, "", []string{"bind clusterroles ", "bind roles "}},
		{"patch", "rolebindings", "b", `{"subjects":[]}`, `{"roleRef":{"kind":"Role","name":"view"}}`, []string{"bind roles view"}},
		{"create", "rolebindings", "", `{"roleRef":{"kind":"Ro`, `{"kind":"Status"}`, []string{"bind clusterroles ", "bind roles "}},
	} {
		ev := &audit.Event{RequestObject: []byte(c.request), ResponseObject: []byte(c.response)}
		j := &pipeline.Judgement{Request: rules.Request{Event: ev, Attrs: &authorizer.AttributesRecord{Verb: c.verb, Resource: c.resource, Name: c.name, Namespace: "shop"}}}
		var got []string
		for _, a := range sparing(j) {
			got = append(got, fmt.Sprintf("%s %s %s", a.Verb, a.Resource, a.Name))
			if a.Namespace != "shop" {
				t.Errorf("%v: in namespace %q", c, a.Namespace)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s %s %s %s (-want +got):\n%s", c.verb, c.resource, c.request, c.response, diff)
		}
	}
}

// Whatever spares somebody the rights that he gives others, or the groups that he may have asked for, the day is not READY if it is of another kind of role, or ends.
func TestSparedAndNot(t *testing.T) {
	for name, kinds := range map[string]int{"gives-rights": 20, "may-ask-for-group": 8} {
		t.Run(name, func(t *testing.T) { openInEachForm(t, name, kinds) })
	}
}

// openInEachForm holds that nothing-depends does not pass for any form of the mutation, of which there are so many at least.
func openInEachForm(t *testing.T, name string, kinds int) {
	t.Helper()
	all := days.Mutations(0)
	m, seen := all[slices.IndexFunc(all, func(m days.Mutation) bool { return m.Name == name })], map[string]bool{}
	for m.Seed = range uint64(60) {
		bad, ok := m.Apply(threeHours(t, 13, days.Options{}))
		if !ok {
			t.Fatal("it does not apply")
		}
		if what := bad.Applied[0].What; !seen[what] {
			seen[what] = true
			if got := open(provenDay(t, bad))["nothing-depends"]; len(got) == 0 {
				t.Errorf("%s: READY", what)
			}
		}
	}
	if len(seen) < kinds {
		t.Errorf("only %d kinds", len(seen))
	}
}

// A policy needs the right to read its parameters only if it has some, which only the object as it was stored shows.
func TestMayHaveParameters(t *testing.T) {
	for _, c := range []struct {
		resource, response string
		want               bool
	}{
		{"validatingadmissionpolicies", "", true},
		{"validatingadmissionpolicies", `{"kind":"Status"}`, true},
		{"validatingadmissionpolicies", `{"spec":{"paramKind":{"apiVersion":"v1","kind":"ConfigMap"}}}`, true},
		{"validatingadmissionpolicies", `{"spec":{"paramKind":null}}`, false},
		{"validatingadmissionpolicies", `{"spec":{"validations":[]}}`, false},
		{"mutatingadmissionpolicies", `{"spec":{"paramKind":{}}}`, true},
		{"validatingadmissionpolicybindings", `{"spec":{"paramRef":{"name":"a"}}}`, true},
		{"mutatingadmissionpolicybindings", `{"spec":{"policyName":"a"}}`, false},
		{"mutatingadmissionpolicybindings", `{"spec":`, true},
		{"validatingwebhookconfigurations", "", false},
	} {
		ev := &audit.Event{RequestObject: []byte(`{"spec":{}}`), ResponseObject: []byte(c.response)}
		if got := mayHaveParameters(c.resource, ev); got != c.want {
			t.Errorf("%s %s: %t", c.resource, c.response, got)
		}
	}
}

// What admission refuses for now is no refusal that the client would get anyway.
func TestOutcomeOfRefusal(t *testing.T) {
	for message, want := range map[string]checks.Outcome{
		`pods "a" is forbidden: exceeded quota: shop, requested: pods=1, used: pods=10, limited: pods=10`: checks.OutcomeFailed,
		`pods "a" is forbidden: violates PodSecurity "restricted:latest"`:                                 checks.OutcomeRefused,
	} {
		j := &pipeline.Judgement{Request: rules.Request{
			Event: &audit.Event{Code: 403, StatusMessage: message}, Attrs: &authorizer.AttributesRecord{Verb: "create"}, Allowed: true,
			Observed: rules.Observed{Decision: "allow"},
		}}
		if got := outcomeOf(j); got != want {
			t.Errorf("%s: %v, want %v", message, got, want)
		}
	}
}
