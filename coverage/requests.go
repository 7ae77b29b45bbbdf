package coverage

import (
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// A question is a kind of request that nodes make.
type question struct {
	verbs string
	// resource is as in a policy, with its subresource and group: "pods/status", "leases.coordination.k8s.io"; or a path.
	resource string
	// namespace is where it is made; "*" stands for any, "" for a resource without one or a request across all.
	namespace string
	// minor requests are allowed to every node, whatever the graph says: no binding is needed for them, and nothing that they reveal
	// decides a verdict.
	minor bool
	// state says that the body is state, if that is learned from the log alone.
	state bool
	// writes says that NodeRestriction decides by the body.
	writes bool
}

// nodeQuestions are the requests of kubelets and of programs that borrow their credentials, as captured logs and the rules of the Node
// authorizer (k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy.NodeRules) have them.
func nodeQuestions() []question {
	return []question{
		{verbs: "get list watch", resource: "secrets", namespace: "*"},
		{verbs: "get list watch", resource: "configmaps", namespace: "*"},
		{verbs: "get", resource: "pods", namespace: "*"},
		{verbs: "get", resource: "persistentvolumeclaims", namespace: "*"},
		{verbs: "get", resource: "persistentvolumes"},
		{verbs: "get", resource: "volumeattachments.storage.k8s.io"},
		{verbs: "get", resource: "resourceclaims.resource.k8s.io", namespace: "*"},
		{verbs: "create", resource: "serviceaccounts/token", namespace: "*"},
		{verbs: "list watch", resource: "pods"},
		{verbs: "get list watch", resource: "nodes"},
		{verbs: "list watch", resource: "resourceslices.resource.k8s.io"},
		// Programs with a node's credential: what no kubelet asks for is what they lose.
		{verbs: "list watch", resource: "secrets"},
		{verbs: "list watch", resource: "configmaps"},
		{verbs: "get list watch", resource: "namespaces"},
		{verbs: "list watch", resource: "serviceaccounts"},
		{verbs: "list watch", resource: "endpointslices.discovery.k8s.io"},
		{verbs: "list watch", resource: "networkpolicies.networking.k8s.io"},
		{verbs: "list watch", resource: "persistentvolumes"},
		{verbs: "list watch patch", resource: "volumeattachments.storage.k8s.io"},
		{verbs: "get list watch update", resource: "ippools.crd.projectcalico.org"},
		// Writes that tell whether NodeRestriction is in force, and who writes what is another's.
		{verbs: "create update patch delete", resource: "nodes"},
		{verbs: "update patch", resource: "nodes/status"},
		{verbs: "create delete", resource: "pods", namespace: "*"},
		{verbs: "update patch", resource: "pods/status", namespace: "*"},
		{verbs: "create", resource: "pods/eviction", namespace: "*"},
		{verbs: "create get update patch delete", resource: "csinodes.storage.k8s.io"},
		{verbs: "create get update patch delete", resource: "leases.coordination.k8s.io", namespace: "kube-node-lease"},
		{verbs: "create", resource: "events", namespace: "*", minor: true},
		{verbs: "create patch", resource: "events.events.k8s.io", namespace: "*", minor: true},
		{verbs: "list watch", resource: "services", minor: true},
		{verbs: "list watch", resource: "csidrivers.storage.k8s.io", minor: true},
		{verbs: "list watch", resource: "runtimeclasses.node.k8s.io", minor: true},
		{verbs: "create get list watch", resource: "certificatesigningrequests.certificates.k8s.io", minor: true},
		{verbs: "create", resource: "tokenreviews.authentication.k8s.io", minor: true},
		{verbs: "create", resource: "subjectaccessreviews.authorization.k8s.io", minor: true},
		{verbs: "get", resource: "/api", minor: true},
		{verbs: "get", resource: "/version", minor: true},
	}
}

// writeQuestions are the writes of nodes that NodeRestriction decides by the body, but for statuses of pods, of which there are too many.
func writeQuestions() []question {
	return []question{
		{verbs: "create update patch", resource: "nodes", minor: true, writes: true},
		{verbs: "update patch", resource: "nodes/status", minor: true, writes: true},
		{verbs: "create", resource: "pods", namespace: "*", minor: true, writes: true},
		{verbs: "create", resource: "serviceaccounts/token", namespace: "*", minor: true, writes: true},
		{verbs: "update patch", resource: "persistentvolumeclaims/status", namespace: "*", minor: true, writes: true},
		{verbs: "create", resource: "resourceslices.resource.k8s.io", minor: true, writes: true},
		{verbs: "create", resource: "podcertificaterequests.certificates.k8s.io", namespace: "*", minor: true, writes: true},
	}
}

// stateQuestions are the requests of others from whose bodies state is learned.
func stateQuestions() []question {
	return []question{
		{verbs: "create", resource: "pods", namespace: "*", state: true},
		{verbs: "create", resource: "pods/binding", namespace: "*", state: true},
		{verbs: "create", resource: "persistentvolumes", state: true},
		{verbs: "create", resource: "volumeattachments.storage.k8s.io", state: true},
	}
}

// asked is one request of a question.
type asked struct {
	*question
	user, verb, namespace string
	attrs                 authorizer.AttributesRecord
}

// ask calls f with the requests of the questions, as each of the users and in each of the namespaces.
func ask(questions []question, users []user.Info, namespaces []string, f func(*asked)) {
	for i := range questions {
		q := &questions[i]
		in := []string{q.namespace}
		if q.namespace == "*" {
			in = namespaces
		}
		for _, verb := range strings.Fields(q.verbs) {
			for _, who := range users {
				for _, ns := range in {
					f(&asked{question: q, user: who.GetName(), verb: verb, namespace: ns, attrs: q.attributes(who, verb, ns)})
				}
			}
		}
	}
}

func (q *question) attributes(who user.Info, verb, namespace string) authorizer.AttributesRecord {
	if strings.HasPrefix(q.resource, "/") {
		return authorizer.AttributesRecord{User: who, Verb: verb, Path: q.resource}
	}
	resource, group, _ := strings.Cut(q.resource, ".")
	resource, sub, _ := strings.Cut(resource, "/")
	a := authorizer.AttributesRecord{
		User: who, Verb: verb, APIGroup: group, APIVersion: "v1", Resource: resource, Subresource: sub, Namespace: namespace, ResourceRequest: true,
	}
	// A name that rules hardly name, where the request has one.
	if verb != "list" && verb != "watch" && (verb != "create" || sub != "") {
		a.Name = AnyName
	}
	return a
}

func nodeUser(name string) user.Info {
	return &user.DefaultInfo{Name: name, Groups: []string{user.NodesGroup, user.AllAuthenticated}}
}
