package rules

import (
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// The reasons of the rule out-of-scope-secret-read.
const (
	ReadSucceeded  Reason = "read-succeeded"
	ReadRefused    Reason = "read-refused"
	ReadFailed     Reason = "read-failed"
	ReadUnanswered Reason = "read-unanswered"
)

// StateUntold is the value of [ParamState] where the state does not show whether a pod on the node uses the object.
const StateUntold = "unknown"

func outOfScopeSecretRead() *Rule {
	return &Rule{
		Name:     "out-of-scope-secret-read",
		Severity: Critical,
		Reasons: []ReasonDoc{
			{Reason: ReadSucceeded, Doc: "the node got what it asked for"},
			{Reason: ReadRefused, Doc: "the request was refused"},
			{Reason: ReadFailed, Doc: "the request passed authorization and then failed"},
			{Reason: ReadUnanswered, Doc: "the log does not hold how the request ended"},
		},
		Doc: `A node reads a secret that no pod on it uses

## What
A node gets, lists or watches a secret or a configmap, or creates a token of a service account, and at that time no pod on the node uses the
object. A pod uses an object by a volume, an environment variable, an image pull secret, a persistent volume, or its service account. Reads
of whole collections are flagged, too, because no kubelet needs them.

For secrets and tokens, the severity is critical if the request succeeded, and medium if it did not. For configmaps, it is medium and low.
It is medium if a kubelet listed or watched one object, and the state does not tell whether its node used the object. This does
not apply to a request from an address that the node never had, if the state has addresses of the node.

It is low in these cases:

- kubeadm's or k0s's own binding allowed the read of a ConfigMap that it was made for.
- The API server's Node authorizer denied what the state had long allowed (see authorizer-lag). The object
  belongs to the node.
- A kubelet was refused a list or a watch of an object, or a token of a service account, that a pod on its node used within the ten minutes
  before, or before the node was cut off. The pod was deleted by force. A token that a binding allowed, and whose pod or service account was
  not there any more (404), is low, too.
- A kubelet, from its node's address, listed or watched such an object by name, and a binding allowed it (see rbac-excess-access).

If the API server allowed such a read without a reason, as its Node authorizer does, then the state lacks a pod, or another authorizer
allowed the read, such as a webhook. The read is flagged if no pod that is on the node within ten minutes uses the object. The severity is
low, except in these cases:

- A pod on another node uses the object.
- No pod uses the object, the node never had a pod that used it, and a journal or a watch of all namespaces covers the time, so the state
  lacks no pod.

If the node ever had such a pod, the API server's clock can be wrong.

## Why
This is what a stolen kubelet credential is used for. If the request succeeded, the content of the object has left the nodes that may have
it. If it was refused, somebody tried.

## What to do
'nodetrail explain' shows which nodes can reach the object, and when this node last could.

If the request succeeded, find out by user agent and address what used the node's credential. Treat the object as disclosed, rotate it, and
remove the RBAC binding that allowed the request (see rbac-excess-access).

If the request was refused and the kubelet itself repeats it, look for a static pod that names a secret: that never works.

## False positives
A list or a watch of an object whose name cannot exist, such as an image pull secret 'registry/team', is not flagged: the answer is always
empty. Kubelets ask for it if a pod names it.

If a pod came to the node, or left it, within the skew ('--skew'), the request is a race, and is not flagged. If the state has no persistent
volumes, nodetrail does not know which secrets they use.

## How to silence it
Run with '--disable out-of-scope-secret-read'.`,
		Check: checkScope,
	}
}

func checkScope(r *Request, s State, m *Memory, f *Finding) bool {
	a := r.Attrs
	if a.APIGroup != "" || !a.ResourceRequest || !r.NodeDenies() && !r.Contested {
		return false
	}
	read := a.Subresource == "" && reads(a.Verb) && !readsNothing(r)
	passed, refused := Critical, Medium
	switch {
	case a.Resource == "secrets" && read:
	case a.Resource == "configmaps" && read:
		passed, refused = Medium, Low
	case isToken(r.Attrs) && a.Verb == "create":
	default:
		return false
	}
	*f = Finding{Rule: "out-of-scope-secret-read", Reason: ReadRefused, Severity: refused, Subject: r.Node, Allowed: r.Allowed}
	if r.HasGrant && r.Allowed {
		f.Binding = r.Grant.Binding
	}
	f.Params = created(r)
	switch {
	case r.Open:
		f.Reason = ReadUnanswered
	case r.Succeeded():
		f.Severity, f.Reason = passed, ReadSucceeded
	case r.Allowed:
		f.Reason, f.Params = ReadFailed, append(f.Params, codes.Int(ParamCode, r.Event.Code))
	}
	switch {
	case r.Contested && !r.Elsewhere && !r.Unused: // the state may not have the pods of that namespace
		f.Severity = Low
	case r.ownUntilBefore(s, m), r.lost(s, m):
		f.Severity = Low
	case r.Answer.Verdict == nodeauthz.Unknown:
		f.Params = append(f.Params, codes.Text(ParamState, StateUntold))
		if r.untold(s, m) {
			f.Severity = Medium
		}
	case r.lags():
		f.Severity = Low
		f.Params = append(f.Params, codes.Text(ParamState, r.Answer.Verdict.String()))
	case r.JoinsThrough(&f.Binding):
		f.Severity = Low
	}
	return true
}

// readsNothing reports whether the request lists or watches, in one namespace, the object of a name that no object can have, since it is no path segment, such as one with a slash.
// A kubelet does that for a pod which names such an image pull secret: Kubernetes does not check the names. The name does not become the request's name, so that the Node
// authorizer takes it for a read of all (k8s.io/apiserver/pkg/endpoints/request/requestinfo.go).
func readsNothing(r *Request) bool {
	a := r.Attrs
	return a.Name == "" && a.Namespace != "" && a.Verb != "get" && selects(r, "metadata.name", nodeauthz.NoName)
}

// lost reports whether a kubelet asked in vain for the watch or the token of what its node could reach when it heard of the cluster last.
func (r *Request) lost(s State, m *Memory) bool {
	return m != nil && (!r.Allowed || r.Fruitless()) && !r.lags() && lostBy(r.product(), m.Kubelets, s, r.Attrs, r.Node, r.Time)
}
