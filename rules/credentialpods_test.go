package rules

import (
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// A kubelet asks for its own pods alone. Whoever asks for all of them, as a kubelet, and is let through without a binding, is found.
func TestPodsOfAllNodes(t *testing.T) {
	byNode := func(r *Request) {
		r.Allowed, r.Event.Code, r.Observed.NodeVerdict, r.Event.RequestURI = true, 200, nodeauthz.Allow, "/api/v1/pods"
	}
	selects := func(field, value string) with {
		return func(r *Request) {
			r.Attrs.FieldSelectorRequirements = fields.Requirements{{Field: field, Operator: selection.Equals, Value: value}}
		}
	}
	f := func(name string, want bool, changes ...with) {
		t.Helper()
		found, is := nodeCredentialMisuse().Find(request(changes...), nil, NewMemory())
		if is != want || want && (found.Reason != PodsOfAll || found.Severity != Medium) {
			t.Errorf("%s: %t %+v", name, is, found)
		}
	}
	f("list", true, does("list pods"), byNode)
	f("watch", true, does("watch pods"), byNode)
	f("of another node", true, does("list pods"), byNode, selects("spec.nodeName", "worker-2"))
	f("that run", true, does("list pods"), byNode, selects("status.phase", "Running"))
	f("its own", false, does("list pods"), byNode, selects("spec.nodeName", "worker-1"))
	f("one", false, does("watch pods shop/web"), byNode)
	f("by a binding", false, does("list pods"), byRBAC(200))
	f("refused", false, does("list pods"))
	f("a log without paths", false, does("list pods"), byNode, func(r *Request) { r.Event.RequestURI = "" })
	f("services", false, does("list services"), byNode)
}
