package checks

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/rbac"
)

// atom is the smallest piece of RBAC rules. name is empty for all names; url is of a path, whose atom has nothing else but a verb.
type atom struct{ verb, group, resource, name, url string }

const (
	certificatesGroup   = "certificates.k8s.io"
	certificateRequests = "certificatesigningrequests"
	signers             = "signers"
)

// approval is the right for which kube-controller-manager approves the certificates of kubelets that its holder requests, in the name of whatever node
// (pkg/controller/certificates/approver). It asks for no other.
func approval() atom {
	return atom{verb: "create", group: certificatesGroup, resource: certificateRequests + "/nodeclient"}
}

// atomsOf takes rules apart, so that two roles are the same if they give the same, however their rules are written.
func atomsOf(rules []rbacv1.PolicyRule) map[atom]bool {
	out := map[atom]bool{}
	for a := range eachAtom(rules) {
		out[a] = true
	}
	return out
}

// eachAtom takes rules apart; an atom that several rules give comes several times.
func eachAtom(rules []rbacv1.PolicyRule) iter.Seq[atom] {
	return func(yield func(atom) bool) {
		for i := range rules {
			r := &rules[i]
			names := r.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, verb := range r.Verbs {
				for _, url := range r.NonResourceURLs {
					if !yield(atom{verb: verb, url: url}) {
						return
					}
				}
				for _, group := range r.APIGroups {
					for _, resource := range r.Resources {
						for _, name := range names {
							if !yield(atom{verb: verb, group: group, resource: resource, name: name}) {
								return
							}
						}
					}
				}
			}
		}
	}
}

// give reports whether the rules give all of the atoms and no other.
func give(rules []rbacv1.PolicyRule, atoms map[atom]bool) bool {
	given := map[atom]bool{}
	for a := range eachAtom(rules) {
		if !atoms[a] {
			return false
		}
		given[a] = true
	}
	return len(given) == len(atoms)
}

// gives reports whether a gives all that b does, as RBAC reads rules (k8s.io/component-helpers/auth/rbac/validation).
func (a atom) gives(b atom) bool {
	if a.verb != "*" && a.verb != b.verb {
		return false
	}
	if a.url != "" || b.url != "" {
		prefix, wild := strings.CutSuffix(a.url, "*")
		return a.url == b.url || wild && b.url != "" && strings.HasPrefix(b.url, prefix)
	}
	_, sub, _ := strings.Cut(b.resource, "/")
	return (a.group == "*" || a.group == b.group) && (a.name == "" || a.name == b.name) &&
		(a.resource == "*" || a.resource == b.resource || sub != "" && a.resource == "*/"+sub)
}

// asides returns the rights of a binding that no request to the API server shows in use. Others ask about them in a review of access, whose body is not in
// the log: kube-controller-manager before it approves a certificate, a kubelet before it answers a client of its own, and about a path such as /metrics any
// server that leaves authorization to the API server. Or admission asks about them, in addition to the request's own right. Of what a wildcard gives they
// are those that Kubernetes itself asks about.
func asides(b *rbac.BindingInfo) map[atom]bool {
	given, out := atomsOf(b.Rules), map[atom]bool{}
	for a := range given {
		if a.aside() {
			out[a] = true
		}
		for _, x := range a.namedAside() {
			out[x] = true
		}
	}
	for _, x := range askedAside() {
		for a := range given {
			if x.name = a.name; a.gives(x) {
				out[x] = true
			}
		}
	}
	inForce(b, out)
	return out
}

// inForce leaves of rights those that a binding can give: in a namespace it gives nothing of what is in none.
func inForce(b *rbac.BindingInfo, rights map[atom]bool) {
	if b.Binding.Kind != rbac.KindClusterRoleBinding {
		maps.DeleteFunc(rights, func(a atom, _ bool) bool { return a.url != "" || a.cluster() })
	}
}

// Unseen are the rights of a binding that no request shows in use, in words and as the request that it is for. They are in the order of the words.
func Unseen(b *rbac.BindingInfo) iter.Seq2[string, authorizer.AttributesRecord] {
	return func(yield func(string, authorizer.AttributesRecord) bool) {
		for _, a := range slices.SortedFunc(maps.Keys(asides(b)), atom.compare) {
			q := a.request()
			q.Namespace = b.Binding.Namespace
			if !yield(a.String(), q) {
				return
			}
		}
	}
}

// Rights are what the rules give, each as the request that it is for; one that several rules give comes once.
func Rights(rules []rbacv1.PolicyRule) iter.Seq[authorizer.AttributesRecord] {
	return func(yield func(authorizer.AttributesRecord) bool) {
		for _, a := range slices.SortedFunc(maps.Keys(atomsOf(rules)), atom.compare) {
			if !yield(a.request()) {
				return
			}
		}
	}
}

func (a atom) compare(b atom) int {
	return cmp.Or(cmp.Compare(a.String(), b.String()), cmp.Compare(a.name, b.name))
}

func (a atom) request() authorizer.AttributesRecord {
	q := authorizer.AttributesRecord{Verb: a.verb, Path: a.url, ResourceRequest: a.url == "", APIGroup: a.group, Name: a.name}
	q.Resource, q.Subresource, _ = strings.Cut(a.resource, "/")
	return q
}

// askedAside are the rights about which Kubernetes asks without a request that shows it: kube-controller-manager for the certificates of kubelets
// (pkg/controller/certificates/approver), EKS for those that kubelets serve with, kubelets for requests to themselves (pkg/kubelet/server/auth.go), and the API
// server for the signers of certificates (pkg/certauthorization) and for allocations and devices in the status of ResourceClaims (pkg/registry/resource). namedAside has those
// whose resource may have any name.
func askedAside() []atom {
	var out []atom
	for _, sub := range []string{"nodeclient", "selfnodeclient", "selfnodeserver"} {
		out = append(out, atom{verb: "create", group: certificatesGroup, resource: certificateRequests + "/" + sub})
	}
	for _, sub := range []string{"checkpoint", "configz", "healthz", "log", "metrics", "pods", "proxy", "spec", "stats", "statusz"} {
		for _, verb := range []string{"get", "create"} {
			out = append(out, atom{verb: verb, resource: "nodes/" + sub})
		}
	}
	for _, verb := range []string{"approve", "sign", "attest"} {
		out = append(out, atom{verb: verb, group: certificatesGroup, resource: signers})
	}
	for _, verb := range []string{"associated-node:update", "associated-node:patch", "arbitrary-node:update", "arbitrary-node:patch"} {
		out = append(out, atom{verb: verb, group: "resource.k8s.io", resource: "resourceclaims/driver"})
	}
	for _, verb := range []string{"update", "patch"} {
		out = append(out, atom{verb: verb, group: "resource.k8s.io", resource: "resourceclaims/binding"})
	}
	return out
}

// verbAudience is the verb by which NodeRestriction asks about the audience of a token: the resource is the audience, the name the service account.
// verbSigner is that for the signer of a pod's certificate, whose name always has a '/': the resource has ':' for it.
const (
	verbAudience = "request-serviceaccounts-token-audience"
	verbSigner   = "request-serviceaccounts-podcertificate-signer"
)

// namedAside are the rights of a to an audience of tokens or to a signer of pods' certificates, if a gives every verb. Any name may be an audience, but those
// of Kubernetes' own resources are taken for resources.
func (a atom) namedAside() []atom {
	if a.verb != "*" {
		return nil
	}
	var out []atom
	kind, _, sub := strings.Cut(a.resource, "/")
	own := sub && kind == "*" || slices.Contains(strings.Fields(ownResources), kind)
	if audience := (atom{verb: verbAudience, resource: a.resource, name: a.name}); !own && a.gives(audience) {
		out = append(out, audience)
	}
	signer := atom{verb: verbSigner, group: certificatesGroup, resource: a.resource, name: a.name}
	if (a.resource == "*" || strings.Contains(a.resource, ":")) && a.gives(signer) {
		out = append(out, signer)
	}
	return out
}

// ownResources are resources of Kubernetes. A rule for several API groups often names those of other groups for the core group, too.
const ownResources = "bindings componentstatuses configmaps endpoints events limitranges namespaces nodes persistentvolumeclaims persistentvolumes pods podtemplates " +
	"replicationcontrollers resourcequotas secrets serviceaccounts services controllerrevisions daemonsets deployments replicasets statefulsets cronjobs jobs " +
	"horizontalpodautoscalers poddisruptionbudgets podsecuritypolicies ingressclasses ingresses networkpolicies endpointslices leases priorityclasses runtimeclasses " +
	"clusterrolebindings clusterroles rolebindings roles csidrivers csinodes csistoragecapacities storageclasses volumeattachments volumeattributesclasses " +
	"deviceclasses resourceclaims resourceclaimtemplates resourceslices certificatesigningrequests clustertrustbundles podcertificaterequests signers apiservices " +
	"customresourcedefinitions mutatingwebhookconfigurations validatingwebhookconfigurations localsubjectaccessreviews subjectaccessreviews tokenreviews"

// audience reports whether the right is to tokens for an audience by its name, of the service accounts of pods on the node that asks: what RBAC has for
// image credential providers (KEP-4412). The API server's own audience is not for them. How that is named is a flag of the API server; these are usual.
func (a atom) audience() bool {
	if a.verb != verbAudience || a.group != "" || strings.HasPrefix(a.resource, "*") {
		return false
	}
	host := strings.TrimPrefix(a.resource, "https://")
	return host != "" && host != "kubernetes" && host != "api" && host != "kubernetes.default" && !strings.HasPrefix(host, "kubernetes.default.svc")
}

// givesAudiencesOnly reports whether all rights are to audiences of tokens.
func givesAudiencesOnly(given map[atom]bool) bool {
	for a := range given {
		if !a.audience() {
			return false
		}
	}
	return len(given) > 0
}

// requestVerbs are the verbs of requests for resources. Admission and servers ask about others.
func requestVerbs() []string {
	return []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
}

// aside reports whether the right, as it is written, is one that no request shows in use.
func (a atom) aside() bool {
	_, sub, _ := strings.Cut(a.resource, "/")
	switch {
	case a.url != "" || sub == "finalizers": // admission asks about finalizers where an object is to block the deletion of another
		return true
	case sub == "restricted" || sub == "custom-host": // and on OpenShift, for Endpoints in the network of pods and for the host of a Route
		return true
	case a.verb == "*" && sub == "":
		return false
	case a.askedWithout() && sub != "" && sub != "approval" && sub != "status":
		return true
	}
	return a.verb != "*" && !strings.HasPrefix(a.verb, "impersonate") &&
		!slices.Contains(requestVerbs(), a.verb)
}

// meets reports whether some request is given by both.
func (a atom) meets(b atom) bool {
	either := func(x, y, all string) bool { return x == y || x == all || y == all }
	if !either(a.verb, b.verb, "*") || !either(a.group, b.group, "*") || !either(a.name, b.name, "") {
		return false
	}
	b.verb, b.group, b.name = a.verb, a.group, a.name
	return a.gives(b) || b.gives(a)
}

// Touches returns what reports whether rules give some request of those that the words stand for, each of which is one value or "*" for any; path is that
// of a request for no resource. It is safe for concurrent use.
func Touches(rules []rbacv1.PolicyRule) func(verb, group, resource, sub, name, path string) bool {
	const anyOf = "\x00" // in place of a verb or a group
	type kind struct{ verb, group string }
	of := map[kind][]atom{}
	paths := false
	for a := range atomsOf(rules) {
		paths = paths || a.url != ""
		for _, k := range [...]kind{{a.verb, a.group}, {a.verb, anyOf}, {anyOf, a.group}, {anyOf, anyOf}} {
			of[k] = append(of[k], a)
		}
	}
	kinds := func(asked string) []string {
		if asked == "*" {
			return []string{anyOf}
		}
		return []string{asked, "*"}
	}
	return func(verb, group, resource, sub, name, path string) bool {
		if path != "" {
			return paths
		}
		switch {
		case sub == "*":
			resource = "*"
		case sub != "":
			resource += "/" + sub
		}
		if name == "*" {
			name = ""
		}
		asked := atom{verb: verb, group: group, resource: resource, name: name}
		for _, v := range kinds(verb) {
			for _, g := range kinds(group) {
				if slices.ContainsFunc(of[kind{v, g}], asked.meets) {
					return true
				}
			}
		}
		return false
	}
}

// GivesEverything reports whether rules give every right of every resource.
func GivesEverything(rules []rbacv1.PolicyRule) bool {
	for a := range eachAtom(rules) {
		if a.gives(atom{verb: "*", group: "*", resource: "*"}) {
			return true
		}
	}
	return false
}

// GivesImpersonation reports whether rules give a right that the API server asks for when somebody acts as another user.
func GivesImpersonation(rules []rbacv1.PolicyRule) bool {
	for a := range eachAtom(rules) {
		switch resource, _, _ := strings.Cut(a.resource, "/"); {
		case strings.HasPrefix(a.verb, "impersonate"):
			return true
		case a.verb != "*":
		case resource == "nodes" && a.group != "", slices.Contains([]string{"*", "users", "groups", "serviceaccounts", "uids", "userextras"}, resource):
			return true
		}
	}
	return false
}

// beyond returns whether some atom of all is given by none of allowed.
func beyond(all, allowed map[atom]bool) bool {
	for x := range all {
		given := allowed[x]
		for a := range allowed {
			given = given || a.gives(x)
		}
		if !given {
			return true
		}
	}
	return false
}

// dangers are the rights with which a node gets beyond itself whatever else it may do. Certificates it may request in any case.
func dangers() []atom {
	const authentication = "authentication.k8s.io"
	out := []atom{
		{verb: "impersonate", resource: "users"}, {verb: "impersonate", resource: "groups"}, {verb: "impersonate", resource: "serviceaccounts"},
		{verb: "impersonate:user-info", group: authentication, resource: "users"},
		{verb: "impersonate:serviceaccount", group: authentication, resource: "serviceaccounts"},
		{verb: "impersonate:arbitrary-node", group: authentication, resource: "nodes"},
		{verb: "update", group: certificatesGroup, resource: certificateRequests + "/approval"},
		{verb: "patch", group: certificatesGroup, resource: certificateRequests + "/approval"},
		{verb: "update", group: certificatesGroup, resource: certificateRequests + "/status"},
		{verb: "patch", group: certificatesGroup, resource: certificateRequests + "/status"},
		approval(),
		{verb: "approve", group: certificatesGroup, resource: signers}, {verb: "sign", group: certificatesGroup, resource: signers},
		{verb: verbAudience, resource: "*"},
	}
	for _, verb := range []string{"get", "create"} {
		for _, resource := range []string{"pods/exec", "pods/attach", "pods/portforward"} {
			out = append(out, atom{verb: verb, resource: resource})
		}
	}
	for _, verb := range []string{"get", "create", "update", "patch", "delete"} { // a proxy passes any method on
		for _, resource := range []string{"nodes/proxy", "pods/proxy", "services/proxy"} {
			out = append(out, atom{verb: verb, resource: resource})
		}
	}
	return out
}

// dangerous reports whether a binding gives a dangerous right, if only for one name.
func dangerous(b *rbac.BindingInfo) bool {
	_, is := firstGiven(atomsOf(b.Rules), possible(b, dangers()))
	return is
}

// firstGiven returns the first of the rights that rules give, if only for one name.
func firstGiven(given map[atom]bool, rights []atom) (right atom, is bool) {
	for _, r := range rights {
		for x := range given {
			if x.name = ""; x.gives(r) {
				return r, true
			}
		}
	}
	return atom{}, false
}
