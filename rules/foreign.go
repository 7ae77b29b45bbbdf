package rules

import (
	"net/http"
	"time"

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
If a write went through, add NodeRestriction to '--enable-admission-plugins' of every apiserver. In any case find out by user agent and
address which program did it. A kubelet does it only when its node's name and its certificate's differ (see node-identity).

## False positives
A pod that left the node within the skew ('--skew') is not flagged, and neither is one that is on no node: a kubelet reports on its
pods once more after they are gone. Where the write went through, or found no such pod (404), the pod may also have been on the node
ten minutes before or after: the API server's clock is wrong then.

## How to silence it
Run with '--disable foreign-node-write'.`,
		Check: checkForeignWrite,
	}
}

func checkForeignWrite(r *Request, s State, _ *Memory, f *Finding) bool {
	if !writesForeign(r, s) {
		return false
	}
	*f = Finding{Rule: ForeignWrite, Reason: WriteRefused, Severity: High, Subject: r.Node, Allowed: r.Allowed, Params: created(r)}
	switch {
	case r.Succeeded(), r.Admission.Bypassed():
		f.Severity, f.Reason = Critical, WriteSucceeded
	case r.Allowed && r.Event.Code == http.StatusForbidden:
		f.Reason = WriteRefusedByAdmission
	case r.Allowed:
		f.Reason, f.Params = WriteFailed, append(f.Params, codes.Int(ParamCode, r.Event.Code))
	}
	return true
}

// writesForeign reports whether a node writes an object of another node.
func writesForeign(r *Request, s State) bool {
	a := r.Attrs
	if !r.IsNode || !a.ResourceRequest || r.Node == "" {
		return false
	}
	switch a.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
	default:
		return false
	}
	name := a.Name
	if name == "" {
		name = r.Event.ObjectRef.Name // on create, from the body
	}
	switch {
	case a.APIGroup == "" && a.Resource == "nodes",
		a.APIGroup == "storage.k8s.io" && a.Resource == "csinodes",
		a.APIGroup == "coordination.k8s.io" && a.Resource == "leases" && a.Namespace == "kube-node-lease":
		return name != "" && name != r.Node || a.Verb == "deletecollection"
	case a.APIGroup == "" && a.Resource == "pods" && name != "" && (a.Verb != "create" || a.Subresource == "eviction"):
		return s != nil && onOtherNode(r, s, name) && !PassedByClock(r, s)
	}
	return false
}

// ClockDoubt is by how much the clock of an API server may be wrong. The time of a request is that of the API server's clock, not of the state's.
const ClockDoubt = 10 * time.Minute

// PassedByClock reports, for a node's write of a pod that was not on it at the time of the request, whether it was within [ClockDoubt]. The API server let it
// pass, or had no such pod any more, so that its clock is wrong: a pod cannot be moved to another node.
func PassedByClock(r *Request, s State) bool {
	a := r.Attrs
	name := a.Name
	gone := r.Allowed && r.Event.Code == http.StatusNotFound
	if s == nil || !r.IsNode || !r.Succeeded() && !gone || a.APIGroup != "" || a.Resource != "pods" || name == "" {
		return false
	}
	return s.PodWasOn(a.Namespace, name, r.Node, r.Time.Add(-ClockDoubt), r.Time.Add(ClockDoubt))
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
