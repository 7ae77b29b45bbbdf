package nodeauthz

import (
	"strconv"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// question is what is left of a request once the static part of the reference's logic is done: an answer, or an object to which a
// path must lead.
type question struct {
	kind            Kind // KindNone: answered
	namespace, name string
	verdict         Verdict
	reason          string
}

func quote(s string) string { return strconv.Quote(s) }

func allow() question             { return question{verdict: Allow} }
func deny(reason string) question { return question{verdict: Deny, reason: reason} }

// path asks for a path from the object, if the request names one.
func path(kind Kind, attrs authorizer.Attributes) question {
	name := attrs.GetName()
	if name == "" {
		return deny(prefix + "No Object name found")
	}
	return question{kind: kind, namespace: attrs.GetNamespace(), name: name}
}

// question is the switch of the reference's NodeAuthorizer.Authorize (node_authorizer.go), branch by branch.
// Its reasons begin with the authorizer's name: see reasonOf.
func (a *Authorizer) question(node string, attrs authorizer.Attributes) question {
	if attrs.IsResourceRequest() {
		if q, ok := a.resource(node, attrs); ok {
			return q
		}
	}
	if a.rules.allow(attrs) {
		return allow()
	}
	return deny("")
}

// prefix is what the union of authorizers puts before a reason since 1.37 (k8s.io/apiserver/pkg/authorization/union). Reasons are made with it, so
// that to leave it away costs nothing.
const prefix = "node: "

// reasonOf is a reason as this version has it.
func (a *Authorizer) reasonOf(r string) string {
	if r != "" && a.f.Minor < 37 {
		return r[len(prefix):]
	}
	return r
}

func (a *Authorizer) resource(node string, attrs authorizer.Attributes) (question, bool) {
	resource := attrs.GetResource()
	switch attrs.GetAPIGroup() {
	case "":
		switch resource {
		case "secrets":
			return readNamespaced(KindSecret, attrs), true
		case "configmaps":
			return readNamespaced(KindConfigMap, attrs), true
		case "persistentvolumeclaims":
			if attrs.GetSubresource() == "status" {
				return updateStatus(KindPersistentVolumeClaim, attrs), true
			}
			return get(KindPersistentVolumeClaim, attrs), true
		case "persistentvolumes":
			return get(KindPersistentVolume, attrs), true
		case "serviceaccounts":
			return a.serviceAccount(attrs), true
		case "nodes":
			if a.f.AuthorizeNodeWithSelectors {
				return ownNode(node, attrs), true
			}
		case "pods":
			if a.f.AuthorizeNodeWithSelectors {
				return pods(node, attrs), true
			}
		}
	case "resource.k8s.io":
		switch resource {
		case "resourceclaims":
			return get(KindResourceClaim, attrs), true
		case "resourceslices":
			switch {
			case a.f.Minor >= 31:
				return a.resourceSlice(node, attrs), true
			case a.f.Minor == 30:
				return a.resourceSliceAlpha(node, attrs), true
			}
		}
	case "storage.k8s.io":
		switch resource {
		case "volumeattachments":
			return get(KindVolumeAttachment, attrs), true
		case "csinodes":
			return a.csiNode(node, attrs), true
		}
	case "coordination.k8s.io":
		if resource == "leases" {
			return lease(node, attrs), true
		}
	case "certificates.k8s.io":
		// Before 1.34 the reference does not know the resource, and no static rule allows it: the same answer.
		if resource == "podcertificaterequests" {
			if a.f.PodCertificateRequest && a.f.AuthorizeNodeWithSelectors {
				return podCertificateRequest(node, attrs), true
			}
			if a.f.Minor >= 35 {
				return deny(""), true
			}
		}
	}
	return question{}, false
}

func updateStatus(kind Kind, attrs authorizer.Attributes) question {
	switch attrs.GetVerb() {
	case "update", "patch":
		return path(kind, attrs)
	}
	return deny(prefix + "can only get/update/patch this type")
}

func get(kind Kind, attrs authorizer.Attributes) question {
	if attrs.GetVerb() != "get" {
		return deny(prefix + "can only get individual resources of this type")
	}
	if attrs.GetSubresource() != "" {
		return deny(prefix + "cannot get subresource")
	}
	return path(kind, attrs)
}

func readNamespaced(kind Kind, attrs authorizer.Attributes) question {
	switch attrs.GetVerb() {
	case "get", "list", "watch":
	default:
		return deny(prefix + "can only read resources of this type")
	}
	if attrs.GetSubresource() != "" {
		return deny(prefix + "cannot read subresource")
	}
	if attrs.GetNamespace() == "" {
		return deny(prefix + "can only read namespaced object of this type")
	}
	return path(kind, attrs)
}

func (a *Authorizer) serviceAccount(attrs authorizer.Attributes) question {
	if a.f.Minor >= 33 && attrs.GetVerb() == "get" && attrs.GetSubresource() == "" {
		if !a.f.KubeletServiceAccountTokenForCredentialProviders && !a.f.PodCertificateRequest {
			return deny(prefix + "not allowed to get service accounts")
		}
		return readNamespaced(KindServiceAccount, attrs)
	}
	if attrs.GetVerb() != "create" || attrs.GetName() == "" {
		return deny(prefix + "can only create tokens for individual service accounts")
	}
	if attrs.GetSubresource() != "token" {
		return deny(prefix + "can only create token subresource of serviceaccount")
	}
	return path(KindServiceAccount, attrs)
}

// writesOwn are the verbs on objects that are named as the node is.
func writesOwn(verb string) bool {
	switch verb {
	case "get", "create", "update", "patch", "delete":
		return true
	}
	return false
}

func lease(node string, attrs authorizer.Attributes) question {
	if !writesOwn(attrs.GetVerb()) {
		return deny(prefix + "can only get, create, update, patch, or delete a node lease")
	}
	if attrs.GetNamespace() != "kube-node-lease" {
		return deny(prefix + `can only access leases in the "kube-node-lease" system namespace`)
	}
	// On create the name is in the body, which admission checks.
	if attrs.GetVerb() != "create" && attrs.GetName() != node {
		return deny(prefix + "can only access node lease with the same name as the requesting node")
	}
	return allow()
}

func (a *Authorizer) csiNode(node string, attrs authorizer.Attributes) question {
	switch sub := attrs.GetSubresource(); {
	case sub == "status" && a.f.Minor >= 37:
		if !a.f.CSIVolumeHealth {
			return deny(prefix + "CSINode status access requires CSIVolumeHealth feature")
		}
		switch attrs.GetVerb() {
		case "get", "update", "patch":
		default:
			return deny(prefix + "can only get, update, or patch CSINode status")
		}
	case sub != "" && (a.f.Minor >= 37 || writesOwn(attrs.GetVerb())):
		return deny(prefix + "cannot authorize CSINode subresources")
	case !writesOwn(attrs.GetVerb()):
		return deny(prefix + "can only get, create, update, patch, or delete a CSINode")
	}
	if attrs.GetVerb() != "create" && attrs.GetName() != node {
		return deny(prefix + "can only access CSINode with the same name as the requesting node")
	}
	return allow()
}

// fieldSelecting are attributes with selectors, which are there since k8s.io/apiserver 0.31.
type fieldSelecting interface {
	GetFieldSelector() (fields.Requirements, error)
}

// selects reports whether the request's field selector demands that the field be the node's name.
func selects(field, node string, attrs authorizer.Attributes) bool {
	s, ok := attrs.(fieldSelecting)
	if !ok {
		return false
	}
	requirements, _ := s.GetFieldSelector()
	for i := range requirements {
		r := &requirements[i]
		if r.Field == field && r.Operator == selection.Equals && r.Value == node {
			return true
		}
	}
	return false
}

func (a *Authorizer) resourceSlice(node string, attrs authorizer.Attributes) question {
	if attrs.GetSubresource() != "" {
		return deny(prefix + "cannot authorize ResourceSlice subresources")
	}
	switch attrs.GetVerb() {
	case "create":
		return allow()
	case "get", "update", "patch", "delete":
		q := path(KindResourceSlice, attrs)
		if q.kind != KindNone && !a.f.DynamicResourceAllocation {
			// The API server then does not watch slices: no edge was ever made.
			return deny(noRelationship(node))
		}
		// Slices have no namespace, but the reference looks them up with the request's.
		return q
	case "watch", "list", "deletecollection":
		if !a.f.AuthorizeNodeWithSelectors || selects("spec.nodeName", node, attrs) {
			return allow()
		}
		return deny(prefix + "can only list/watch/deletecollection resourceslices with nodeName field selector")
	}
	return deny(prefix + "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection")
}

// resourceSliceAlpha is 1.30's.
func (a *Authorizer) resourceSliceAlpha(node string, attrs authorizer.Attributes) question {
	switch verb := attrs.GetVerb(); {
	case attrs.GetSubresource() != "":
	case verb == "list" || verb == "watch":
		return allow()
	case !writesOwn(verb):
		return deny(prefix + "can only get, create, update, patch, or delete a ResourceSlice")
	}
	return a.resourceSlice(node, attrs)
}

func podCertificateRequest(node string, attrs authorizer.Attributes) question {
	if attrs.GetSubresource() != "" {
		return deny(prefix + "nodes may not access the status subresource of PodCertificateRequests")
	}
	switch attrs.GetVerb() {
	case "create":
		return allow()
	case "get":
		return path(KindPodCertificateRequest, attrs)
	case "list", "watch":
		if selects("spec.nodeName", node, attrs) {
			return allow()
		}
		return deny(prefix + "can only list/watch podcertificaterequests with nodeName field selector")
	}
	return deny(prefix + "nodes may not " + attrs.GetVerb() + " podcertificaterequests")
}

func ownNode(node string, attrs authorizer.Attributes) question {
	switch attrs.GetSubresource() {
	case "":
		switch attrs.GetVerb() {
		case "create", "update", "patch":
			return allow()
		case "get", "list", "watch":
			// By name, not by the graph: a kubelet asks for its Node before there is one.
			switch name := attrs.GetName(); name {
			case node:
				return allow()
			case "":
				return deny(prefix + "node '" + node + "' cannot read all nodes, only its own Node object")
			default:
				return deny(prefix + "node '" + node + "' cannot read '" + name + "', only its own Node object")
			}
		}
	case "status":
		switch attrs.GetVerb() {
		case "update", "patch":
			return allow()
		}
	}
	return deny("")
}

func pods(node string, attrs authorizer.Attributes) question {
	switch attrs.GetSubresource() {
	case "":
		switch attrs.GetVerb() {
		case "get":
			return path(KindPod, attrs)
		case "list", "watch":
			if selects("spec.nodeName", node, attrs) {
				return allow()
			}
			if attrs.GetName() != "" {
				return path(KindPod, attrs)
			}
			return deny(prefix + "can only list/watch pods with spec.nodeName field selector")
		case "create", "delete":
			return allow()
		}
	case "status":
		switch attrs.GetVerb() {
		case "update", "patch":
			return allow()
		}
	case "eviction":
		if attrs.GetVerb() == "create" {
			return allow()
		}
	}
	return deny("")
}
