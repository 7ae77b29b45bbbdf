package rules

import (
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/codes"
)

// OtherGrant is the name of the rule on what nodes may do as members of other groups than their own.
const OtherGrant = "node-other-grant"

// The reasons of the rule node-other-grant.
const (
	ByOtherBinding    Reason = "by-other-binding"
	ByOtherAuthorizer Reason = "by-other-authorizer"
	ByReasonless      Reason = "by-authorizer-without-reason"
	ByOtherToo        Reason = "by-other-binding-too"
	ActsByOther       Reason = "impersonation-by-other-binding"
)

func nodeOtherGrant() *Rule {
	return &Rule{
		Name:     OtherGrant,
		Severity: Critical,
		Reasons: []ReasonDoc{
			{Reason: ByOtherBinding, Doc: "an RBAC binding for another group than that of nodes allowed the request"},
			{Reason: ByOtherAuthorizer, Doc: "an authorizer that is neither Node nor RBAC allowed the request"},
			{Reason: ByReasonless, Doc: "an authorizer that is neither Node nor RBAC allowed the request, and gave no reason"},
			{Reason: ByOtherToo, Doc: "a binding for nodes allowed the request, and another group's would have allowed it too"},
			{Reason: ActsByOther, Doc: "an RBAC binding for another group than that of nodes allowed the node to act as somebody else (critical)"},
		},
		Doc: `A group other than system:nodes gives a node extra rights

## What
A node made a request that the Node authorizer does not allow. The request passed, but not by a binding for nodes, and not by what every
user may do in any cluster (discovery, health and version, reviews of oneself). It passed by one of these:

- a binding for another group of the node's credential, such as 'system:authenticated' or 'system:bootstrappers';
- another authorizer, such as a webhook.

A request that the node made by impersonation, allowed by such a binding, is flagged, too. A request as another node is judged as a request
of that node (see node-credential-misuse).

The severity is critical for secrets, for tokens of service accounts and for what gives the node the rights of others: exec and the like in
pods, the proxy of pods, services and nodes, roles and bindings, the approval of certificates, impersonation, and writes of pods and of
objects that create pods. It is high for other writes. It is low for reads, and for requests that failed anyway (404, or 403 by admission).

## Why
If you delete the binding for nodes, nodes keep these rights. Whoever holds the credential of one node has these rights in the whole
cluster.

## What to do
Look at the subject of the binding. A binding for 'system:authenticated' also gives its rights to every service account and every user: bind
the role to those who need it. If another authorizer allowed the request, look at its rules for the group 'system:nodes' and for all users.

## False positives
Clusters that let every user read some kind of object on purpose have findings of severity low.

## How to silence it
Run with '--disable node-other-grant'.`,
		Check: checkOtherGrant,
	}
}

func checkOtherGrant(r *Request, _ State, _ *Memory, f *Finding) bool {
	if r.Impersonator != "" {
		return actsByOther(r, f)
	}
	if !r.NodeDenies() || !r.Allowed || r.Event.IsImpersonated || ambient(r) {
		return false
	}
	*f = Finding{Rule: OtherGrant, Severity: Low, Subject: r.Node, Allowed: true, Params: created(r)}
	switch {
	case r.HasGrant && !r.Grant.ForNodes():
		if r.JoinsThrough(&r.Grant.Binding) { // these bindings name the group of bootstrap tokens, too
			return false
		}
		f.Reason, f.Binding = ByOtherBinding, r.Grant.Binding
	case r.Spare:
		f.Reason = ByOtherToo
	case !r.HasGrant && r.Observed.Authorizer == ByOther:
		if f.Reason = ByOtherAuthorizer; Reasonless(r) {
			f.Reason = ByReasonless
		}
	default:
		return false
	}
	switch {
	case r.Fruitless():
	case r.Attrs.APIGroup == "" && (r.Attrs.Resource == "secrets" || isToken(r.Attrs)), escalates(r), makesPods(r):
		f.Severity = Critical
	case writes(r.Attrs.Verb):
		f.Severity = High
	}
	return true
}

// Reasonless reports whether another authorizer than Node and RBAC allowed a node the request without a reason. What it allows looks like the Node authorizer's word.
func Reasonless(r *Request) bool {
	return r.IsNode && r.Observed.Decision == "allow" && r.Observed.Reason == "" && r.Observed.Authorizer == ByOther &&
		!slices.Contains(r.Event.Effective().Groups, user.SystemPrivilegedGroup)
}

// actsByOther is the finding on a request that a node made as somebody else, which no binding for nodes was needed for.
func actsByOther(r *Request, f *Finding) bool {
	if !r.Allowed || !r.Spare {
		return false
	}
	*f = Finding{
		Rule: OtherGrant, Reason: ActsByOther, Severity: Critical, Subject: r.Impersonator, Allowed: true,
		Params: codes.Params{codes.Text(ParamUser, r.Event.Impersonated.Username)},
	}
	if r.HasGrant && !r.Grant.ForNodes() {
		f.Binding = r.Grant.Binding
	}
	return true
}

// makesPods reports whether the request writes a pod, binds one to a node, or writes an object of Kubernetes by which its controllers make pods: by a pod of its
// own, with any service account of the namespace, the node has the rights of others.
func makesPods(r *Request) bool {
	a := r.Attrs
	if !a.ResourceRequest || !writes(a.Verb) || a.Verb == "delete" || a.Verb == "deletecollection" {
		return false
	}
	switch a.APIGroup {
	case "":
		return slices.Contains([]string{"pods", "bindings", "replicationcontrollers", "podtemplates"}, a.Resource) && a.Subresource != "status" && a.Subresource != "eviction"
	case "apps", "batch":
		return a.Subresource != "status" && a.Resource != "controllerrevisions"
	}
	return false
}
