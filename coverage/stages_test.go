package coverage

import (
	"slices"
	"testing"

	internal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/codes"
)

// What is lost follows from the events that an API server writes of a request that ends, of one that is still open, and of one at which it panics.
func TestLoses(t *testing.T) {
	const received, started, complete, panicked = internal.StageRequestReceived, internal.StageResponseStarted, internal.StageResponseComplete, internal.StagePanic
	all := []internal.Stage{received, started, complete, panicked}
	for mask := range 1 << len(all) {
		var omits []internal.Stage
		for i, s := range all {
			if mask>>i&1 == 1 {
				omits = append(omits, s)
			}
		}
		some := func(stages ...internal.Stage) bool {
			return slices.ContainsFunc(stages, func(s internal.Stage) bool { return !slices.Contains(omits, s) })
		}
		for _, long := range []bool{false, true} {
			decided := []internal.Stage{complete} // by these events the log has the decision on a request that ends
			if long {
				decided = append(decided, started)
			}
			var want codes.Code
			switch {
			case !some(append(decided, received)...):
				want = codes.PolicyLacks
			case !some(decided...):
				want = codes.PolicyLacksDecision
			case long && !some(started):
				want = codes.PolicyLacksStart
			case !long && !some(received, panicked):
				want = codes.PolicyLacksPanic
			}
			if got := loses(omits, long); got != want {
				t.Errorf("without %q, long %t: %q, want %q", omits, long, got, want)
			}
		}
	}
}

func TestIsLong(t *testing.T) {
	for _, c := range []struct {
		a    authorizer.AttributesRecord
		want bool
	}{
		{authorizer.AttributesRecord{ResourceRequest: true, Verb: "watch", Resource: "secrets"}, true},
		{authorizer.AttributesRecord{ResourceRequest: true, Verb: "create", Resource: "pods", Subresource: "exec"}, true},
		{authorizer.AttributesRecord{ResourceRequest: true, Verb: "get", Resource: "nodes", Subresource: "proxy", Path: "/api/v1/nodes/a/proxy"}, true},
		{authorizer.AttributesRecord{ResourceRequest: true, Verb: "list", Resource: "secrets"}, false},
		{authorizer.AttributesRecord{ResourceRequest: true, Verb: "get", Resource: "pods", Subresource: "status", Path: "/debug/pprof/"}, false},
		{authorizer.AttributesRecord{Verb: "watch", Path: "/x"}, true},
		{authorizer.AttributesRecord{Verb: "get", Path: "/debug/pprof/profile"}, true},
		{authorizer.AttributesRecord{Verb: "get", Path: "/healthz", Subresource: "exec"}, false},
	} {
		if got := isLong(&c.a); got != c.want {
			t.Errorf("%+v: %t", c.a, got)
		}
	}
}

// Requests that one rule keeps out of the log in the same way are listed as one, which names what they have in common.
func TestRare(t *testing.T) {
	var r rare
	for _, h := range []HiddenRequest{
		{Rule: 1, Lost: codes.PolicyLacksStart, Verb: "watch", Resource: "pods", Namespace: "shop", Name: "web"},
		{Rule: 2, Lost: codes.PolicyLacksStart, Verb: "watch", Resource: "pods"},
		{Rule: 1, Lost: codes.PolicyLacksPanic, Verb: "get", Resource: "pods"},
		{Rule: 1, Lost: codes.PolicyLacksStart, Verb: "watch", Resource: "pods"},
		{Rule: 2, Lost: codes.PolicyLacksStart, Verb: "watch", APIGroup: "apps", Resource: "pods"},
		{Rule: 1, Lost: codes.PolicyLacksPanic, Verb: "list", Resource: "pods", Subresource: "log"},
	} {
		r.add(h)
	}
	want := []HiddenRequest{
		{Rule: 1, Lost: codes.PolicyLacksStart, Verb: "watch", Resource: "pods"},
		{Rule: 2, Lost: codes.PolicyLacksStart, Verb: "watch", Resource: AnyOther},
		{Rule: 1, Lost: codes.PolicyLacksPanic, Verb: AnyOther, Resource: "pods"},
	}
	if !slices.Equal(r.all, want) {
		t.Errorf("%+v", r.all)
	}
}
