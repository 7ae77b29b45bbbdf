package rules

import (
	"github.com/nodetrail/nodetrail/nodeadmission"
)

// Admission is what the admission plugin NodeRestriction says of a write of a node.
type Admission struct {
	nodeadmission.Answer
	// Observed is what the API server's own plugin said, as far as the response tells.
	Observed nodeadmission.Observed
}

// Asked reports whether there is anything to tell: the plugin was asked, or said something.
func (a *Admission) Asked() bool {
	return a.Verdict != nodeadmission.None || a.Observed != nodeadmission.ObservedNone
}

// Bypassed reports whether the request passed admission although the plugin refuses it beyond doubt: it is not in force there.
func (a *Admission) Bypassed() bool {
	return a.Verdict == nodeadmission.Deny && !a.Race && a.Observed == nodeadmission.ObservedAllow
}

// Outcome is a stable code for how what nodetrail says of a write compares with what the API server's plugin said.
type Outcome string

// The outcomes.
const (
	// OutcomeNone means that there is nothing to compare: the plugin was not asked.
	OutcomeNone Outcome = ""
	// OutcomeAllowed means that the write passed, as answered.
	OutcomeAllowed Outcome = "allowed"
	// OutcomePredicted means that the API server refused as answered: the same code and message.
	OutcomePredicted Outcome = "refused-as-predicted"
	// OutcomeBypassed means that the write passed, and the answer is a refusal.
	OutcomeBypassed Outcome = "passed-not-refused"
	// OutcomeSurprised means that the API server refused, and the answer is another one.
	OutcomeSurprised Outcome = "refused-not-predicted"
	// OutcomeRace means that the answer is another one within the skew.
	OutcomeRace Outcome = "race"
	// OutcomeUnknown means that the answer is not known.
	OutcomeUnknown Outcome = "unknown"
	// OutcomeUnobserved means that there is an answer and the response tells nothing: another plugin refused, or the log has no response.
	OutcomeUnobserved Outcome = "not-observed"
)

// Outcomes are all but OutcomeNone.
func Outcomes() []Outcome {
	return []Outcome{
		OutcomeAllowed, OutcomePredicted, OutcomeBypassed, OutcomeSurprised, OutcomeRace, OutcomeUnknown, OutcomeUnobserved,
	}
}

// Contradicts reports whether answer and API server differ beyond doubt.
func (o Outcome) Contradicts() bool { return o == OutcomeBypassed || o == OutcomeSurprised }

// Outcome holds the answer against a response with the code and message.
func (a *Admission) Outcome(code int32, message string) Outcome {
	refused := a.Observed == nodeadmission.ObservedDeny
	switch {
	case a.Verdict == nodeadmission.None && !refused:
		return OutcomeNone
	case a.Race:
		return OutcomeRace
	case a.Verdict == nodeadmission.Unknown:
		return OutcomeUnknown
	case refused && a.Predicts(code, message):
		return OutcomePredicted
	case refused:
		return OutcomeSurprised
	case a.Bypassed():
		return OutcomeBypassed
	case a.Observed != nodeadmission.ObservedAllow:
		return OutcomeUnobserved
	}
	return OutcomeAllowed
}
