package rules

import (
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// neighbours is a state in which an address is another node's.
type neighbours struct {
	State
	at map[string]string
}

func (n neighbours) NodeAt(address string) string { return n.at[address] }

// An agent of a provider runs on its node. From another one it is a client that is no kubelet.
func TestAgentRunsOnItsNode(t *testing.T) {
	const low, other = `low: the credential of node worker-1 is used by "node-problem-detector", a known agent of GCE and whoever runs it standalone`,
		`: the credential of node worker-1 is used by "node-problem-detector", which is no kubelet`
	w := neighbours{housed(3), map[string]string{"10.0.0.1": "worker-1", "10.0.0.2": "worker-2"}}
	for _, c := range []struct {
		name, address, want string
		s                   State
	}{
		{"from the node", "10.0.0.1", low, w},
		{"by loopback", "127.0.0.1", low, w},
		{"from an address of nobody", "203.0.113.9", "medium" + other, w},
		{"from another node", "10.0.0.2", "high" + other, w},
		{"without a state", "203.0.113.9", low, nil},
		{"where the state has no addresses", "203.0.113.9", low, cluster(3)},
	} {
		newStory(t, c.s).f(c.name, c.want, does("patch nodes/status worker-1"), agent("node-problem-detector/v1"), code(200), comes(c.address))
	}
}

// Talos manages its node with the kubelet's credential. Under its name, nothing else is excused: no secret, no other node and no pod of another one.
//
// Seen to fail where any request of machined is one of Talos's.
func TestTalos(t *testing.T) {
	const low, other = `low: the credential of node worker-1 is used by "machined", a known agent of Talos`, `high: the credential of node worker-1 is used by "machined", which is no kubelet`
	w := neighbours{housed(3), map[string]string{"10.0.0.1": "worker-1", "10.0.0.2": "worker-2"}}
	nothing := func(*Request) {}
	for _, c := range []struct {
		what, want string
		more       with
	}{
		{"get nodes worker-1", low, nothing},
		{"get /apis", low, nothing},
		{"get /metrics", other, nothing},
		{"watch nodes worker-1", low, nothing},
		{"patch nodes worker-1", low, nothing},
		{"update nodes worker-1", low, nothing},
		{"list nodes", low, nothing},
		{"list nodes", other, verdict(nodeauthz.Deny)},
		{"list pods", low, selectsNode("worker-1")},
		{"list pods", other, selectsNode("worker-2")},
		{"list pods", other, nothing},
		{"get pods shop/web", low, nothing},
		{"get pods shop/web", other, verdict(nodeauthz.Deny)},
		{"create pods/eviction shop/web", low, nothing},
		{"watch endpointslices.discovery.k8s.io default/", low, nothing},
		{"watch endpointslices.discovery.k8s.io shop/", other, nothing},
		{"list certificatesigningrequests.certificates.k8s.io", low, nothing},
		{"create certificatesigningrequests.certificates.k8s.io", other, nothing},
		{"patch nodes worker-2", other, nothing},
		{"get nodes worker-2", other, nothing},
		{"patch nodes/status worker-1", other, nothing},
		{"delete nodes worker-1", other, nothing},
		{"create pods/exec shop/web", other, nothing},
		{"delete pods shop/web", other, nothing},
		{"get configmaps shop/web", other, nothing},
	} {
		newStory(t, w).f(c.what, c.want, does(c.what), agent("machined/v0.0.0 (linux/amd64) kubernetes/$Format"), verdict(nodeauthz.Allow), code(200), comes("10.0.0.1"), c.more)
	}
	newStory(t, w).f("from another node", other, does("get nodes worker-1"), agent("machined/v0.0.0"), verdict(nodeauthz.Allow), code(200), comes("10.0.0.2"))
}

// Talos drains its node: it gets each pod that it evicted until that is gone. The Node authorizer of 1.32 and later refuses the last get.
//
// Seen to fail where Talos may get any pod that it is refused, and where it is excused if it got the pod.
func TestTalosWaitsForPods(t *testing.T) {
	const low, other = `low: the credential of node worker-1 is used by "Talos", a known agent of Talos in newer releases`, `high: the credential of node worker-1 is used by "Talos", which is no kubelet`
	w := housed(3)
	w.pods["shop/gone"], w.pods["shop/old"], w.pods["shop/theirs"] = "worker-1", "worker-1", "worker-2"
	w.ended = map[string]int{"shop/gone": 600, "shop/old": 600, "shop/theirs": 600}
	for _, c := range []struct {
		name, what, want string
		more             with
	}{
		{"gone", "get pods shop/gone", low, when(603)},
		{"gone for an hour", "get pods shop/old", other, when(4200)},
		{"of another node", "get pods shop/theirs", other, when(603)},
		{"of none", "get pods shop/none", other, when(603)},
		{"its log", "get pods/log shop/gone", other, when(603)},
		{"its secret", "get secrets shop/gone", other, when(603)},
		{"deleted", "delete pods shop/gone", other, when(603)},
		{"let through", "get pods shop/gone", other, func(r *Request) { when(603)(r); code(200)(r) }},
	} {
		newStory(t, w).f(c.name, c.want, does(c.what), agent("Talos/v1.11.0 (linux/amd64)"), code(403), comes("10.0.0.1"), c.more)
	}
	newStory(t, w).f("another agent", strings.ReplaceAll(other, "Talos", "nodeadm"), does("get pods shop/gone"), agent("nodeadm/v0.0.0"), code(403), comes("10.0.0.1"), when(603))
	newStory(t, nil).f("without a state", other, does("get pods shop/gone"), agent("Talos/v1.11.0"), code(403), comes("10.0.0.1"), when(603))
}

// kube-proxy, which reads services, may run with the node's credential on Windows. Under its name nothing else is excused.
func TestProxyOfServices(t *testing.T) {
	const low, other = `low: the credential of node worker-1 is used by "kube-proxy.exe", a known agent of EKS and AKS on Windows`,
		`high: the credential of node worker-1 is used by "kube-proxy.exe", which is no kubelet`
	w := neighbours{housed(3), map[string]string{"10.0.0.1": "worker-1", "10.0.0.2": "worker-2"}}
	f := func(what, want, address string) {
		t.Helper()
		newStory(t, w).f(what, want, does(what), agent("kube-proxy.exe/v1.36 (windows/amd64)"), verdict(nodeauthz.Allow), code(200), comes(address))
	}
	for _, what := range []string{
		"watch services", "list endpoints", "watch endpointslices.discovery.k8s.io", "list servicecidrs.networking.k8s.io", "get nodes worker-1", "watch nodes worker-1",
		"create events.events.k8s.io default/", "get /version",
	} {
		f(what, low, "10.0.0.1")
	}
	f("watch services", other, "10.0.0.2")
	for _, what := range []string{
		"list nodes", "get nodes worker-2", "patch nodes worker-1", "list pods", "get configmaps shop/web", "patch services shop/web", "get services/proxy shop/web", "delete events shop/e", "get /metrics",
	} {
		f(what, other, "10.0.0.1")
	}
}

// OVN-Kubernetes and Multus ask for the node's second certificate with the kubelet's credential, and do nothing else with it. What they ask for is in bodies: without these it is
// in doubt.
func TestAgentsWithASecondCertificate(t *testing.T) {
	const low, other = `low: the credential of node worker-1 is used by "ovnkube", a known agent of OVN-Kubernetes, as on OpenShift`, `high: the credential of node worker-1 is used by "ovnkube", which is no kubelet`
	w := neighbours{housed(3), map[string]string{"10.0.0.1": "worker-1", "10.0.0.2": "worker-2"}}
	own := asking{cn: "system:ovn-node:worker-1", orgs: []string{"system:ovn-nodes"}, signer: signerClient, user: "system:node:worker-1", groups: []string{"system:nodes"}}
	admin, of2, multus := own, own, own
	admin.orgs, of2.cn = []string{"system:masters"}, "system:ovn-node:worker-2"
	multus.cn, multus.orgs = "system:multus:worker-1", []string{"system:multus"}
	by := func(client, what, want string, changes ...with) {
		newStory(t, w).f(what, want, append([]with{agent(client + "/v0.0.0 (linux/amd64) kubernetes/$Format"), code(200), comes("10.0.0.1")}, changes...)...)
	}
	f := func(what, want string, changes ...with) { by("ovnkube", what, want, changes...) }
	f("its certificate", low, signing(t, own, "", "csr-1"))
	f("an administrator's", other, signing(t, admin, "", "csr-1"))
	f("another node's", other, signing(t, of2, "", "csr-1"))
	f("another provider's", other, signing(t, multus, "", "csr-1"))
	f("the approval", other, signing(t, own, "approval", "csr-1"), node("worker-1"))
	f("a log without bodies", strings.Replace(other, "high", "medium", 1), does("create certificatesigningrequests.certificates.k8s.io"))
	f("a log without bodies, from another node", other, does("create certificatesigningrequests.certificates.k8s.io"), comes("10.0.0.2"))
	f("the wait", low, does("watch certificatesigningrequests.certificates.k8s.io csr-1"))
	f("its node", other, does("get nodes worker-1"))

	replace := strings.NewReplacer("ovnkube", "multus-daemon", "OVN-Kubernetes", "Multus")
	f = func(what, want string, changes ...with) { by("multus-daemon", what, replace.Replace(want), changes...) }
	f("its certificate", low, signing(t, multus, "", "csr-1"))
	f("another provider's", other, signing(t, own, "", "csr-1"))
	f("the wait", low, does("watch certificatesigningrequests.certificates.k8s.io csr-1"))
	f("its pods", other, does("list pods"))
}

// The proxy before the metrics of CRI-O asks who its callers are and what they may do, with the kubelet's credential, and does nothing else with it.
//
// Seen to fail where any request of kube-rbac-proxy is one of its own, and where the proxy is not known.
func TestMetricsProxyOfCRIO(t *testing.T) {
	const low, other = `low: the credential of node worker-1 is used by "kube-rbac-proxy", a known agent of OpenShift (kube-rbac-proxy-crio)`,
		`high: the credential of node worker-1 is used by "kube-rbac-proxy", which is no kubelet`
	w := neighbours{housed(3), map[string]string{"10.0.0.1": "worker-1", "10.0.0.2": "worker-2"}}
	f := func(what, want, address string) {
		newStory(t, w).f(what, want, does(what), agent("kube-rbac-proxy/v0.0.0 (linux/amd64) kubernetes/$Format"), verdict(nodeauthz.Allow), code(201), comes(address))
	}
	f("create tokenreviews.authentication.k8s.io", low, "10.0.0.1")
	f("create subjectaccessreviews.authorization.k8s.io", low, "10.0.0.1")
	f("create subjectaccessreviews.authorization.k8s.io", other, "10.0.0.2")
	for _, what := range []string{
		"create localsubjectaccessreviews.authorization.k8s.io shop/", "create selfsubjectaccessreviews.authorization.k8s.io", "get nodes worker-1", "list pods",
		"get configmaps shop/web", "get tokenreviews.authentication.k8s.io x",
	} {
		f(what, other, "10.0.0.1")
	}
}

// The bootstrapping of AKS tries the kubelet's certificate by asking for the version, and does nothing else with it.
//
// Seen to fail where the client is not known, where it may look up more, and where any request of it is one of its own.
func TestBootstrapOfAKS(t *testing.T) {
	const low, other = `low: the credential of node worker-1 is used by "aks-secure-tls-bootstrap-client", a known agent of AKS`,
		`high: the credential of node worker-1 is used by "aks-secure-tls-bootstrap-client", which is no kubelet`
	w := neighbours{housed(3), map[string]string{"10.0.0.1": "worker-1", "10.0.0.2": "worker-2"}}
	f := func(what, want, address string) {
		const name = "aks-secure-tls-bootstrap-client"
		newStory(t, w).f(what, want, does(what), agent(name+"/v0.0.0 (linux/amd64) kubernetes/$Format/"+name+"/0.1.0"), verdict(nodeauthz.Allow), code(200), comes(address))
	}
	f("get /version", low, "10.0.0.1")
	f("get /version", other, "10.0.0.2")
	f("get /version", strings.Replace(other, "high", "medium", 1), "203.0.113.9")
	for _, what := range []string{"get /version/x", "post /version", "get /healthz", "get /api", "get /metrics", "get nodes worker-1", "list pods", "create certificatesigningrequests.certificates.k8s.io"} {
		f(what, other, "10.0.0.1")
	}
	newStory(t, w).f("on Windows", strings.Replace(low, "client", "client.exe", 1), does("get /version"), agent("aks-secure-tls-bootstrap-client.exe/v0.0.0 (windows/amd64)"),
		verdict(nodeauthz.Allow), code(200), comes("10.0.0.1"))
}

// nodeadm looks after a hybrid node of EKS with the kubelet's credential. Under its name, nothing else is excused: no other node and no pod of another one.
//
// Seen to fail where nodeadm is not known, where it may list the pods of any node, and where any request of it is one of its own.
func TestHybridNodes(t *testing.T) {
	const low, other = `low: the credential of node worker-1 is used by "nodeadm", a known agent of EKS Hybrid Nodes`, `high: the credential of node worker-1 is used by "nodeadm", which is no kubelet`
	w := neighbours{housed(3), map[string]string{"10.0.0.1": "worker-1", "10.0.0.2": "worker-2"}}
	nothing := func(*Request) {}
	for _, c := range []struct {
		what, want string
		more       with
	}{
		{"get nodes worker-1", low, nothing},
		{"list pods", low, selectsNode("worker-1")},
		{"get endpoints default/kubernetes", low, nothing},
		{"create selfsubjectreviews.authentication.k8s.io", low, nothing},
		{"get nodes worker-1", other, comes("10.0.0.2")},
		{"list pods", other, selectsNode("worker-2")},
		{"list pods", other, nothing},
		{"watch pods", other, selectsNode("worker-1")},
		{"get pods shop/web", other, nothing},
		{"delete pods shop/web", other, nothing},
		{"create pods/eviction shop/web", other, nothing},
		{"get nodes worker-2", other, nothing},
		{"list nodes", other, nothing},
		{"watch nodes worker-1", other, nothing},
		{"patch nodes worker-1", other, nothing},
		{"delete nodes worker-1", other, nothing},
		{"get endpoints shop/kubernetes", other, nothing},
		{"get endpoints default/web", other, nothing},
		{"list endpoints default/", other, nothing},
		{"create selfsubjectrulesreviews.authorization.k8s.io", other, nothing},
		{"get configmaps shop/web", other, nothing},
		{"get /version", other, nothing},
	} {
		newStory(t, w).f(c.what, c.want, does(c.what), agent("nodeadm/v0.0.0 (linux/amd64) kubernetes/$Format"), verdict(nodeauthz.Allow), code(200), comes("10.0.0.1"), c.more)
	}
	newStory(t, w).f("a secret", `critical: get secrets shop/db succeeded for "nodeadm", which is no kubelet, with the credential of node worker-1`,
		does("get secrets shop/db"), agent("nodeadm/v0.0.0"), verdict(nodeauthz.Allow), code(200), comes("10.0.0.1"))
}

// OpenShift's machine-config-daemon reads and annotates its Node and records events of it with the kubelet's credential. Under its name, nothing else is excused.
//
// Seen to fail where the daemon is not known, where any patch of the node's own Node is one of its own, and where any event is.
func TestMachineConfigDaemon(t *testing.T) {
	const low, other = `low: the credential of node worker-1 is used by "machine-config-daemon", a known agent of OpenShift`,
		`high: the credential of node worker-1 is used by "machine-config-daemon", which is no kubelet`
	const namespace = "openshift-machine-config-operator"
	w := neighbours{housed(3), map[string]string{"10.0.0.1": "worker-1", "10.0.0.2": "worker-2"}}
	body := func(text string) with { return func(r *Request) { r.Event.RequestObject = []byte(text) } }
	created := func(name string) with { return func(r *Request) { r.Event.ObjectRef.Name = name } }
	nothing := func(*Request) {}
	for _, c := range []struct {
		what, want string
		more       with
	}{
		{"get nodes worker-1", low, nothing},
		{"list nodes worker-1", low, nothing},
		{"watch nodes worker-1", low, nothing},
		{"patch nodes worker-1", low, nothing},
		{"patch nodes worker-1", low, body(`{"metadata":{"annotations":{"machineconfiguration.openshift.io/state":"Done"}}}`)},
		{"create events " + namespace + "/", low, nothing},
		{"create events " + namespace + "/", low, created("worker-1.17ab")},
		{"create events default/", low, created("worker-1.17ab")},
		{"patch events default/worker-1.17ab", low, nothing},
		{"watch nodes worker-1", other, comes("10.0.0.2")},
		{"patch nodes worker-1", other, comes("10.0.0.2")},
		{"patch nodes worker-1", other, body(`{"spec":{"unschedulable":true}}`)},
		{"patch nodes worker-1", other, body(`{"metadata":{"annotations":{"a":"b"}},"spec":{"taints":null}}`)},
		{"patch nodes worker-1", other, body(`{"metadata":{"annotations":{"a":"b"},"labels":{"a":"b"}}}`)},
		{"patch nodes worker-1", other, body(`[{"op":"add","path":"/spec/unschedulable","value":true}]`)},
		{"patch nodes worker-2", other, nothing},
		{"patch nodes/status worker-1", other, nothing},
		{"update nodes worker-1", other, nothing},
		{"delete nodes worker-1", other, nothing},
		{"get nodes worker-2", other, nothing},
		{"list nodes", other, nothing},
		{"create events " + namespace + "/", other, created("worker-2.17ab")},
		{"create events shop/", other, nothing},
		{"patch events default/web.17ab", other, nothing},
		{"delete events default/worker-1.17ab", other, nothing},
		{"list pods", other, selectsNode("worker-1")},
		{"create pods/eviction shop/web", other, nothing},
		{"get configmaps shop/web", other, nothing},
		{"get /version", other, nothing},
	} {
		newStory(t, w).f(c.what, c.want, does(c.what), agent("machine-config-daemon/v0.0.0 (linux/amd64) kubernetes/$Format/machine-config-daemon"), verdict(nodeauthz.Allow), code(200),
			comes("10.0.0.1"), c.more)
	}
	newStory(t, w).f("a secret", `critical: get secrets shop/db succeeded for "machine-config-daemon", which is no kubelet, with the credential of node worker-1`,
		does("get secrets shop/db"), agent("machine-config-daemon/v0.0.0"), verdict(nodeauthz.Allow), code(200), comes("10.0.0.1"))
}
