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
			{Reason: WriteUnclear, Doc: "the write passed admission, and may be of a pod of the same name that was on the node within ten minutes (low)"},
		},
		Doc: `A node writes an object of another node

## What
A node creates, updates, patches or deletes a Node, its Lease in 'kube-node-lease', a CSINode, or a status of such an object, that is
not its own; or it updates, patches, deletes or evicts a pod that is on another node. The severity is high where the request was
refused and critical where it went through.

## Why
What a write may contain is decided after authorization: the admission plugin NodeRestriction keeps nodes to their own objects. A
write that went through means that NodeRestriction is not in force, and that a stolen kubelet credential can taint, label or empty
other nodes and draw their pods to itself.

## What to do
If a write went through, add NodeRestriction to '--enable-admission-plugins' of every API server. In any case find out by user agent and
address which program did it. A kubelet does it only when its node's name and its certificate's differ (see node-identity).

## False positives
A pod that left the node within the skew ('--skew') is not flagged, and neither is one that is on no node: a kubelet reports on its
pods once more after they are gone. Pods of one name may follow each other on several nodes, as those of a StatefulSet do, and the
clock of an API server may be wrong. Where the write went through, or found no such pod (404), it is not flagged if the body has the UID
of a pod that was on the node within ten minutes. Without a UID it is not flagged if such a pod came or went within five seconds, and
is low ('write-unclear') if one was there within ten minutes. Neither counts for a delete or an eviction if the pod on the other node
ended within a minute after it; and a pod on the node that lives on is not what was deleted within those five seconds.

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
	case a.APIGroup == "" && a.Resource == "nodes",
		a.APIGroup == "storage.k8s.io" && a.Resource == "csinodes",
		a.APIGroup == "coordination.k8s.io" && a.Resource == "leases" && a.Namespace == "kube-node-lease":
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
