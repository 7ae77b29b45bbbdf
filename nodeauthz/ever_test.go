package nodeauthz

import (
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// What the rules of any version allow has always been ruled, and nothing else.
func TestEverRuled(t *testing.T) {
	ever := map[staticResource]verbSet{}
	for _, version := range Versions() {
		f, err := FeaturesFor(version)
		if err != nil {
			t.Fatal(err)
		}
		for _, gate := range GateNames() {
			_ = f.Set(gate, true) // not every version has each
		}
		for k, verbs := range newStaticRules(f) {
			ever[k] |= verbs
		}
	}
	for k, want := range ever {
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "approve"} {
			a := authorizer.AttributesRecord{ResourceRequest: true, APIGroup: k.group, Resource: k.resource, Subresource: k.subresource, Verb: verb}
			if got := EverRuled(&a); got != (want&verbOf(verb) != 0) {
				t.Errorf("%s %+v: %t", verb, k, got)
			}
		}
	}
	for _, a := range []authorizer.AttributesRecord{
		{ResourceRequest: true, Verb: "delete", Resource: "secrets"}, {ResourceRequest: true, Verb: "get", Resource: "pods", Subresource: "log"}, {Verb: "get", Path: "/metrics"},
	} {
		if EverRuled(&a) {
			t.Errorf("%+v", a)
		}
	}
}
