package nodeadmission

import (
	"fmt"
	"strconv"
	"strings"
)

// The plugin's messages, for fmt, as upstream has them. Those of a refusal with 403 stand behind `<resource> "<name>" is forbidden: `.
const (
	formIdentity       = "could not determine node from user %q"
	formPodSubresource = "unexpected pod subresource %q, only 'status' and 'eviction' are allowed"
	formPodOperation   = "unexpected operation %q, node %q can only create and delete mirror pods"
	formPodDelete      = "node %q can only delete pods with spec.nodeName set to itself"
	formPodEvict       = "node %s can only evict pods with spec.nodeName set to itself"
	formPodStatus      = "node %q can only update pod status for pods with spec.nodeName set to itself"
	formPodLabels      = "node %q cannot update labels through pod status"
	formPodClaims      = "node %q cannot update resource claim statues"
	formPodExtended    = "node %q cannot update extended resource claim status"
	formPodAllocatable = "node %q cannot update node allocatable resource claim statuses"

	formMirrorOnly       = "pod does not have %q annotation, node %q can only create mirror pods"
	formMirrorNode       = "node %q can only create pods with spec.nodeName set to itself"
	formMirrorOwners     = "node %q can only create pods with a single owner reference set to itself"
	formMirrorOwner      = "node %q can only create pods with an owner reference set to itself"
	formMirrorController = "node %q can only create pods with a controller owner reference set to itself"
	formMirrorBlock      = "node %q must not set blockOwnerDeletion on an owner reference"
	formMirrorUID        = "node %s UID mismatch: expected %s got %s"
	formMirrorRefers     = "node %q can not create pods that reference %s"
	formMirrorUnsure     = "error checking mirror pod for API references: %s"

	formNodeOther        = "node %q is not allowed to modify node %q"
	formNodeCreateConfig = "node %q is not allowed to create pods with a non-nil configSource"
	formNodeCreateLabels = "node %q is not allowed to set the following labels: %s"
	formNodeConfig       = "node %q is not allowed to update configSource to a new non-nil configSource"
	formNodeTaints       = "node %q is not allowed to modify taints"
	formNodeOwners       = "node %q is not allowed to modify ownerReferences"
	formNodeLabels       = "is not allowed to modify labels: %s"

	formClaimStatusOnly = "may only update PVC status"
	formClaimFields     = "node %q is not allowed to update fields other than status.quantity and status.conditions:"
	formClaimFields1_29 = "node %q is not allowed to update fields other than status.capacity and status.conditions:"

	formTokenUnbound   = "node requested token not bound to a pod"
	formTokenNoUID     = "node requested token with a pod binding without a uid"
	formTokenUID       = "the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated"
	formTokenNode      = "node requested token bound to a pod scheduled on a different node"
	formAudiences      = "node may only request 0 or 1 audiences"
	formAudienceLookup = "error validating audience %q: %s"
	formAudience1_32   = "audience %q not found in pod spec volume"
	formAudience1_36   = "audience %q not found in pod spec volume, %s is not authorized to request tokens for this audience"
	formAudienceError  = "audience %q not found in pod spec volume, error authorizing %s to request tokens for this audience: %s"
	formAudience       = "%s is not authorized to request tokens for audience %q"
	formAudienceErr    = "error authorizing %s to request tokens for audience %q: %s"

	formCertGate        = "PodCertificateRequest feature gate is disabled"
	formCertNode        = "PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q"
	formCertNoNode      = "while retrieving node %q named in the PodCertificateRequest: %s"
	formCertNodeUID     = "PodCertificateRequest for pod %q names node UID %q, inconsistent with the running node (%q)"
	formCertNoPod       = "while retrieving pod %q named in the PodCertificateRequest: %s"
	formCertPodUID      = "PodCertificateRequest for pod %q contains pod UID (%q) which differs from running pod %q"
	formCertPodNode     = "pod %q is not running on node %q named in the PodCertificateRequest"
	formCertMirror      = "pod %q is a mirror pod"
	formCertAccount     = "PodCertificateRequest for pod %q contains serviceAccountName (%q) that differs from running pod (%q)"
	formCertNoAccount   = "while retrieving service account %q named in the PodCertificateRequest: %s"
	formCertAccountUID  = "PodCertificateRequest for pod %q names service account UID %q, which differs from the running service account (%q)"
	formCertSigner      = "pod %q does not mount a podCertificate projected volume for signer %q"
	formCertSignerError = "error authorizing %s to request podcertificaterequests for signer %q: %s"

	formLeaseNamespace = "can only access leases in the %q system namespace"
	formLease          = "can only access node lease with the same name as the requesting node"
	formCSINode        = "can only access CSINode with the same name as the requesting node"
	formCSINodeGate    = "CSIVolumeHealth feature gate is disabled"
	formCSINodeSpec    = "node %q is not allowed to modify CSINode spec via status"
	formSliceCreate    = "can only create ResourceSlice with the same NodeName as the requesting node"
	formSliceDelete    = "can only delete ResourceSlice with the same NodeName as the requesting node"
	formCSRParse       = "unable to parse csr: %s"
	formCSR            = "can only create a node CSR with CN=system:node:%s"
	formOperation      = "unexpected operation %s"
	formSubresource    = "unexpected subresource %v"
)

// notFoundForm is the message of a look-up, whose resource is in the singular: storage has it in the plural.
func notFoundMessage(kind, name string) string {
	return kind + " " + strconv.Quote(name) + " not found"
}

// forbid refuses as upstream's admission.NewForbidden does. What creates an object of which the log has neither name nor body is unknown instead: it may
// be the node's own.
func (e *eval) forbid(form string, args ...any) Answer {
	name, ok := e.messageName()
	if !ok {
		return unknown(MissingBody)
	}
	message := resourceName(e.group, e.resource) + " " + strconv.Quote(name) + " is forbidden: " + fmt.Sprintf(form, args...)
	return Answer{Verdict: Deny, Code: 403, Message: message}
}

// fail answers with an error that is no API status: the API server makes it a 500.
func fail(form string, args ...any) Answer {
	return Answer{Verdict: Deny, Code: 500, Message: fmt.Sprintf(form, args...)}
}

func notFound(kind, name string) Answer {
	return Answer{Verdict: Deny, Code: 404, Message: notFoundMessage(kind, name)}
}

func resourceName(group, resource string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

// messageName is the name that a refusal bears. Where the request has none it is that of the body, or the one to be completed; without a
// body it is not known.
func (e *eval) messageName() (string, bool) {
	if e.name != "" {
		return e.name, true
	}
	if e.op != opCreate {
		return "Unknown", true // of a collection; there is no object
	}
	var body struct {
		Metadata struct {
			Name         string `json:"name"`
			GenerateName string `json:"generateName"`
		} `json:"metadata"`
	}
	if !decode(e.req.Body, &body) {
		return "", false
	}
	switch {
	case body.Metadata.Name != "":
		return body.Metadata.Name, true
	case body.Metadata.GenerateName != "":
		return body.Metadata.GenerateName, true
	}
	return "Unknown", true
}

// matches reports whether the text can come from the form: the form's words in order, with anything for its verbs.
func matches(text, form string) bool {
	first := true
	for {
		i := strings.IndexByte(form, '%')
		if i < 0 {
			return text == form || !first && strings.HasSuffix(text, form)
		}
		words := form[:i]
		form = form[i+2:] // a verb is one letter
		at := strings.Index(text, words)
		if at < 0 || first && at > 0 {
			return false
		}
		text, first = text[at+len(words):], false
	}
}
