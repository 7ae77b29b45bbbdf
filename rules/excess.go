package rules

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
)

// ExcessAccess is the name of the rule whose findings are the requests that need a binding.
const ExcessAccess = "rbac-excess-access"

// The reasons of the rule rbac-excess-access.
const (
	BindingNeeded      Reason = "binding-needed"
	BindingUnknown     Reason = "binding-unknown"
	ImpersonationGiven Reason = "impersonation-needs-binding"
	BindingOfKubeadm   Reason = "binding-of-kubeadm"
	BindingOfProfiles  Reason = "binding-of-worker-profiles"
	BindingDuringLag   Reason = "binding-during-lag"
	ObjectMissing      Reason = "object-missing"
	OwnUntilBefore     Reason = "own-until-before"
	AdmissionRefused   Reason = "admission-refused"
	RefusalTolerated   Reason = "refusal-tolerated"
	NameImpossible     Reason = "name-impossible"
)

// How a request ended that a binding allowed and that was given nothing new, so that its finding has a group of its own.
const (
	// JustGone is for what was the node's own until just before, and is not there, or is asked for by its kubelet.
	JustGone = "just-gone"
	// Untold is for what the state does not know: a kubelet may have watched what a pod of its own uses.
	Untold = "untold"
	// RefusedLater is for what admission refused.
	RefusedLater = "refused-by-admission"
	// Tolerated is for what the client can do without.
	Tolerated = "tolerated"
	// NoName is for what asked for a name that no object can have, where it is not known that the client can do without the answer.
	NoName = "no-name"
)

func rbacExcessAccess() *Rule {
	return &Rule{
		Name:     ExcessAccess,
		Severity: Critical,
		Reasons: []ReasonDoc{
			{Reason: BindingNeeded, Doc: "only this binding allowed the request"},
			{Reason: BindingUnknown, Doc: "only RBAC allowed the request, by a binding that neither the log nor the state names"},
			{Reason: ImpersonationGiven, Doc: "only RBAC allowed the node to act as somebody else (critical)"},
			{Reason: BindingOfKubeadm, Doc: "the binding is one of kubeadm's, which stays (low)"},
			{Reason: BindingOfProfiles, Doc: "the binding is k0s's own, which stays (low)"},
			{Reason: BindingDuringLag, Doc: "the API server's Node authorizer lagged and the binding allowed the request (low, but it needs the binding)"},
			{Reason: ObjectMissing, Doc: "the request was allowed and the object did not exist (404, low)"},
			{Reason: OwnUntilBefore, Doc: "a kubelet, from its node's address, asked for what had been its node's, or a pod of the same name (low)"},
			{Reason: AdmissionRefused, Doc: "the request was allowed and admission refused it (403, low)"},
			{Reason: RefusalTolerated, Doc: "kubeadm asked for the ConfigMap kube-proxy, and continues without it (low)"},
			{Reason: NameImpossible, Doc: "a list or a watch of the one object whose name cannot exist: the answer is empty (low)"},
		},
		Doc: `RBAC allowed a node what the Node authorizer does not

## What
RBAC allowed a request of a node through a binding whose subject is the node itself or the group 'system:nodes'. The Node authorizer, asked
about the same time, did not allow the request. Without the binding, the API server would have refused it.

A request that a node made by impersonation is flagged, too, whoever the node acted as: the Node authorizer never allows impersonation.

The severity is critical for secrets, for tokens of service accounts and for what gives the node the rights of others: exec and the like in
pods, the proxy of pods, services and nodes, roles and bindings, the approval of certificates, impersonation, new pods, the binding of pods
to nodes, and writes of objects that create pods. It is high for everything else.

It is medium if a kubelet listed or watched one object, and the state does not tell whether its node used the object, for example because
the journal begins later. A kubelet may ask before the API server's Node authorizer has the pod. This does not apply to a request from an
address that the node never had, if the state has addresses of the node.

It is low in these cases, which do not block the deletion of the binding:

- The object did not exist (404). A request through a proxy does not count: the answer is that of the pod, service or kubelet behind it.
- Admission refused the request (403). The same holds for a proxy. A refusal that passes does not count: by a quota, or because the
  namespace is deleted.
- A kubelet, from its node's address, listed or watched an object by name that its node could reach until at most a minute before, for
  example after a pod was deleted by force. The same holds for a get of a volume or of its claim, and for any request that the API server
  answered with 429 or 5xx. It also holds for what its node could reach before the node was cut off, until ten minutes after it is back.
- A kubelet, from its node's address, got a pod with the name of a pod that was on its node within a day, or before the node was cut off.
  This happens if a node comes back after its pods were created again elsewhere.
- A node read a ConfigMap of kubeadm by the binding that kubeadm made for it. This binding stays.
- A node read the profile of a worker of k0s ('worker-config-*') by the binding that k0s made for it. This binding stays, too.
- kubeadm read the ConfigMap kube-proxy. If that is refused, an upgrade of the node continues without it.
- A node listed or watched a secret or a ConfigMap, in one namespace, by a name that cannot exist, such as 'registry/team'. The answer is
  always empty. Kubelets ask for it if a pod names it, and do not need it for an image pull secret. If a variable or a volume of a pod has
  the name, or if the state has no such pod, the check nothing-depends still counts the request.

It is also low if the API server's Node authorizer denied what the state had long allowed, for example after a restart
(see authorizer-lag). The object belongs to the node. But without the binding, the request would have failed.

## Why
Such a binding gives every holder of any kubelet's credential the access of all nodes. With the legacy binding of the ClusterRole
'system:node', that is every secret of the cluster. These findings also show which clients will notice when you delete the binding.

## What to do
Look at the user agent.

If it is another program than the kubelet (a CNI agent, a log shipper, a monitoring agent), it uses the kubelet's credential. Give it a
service account with a role of its own, move it there, and watch this finding stop. Then delete the binding.

If it is the kubelet, look at the verb and the object: a kubelet should not need this. With code 404, it is mostly a kubelet that asks once
more for a pod that was just deleted. The Node authorizer refuses that to every kubelet, which is harmless.

## False positives
If the object came to the node, or left it, within the skew ('--skew'), the request is a race, and is not flagged.

An object that is not in the given state counts as an object that does not exist. If the state has no persistent volumes, secrets that only
they use are flagged. The report warns of kinds without objects.

Requests that any authenticated user may make (discovery, reviews of oneself) are not flagged.

## How to silence it
Run with '--disable rbac-excess-access'. To accept some access permanently, bind it to the service account or the group of the client that
needs it, instead of 'system:nodes'.`,
		Check: checkExcess,
	}
}

func checkExcess(r *Request, s State, m *Memory, f *Finding) bool {
	if !r.NodeDenies() && r.Impersonator == "" || !r.Allowed || r.Spare {
		return false
	}
	reason := BindingUnknown
	switch {
	case r.HasGrant && !r.Grant.ForNodes():
		return false
	case r.HasGrant:
		reason = BindingNeeded
	case r.Impersonator != "":
	case r.Observed.Decision != "" && r.Observed.Authorizer != ByRBAC || ambient(r):
		// The annotation names another authorizer, or anybody may do this.
		return false
	}
	if r.Impersonator != "" {
		*f = Finding{
			Rule: ExcessAccess, Reason: ImpersonationGiven, Severity: Critical, Subject: r.Impersonator, Apart: Impersonated, Allowed: true, Binding: r.Grant.Binding,
			Params: codes.Params{codes.Text(ParamUser, r.Event.Impersonated.Username)},
		}
		return true
	}
	*f = Finding{
		Rule: ExcessAccess, Reason: reason, Severity: High, Subject: r.Node, Allowed: true, Binding: r.Grant.Binding, Params: created(r),
	}
	switch {
	case r.JoinsThrough(&r.Grant.Binding):
		if f.Severity, f.Reason = Low, BindingOfKubeadm; OfK0s(&r.Grant.Binding) {
			f.Reason = BindingOfProfiles
		}
	case r.kubeadmTolerates():
		f.Severity, f.Reason, f.Apart = Low, RefusalTolerated, Tolerated
	case impossibleName(r) != "":
		name := impossibleName(r)
		f.Severity, f.Reason, f.Apart, f.Params = Low, NameImpossible, NoName, codes.Params{codes.Text(ParamName, name)}
		if s != nil && m != nil && IsKubelet(r.product(), m.Kubelets) && r.Attrs.Resource == "secrets" && s.OnlyPulls(r.Attrs.Namespace, name) {
			f.Apart = Tolerated
		}
	case r.Fruitless() && r.Event.Code == http.StatusNotFound:
		if f.Severity, f.Reason = Low, ObjectMissing; r.JustGone {
			f.Apart = JustGone
		}
	case r.Fruitless():
		f.Severity, f.Reason, f.Apart = Low, AdmissionRefused, RefusedLater
	case r.lags():
		f.Severity, f.Reason = Low, BindingDuringLag
	case r.ownUntilBefore(s, m):
		f.Severity, f.Reason, f.Apart = Low, OwnUntilBefore, JustGone
	case r.untold(s, m):
		f.Severity, f.Apart = Medium, Untold
	case r.Attrs.APIGroup == "" && (r.Attrs.Resource == "secrets" || isToken(r.Attrs)), escalates(r), makesPods(r) && (r.Attrs.APIGroup != "" || r.Attrs.Verb == "create"):
		f.Severity = Critical // programs on nodes annotate pods: a patch of one is not as grave
	}
	return true
}

// getsPod reports whether the request is to get a pod.
func (r *Request) getsPod() bool {
	a := r.Attrs
	return a.Verb == "get" && a.Resource == "pods" && a.APIGroup == "" && a.Subresource == "" && a.Name != ""
}

// ownUntilBefore reports whether a kubelet asks again (Rereads), or in vain (Failed), for what its node could reach until just before or before it was cut off. It also
// reports whether a kubelet gets a pod that has the name of one of its own of the day before, or of the time when the node was cut off. A pod that is deleted by force
// goes before its kubelet knows, and may be made again on another node. The kubelet then asks for it, and uses nothing of the answer: it has another UID
// (pkg/kubelet/status, syncPod). The address has to be one that the Node has had for long enough that no thief can have written it.
func (r *Request) ownUntilBefore(s State, m *Memory) bool {
	if s == nil || m == nil || !r.Succeeded() && !r.Failed() || !IsKubelet(r.product(), m.Kubelets) {
		return false
	}
	a := r.Attrs
	own := r.JustGone && (r.Rereads() || r.Failed())
	if !own && !(r.getsPod() && (s.PodWasOn(a.Namespace, a.Name, r.Node, r.Time.Add(-ReturnsFor), r.Time) || s.HadPod(a.Namespace, a.Name, r.Node, r.Time))) {
		return false
	}
	address, logged := r.Event.Address()
	return logged && rank(s.NodeAddressSets(r.Node, r.Time), address) == isCurrent
}

// untold reports whether a kubelet lists or watches an object of which the state does not tell whether its node uses it. When a pod comes to a node, its kubelet may
// ask before the API server's own graph has the pod, so that a binding lets the request through. That excuses no request from elsewhere.
func (r *Request) untold(s State, m *Memory) bool {
	a := r.Attrs
	return r.Answer.Verdict == nodeauthz.Unknown && r.Succeeded() && a.Name != "" && (a.Verb == "list" || a.Verb == "watch") && byGraph(r) &&
		m != nil && IsKubelet(r.product(), m.Kubelets) && !r.elsewhere(s)
}

// elsewhere reports whether the request came from an address that its Node had at no time, where the state has addresses of the Node. What shares a machine with
// an API server may come from its loopback address.
func (r *Request) elsewhere(s State) bool {
	address, logged := r.Event.Address()
	if s == nil || !logged || isLoopback(address) {
		return false
	}
	sets := s.NodeAddressSets(r.Node, time.Time{})
	return len(sets) > 0 && rank(sets, address) == isStrange
}

// ReturnsFor is for how long a node may be away before its kubelet comes back and asks after the pods that it had.
const ReturnsFor = 24 * time.Hour

// impossibleName is the name that no object can have of a secret or a ConfigMap that the request lists or watches, and nothing else: see readsNothing. It is empty for all other
// requests, and where anything else is selected, too, which no kubelet does.
func impossibleName(r *Request) string {
	a := r.Attrs
	kubeletReads := a.ResourceRequest && a.APIGroup == "" && a.Subresource == "" && (a.Resource == "secrets" || a.Resource == "configmaps")
	if !kubeletReads || a.Verb != "list" && a.Verb != "watch" || len(a.FieldSelectorRequirements) != 1 || len(a.LabelSelectorRequirements) > 0 ||
		a.FieldSelectorParsingErr != nil || a.LabelSelectorParsingErr != nil || !readsNothing(r) {
		return ""
	}
	return a.FieldSelectorRequirements[0].Value
}

// Harmless reports whether a finding says that nothing is lost without the binding that allowed the request.
func Harmless(s Severity, r Reason) bool { return s <= Low && r != BindingDuringLag }

const kubeSystem = "kube-system"

// Stays reports whether the binding is one that kubeadm or k0s makes for nodes to read what they join and are upgraded by. It gives some ConfigMaps
// of kube-system and is no part of a migration.
func Stays(b *rbac.BindingRef) bool { return ofKubeadm(b) || OfK0s(b) }

func ofKubeadm(b *rbac.BindingRef) bool {
	return b.Kind == rbac.KindRoleBinding && b.Namespace == kubeSystem &&
		(b.Name == "kubeadm:nodes-kubeadm-config" || b.Name == "kubeadm:kubelet-config" || strings.HasPrefix(b.Name, "kubeadm:kubelet-config-1."))
}

// OfK0s reports whether the binding is the one by which workers of k0s read their profiles (github.com/k0sproject/k0s, pkg/component/controller/workerconfig/reconciler.go). Since
// k0s 1.31 its name has the minor.
func OfK0s(b *rbac.BindingRef) bool {
	const name = "system:bootstrappers:worker-config"
	return b.Kind == rbac.KindRoleBinding && b.Namespace == kubeSystem && (b.Name == name || strings.HasPrefix(b.Name, name+"-1."))
}

// JoinsThrough reports whether the request is for what the binding, which stays, is made for: under its name another role could give anything.
func (r *Request) JoinsThrough(b *rbac.BindingRef) bool {
	return ofKubeadm(b) && r.kubeadmConfig() || OfK0s(b) && r.k0sProfile()
}

// JoinsBy reports whether the request is for what such a binding is made for, whichever binding allowed it.
func (r *Request) JoinsBy() bool { return r.kubeadmConfig() || r.k0sProfile() }

func (r *Request) ofConfigMap() bool {
	a := r.Attrs
	return a.ResourceRequest && a.APIGroup == "" && a.Resource == "configmaps" && a.Subresource == "" && a.Namespace == kubeSystem
}

// kubeadmConfig reports whether the request gets a ConfigMap by which kubeadm sets nodes up.
func (r *Request) kubeadmConfig() bool {
	a := r.Attrs
	return r.ofConfigMap() && a.Verb == "get" && (a.Name == "kubeadm-config" || a.Name == "kubelet-config" || strings.HasPrefix(a.Name, "kubelet-config-1."))
}

// k0sProfile reports whether the request reads the profile of a worker of k0s: k0s gets it at each start, and watches it where it balances the load of the API servers on the
// node (pkg/component/worker/config/loader.go).
func (r *Request) k0sProfile() bool {
	return r.ofConfigMap() && reads(r.Attrs.Verb) && strings.HasPrefix(r.Attrs.Name, "worker-config-")
}

// kubeadmTolerates reports whether the request is kubeadm's for the configuration of kube-proxy. It makes it with kubelet.conf when it upgrades a node, also where there
// is no kube-proxy, and continues if the API server refuses it or has no such object (cmd/kubeadm/app/componentconfigs, fromConfigMap).
func (r *Request) kubeadmTolerates() bool {
	return program(r.product()) == "kubeadm" && r.ofConfigMap() && r.Attrs.Verb == "get" && r.Attrs.Name == "kube-proxy"
}

// ambient reports whether any authenticated user may do this in a cluster with the default bindings, or the user needs no binding at
// all. It matters only where neither the log nor the state names the grant.
func ambient(r *Request) bool {
	a := r.Attrs
	if !a.ResourceRequest && public(a.Path) || slices.Contains(r.Event.Effective().Groups, user.SystemPrivilegedGroup) {
		return true
	}
	return ofOneself(a)
}

// ofOneself reports whether the request is a review of the caller's own rights or identity.
func ofOneself(a *authorizer.AttributesRecord) bool {
	switch a.Resource {
	case "selfsubjectaccessreviews", "selfsubjectrulesreviews":
		return a.APIGroup == "authorization.k8s.io" && a.Verb == "create"
	case "selfsubjectreviews":
		return a.APIGroup == "authentication.k8s.io" && a.Verb == "create"
	}
	return false
}

// public reports whether the default bindings give the path to everybody: those of the ClusterRoles system:discovery and
// system:public-info-viewer.
func public(path string) bool {
	for _, p := range []string{"/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz"} {
		if rest, ok := strings.CutPrefix(path, p); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

func isToken(a *authorizer.AttributesRecord) bool {
	return a.APIGroup == "" && a.Resource == "serviceaccounts" && a.Subresource == "token"
}
