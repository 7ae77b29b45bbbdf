package rules

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// A machine whose Node was deleted asks for what is its own and gets nothing: it has no wrong identity. A kubelet with a wrong name asks for the Node of another one.
func TestGoneNode(t *testing.T) {
	const high = `high: user "system:node:ghost": the cluster has no Node "ghost"`
	const low = `low: user "system:node:ghost": the cluster has no Node "ghost", and the request is one that a machine makes whose Node was deleted`
	w := &world{nodes: []string{"worker-1"}, similar: map[string]string{"Worker-1": "worker-1 letter case"}}
	rule := nodeIdentity()
	f := func(name, want, what string, changes ...with) {
		t.Helper()
		r := request(append([]with{as("system:node:ghost", "system:nodes"), does(what)}, changes...)...)
		if got := check(t, rule, w, nil, r); got != want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
	not := func(field, value string) with {
		return func(r *Request) {
			r.Attrs.FieldSelectorRequirements = fields.Requirements{{Field: field, Operator: selection.NotEquals, Value: value}}
		}
	}
	inBody := func(name string) with { return func(r *Request) { r.Event.ObjectRef.Name = name } }

	for _, c := range []int32{401, 403, 404, 429, 500, 504} {
		f("its Node", low, "get nodes ghost", code(c))
		f("its Node's status", low, "patch nodes/status ghost", code(c))
		f("its Lease", low, "update leases.coordination.k8s.io kube-node-lease/ghost", code(c))
		f("its CSINode", low, "get csinodes.storage.k8s.io ghost", code(c))
		f("its pods", low, "watch pods", selectsNode("ghost"), code(c))

		f("another Node", high, "get nodes worker-1", code(c))
		f("another Node's status", high, "patch nodes/status worker-1", code(c))
		f("another Lease", high, "update leases.coordination.k8s.io kube-node-lease/worker-1", code(c))
		f("another CSINode", high, "get csinodes.storage.k8s.io worker-1", code(c))
		f("the pods of another node", high, "watch pods", selectsNode("worker-1"), code(c))
		f("the Node of another name", high, "watch nodes", selecting("metadata.name", "worker-1"), code(c))
		f("another Node that it makes", high, "create nodes", inBody("worker-1"), code(c))
		f("the slices of another node", high, "list resourceslices.resource.k8s.io", selectsNode("worker-1"), code(c))
		f("its name in another letter case", high, "get nodes Ghost", code(c))
	}
	for _, c := range []int32{401, 403, 404} {
		f("its Node that it makes", low, "create nodes", inBody("ghost"), code(c))
		f("its Lease that it makes", low, "create leases.coordination.k8s.io kube-node-lease/", inBody("ghost"), code(c))
		f("a pod that it had", low, "get pods shop/web", code(c))
		f("a secret that it had", low, "get secrets shop/db", code(c))
		f("an answer of a backend", high, "get services/proxy shop/web", code(c))
		f("pods of others", high, "watch pods", not("spec.nodeName", "ghost"), code(c))
		f("a selector that nobody can read", high, "watch pods", func(r *Request) { r.Attrs.FieldSelectorParsingErr = errors.New("x") }, code(c))
	}
	for _, what := range []string{"services", "csidrivers.storage.k8s.io", "runtimeclasses.node.k8s.io", "clustertrustbundles.certificates.k8s.io"} {
		f("what each kubelet watches", low, "watch "+what, code(200))
		f("what each kubelet watches, and the server is busy", low, "watch "+what, code(429))
		f("what each kubelet watches, and is not answered", high, "watch "+what, code(0))
	}
	f("its pods", low, "watch pods", selectsNode("ghost"), code(200))
	f("its Node", low, "watch nodes ghost", selecting("metadata.name", "ghost"), code(200))
	f("a review of a token", low, "create tokenreviews.authentication.k8s.io", code(201))
	f("a review of a user", low, "create subjectaccessreviews.authorization.k8s.io", code(201))
	f("a path", low, "get nodes ghost", path("/healthz"), code(200))

	for _, what := range []string{
		"get nodes ghost", "update leases.coordination.k8s.io kube-node-lease/ghost", "patch nodes/status ghost", "get csinodes.storage.k8s.io ghost", "get secrets shop/db",
		"watch secrets shop/db", "list secrets", "get pods shop/web", "list pods", "list nodes", "get configmaps kube-system/kubeadm-config", "list services shop/", "get services shop/web",
		"list leases.coordination.k8s.io kube-system/",
	} {
		f("it gets "+what, high, what, code(200))
	}
	for _, what := range []string{
		"create nodes", "create serviceaccounts/token shop/web", "create leases.coordination.k8s.io kube-node-lease/", "create pods kube-system/",
	} {
		f("it makes "+what, high, what, inBody("ghost"), code(201))
		f("it makes "+what+", and there is one", high, what, inBody("ghost"), code(409))
		f("it may have made "+what, high, what, inBody("ghost"), code(504))
	}
	f("custom resources of its own", high, "list things.example.com", selectsNode("ghost"), code(200))
	f("slices of its own that it deletes", high, "deletecollection resourceslices.resource.k8s.io", selectsNode("ghost"), code(200))

	// What is not about a machine whose Node is gone stays as it is.
	f("a name that no Node can have", `high: user "system:node:`+strings.Repeat("x", 300)+`": the cluster has no Node "`+strings.Repeat("x", 300)+`"`, "get nodes "+strings.Repeat("x", 300),
		as("system:node:"+strings.Repeat("x", 300), "system:nodes"), code(404))
	f("nearly the name of a Node", `high: user "system:node:Worker-1": the cluster has no Node "Worker-1"; there is a Node "worker-1", which differs in its letter case`,
		"get nodes Worker-1", as("system:node:Worker-1", "system:nodes"), code(404))
	f("somebody who impersonates it", `low: user "system:node:ghost": the cluster has no Node "ghost" (impersonated by "admin")`, "get nodes ghost", impersonated, code(404))
	f("a Node that is there", "", "get nodes worker-1", as("system:node:worker-1", "system:nodes"), code(404))
}

// A machine whose Node was deleted records events and renews its certificate: neither needs its Node. A kubelet with a wrong name records events of the Node of its real name, and
// whoever has the credential and comes from elsewhere stays as severe as before.
func TestGoneNodeGoesOn(t *testing.T) {
	const missing = `user "system:node:ghost": the cluster has no Node "ghost"`
	const high, low = "high: " + missing, "low: " + missing + ", and the request is one that a machine makes whose Node was deleted"
	const renewed = "low: " + missing + ", and it asked for a new certificate, as a machine does whose Node was deleted: the identity stays in use, from "
	byNodeAuthorizer := func(r *Request) { r.Answer.Verdict = nodeauthz.Allow }
	w := &world{nodes: []string{"worker-1"}, sets: map[string][][]string{"worker-1": {{"10.0.0.1"}}}, pods: map[string]string{"shop/web": "worker-1", "kube-system/kube-proxy-worker-1": "worker-1"}}
	had := *w
	had.addresses = map[string][]string{"ghost": {"ghost", "10.0.0.9"}}
	is := func(s *world, name, want string, changes ...with) {
		t.Helper()
		if got := check(t, nodeIdentity(), s, nil, request(append([]with{from("10.0.0.9"), as("system:node:ghost", "system:nodes"), byNodeAuthorizer}, changes...)...)); got != want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
	f := func(name, want string, changes ...with) {
		t.Helper()
		is(w, name, want, changes...)
	}
	byRole := func(r *Request) { annotated("allow", nodeauthz.Deny)(r) }
	event := func(verb, namespace, name string) with {
		return func(r *Request) {
			does(verb + " events " + namespace + "/" + name)(r)
			if verb == "create" {
				r.Attrs.Name, r.Event.ObjectRef.Name = "", name
			}
		}
	}
	for _, c := range []int32{200, 201, 409, 429, 500} {
		for _, verb := range []string{"create", "patch"} {
			f(verb+" an event of its Node", low, event(verb, "default", "ghost.17f0aa11"), code(c))
			f(verb+" an event of its static pod", low, event(verb, "kube-system", "kube-proxy-ghost.17f0aa11"), code(c))
			f(verb+" an event of another Node", high, event(verb, "default", "worker-1.17f0aa11"), code(c))
			f(verb+" an event of another's static pod", high, event(verb, "kube-system", "kube-proxy-worker-1.17f0aa11"), code(c))
			f(verb+" an event of another's pod", high, event(verb, "shop", "web.17f0aa11"), code(c))
		}
	}
	f("it records an event, which the Node authorizer denies", high, event("create", "default", "ghost.17f0aa11"), code(201), byRole)
	f("it deletes an event", high, event("delete", "default", "ghost.17f0aa11"), code(200))
	f("by a binding", high, event("create", "default", "ghost.17f0aa11"), byRBAC(201))

	a := kubeletsAsk("ghost")
	a.user, a.groups = "system:node:ghost", []string{"system:nodes", "system:authenticated"}
	other, odd, serving := a, a, a
	other.cn, odd.signer, serving.signer = "system:node:worker-1", signerClient, signerServing
	asks := func(a asking, changes ...with) with {
		return func(r *Request) {
			for _, change := range append([]with{signing(t, a, "", "csr-1"), from("10.0.0.9"), code(201)}, changes...) {
				change(r)
			}
		}
	}
	bare := func(r *Request) { r.Event.RequestObject = nil }
	cutOff := func(r *Request) { r.Event.RequestObject, r.Event.Cut = nil, true }
	dry := func(r *Request) { r.Event.RequestURI = "/apis/x?dryRun=All" }
	f("it renews", renewed+"10.0.0.9", asks(a))
	f("it renews, and the log has no bodies", renewed+"10.0.0.9", asks(a, bare))
	f("it tries to renew", low, asks(a, code(500)))
	f("it renews as a dry run", low, asks(a, dry))
	f("it asks for a serving certificate", low, asks(serving))
	f("it asks for another node's", high, asks(other))
	f("it asks for a certificate of another signer", high, asks(odd))
	f("it asks, and the body was cut", high, asks(a, cutOff))
	f("it waits for its certificate", low, does("watch certificatesigningrequests.certificates.k8s.io"), selecting("metadata.name", "csr-1"), code(200))
	f("it reads a request", low, does("get certificatesigningrequests.certificates.k8s.io csr-1"), code(200))
	f("it approves", high, asks(a, func(r *Request) { r.Attrs.Subresource, r.Attrs.Verb = "approval", "update" }))

	f("it renews from the address of another node", high, asks(a, from("10.0.0.1")))
	f("it renews from its own computer", renewed+"127.0.0.1", asks(a, from("127.0.0.1")))
	is(&had, "it renews from its address", renewed+"10.0.0.9", asks(a))
	is(&had, "it renews from its address, in another form", renewed+"::ffff:10.0.0.9", asks(a, from("::ffff:10.0.0.9")))
	is(&had, "it renews from elsewhere", high, asks(a, from("10.9.9.9")))
	is(&had, "it records an event from elsewhere", high, event("create", "default", "ghost.17f0aa11"), from("10.9.9.9"), code(201))
}
