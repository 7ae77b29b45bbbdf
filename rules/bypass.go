package rules

import "github.com/nodetrail/nodetrail/codes"

// RestrictionBypass is the name of the rule on writes that NodeRestriction refuses and that passed.
const RestrictionBypass = "noderestriction-bypass"

// The reasons of the rule noderestriction-bypass.
const (
	BypassSucceeded Reason = "bypass-succeeded"
	BypassFailed    Reason = "bypass-failed"
)

func restrictionBypass() *Rule {
	return &Rule{
		Name:     RestrictionBypass,
		Severity: Critical,
		Reasons: []ReasonDoc{
			{Reason: BypassSucceeded, Doc: "the write succeeded although NodeRestriction refuses it (critical)"},
			{Reason: BypassFailed, Doc: "the write passed admission although NodeRestriction refuses it, and failed afterwards (409 or 422)"},
		},
		Doc: `A write that NodeRestriction refuses passed

## What
A node makes a write that the admission plugin NodeRestriction refuses, and the write passes admission. Examples are labels in
'node-restriction.kubernetes.io' on its own Node, a change of its taints, a pod that is not a mirror pod, and a token for a pod of another
node. nodetrail evaluates the plugin as of the time of the request, with the body in the log and the state of the cluster. If the log has no
body of a pod that a node created, the state can show that the pod is not a mirror pod.

A write of another node's object is only in foreign-node-write.

The severity is critical if the write succeeded, and high if storage refused it afterwards.

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
	if !r.Admission.Bypassed() || r.Node == "" || writesForeign(r, s) {
		return false
	}
	*f = Finding{Rule: RestrictionBypass, Reason: BypassSucceeded, Severity: Critical, Subject: r.Node, Allowed: r.Allowed}
	f.Params = append(created(r), codes.Text(ParamRefusal, r.Admission.Message))
	if !r.Succeeded() {
		f.Reason, f.Severity = BypassFailed, High
		f.Params = append(f.Params, codes.Int(ParamCode, r.Event.Code))
	}
	return true
}
