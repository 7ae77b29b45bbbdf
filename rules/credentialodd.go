package rules

import (
	"strings"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// odd returns the reason of a finding on a request of a node that no kubelet makes, "" for any other request. A write of another node's object that was refused is in
// foreign-node-write.
func odd(r *Request, s State) Reason {
	switch {
	case !r.Allowed && r.NodeDenies() && escalates(r):
		return EscalationRefused
	case oddWrite(r, s):
		return OddWrite
	case !r.refusedForGood():
		if reason := podsRead(r, s); reason != "" || !grantedToOthers(r) || !neverMade(r) && !asksForOthers(r, s) {
			return reason
		}
		return ForeignReadGranted
	case ofNoPod(r, s):
		return UnusedReadRefused
	case writesForeign(r, s) || !neverMade(r) && !asksForOthers(r, s) || k0s(r):
		return ""
	case reads(r.Attrs.Verb):
		return ForeignReadRefused
	}
	return OddWriteRefused
}

// grantedToOthers reports whether a read of what the Node authorizer denies was allowed by something that is not there for nodes. That somebody may ask says nothing about who
// does.
func grantedToOthers(r *Request) bool {
	return reads(r.Attrs.Verb) && r.Succeeded() && r.NodeDenies() && !r.lags() && !ambient(r) && !k0s(r) && !(r.HasGrant && r.Grant.ForNodes()) && !r.JoinsBy()
}

// neverMade reports whether no kubelet of a supported version makes such a request, whatever its node is called. What kubelets ask for is what the rules for nodes have, in
// any version and with any feature gate, and what these kubelets do beyond that.
func neverMade(r *Request) bool {
	a := r.Attrs
	if !a.ResourceRequest {
		return a.Path != "" && !public(a.Path)
	}
	if a.Subresource == "" {
		switch a.Resource {
		case "secrets", "configmaps":
			// They are read by their names (pkg/kubelet/util/manager). A name that is no path segment, such as an empty one or one with a slash, does not become the request's
			// name (k8s.io/apiserver/pkg/endpoints/request/requestinfo.go; k8s.io/kubernetes issue 99454).
			if a.APIGroup == "" && a.Name == "" && r.Event.RequestURI != "" && !selects(r, "metadata.name", func(string) bool { return true }) {
				return true
			}
		case "leases":
			if a.APIGroup == "coordination.k8s.io" && a.Namespace != "kube-node-lease" {
				return true
			}
		case "podcertificaterequests":
			if a.APIGroup == "certificates.k8s.io" && a.Verb == "get" {
				return true // they are watched
			}
		case "volumeattachments":
			// Up to 1.31 a kubelet watches one that is not attached yet, and is refused (pkg/volume/csi/csi_attacher.go, k8s.io/kubernetes pull 118196).
			if a.APIGroup == "storage.k8s.io" && a.Verb == "watch" && a.Name != "" {
				return false
			}
		case "resourceslices":
			// That of 1.30, which knows v1alpha2 alone, watches and publishes them for its drivers. Later ones delete those of their Node when a driver goes, and leave all
			// else to the drivers (pkg/kubelet/cm/dra/plugin).
			if a.APIGroup == "resource.k8s.io" {
				return a.Verb != "deletecollection" && (a.Verb == "patch" || !slicesOf130(r))
			}
		}
	}
	return !nodeauthz.EverRuled(a) && !ofOneself(a)
}

// ofNoPod reports whether the request is for a claim or a service account that no pod uses which is on the node, or was while the kubelet may still have it. A kubelet gets both by what
// its pods say. Whether a version lets nodes get service accounts is another question: a node may ask for tokens of those of its pods in each.
func ofNoPod(r *Request, s State) bool {
	a := r.Attrs
	if s == nil || a.APIGroup != "" || a.Subresource != "" || a.Verb != "get" || a.Name == "" || r.Answer.Verdict != nodeauthz.Deny {
		return false
	}
	switch a.Resource {
	case "persistentvolumeclaims":
	case "serviceaccounts":
		token := *a
		token.Verb, token.Subresource = "create", "token"
		a = &token
	default:
		return false
	}
	return s.PodsWatched(r.Time.Add(-asksAfter)) && s.PodsWatched(r.Time) && !s.Had(a, r.Node, r.Time) && !namesNoNode(r, s)
}

// slicesOf130 reports whether the request may be about ResourceSlices as the kubelet of 1.30 has them. What the log does not tell counts for the kubelet.
func slicesOf130(r *Request) bool {
	v := r.Event.ObjectRef.APIVersion
	return v == "" || v == "v1alpha2"
}

// k0s reports whether the request is one that the program k0s makes next to its kubelet, with the kubelet's credential: it reads what its updates are about, and drains its
// node (github.com/k0sproject/k0s, pkg/component/controller/systemrbac-ap.yaml). It has bindings of its own for that, which it may not have yet. 'k0s status' lists the Nodes.
func k0s(r *Request) bool {
	a := r.Attrs
	if program(r.product()) != "k0s" || !reads(a.Verb) || a.Subresource != "" {
		return false
	}
	switch a.Resource {
	case "nodes":
		return a.APIGroup == ""
	case "namespaces":
		return a.APIGroup == "" && a.Verb == "get" && a.Name == kubeSystem
	case "daemonsets":
		return a.APIGroup == "apps" && a.Verb != "watch"
	case "customresourcedefinitions":
		return a.APIGroup == "apiextensions.k8s.io"
	case "leases":
		return a.APIGroup == "coordination.k8s.io" && a.Verb == "get" && a.Namespace == "k0s-autopilot"
	}
	return strings.HasSuffix(a.APIGroup, ".k0sproject.io")
}
