package nodeauthz

import "k8s.io/apiserver/pkg/authorization/authorizer"

// staticRules is what the reference allows to every node without looking at its graph: bootstrappolicy.NodeRules, which have no
// wildcards, no resource names and no paths.
type staticRules map[staticResource]verbSet

type staticResource struct{ group, resource, subresource string }

type verbSet uint16

const (
	vGet verbSet = 1 << iota
	vList
	vWatch
	vCreate
	vUpdate
	vPatch
	vDelete
	vDeleteCollection

	vRead  = vGet | vList | vWatch
	vWrite = vCreate | vUpdate | vPatch
)

func verbOf(verb string) verbSet {
	switch verb {
	case "get":
		return vGet
	case "list":
		return vList
	case "watch":
		return vWatch
	case "create":
		return vCreate
	case "update":
		return vUpdate
	case "patch":
		return vPatch
	case "delete":
		return vDelete
	case "deletecollection":
		return vDeleteCollection
	}
	return 0
}

func newStaticRules(f Features) staticRules {
	r := staticRules{
		{"authentication.k8s.io", "tokenreviews", ""}:             vCreate,
		{"authorization.k8s.io", "subjectaccessreviews", ""}:      vCreate,
		{"authorization.k8s.io", "localsubjectaccessreviews", ""}: vCreate,
		{"", "services", ""}:                                      vRead,
		{"", "nodes", ""}:                                         vRead | vWrite,
		{"", "nodes", "status"}:                                   vUpdate | vPatch,
		{"", "events", ""}:                                        vWrite,
		{"", "pods", ""}:                                          vRead | vCreate | vDelete,
		{"", "pods", "status"}:                                    vUpdate | vPatch,
		{"", "pods", "eviction"}:                                  vCreate,
		{"", "secrets", ""}:                                       vRead,
		{"", "configmaps", ""}:                                    vRead,
		{"", "persistentvolumeclaims", ""}:                        vGet,
		{"", "persistentvolumeclaims", "status"}:                  vGet | vUpdate | vPatch,
		{"", "persistentvolumes", ""}:                             vGet,
		{"", "endpoints", ""}:                                     vGet,
		{"", "serviceaccounts", "token"}:                          vCreate,
		{"certificates.k8s.io", "certificatesigningrequests", ""}: vRead | vCreate,
		{"coordination.k8s.io", "leases", ""}:                     vGet | vWrite | vDelete,
		{"storage.k8s.io", "volumeattachments", ""}:               vGet,
		{"storage.k8s.io", "csidrivers", ""}:                      vRead,
		{"storage.k8s.io", "csinodes", ""}:                        vGet | vWrite | vDelete,
		{"node.k8s.io", "runtimeclasses", ""}:                     vRead,
	}
	if f.Minor >= 35 {
		r[staticResource{"events.k8s.io", "events", ""}] = vWrite
	}
	if f.DynamicResourceAllocation {
		r[staticResource{"resource.k8s.io", "resourceclaims", ""}] = vGet
		if f.Minor >= 31 {
			r[staticResource{"resource.k8s.io", "resourceslices", ""}] = vDeleteCollection
		}
	}
	if f.ClusterTrustBundle {
		r[staticResource{"certificates.k8s.io", "clustertrustbundles", ""}] = vRead
	}
	if f.KubeletServiceAccountTokenForCredentialProviders {
		r[staticResource{"", "serviceaccounts", ""}] = vGet
	}
	if f.PodCertificateRequest {
		r[staticResource{"certificates.k8s.io", "podcertificaterequests", ""}] = vRead | vCreate
	}
	if f.CSIVolumeHealth {
		r[staticResource{"storage.k8s.io", "csinodes", "status"}] = vGet | vUpdate | vPatch
	}
	return r
}

func (r staticRules) allow(attrs authorizer.Attributes) bool {
	if !attrs.IsResourceRequest() {
		return false
	}
	k := staticResource{attrs.GetAPIGroup(), attrs.GetResource(), attrs.GetSubresource()}
	return r[k]&verbOf(attrs.GetVerb()) != 0
}
