package rules

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/nodeid"
)

const bootstrappersGroup = "system:bootstrappers"

// NodeIdentity is the name of the rule on identities that the Node authorizer does not serve.
const NodeIdentity = "node-identity"

// The reasons of the rule node-identity.
const (
	NameForm        Reason = "name-form"
	NameEmpty       Reason = "name-empty"
	GroupMissing    Reason = "group-missing"
	NoNodeIdentity  Reason = "no-node-identity"
	NodeMissing     Reason = "node-missing"
	NodeGone        Reason = "node-gone"
	NodeGoneRenewed Reason = "node-gone-renewed"
	NameLetterCase  Reason = "name-letter-case"
	NameDomain      Reason = "name-domain"
	Privileged      Reason = "privileged-group"
)

// Impersonated is what tells findings on identities apart that somebody has only tried.
const Impersonated = "impersonated"

func nodeIdentity() *Rule {
	return &Rule{
		Name:     NodeIdentity,
		Severity: Critical,
		Reasons: []ReasonDoc{
			{Reason: NameForm, Doc: "a member of the group 'system:nodes' whose user name does not begin with 'system:node:'"},
			{Reason: NameEmpty, Doc: "a user name that ends after 'system:node:'"},
			{Reason: GroupMissing, Doc: "a user 'system:node:<nodeName>' outside of the group 'system:nodes'"},
			{Reason: NoNodeIdentity, Doc: "a kubelet's user agent under an identity that is not a node's"},
			{Reason: NodeMissing, Doc: "the cluster has no Node object of the name, nor one of nearly that name"},
			{Reason: NodeGone, Doc: "the same, and the request is one that a machine makes whose Node was deleted (low)"},
			{Reason: NodeGoneRenewed, Doc: "the same, and the request asked for a new certificate of the node (low)"},
			{Reason: NameLetterCase, Doc: "the cluster has a Node object whose name differs only in letter case"},
			{Reason: NameDomain, Doc: "the cluster has a Node object whose name differs only in its domain"},
			{Reason: Privileged, Doc: "the node's certificate has the group 'system:masters', which may do anything (critical)"},
		},
		Doc: `A kubelet has a wrong user or group

## What
The rule flags these identities:

- a member of the group 'system:nodes' whose user name is not 'system:node:<nodeName>';
- a user 'system:node:<nodeName>' outside of that group;
- an identity that is not a node's, if the user agent is a kubelet's;
- a node identity for which the cluster has no Node object. If the reason is known, the finding has it: letter case, or a host name with or
  without its domain;
- a node identity that is also in the group 'system:masters' (critical). The API server asks no authorizer about it, and if you delete a
  binding, the identity loses nothing.

The severity is high. It is low in these cases, which do not block the deletion of the binding:

- The identity was impersonated ('kubectl --as'). Somebody tried it, and no kubelet has it.
- There is no Node of the name, and the request is one of a machine that is still on after its Node was deleted. It names no other node: not
  in the name of a Node, a CSINode or a Lease of a node, nor in a field selector. It fails (401, 403, 404; also 429 or a server error, if it
  can have changed nothing), or it gets what each kubelet gets: watches of its own Node and pods, and of Services, CSIDrivers,
  RuntimeClasses and ClusterTrustBundles; reviews; and what everybody may read. Or it makes a request that needs no Node: it records an
  event that is not about another node, requests a certificate of its own, or reads such requests. If it got a new certificate, the finding
  says so ('node-gone-renewed'): whoever holds the credential can keep it. Such a request is high if it comes from an address of another
  Node, or from one that the deleted Node did not have. Each request is judged by itself: a kubelet with a wrong name also asks for the Node
  of its real name, and that request is high.
- A client with a kubelet's user agent was refused under an identity that is not a node's. Anybody can send such a request, without any
  credential, and a kubelet whose requests are all refused needs no binding.

Under an identity that is not a node's, requests that everybody may make are not flagged: paths that do not belong to a resource, such as
'/healthz' and '/version', reviews of oneself, and the ConfigMap 'cluster-info' in 'kube-public', which clients read before they join.

## Why
The Node authorizer serves only requests that have both the group and the name. Any other identity depends on RBAC, on the binding that you
want to delete. If the name differs from the name of the Node, the graph allows nothing.

## What to do
Issue a client certificate with 'O=system:nodes' and 'CN=system:node:<name of its Node object>' to the kubelet. Both must match exactly, and
the name must be in lower case. Issue one certificate for each node, best by TLS bootstrapping and rotation. If '--hostname-override' or a
cloud provider sets the name of the Node, the certificate must have that name. Switch off a machine whose Node you deleted, or let its
kubelet restart, so that it registers again.

## False positives
A node that registers for the first time asks for its Node before the Node exists. It is flagged only if no such Node appears in the whole
state. 'nodetrail run' with live state cannot look ahead. It waits for five minutes from the first request of the name, unless there is a
Node with a similar name.

Kubelets that bootstrap (group 'system:bootstrappers') are not flagged. The user agent is the client's own claim: another program can call
itself a kubelet, and is flagged if the API server let it do something.

## How to silence it
Run with '--disable node-identity'.`,
		Check: checkIdentity,
	}
}

func checkIdentity(r *Request, s State, _ *Memory, f *Finding) bool {
	if r.IsNode && r.Node != "" { // it is named so, and in the group
		if slices.Contains(r.Event.Effective().Groups, user.SystemPrivilegedGroup) {
			identity(r, r.Node, Privileged, "", f)
			if !r.Event.IsImpersonated {
				f.Severity = Critical
			}
			return true
		}
		return checkRegistered(r, s, f)
	}
	u := r.Event.Effective()
	inGroup := slices.Contains(u.Groups, user.NodesGroup)
	name, named := strings.CutPrefix(u.Username, nodeid.UserPrefix)
	switch {
	case inGroup && !named:
		return identity(r, u.Username, NameForm, "", f)
	case named && !inGroup:
		return identity(r, name, GroupMissing, "", f)
	case named && name == "":
		return identity(r, u.Username, NameEmpty, "", f)
	case !named && strayKubelet(r.Event) && !forEverybody(r):
		identity(r, u.Username, NoNodeIdentity, "", f)
		if !letThrough(r) {
			f.Severity = Low
		}
		return true
	}
	return false
}

// forEverybody reports whether the request is one that clients without any rights of their own make. It tells nothing of the rights that a kubelet has.
func forEverybody(r *Request) bool {
	a := r.Attrs
	if !a.ResourceRequest {
		return a.Path != ""
	}
	return ofOneself(a) || a.APIGroup == "" && a.Verb == "get" && a.Resource == "configmaps" && a.Subresource == "" && a.Namespace == "kube-public" && a.Name == "cluster-info"
}

// letThrough reports whether the request was authorized, or nothing tells that it was not. An error before authorization, such as that of an odd header, has no decision: any
// client can have it.
func letThrough(r *Request) bool {
	if !r.Allowed || r.Observed.Decision != "" || r.Event.Code < http.StatusBadRequest {
		return r.Allowed || r.Open
	}
	switch r.Event.Code {
	case http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity: // by the handler, after authorization
		return true
	}
	return false
}

func checkRegistered(r *Request, s State, f *Finding) bool {
	if s == nil {
		return false
	}
	if registered, known := s.NodeRegistered(r.Node, r.Time); registered || !known {
		return false
	}
	if similar, how := s.SimilarNode(r.Node, r.Time); similar != "" {
		return identity(r, r.Node, how, similar, f)
	}
	if !r.Event.IsImpersonated && ofGoneNode(r, s) {
		if identity(r, r.Node, NodeGone, "", f); renewsGone(r) {
			f.Reason = NodeGoneRenewed
			f.Params = append(f.Params, codes.Text(ParamAddress, lastAddress(r)))
		}
		f.Severity = Low
		return true
	}
	return identity(r, r.Node, NodeMissing, "", f)
}

// strayKubelet reports whether something that says it is a kubelet has authenticated itself as somebody else, and not in order to
// become a node: for that it asks for a certificate as whoever its
// bootstrap kubeconfig names, such as a service account on OpenShift.
func strayKubelet(ev *audit.Event) bool {
	product := Product(ev.UserAgent)
	if o := &ev.ObjectRef; o.APIGroup == "certificates.k8s.io" && o.Resource == "certificatesigningrequests" {
		return false
	}
	return program(product) == "kubelet" && ev.User.Username != "" && !ev.IsImpersonated &&
		!slices.ContainsFunc(ev.User.Groups, func(g string) bool {
			return g == bootstrappersGroup || strings.HasPrefix(g, bootstrappersGroup+":")
		})
}

// identity is the finding on an identity, weighed by whether it is really somebody's. similar is the name of the Node that it was meant to be.
func identity(r *Request, subject string, reason Reason, similar string, f *Finding) bool {
	*f = Finding{Rule: NodeIdentity, Reason: reason, Severity: High, Subject: subject, Allowed: r.Allowed}
	if similar != "" {
		f.Params = append(f.Params, codes.Text(ParamSimilar, similar))
	}
	if r.Event.IsImpersonated {
		f.Severity, f.Apart = Low, Impersonated
		f.Params = append(f.Params, codes.Text(ParamBy, r.Event.User.Username))
	}
	return true
}
