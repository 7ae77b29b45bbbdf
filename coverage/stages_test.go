package coverage

import (
	"slices"
	"testing"

	internal "k8s.io/apiserver/pkg/apis/audit"

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
