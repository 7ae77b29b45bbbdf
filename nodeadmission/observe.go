package nodeadmission

import (
	"strconv"
	"strings"
)

// Observed is what the API server's plugin said of a request, as far as the response tells.
type Observed uint8

const (
	// ObservedNone means that the plugin was not asked, or that nothing tells.
	ObservedNone Observed = iota
	// ObservedAllow means that the request passed admission, whatever storage said of it.
	ObservedAllow
	// ObservedDeny means that the plugin refused: the response has a form of its messages.
	ObservedDeny
	// ObservedOther means that something else refused, before the plugin or after it.
	ObservedOther
)

// String returns it as the contract writes it.
func (o Observed) String() string {
	return [...]string{"none", "allow", "deny", "other"}[o&3]
}

// Response is what an audit event tells of the response.
type Response struct {
	Verb, Subresource string
	// Authorized is true when the authorization decision was allow.
	Authorized bool
	// Code and Message are those of responseStatus.
	Code    int32
	Message string
}

// Observe classifies a response by its message, and never by the code 403 alone: other plugins refuse with it as well.
func Observe(r *Response) Observed {
	op := operationOf(r.Verb)
	switch {
	case !r.Authorized || op == opNone || r.Code == 0:
		return ObservedNone
	case r.beforeAdmission():
		return ObservedNone
	case r.Code >= 200 && r.Code < 300, r.Code == 409, r.Code == 422, r.Code == 429 && r.Subresource == "eviction":
		return ObservedAllow
	case r.Code == 403 && refusal(r.Message), r.Code == 500 && failure(r.Message), r.Code == 404 && lookup(r.Message):
		return ObservedDeny
	case r.Code == 404 && op != opCreate:
		return ObservedNone // storage looks before the plugin is asked
	}
	return ObservedOther
}

// beforeAdmission reports whether it may have failed on an object that was compared, or patched, before the plugin is asked: a patch that cannot be applied
// (k8s.io/apiserver/pkg/endpoints/handlers/patch.go), and a precondition of a deletion or of an update (k8s.io/apiserver/pkg/registry/rest/delete.go and
// registry/generic/registry/store.go). What validation says of the object that came of it (NewInvalid) follows on admission.
func (r *Response) beforeAdmission() bool {
	switch {
	case r.Code == 422 && r.Verb == "patch":
		return !strings.Contains(r.Message, " is invalid: ")
	case r.Code != 409:
		return false
	case r.Verb == "delete" || r.Verb == "deletecollection":
		return true
	}
	return strings.Contains(r.Message, "Precondition failed: ") || r.Verb == "patch" && strings.HasPrefix(r.Message, "Apply failed with ")
}

// splitRefusal splits the message of a 403 into the resource and the reason.
func splitRefusal(message string) (resource, reason string, ok bool) {
	resource, rest, ok := strings.Cut(message, " ")
	if !ok {
		return "", "", false
	}
	name, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return "", "", false
	}
	reason, ok = strings.CutPrefix(rest[len(name):], " is forbidden: ")
	return resource, reason, ok
}

// KubeletGets reports whether the plugin's refusal of the creation of such an object is one that a kubelet gets which does what it should. Those before 1.34 try again and again to
// create the mirror pod of a static pod that names other objects (k8s.io/kubernetes pull 131837). And a Node or a pod may have been made anew under its name, and the kubelet still have
// the one before.
func KubeletGets(resource, subresource, message string) bool {
	of, reason, ok := splitRefusal(message)
	switch {
	case !ok || of != resource:
		return false
	case resource == "pods" && subresource == "":
		return matches(reason, formMirrorRefers) || matches(reason, formMirrorUnsure) || matches(reason, formMirrorUID)
	case resource == "serviceaccounts" && subresource == "token":
		return matches(reason, formTokenUID)
	}
	return false
}

// refusal reports whether the message of a 403 has a form of the plugin.
func refusal(message string) bool {
	resource, reason, ok := splitRefusal(message)
	switch {
	case !ok:
		return false
	case matches(reason, formIdentity):
		return true // of any resource
	}
	kind, group, _ := strings.Cut(resource, ".")
	if !restricted(group, kind) {
		return false
	}
	for _, form := range forbiddenForms {
		if matches(reason, form) {
			return true
		}
	}
	for _, form := range [...]string{formClaimFields, formClaimFields1_29} {
		if matches(reason, form+"%s") {
			return true
		}
	}
	return false
}

// failure reports whether the message of a 500 is one of a look-up for a pod certificate.
func failure(message string) bool {
	for _, form := range failedForms {
		if matches(message, form) {
			return true
		}
	}
	return false
}

// lookup reports whether the message of a 404 is of the plugin's own look-up.
func lookup(message string) bool {
	for _, kind := range [...]string{"pod", "node"} {
		rest, ok := strings.CutPrefix(message, kind+" ")
		if !ok {
			continue
		}
		name, err := strconv.QuotedPrefix(rest)
		if err == nil && rest[len(name):] == " not found" {
			return true
		}
	}
	return false
}

var forbiddenForms = []string{
	formPodSubresource, formPodOperation, formPodDelete, formPodEvict, formPodStatus, formPodLabels, formPodClaims,
	formPodExtended, formPodAllocatable, formMirrorOnly, formMirrorNode, formMirrorOwners, formMirrorOwner, formMirrorController,
	formMirrorBlock, formMirrorUID, formMirrorRefers, formMirrorUnsure, formNodeOther, formNodeCreateConfig, formNodeCreateLabels,
	formNodeConfig, formNodeTaints, formNodeOwners, formNodeLabels, formClaimStatusOnly, formTokenUnbound, formTokenNoUID, formTokenUID,
	formTokenNode, formAudiences, formAudienceLookup, formAudience1_32, formAudience1_36, formAudienceError, formAudience,
	formAudienceErr, formCertGate, formCertNode, formCertPodNode, formCertMirror, formCertAccount, formCertSigner, formCertSignerError,
	formLeaseNamespace, formLease, formCSINode, formCSINodeGate, formCSINodeSpec, formSliceCreate, formSliceDelete, formCSRParse,
	formCSR, formOperation, formSubresource,
}

var failedForms = []string{formCertNoNode, formCertNodeUID, formCertNoPod, formCertPodUID, formCertNoAccount, formCertAccountUID}
