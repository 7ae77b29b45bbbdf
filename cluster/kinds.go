package cluster

import "slices"

// kindID names a kind that matters, as an index into the table of kinds.
type kindID uint8

const (
	kindPod kindID = iota
	kindPersistentVolume
	kindVolumeAttachment
	kindResourceSlice
	kindPodCertificateRequest
	kindNode
	kindClusterRole
	kindClusterRoleBinding
	kindRole
	kindRoleBinding
	kindPersistentVolumeClaim
	kindCSIDriver
	kindServiceAccount
	kindLease
	numKinds
)

const rbacGroup = "rbac.authorization.k8s.io"

// kind is an API that matters. Versions are those that are served with fields this package knows, the preferred one first.
type kind struct {
	Name       string
	Group      string
	Resource   string
	Versions   []string
	Namespaced bool
	// Namespace and Selector limit what is read of the kind; "" for all of it.
	Namespace, Selector string
}

// kinds is the table from which everything follows: what a loader keeps, what Record watches and the rights that it needs.
var kinds = [numKinds]kind{
	kindPod:                   {Name: "Pod", Resource: "pods", Versions: []string{"v1"}, Namespaced: true},
	kindPersistentVolume:      {Name: "PersistentVolume", Resource: "persistentvolumes", Versions: []string{"v1"}},
	kindVolumeAttachment:      {Name: "VolumeAttachment", Group: "storage.k8s.io", Resource: "volumeattachments", Versions: []string{"v1"}},
	kindResourceSlice:         {Name: "ResourceSlice", Group: "resource.k8s.io", Resource: "resourceslices", Versions: []string{"v1", "v1beta2", "v1beta1", "v1alpha3", "v1alpha2"}},
	kindPodCertificateRequest: {Name: "PodCertificateRequest", Group: "certificates.k8s.io", Resource: "podcertificaterequests", Versions: []string{"v1", "v1beta1", "v1alpha1"}, Namespaced: true},
	kindNode:                  {Name: "Node", Resource: "nodes", Versions: []string{"v1"}},
	kindClusterRole:           {Name: "ClusterRole", Group: rbacGroup, Resource: "clusterroles", Versions: []string{"v1"}},
	kindClusterRoleBinding:    {Name: "ClusterRoleBinding", Group: rbacGroup, Resource: "clusterrolebindings", Versions: []string{"v1"}},
	kindRole:                  {Name: "Role", Group: rbacGroup, Resource: "roles", Versions: []string{"v1"}, Namespaced: true},
	kindRoleBinding:           {Name: "RoleBinding", Group: rbacGroup, Resource: "rolebindings", Versions: []string{"v1"}, Namespaced: true},
	kindPersistentVolumeClaim: {Name: "PersistentVolumeClaim", Resource: "persistentvolumeclaims", Versions: []string{"v1"}, Namespaced: true},
	kindCSIDriver:             {Name: "CSIDriver", Group: "storage.k8s.io", Resource: "csidrivers", Versions: []string{"v1"}},
	kindServiceAccount:        {Name: "ServiceAccount", Resource: "serviceaccounts", Versions: []string{"v1"}, Namespaced: true},
	kindLease: {
		Name: "Lease", Group: "coordination.k8s.io", Resource: "leases", Versions: []string{"v1"}, Namespaced: true,
		Namespace: serversNamespace, Selector: identityLabel + "=" + identityServer,
	},
}

// warnWhenNone are the kinds without which answers go wrong rather than merely stay unknown, on practically every cluster.
var warnWhenNone = []kindID{kindPod, kindNode, kindClusterRole, kindClusterRoleBinding}

// kindByName finds a kind by its group and its name, whatever the version.
func kindByName[S string | []byte](group, name S) (kindID, bool) {
	for id := range kinds {
		if kinds[id].Name == string(name) && kinds[id].Group == string(group) {
			return kindID(id), true
		}
	}
	return 0, false
}

// kindNamed reports whether there is a kind of this name in any group.
func kindNamed(name string) bool {
	return slices.ContainsFunc(kinds[:], func(k kind) bool { return k.Name == name })
}

// kindByResource finds a kind by the plural under which an audit event names it.
func kindByResource(group, resource string) (kindID, bool) {
	for id := range kinds {
		if kinds[id].Resource == resource && kinds[id].Group == group {
			return kindID(id), true
		}
	}
	return 0, false
}

func (k kindID) String() string { return kinds[k].Name }
