package rules_test

import (
	"os"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// TestMain gives the tests of this package, which imports no sentences, what makes them.
func TestMain(m *testing.M) {
	rules.Say = func(f *rules.Finding, a *authorizer.AttributesRecord, product string, d *rules.Detection) string {
		k := tally.Key{Rule: f.Rule, Node: f.Subject, Reason: f.Reason, Apart: f.Apart, Product: product, Binding: f.Binding}
		switch {
		case d != nil:
			k.Verb, k.APIGroup, k.Resource, k.Subresource, k.Namespace, k.Name = d.Verb, d.APIGroup, d.Resource, d.Subresource, d.Namespace, d.Name
		case a.ResourceRequest:
			k.Verb, k.APIGroup, k.Resource, k.Subresource, k.Namespace, k.Name = a.Verb, a.APIGroup, a.Resource, a.Subresource, a.Namespace, a.Name
		default:
			k.Verb, k.Name = a.Verb, a.Path
		}
		return wording.English{}.Finding(&k, &tally.Group{Reason: f.Reason, Params: f.Params, Severity: f.Severity})
	}
	os.Exit(m.Run())
}

// said is the sentence of a detection.
func said(d *rules.Detection) string { return rules.Say(&d.Finding, nil, d.Product, d) }
