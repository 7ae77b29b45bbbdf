package rules

import (
	"testing"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

func TestIdentity(t *testing.T) {
	rule := nodeIdentity()
	w := &world{
		nodes: []string{"worker-1", "ip-10-0-0-1.eu-west-1.compute.internal"},
		similar: map[string]string{
			"Worker-1": "worker-1 letter case", "ip-10-0-0-1": "ip-10-0-0-1.eu-west-1.compute.internal domain",
		},
	}
	var s State = w
	f := func(name, want string, changes ...with) {
		t.Helper()
		if got := check(t, rule, s, nil, request(changes...)); got != want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
	const kubectl = "kubectl/v1.36.3"

	f("conforms", "")
	f("conforms, whatever the client", "", agent("curl/8"))
	f("an undifferentiated name", `high: user "kubelet" is in the group system:nodes but is not named system:node:<nodeName>: the Node authorizer does not know it`,
		as("kubelet", "system:nodes"))
	f("one certificate for all", `high: user "system:node" is in the group system:nodes but is not named system:node:<nodeName>: the Node authorizer does not know it`,
		as("system:node", "system:nodes"))
	f("the prefix in another case", `high: user "System:Node:worker-1" is in the group system:nodes but is not named system:node:<nodeName>: the Node authorizer does not know it`,
		as("System:Node:worker-1", "system:nodes"))
	f("a node's name alone", `high: user "worker-1" is in the group system:nodes but is not named system:node:<nodeName>: the Node authorizer does not know it`,
		as("worker-1", "system:nodes"), agent(kubectl))
	f("without the group", `high: user "system:node:worker-1" is not in the group system:nodes: the Node authorizer does not know it`,
		as("system:node:worker-1", "Kube", "system:authenticated"))
	f("the group in another case", `high: user "system:node:worker-1" is not in the group system:nodes: the Node authorizer does not know it`,
		as("system:node:worker-1", "System:Nodes"))
	f("an empty node name", `high: user "system:node:" names no node`, as("system:node:", "system:nodes"))
	f("a kubelet under another identity", `high: a kubelet (by its user agent) uses the identity "kube-node", which is no node's`,
		as("kube-node", "system:authenticated"), code(200))
	f("a kubelet as an administrator", `high: a kubelet (by its user agent) uses the identity "kubelet", which is no node's`,
		as("kubelet", "system:masters"), code(200))
	f("a kubelet as nobody", `high: a kubelet (by its user agent) uses the identity "system:anonymous", which is no node's`,
		as("system:anonymous", "system:unauthenticated"), code(200))
	f("a kubelet with a service account", `high: a kubelet (by its user agent) uses the identity "system:serviceaccount:kube-system:kubelet", which is no node's`,
		as("system:serviceaccount:kube-system:kubelet", "system:serviceaccounts"), code(200))
	f("a kubelet without a version", `high: a kubelet (by its user agent) uses the identity "x", which is no node's`, as("x"), agent("kubelet"), code(200))
	f("a kubelet that finds nothing", `high: a kubelet (by its user agent) uses the identity "x", which is no node's`, as("x"), code(404))
	f("a kubelet that is let through", `high: a kubelet (by its user agent) uses the identity "x", which is no node's`, as("x"), annotated("allow", nodeauthz.NotNode))
	f("a kubelet that is let through, and fails", `high: a kubelet (by its user agent) uses the identity "x", which is no node's`, as("x"), code(500),
		annotated("allow", nodeauthz.NotNode))
	f("a kubelet that is not answered", `high: a kubelet (by its user agent) uses the identity "x", which is no node's`, as("x"), func(r *Request) { r.Open = true })

	const nobody = `low: a kubelet (by its user agent) uses the identity "system:anonymous", which is no node's`
	anonymous := as("system:anonymous", "system:unauthenticated")
	f("anybody who is refused", nobody, anonymous)
	f("anybody who is refused, annotated", nobody, anonymous, annotated("forbid", nodeauthz.NotNode))
	f("anybody who fails before authorization", nobody, anonymous, code(500))
	f("anybody who asks for a path", "", anonymous, path("/healthz"), code(200))
	f("anybody who asks for a path, and is refused", "", anonymous, path("/metrics"))
	f("anybody who reads how to join", "", anonymous, does("get configmaps kube-public/cluster-info"), code(200))
	f("who reads what nobody else may", `high: a kubelet (by its user agent) uses the identity "system:anonymous", which is no node's`, anonymous,
		does("get configmaps kube-public/other"), code(200))
	f("a review of oneself", "", as("x"), does("create selfsubjectaccessreviews.authorization.k8s.io"), code(201))
	f("a review of others", `high: a kubelet (by its user agent) uses the identity "x", which is no node's`, as("x"),
		does("create subjectaccessreviews.authorization.k8s.io"), code(201))
	f("refused without the group", `high: user "system:node:worker-1" is not in the group system:nodes: the Node authorizer does not know it`, as("system:node:worker-1"))

	f("a bootstrapping kubelet", "", as("system:bootstrap:abcdef", "system:bootstrappers", "system:authenticated"))
	f("a bootstrapping kubelet of OpenShift", "", as("system:serviceaccount:openshift-machine-config-operator:node-bootstrapper", "system:serviceaccounts"), func(r *Request) {
		r.Event.ObjectRef = audit.ObjectRef{APIGroup: "certificates.k8s.io", Resource: "certificatesigningrequests"}
	})
	f("a bootstrapping kubelet of kubeadm", "", as("system:bootstrap:abcdef", "system:bootstrappers:kubeadm:default-node-token"))
	f("bootstrappers in the group of nodes", `high: user "system:bootstrap:abcdef" is in the group system:nodes but is not named system:node:<nodeName>: the Node authorizer does not know it`,
		as("system:bootstrap:abcdef", "system:bootstrappers", "system:nodes"))
	f("a kubelet that could not authenticate", "", as(""), code(401))
	f("another program by another name", "", as("kubelet-csr-approver"), agent("kubelet-csr-approver/v1.2"))
	f("a person", "", as("admin", "system:masters"), agent(kubectl))

	f("letter case", `high: user "system:node:Worker-1": the cluster has no Node "Worker-1"; there is a Node "worker-1", which differs in its letter case`,
		as("system:node:Worker-1", "system:nodes"))
	f("without the domain", `high: user "system:node:ip-10-0-0-1": the cluster has no Node "ip-10-0-0-1"; there is a Node "ip-10-0-0-1.eu-west-1.compute.internal", which differs in its domain`,
		as("system:node:ip-10-0-0-1", "system:nodes"))
	f("nothing like it", `high: user "system:node:ghost": the cluster has no Node "ghost"`, as("system:node:ghost", "system:nodes"), code(200))

	f("impersonated without the group", `low: user "system:node:worker-1" is not in the group system:nodes: the Node authorizer does not know it (impersonated by "admin")`,
		as("system:node:worker-1"), impersonated)
	f("impersonated as it should be", "", impersonated)
	f("a kubelet's agent that impersonates somebody", "", as("jane"), impersonated)

	w.blind = true
	f("the state does not cover it", "", as("system:node:ghost", "system:nodes"))
	s = nil
	f("there is no state", "", as("system:node:ghost", "system:nodes"))
	f("there is no state, and the group is missing", `high: user "system:node:ghost" is not in the group system:nodes: the Node authorizer does not know it`,
		as("system:node:ghost"))
}
