package rules

import (
	"net/http"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// ForeignWrite is the name of the rule on writes of objects of other nodes.
const ForeignWrite = "foreign-node-write"

// The reasons of the rule foreign-node-write.
const (
	WriteSucceeded          Reason = "write-succeeded"
	WriteRefused            Reason = "write-refused"
	WriteRefusedByAdmission Reason = "write-refused-by-admission"
	WriteFailed             Reason = "write-failed"
	WriteUnclear            Reason = "write-unclear"
	WriteUnanswered         Reason = "write-unanswered"
)

func foreignNodeWrite() *Rule {
	return &Rule{
		Name:     ForeignWrite,
		Severity: Critical,
		Reasons: []ReasonDoc{
			{Reason: WriteSucceeded, Doc: "the write passed admission: NodeRestriction is not in force (critical)"},
			{Reason: WriteRefused, Doc: "the write was not authorized"},
			{Reason: WriteRefusedByAdmission, Doc: "the write was authorized, and admission refused it"},
			{Reason: WriteFailed, Doc: "the write was authorized, and failed otherwise"},
			{Reason: WriteUnanswered, Doc: "the write was authorized, and the API server failed (5xx): it may have carried it out"},
			{Reason: WriteUnclear, Doc: "the write passed admission, and may be of a pod of the same name that was on the node within ten minutes (low)"},
		},
		Doc: `A node writes an object of another node

## What
The rule flags two kinds of writes:

- A node creates, updates, patches or deletes a Node, a Lease in 'kube-node-lease' or a CSINode of another node, or the status of such an
  object.
- A node updates, patches, deletes or evicts a pod that is on another node.

The severity is critical if the write succeeded, and high if it was refused.

## Why
Authorization does not look at the content of a write. The admission plugin NodeRestriction limits nodes to their own objects. If a write
succeeded, NodeRestriction is not in force. A stolen kubelet credential can then taint, label or empty other nodes, and attract their pods
to its own node.

## What to do
If a write succeeded, add NodeRestriction to '--enable-admission-plugins' of every API server. In any case, find out by user agent and
address which program sent it. A kubelet does so only if the name of its node and the name in its certificate differ
(see node-identity).

## False positives
A write is not flagged if the pod left the node within the skew ('--skew'), or if the pod is on no node. A kubelet reports on its pods once
more after they are gone.

Pods with the same name can follow each other on several nodes, as those of a StatefulSet do, and the clock of an API server can be wrong.
So if the write succeeded, or found no such pod (404), the rule looks for a pod of that name on the node:

- The body has the UID of a pod that was on the node within ten minutes: the write is not flagged.
- The API server found no such pod, and a pod of that name was on the node within ten minutes: the write is not flagged, unless the body has
  another UID.
- The body has no UID, and a pod of that name came to the node or left it within five seconds: the write is not flagged. For a delete or an
  eviction, only a pod that left the node counts.
- The body has no UID, and a pod of that name was on the node within ten minutes: the severity is low ('write-unclear').

The last two cases do not apply to a delete or an eviction if the pod on the other node ended within a minute after it.

## How to silence it
Run with '--disable foreign-node-write'.`,
		Check: checkForeignWrite,
	}
}

func checkForeignWrite(r *Request, s State, _ *Memory, f *Finding) bool {
	foreign, word := writeOf(r, s)
	if !foreign || word == isClock {
		return false
	}
	*f = Finding{Rule: ForeignWrite, Reason: WriteRefused, Severity: High, Subject: r.Node, Allowed: r.Allowed, Params: created(r)}
	switch {
	case word == mayBeClock:
		f.Severity, f.Reason, f.Apart = Low, WriteUnclear, string(WriteUnclear)
	case r.Succeeded(), r.Admission.Bypassed():
		f.Severity, f.Reason = Critical, WriteSucceeded
	case r.Allowed && r.Event.Code == http.StatusForbidden:
		f.Reason = WriteRefusedByAdmission
	case mayBeDone(r):
		f.Reason, f.Params = WriteUnanswered, append(f.Params, codes.Int(ParamCode, r.Event.Code))
	case r.Allowed:
		f.Reason, f.Params = WriteFailed, append(f.Params, codes.Int(ParamCode, r.Event.Code))
	}
	return true
}

// writesForeign reports whether a node writes an object of another node, beyond doubt.
func writesForeign(r *Request, s State) bool {
	foreign, word := writeOf(r, s)
	return foreign && word == notClock
}

// writeOf reports whether a node writes an object of another node, as the state has it at the time of the request, and what the clocks of API servers say to that.
func writeOf(r *Request, s State) (foreign bool, word clockWord) {
	a := r.Attrs
	if !r.IsNode || !a.ResourceRequest || r.Node == "" {
		return false, notClock
	}
	switch a.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
	default:
		return false, notClock
	}
	name := a.Name
	if name == "" {
		name = r.Event.ObjectRef.Name // on create, from the body
	}
	switch {
	case nodeauthz.NamedAsNode(a.APIGroup, a.Resource, a.Namespace):
		return name != "" && name != r.Node || a.Verb == "deletecollection", notClock
	case a.APIGroup == "" && a.Resource == "pods" && name != "" && (a.Verb != "create" || a.Subresource == "eviction"):
		if s != nil && onOtherNode(r, s, name) {
			return true, byClock(r, s)
		}
	}
	return false, notClock
}

// onOtherNode reports whether the pod is on another node than the request's, beyond doubt.
func onOtherNode(r *Request, s State, pod string) bool {
	other, bound := s.PodNode(r.Attrs.Namespace, pod, r.Time)
	if !bound || other == r.Node {
		return false
	}
	own := s.PodOnNode(r.Attrs.Namespace, pod, r.Node, r.Time)
	return own.Verdict == nodeauthz.Deny && !own.Race
}
