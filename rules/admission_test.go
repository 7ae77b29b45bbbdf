package rules

import (
	"testing"

	"github.com/nodetrail/nodetrail/nodeadmission"
)

// Each pair of an answer and a response has the one outcome that follows from what the two say.
func TestAdmissionOutcome(t *testing.T) {
	const message = `pods "a" is forbidden: no`
	for _, v := range []nodeadmission.Verdict{nodeadmission.None, nodeadmission.Allow, nodeadmission.Deny, nodeadmission.Unknown} {
		for _, said := range []nodeadmission.Observed{
			nodeadmission.ObservedNone, nodeadmission.ObservedAllow, nodeadmission.ObservedDeny, nodeadmission.ObservedOther,
		} {
			for _, response := range []string{message, message + ":", "pods", ""} {
				for _, prefix := range []bool{false, true} {
					a := Admission{Answer: nodeadmission.Answer{Verdict: v, Code: 403, Message: message, Prefix: prefix}, Observed: said}
					got := a.Outcome(403, response)
					same := response == message || prefix && response == message+":"
					doubt := v == nodeadmission.Unknown || v == nodeadmission.None
					wrong := said == nodeadmission.ObservedDeny && (v != nodeadmission.Deny || !same) && v != nodeadmission.Unknown ||
						said == nodeadmission.ObservedAllow && v == nodeadmission.Deny
					right := !wrong && !doubt && (said == nodeadmission.ObservedDeny || said == nodeadmission.ObservedAllow)
					if got.Contradicts() != wrong || (got == OutcomeAllowed || got == OutcomePredicted) != right ||
						(got == OutcomeUnknown) != (v == nodeadmission.Unknown) || (got == OutcomeBypassed) != a.Bypassed() {
						t.Errorf("%v, %v %q (prefix %t): %q", v, said, response, prefix, got)
					}
					if other := a.Outcome(500, response); (other == OutcomePredicted) || other.Contradicts() && said == nodeadmission.ObservedNone {
						t.Errorf("%v, %v with another code: %q", v, said, other)
					}
					if a.Race = true; got != OutcomeNone && a.Outcome(403, response) != OutcomeRace {
						t.Errorf("%v, %v in a race: %q", v, said, a.Outcome(403, response))
					}
				}
			}
		}
	}
}
