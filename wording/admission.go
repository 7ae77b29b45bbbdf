package wording

import "github.com/nodetrail/nodetrail/rules"

// AdmissionOutcome says how what NodeRestriction answers to a write compares with what the API server did; a code of a newer program as it is.
func AdmissionOutcome(o rules.Outcome) string {
	if s := admissionOutcomes[o]; s != "" {
		return s
	}
	return string(o)
}

// AdmissionMissing says what an unknown answer of NodeRestriction lacks (a nodeadmission.Missing); a code of a newer program as it is.
func AdmissionMissing(code string) string {
	if s := admissionMissing[code]; s != "" {
		return s
	}
	return code
}

var admissionOutcomes = map[rules.Outcome]string{
	rules.OutcomeAllowed:    "allowed",
	rules.OutcomePredicted:  "refused as predicted",
	rules.OutcomeBypassed:   "passed, and NodeRestriction refuses it",
	rules.OutcomeSurprised:  "refused by NodeRestriction, and not as predicted",
	rules.OutcomeRace:       "race",
	rules.OutcomeUnknown:    "unknown",
	rules.OutcomeUnobserved: "not observed",
}

var admissionMissing = map[string]string{
	"body":                  "the log does not have the request body",
	"old-object":            "the state does not have the object before the request",
	"patch-type":            "the log does not have the type of the patch",
	"collection":            "the log does not name the objects of the collection",
	"pod":                   "the state does not cover pods",
	"node":                  "the state does not cover nodes",
	"persistentvolumeclaim": "the state does not cover persistent volume claims",
	"persistentvolume":      "the state does not cover persistent volumes",
	"csidriver":             "the state does not cover CSI drivers",
	"serviceaccount":        "the state does not cover service accounts",
	"resourceslice":         "the state does not cover resource slices",
	"authorizer":            "the state does not cover roles and bindings",
	"version-patch":         "the patch release of Kubernetes is not known",
}
