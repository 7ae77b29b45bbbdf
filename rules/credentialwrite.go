package rules

import (
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// oddWrite returns the reason of a finding on a write, or on a request for a subresource, that was refused and that no kubelet makes, "" for any other request.
// A write of another node's object is in foreign-node-write.
func oddWrite(r *Request, s State) Reason {
	if !r.refusedForGood() || !neverMade(r) || writesForeign(r, s) || namesNoNode(r, s) {
		return ""
	}
	if reads(r.Attrs.Verb) {
		return ForeignReadRefused
	}
	return OddWriteRefused
}

// neverMade reports whether a request is a write, or one for a subresource, of a kind that no kubelet of a supported version makes. What kubelets make is what the
// rules for nodes have, in any version and with any feature gate, and what these kubelets do beyond that. Reads without a subresource are left to neverRead.
func neverMade(r *Request) bool {
	a := r.Attrs
	if !a.ResourceRequest || a.Subresource == "" && reads(a.Verb) {
		return false
	}
	if a.Subresource == "" {
		switch a.APIGroup + "/" + a.Resource {
		case "coordination.k8s.io/leases":
			if a.Namespace != "kube-node-lease" {
				return true
			}
		case "storage.k8s.io/volumeattachments":
			// With enableControllerAttachDetach off a kubelet attaches volumes itself (pkg/volume/csi/csi_attacher.go).
			if a.Verb == "create" || a.Verb == "delete" {
				return false
			}
		case "resource.k8s.io/resourceslices":
			return !writesSlice(r)
		}
	}
	return !nodeauthz.EverRuled(a)
}

// writesSlice reports whether a kubelet makes such a write of ResourceSlices. That of 1.30, which knows v1alpha2 alone, publishes them for its drivers; later ones delete
// those of their Node when a driver goes, and leave all else to the drivers (pkg/kubelet/cm/dra/plugin). What the log does not tell counts for the kubelet.
func writesSlice(r *Request) bool {
	a := r.Attrs
	if a.Verb == "deletecollection" {
		return r.Event.RequestURI == "" || selectsOwn(r)
	}
	return slicesOf130(r) && (a.Verb == "create" || a.Verb == "update" || a.Verb == "delete")
}

// slicesOf130 reports whether the request may be about ResourceSlices as the kubelet of 1.30 has them.
func slicesOf130(r *Request) bool {
	v := r.Event.ObjectRef.APIVersion
	return v == "" || v == "v1alpha2"
}
