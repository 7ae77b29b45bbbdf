package checks

import (
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/rbac"
)

// nodeKind is a kind of objects that the Node authorizer gives a node only for those that are of this node (plugin/pkg/auth/authorizer/node). The others it
// gives all nodes alike, or none.
type nodeKind struct {
	group, resource string
	cluster         bool // in no namespace
	// one says that an object is of one node. Others are of each node with a pod that uses them, so that whoever names one may mean that all nodes are to have it.
	one bool
	// creates says that the Node authorizer does not know whose the object is that a node creates. NodeRestriction does.
	creates bool
}

func nodeKinds() []nodeKind {
	return []nodeKind{
		{resource: "nodes", cluster: true, one: true, creates: true},
		{resource: "pods", one: true, creates: true},
		{resource: "secrets"}, {resource: "configmaps"}, {resource: "serviceaccounts"}, {resource: "persistentvolumeclaims"},
		{resource: "persistentvolumes", cluster: true},
		{group: "coordination.k8s.io", resource: leases, one: true, creates: true},
		{group: "storage.k8s.io", resource: "csinodes", cluster: true, one: true, creates: true},
		{group: "storage.k8s.io", resource: "volumeattachments", cluster: true, one: true},
		{group: "resource.k8s.io", resource: "resourceclaims"},
		{group: "resource.k8s.io", resource: "resourceslices", cluster: true, one: true, creates: true},
		{group: certificatesGroup, resource: "podcertificaterequests", one: true},
	}
}

// leases are in nodeLeases if they are those of nodes.
const leases, nodeLeases = "leases", "kube-node-lease"

// ofAnother reports whether a binding gives a right to objects of other nodes that the Node authorizer refuses. A subresource is of the node of its object.
func (in *Input) ofAnother(b *rbac.BindingInfo) bool {
	everywhere, kinds := b.Binding.Kind == rbac.KindClusterRoleBinding, nodeKinds()
	for x := range eachAtom(b.Rules) {
		base, sub, _ := strings.Cut(x.resource, "/")
		for _, k := range kinds {
			switch {
			case x.url != "" || base != "*" && base != k.resource || x.group != "*" && x.group != k.group:
			case x.verb != "*" && !slices.Contains(requestVerbs(), x.verb): // admission asks about it
			case k.creates && sub == "" && x.verb == "create", k.cluster && !everywhere, x.name != "" && !k.one:
			case k.resource == leases && (!everywhere && b.Binding.Namespace != nodeLeases || x.name != "" && !in.isNode(x.name)):
			default:
				return true
			}
		}
	}
	return false
}

// BeyondKept reports whether a binding gives what no-excess-rights refuses to one that is kept, if any name is that of a node.
func BeyondKept(b *rbac.BindingInfo) bool { return (&Input{}).beyondKept(b) }

// beyondKept reports whether a binding gives what one that is kept may not give.
func (in *Input) beyondKept(b *rbac.BindingInfo) bool {
	return dangerous(b) || PowersOf(b).Right != "" || in.ofAnother(b)
}

// isNode reports whether the name is that of a node, or may be.
func (in *Input) isNode(name string) bool {
	return !in.NodesKnown || slices.ContainsFunc(in.Nodes, func(n Node) bool { return n.Name == name })
}
