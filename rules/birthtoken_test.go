package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/audit"
)

func TestToken(t *testing.T) {
	rule := bootstrapTokenMisuse()
	m := NewMemory()
	m.Bootstrap.Trusted = []string{"ops"}
	f := expects(t, rule, m)
	token := by("system:bootstrap:abcdef", "system:bootstrappers")
	for _, what := range []string{
		"create certificatesigningrequests.certificates.k8s.io", "get certificatesigningrequests.certificates.k8s.io csr-1", "watch certificatesigningrequests.certificates.k8s.io csr-1",
		"list certificatesigningrequests.certificates.k8s.io", "get nodes worker-1", "get configmaps kube-system/kubeadm-config", "get configmaps kube-system/kubelet-config",
		"get configmaps kube-system/kubelet-config-1.23", "get configmaps kube-system/kube-proxy", "get configmaps kube-public/cluster-info", "get secrets kube-system/kubeadm-certs",
		"create selfsubjectaccessreviews.authorization.k8s.io",
	} {
		f(what, "", does(what), token, code(200))
		f(what, "", does(what), token, code(403))
	}
	for _, p := range []string{"/version", "/api/v1", "/healthz", "/openapi/v3"} {
		f(p, "", path(p), token, code(200))
	}
	for _, what := range []string{
		"get secrets kube-system/other", "list secrets", "get secrets default/kubeadm-certs", "list nodes", "get configmaps kube-system/other", "update nodes worker-1",
		"update secrets kube-system/kubeadm-certs", "update configmaps kube-system/kube-proxy", "update configmaps kube-public/cluster-info",
		"update certificatesigningrequests/approval.certificates.k8s.io csr-1", "get pods shop/web", "delete certificatesigningrequests.certificates.k8s.io csr-1",
	} {
		if got := check(t, rule, nil, m, request(does(what), token, code(200))); !strings.HasPrefix(got, "critical: the bootstrap token of system:bootstrap:abcdef was used to ") {
			t.Errorf("%s: %s", what, got)
		}
		if got := check(t, rule, nil, m, request(does(what), token, code(403))); !strings.HasPrefix(got, "medium: the bootstrap token of system:bootstrap:abcdef was used to try to ") {
			t.Errorf("%s, refused: %s", what, got)
		}
		f(what+" on EKS, by a node in the bootstrappers' group", "", does(what), as("system:node:worker-1", "system:bootstrappers", "system:nodes"), code(200))
	}
	f("/metrics", "critical: the bootstrap token of system:bootstrap:abcdef was used to get /metrics, which a node does not need to join", path("/metrics"), token, code(200))

	const secret = "kube-system/bootstrap-token-abcdef"
	f("a node reads", "critical: node worker-1 asked for the bootstrap token in the secret bootstrap-token-abcdef", does("get secrets "+secret), code(200))
	f("a node is refused", "medium: node worker-1 asked for the bootstrap token in the secret bootstrap-token-abcdef", does("get secrets "+secret), code(403))
	f("a node reads another secret", "", does("get secrets kube-system/bootstrap"), code(200))
	f("a node reads one of the name elsewhere", "", does("get secrets shop/bootstrap-token-abcdef"), code(200))
	f("a node reads another group's", "", does("get secrets.example.com "+secret), code(200))
	f("an admin reads", "", does("get secrets "+secret), by("admin"), code(200))
	made := func(r *Request) {
		does("create secrets kube-system/")(r)
		r.Event.ObjectRef = audit.ObjectRef{Resource: "secrets", Namespace: "kube-system", Name: "bootstrap-token-abcdef"}
		code(201)(r)
	}
	f("made", "medium: jane made the bootstrap token in the secret bootstrap-token-abcdef", made, by("jane"))
	f("made in vain", "", made, by("jane"), code(403))
	f("made for a trial", "", made, by("jane"), func(r *Request) { r.Event.RequestURI = "/api/v1/namespaces/kube-system/secrets?dryRun=All" })
	f("a ConfigMap of that name", "", made, by("jane"), does("create configmaps kube-system/"))
	f("read by who cannot make it", "", made, by("jane"), does("get secrets kube-system/"))
	for _, groups := range [][]string{{"system:masters"}, {"kubeadm:cluster-admins"}} {
		f("made by an admin", "", made, by("kubernetes-admin", groups...))
	}
	f("made by who is trusted", "", made, by("ops"))
}

func TestTokenOfManyNodes(t *testing.T) {
	f := func(names int, o Bootstrap) (found []string) {
		t.Helper()
		b := newBirths(t)
		for i := range names {
			b.ask(60*i, kubeletsAsk(fmt.Sprintf("worker-%d", i)), "", "10.0.0.1")
			b.ask(60*i+5, kubeletsAsk(fmt.Sprintf("worker-%d", i)), "", "10.0.0.1") // it tries again
		}
		d := NewDetectors([]*Rule{bootstrapTokenMisuse()}, DetectorOptions{Bootstrap: o})
		for _, r := range b.requests {
			observeLent(d, r, nil)
		}
		d.Flush(nil, func(f *Detection) { found = append(found, f.Severity.String()+": "+sayDetection(f)) })
		return found
	}
	if got := f(200, Bootstrap{}); got != nil {
		t.Errorf("200 nodes in a day: %q", got)
	}
	if got := f(1, Bootstrap{SingleUse: true}); got != nil {
		t.Errorf("one node: %q", got)
	}
	if got := f(2, Bootstrap{SingleUse: true}); len(got) != 1 || got[0] != "high: system:bootstrap:abcdef asked for certificates of 2 nodes within a day, the last of which is worker-1" {
		t.Errorf("two nodes: %q", got)
	}
	if got := f(5, Bootstrap{MaxNodes: 4}); len(got) != 1 || !strings.HasPrefix(got[0], "medium: ") {
		t.Errorf("one more: %q", got)
	}
}
