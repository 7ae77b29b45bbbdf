package app

import (
	"testing"

	"github.com/nodetrail/nodetrail/audit"
)

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
