package conformance

import (
	"strconv"
)

// target is a resource that requests name.
type target struct{ group, resource, prefix string }

func graphTargets() []target {
	return []target{
		{"", "secrets", "secret-"}, {"", "configmaps", "cm-"}, {"", "persistentvolumeclaims", "pvc-"}, {"", "persistentvolumes", "pv-"},
		{"", "serviceaccounts", "sa-"}, {"", "pods", "pod-"}, {"resource.k8s.io", "resourceclaims", "claim-"},
		{"resource.k8s.io", "resourceslices", "slice-"}, {"storage.k8s.io", "volumeattachments", "va-"},
		{"certificates.k8s.io", "podcertificaterequests", "pcr-"},
	}
}

func otherTargets() []target {
	return []target{
		{"", "nodes", "node-"}, {"coordination.k8s.io", "leases", "node-"}, {"storage.k8s.io", "csinodes", "node-"},
		{"authentication.k8s.io", "tokenreviews", ""}, {"authorization.k8s.io", "subjectaccessreviews", ""},
		{"authorization.k8s.io", "localsubjectaccessreviews", ""}, {"", "services", "x-"}, {"", "events", "x-"},
		{"events.k8s.io", "events", "x-"}, {"", "endpoints", "x-"}, {"certificates.k8s.io", "certificatesigningrequests", "x-"},
		{"certificates.k8s.io", "clustertrustbundles", "x-"}, {"storage.k8s.io", "csidrivers", "x-"},
		{"node.k8s.io", "runtimeclasses", "x-"}, {"apps", "daemonsets", "x-"}, {"apps", "secrets", "secret-"},
		{"", "volumeattachments", "va-"}, {"", "namespaces", "ns-"}, {"policy", "poddisruptionbudgets", "x-"}, {"storage.k8s.io", "persistentvolumes", "pv-"},
		{"discovery.k8s.io", "endpointslices", "x-"}, {"*", "*", "x-"}, {"", "*", "x-"}, {"", "Secrets", "secret-"},
	}
}

func verbs() []string {
	return []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "proxy", "GET", ""}
}

func subresources() []string {
	return []string{"", "status", "token", "eviction", "binding", "log", "proxy", "ephemeralcontainers", "resize"}
}

func selectors(node string) [][]Selector {
	return [][]Selector{
		nil,
		{{"spec.nodeName", "=", node}},
		{{"spec.nodeName", "==", node}},
		{{"spec.nodeName", "!=", node}},
		{{"spec.nodeName", "=", node + "x"}},
		{{"metadata.name", "=", "pod-0"}, {"spec.nodeName", "=", node}},
		{{"metadata.name", "=", node}},
		{{"nodeName", "=", node}},
		{{"spec.nodeName", "=", ""}},
	}
}

func identity(node string) (user string, groups []string) {
	return "system:node:" + node, []string{"system:nodes", "system:authenticated"}
}

// request makes a random request about what the history may hold; most are such that the graph answers.
func (g *generator) request() Request {
	node := g.node()
	if g.chance(4) {
		node = "node-" + strconv.Itoa(g.r.IntN(30))
	}
	if g.crowded && g.chance(60) {
		node = g.lonelyNode()
	}
	var q Request
	q.User, q.Groups = identity(node)
	if g.chance(3) {
		g.otherIdentity(&q, node)
	}
	if g.chance(85) {
		g.graphRequest(&q, node)
		return q
	}
	if g.chance(5) {
		q.Verb, q.Path = "get", "/healthz"
		if g.chance(50) { // no request is like this, but both sides must then look at the same part of it
			q.Resource = "services"
		}
		return q
	}
	all := append(graphTargets(), otherTargets()...)
	t := all[g.r.IntN(len(all))]
	q.APIGroup, q.Resource = t.group, t.resource
	q.Verb = verbs()[g.r.IntN(len(verbs()))]
	q.Name = g.name(t.prefix)
	if t.prefix == "node-" && g.chance(50) {
		q.Name = node
	}
	switch g.r.IntN(4) {
	case 0, 1:
		q.Namespace = g.namespace()
	case 2:
		q.Namespace = "kube-node-lease"
	}
	if g.chance(40) {
		q.Subresource = subresources()[g.r.IntN(len(subresources()))]
	}
	if g.chance(40) {
		s := selectors(node)
		q.Selector = s[g.r.IntN(len(s))]
	}
	return q
}

func (g *generator) otherIdentity(q *Request, node string) {
	switch g.r.IntN(7) {
	case 0:
		q.Groups = nil
	case 1:
		q.User = "somebody"
	case 2:
		q.User = "system:node:"
	case 3:
		q.User = "system:node:\"" + node + "\n\u00e9"
	case 4:
		q.User = "system:nodes:" + node
	case 5:
		q.User, q.Groups = "system:node:"+node, []string{"system:node", "system:masters"}
	case 6:
		q.Groups = []string{"system:authenticated"}
	}
}

// graphRequest asks for an object in the way that leads to the graph.
func (g *generator) graphRequest(q *Request, node string) {
	t := graphTargets()[g.r.IntN(len(graphTargets()))]
	if g.chance(40) {
		t = graphTargets()[g.r.IntN(4)]
	}
	q.Verb, q.APIGroup, q.Resource, q.Name = "get", t.group, t.resource, g.pick(t.prefix)
	switch t.resource {
	case "persistentvolumes", "resourceslices", "volumeattachments":
		if g.chance(3) {
			q.Namespace = g.namespace()
		}
	default:
		q.Namespace = g.namespace()
		if g.chance(2) {
			q.Namespace = ""
		}
	}
	if g.crowded && g.chance(70) {
		q.Namespace, q.Name = "ns-0", t.prefix+"0"
	}
	switch t.resource {
	case "secrets", "configmaps":
		q.Verb = []string{"get", "get", "list", "watch"}[g.r.IntN(4)]
	case "pods":
		q.Verb = []string{"get", "get", "list", "watch"}[g.r.IntN(4)]
		if g.chance(10) {
			q.Selector = selectors(node)[g.r.IntN(9)]
		}
	case "serviceaccounts":
		if g.chance(70) {
			q.Verb, q.Subresource = "create", "token"
		}
	case "resourceslices":
		q.Verb = []string{"get", "update", "patch", "delete"}[g.r.IntN(4)]
	case "persistentvolumeclaims":
		if !g.crowded {
			q.Name = g.claimName()
		}
		if g.chance(30) {
			q.Verb, q.Subresource = []string{"update", "patch", "get"}[g.r.IntN(3)], "status"
		}
	}
}
