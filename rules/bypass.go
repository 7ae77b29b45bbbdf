package rules

import (
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeadmission"
)

// RestrictionBypass is the name of the rule on writes that NodeRestriction refuses and that passed.
const RestrictionBypass = "noderestriction-bypass"

// The reasons of the rule noderestriction-bypass.
const (
	BypassSucceeded Reason = "bypass-succeeded"
	BypassFailed    Reason = "bypass-failed"
	// BypassUnanswered is of a write of which the answer does not tell whether it was carried out.
	BypassUnanswered Reason = "bypass-unanswered"
)

func restrictionBypass() *Rule {
	return &Rule{
		Name:     RestrictionBypass,
		Severity: Critical,
		Reasons: []ReasonDoc{
			{Reason: BypassSucceeded, Doc: "the write succeeded although NodeRestriction refuses it (critical)"},
			{Reason: BypassFailed, Doc: "the write passed admission although NodeRestriction refuses it, and failed afterwards (409 or 422)"},
			{Reason: BypassUnanswered, Doc: "NodeRestriction refuses the write, and the API server failed (5xx): it may have carried it out"},
		},
		Doc: `A write that NodeRestriction refuses passed

## What
A node makes a write that the admission plugin NodeRestriction refuses, and the write passes admission. Examples are labels in
'node-restriction.kubernetes.io' on its own Node, a change of its taints, a pod that is not a mirror pod, and a token for a pod of another
node. nodetrail evaluates the plugin as of the time of the request, with the body in the log and the state of the cluster. If the log has no
body of a pod that a node created, the state can show that the pod is not a mirror pod.

A write of another node's object is only in foreign-node-write.

The severity is critical if the write succeeded, and high if storage refused it afterwards.

If the API server fails (5xx), it may carry out the write nevertheless. It answers 504 when the time is over that the client gave with
'timeout', and does not stop the write. The severity is high then.

## Why
NodeRestriction is not in force on the API server that served the request. A stolen kubelet credential can then label its node, remove its
taints to attract pods with secrets, and ask for tokens of pods on other nodes.

## What to do
Add NodeRestriction to '--enable-admission-plugins' of every API server. Then look at what the node wrote, and undo it. A kubelet does none
of this, so treat the credential as stolen unless you know the client.

## False positives
A write is not flagged if an answer within the skew ('--skew') would be another one, or if the log or the state lacks something that the
answer depends on. What an object became by the write itself does not count. So a write is flagged as well if somebody else made the same
change within the skew.

A wrong Kubernetes version ('--kubernetes-version') can flag a write, because some checks came with a patch release: see
docs/node-restriction.md.

## How to silence it
Run with '--disable noderestriction-bypass'.`,
		Check: checkBypass,
	}
}

// ParamRefusal is the key of the message with which NodeRestriction refuses a request.
const ParamRefusal = "refusal"

func checkBypass(r *Request, s State, _ *Memory, f *Finding) bool {
	if !r.Admission.Bypassed() && !mayBeDone(r) || r.Node == "" || writesForeign(r, s) {
		return false
	}
	*f = Finding{Rule: RestrictionBypass, Reason: BypassSucceeded, Severity: Critical, Subject: r.Node, Allowed: r.Allowed}
	f.Params = append(created(r), codes.Text(ParamRefusal, r.Admission.Message))
	if !r.Succeeded() {
		f.Reason, f.Severity = BypassFailed, High
		if !r.Admission.Bypassed() {
			f.Reason = BypassUnanswered
		}
		f.Params = append(f.Params, codes.Int(ParamCode, r.Event.Code))
	}
	return true
}

// mayBeDone reports whether the API server was to make a write that NodeRestriction refuses beyond doubt, and failed: with NodeRestriction, it refuses at once. A
// kubelet makes no such write but for those that it is refused although it does what it should.
func mayBeDone(r *Request) bool {
	a := &r.Admission
	return r.Allowed && !a.Race && a.Verdict == nodeadmission.Deny && a.Observed == nodeadmission.ObservedOther && r.Event.Code >= 500 &&
		!nodeadmission.KubeletGets(r.Attrs.Resource, r.Attrs.Subresource, a.Message)
}
