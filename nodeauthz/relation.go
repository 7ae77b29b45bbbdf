package nodeauthz

import (
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Relation is how the object of a request stood to the node that asks, whatever the verb.
type Relation uint8

const (
	// Unrelated means that objects of this kind belong to no node, or that the request names none.
	Unrelated Relation = iota
	// Own means that the object led to the node, or is the node's own Node, Lease or CSINode; or that a list selects only such.
	Own
	// Anothers means that it led to another node and not to this, or is another's Node, Lease or CSINode.
	Anothers
	// NoNodes means that it led to no node.
	NoNodes
	// All means a list, watch or deletion of a whole collection.
	All
	// UnknownRelation means that the graph does not cover the instant.
	UnknownRelation
)

// String returns the relation in words; empty for Unrelated.
func (r Relation) String() string {
	switch r {
	case Own:
		return "own"
	case Anothers:
		return "another node's"
	case NoNodes:
		return "no node's"
	case All:
		return "all"
	case UnknownRelation:
		return "unknown"
	}
	return ""
}

// kindOfResource is what an object of the resource is in the graph, KindNone for what is not there.
func kindOfResource(group, resource string) Kind {
	switch group {
	case "":
		switch resource {
		case "secrets":
			return KindSecret
		case "configmaps":
			return KindConfigMap
		case "persistentvolumeclaims":
			return KindPersistentVolumeClaim
		case "persistentvolumes":
			return KindPersistentVolume
		case "serviceaccounts":
			return KindServiceAccount
		case "pods":
			return KindPod
		}
	case "resource.k8s.io":
		switch resource {
		case "resourceclaims":
			return KindResourceClaim
		case "resourceslices":
			return KindResourceSlice
		}
	case "storage.k8s.io":
		if resource == "volumeattachments" {
			return KindVolumeAttachment
		}
	case "certificates.k8s.io":
		if resource == "podcertificaterequests" {
			return KindPodCertificateRequest
		}
	}
	return KindNone
}

// ResourceOfKind returns the API group and the resource of a kind's objects, the inverse of [KindOfResource]; empty for KindNone.
func ResourceOfKind(kind Kind) (group, resource string) {
	switch kind {
	case KindSecret:
		return "", "secrets"
	case KindConfigMap:
		return "", "configmaps"
	case KindPersistentVolumeClaim:
		return "", "persistentvolumeclaims"
	case KindPersistentVolume:
		return "", "persistentvolumes"
	case KindServiceAccount:
		return "", "serviceaccounts"
	case KindPod:
		return "", "pods"
	case KindResourceClaim:
		return "resource.k8s.io", "resourceclaims"
	case KindResourceSlice:
		return "resource.k8s.io", "resourceslices"
	case KindVolumeAttachment:
		return "storage.k8s.io", "volumeattachments"
	case KindPodCertificateRequest:
		return "certificates.k8s.io", "podcertificaterequests"
	}
	return "", ""
}

// NamedAsNode is whether objects of the resource have the name of the node to which they belong.
func NamedAsNode(group, resource, namespace string) bool {
	switch resource {
	case "nodes":
		return group == ""
	case "csinodes":
		return group == "storage.k8s.io"
	case "leases":
		return group == "coordination.k8s.io" && namespace == "kube-node-lease"
	}
	return false
}

// Relation returns how the object that is asked for stood to the node at t. It takes time in proportion to the paths that lead from
// the object, at worst.
func (a *Authorizer) Relation(node string, attrs authorizer.Attributes, t time.Time) Relation {
	if !attrs.IsResourceRequest() {
		return Unrelated
	}
	group, resource, name := attrs.GetAPIGroup(), attrs.GetResource(), attrs.GetName()
	kind, byName := kindOfResource(group, resource), NamedAsNode(group, resource, attrs.GetNamespace())
	switch {
	case name == "":
		switch attrs.GetVerb() {
		case "list", "watch", "deletecollection":
			if selects("spec.nodeName", node, attrs) {
				return Own
			}
			return All
		}
		return Unrelated
	case byName && name == node:
		return Own
	case byName:
		return Anothers
	case kind == KindNone:
		return Unrelated
	}
	return a.graph.relation(kind, attrs.GetNamespace(), name, node, unixNano(t), a.of)
}

func (g *Graph) relation(kind Kind, namespace, name, node string, at int64, of gens) Relation {
	g.mu.RLock()
	defer g.mu.RUnlock()
	own, others := false, false
	see := func(r *tenure, s span) bool {
		if s.plo <= at && at < s.phi {
			if g.nodeRecs[r.node].name == node {
				own = true
			} else {
				others = true
			}
		}
		return !own
	}
	if vid := g.lookup(kind, namespace, name); vid != 0 {
		whole := span{plo: minTime, phi: maxTime, clo: minTime, chi: maxTime}
		g.eachPath(vid, whole, of, see)
		for _, id := range g.volumesOf(vid) {
			if vol := g.volume(id); !own {
				g.eachPath(vol.claim, vol.span(), of, see)
			}
		}
	}
	if own {
		return Own
	}
	if _, _, unseen := g.hole(kind, &window{lo: at, t: at, hi: at}); unseen || at < g.coveredFrom || at < g.prunedTo {
		return UnknownRelation
	}
	if others {
		return Anothers
	}
	return NoNodes
}

// eachPath calls see with the time of each way from the vertex to a node, within the given one, until it returns false.
func (g *Graph) eachPath(vid vertexID, within span, of gens, see func(*tenure, span) bool) {
	g.eachTenure(vid, func(id tenureID) bool {
		r := g.tenure(id)
		if r.node == 0 {
			return true
		}
		more := true
		r.lives(vid, of, func(l life) { more = more && see(r, l.span().and(within)) })
		return more
	})
}
