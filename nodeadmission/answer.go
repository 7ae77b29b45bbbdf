package nodeadmission

import (
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Verdict is what the plugin says of a request.
type Verdict uint8

const (
	// None means that the plugin is not asked, or has nothing to say of anybody but nodes.
	None Verdict = iota
	// Allow means that the plugin lets the request through. What comes after it may still refuse.
	Allow
	// Deny means that the plugin refuses.
	Deny
	// Unknown means that the answer depends on something that is not there: see [Missing].
	Unknown
)

// String returns the verdict as the contract writes it.
func (v Verdict) String() string {
	return [...]string{"none", "allow", "deny", "unknown"}[v&3]
}

// Missing is a stable code for what an unknown answer needs.
type Missing string

// What may be missing.
const (
	MissingNothing        Missing = ""
	MissingBody           Missing = "body"
	MissingOldObject      Missing = "old-object"
	MissingPatchType      Missing = "patch-type"
	MissingCollection     Missing = "collection"
	MissingPod            Missing = "pod"
	MissingNode           Missing = "node"
	MissingClaim          Missing = "persistentvolumeclaim"
	MissingVolume         Missing = "persistentvolume"
	MissingDriver         Missing = "csidriver"
	MissingServiceAccount Missing = "serviceaccount"
	MissingSlice          Missing = "resourceslice"
	MissingAuthorizer     Missing = "authorizer"
	MissingVersionPatch   Missing = "version-patch"
)

// AllMissing are all codes but MissingNothing.
func AllMissing() []Missing {
	return []Missing{
		MissingBody, MissingOldObject, MissingPatchType, MissingCollection, MissingPod, MissingNode, MissingClaim, MissingVolume, MissingDriver,
		MissingServiceAccount, MissingSlice, MissingAuthorizer, MissingVersionPatch,
	}
}

// Answer is the plugin's answer for one instant.
type Answer struct {
	Verdict Verdict
	// Race is true when the answer would be another one somewhere within the skew of the instant.
	Race bool
	// Prefix is true when a diff of two objects follows Message in the API server's message.
	Prefix bool
	// Code is the HTTP status of a Deny.
	Code int32
	// Message is the message of a Deny as responseStatus has it, byte for byte.
	Message string
	// Missing is set for Unknown only.
	Missing Missing
}

// Request is a write of a node.
type Request struct {
	// Attributes are what the authorizer was asked.
	Attributes authorizer.Attributes
	// Node and IsNode are the node identity of the user.
	Node   string
	IsNode bool
	// Name is objectRef.name, which kube-apiserver fills from the body of a create.
	Name string
	// Body is requestObject, nil if the log does not have it.
	Body []byte
	// Refused is true when authorization refused the request, NotFound when storage answered that the object is not there: in both
	// cases the plugin was not asked.
	Refused, NotFound bool
	// Done is true when the API server carried the request out, or may have: of a time-out (504) it tells the client while the request goes its way. Then its object was there, and what the state became by it is no other answer.
	Done bool
}

func unknown(m Missing) Answer { return Answer{Verdict: Unknown, Missing: m} }

func allowed() Answer { return Answer{Verdict: Allow} }
