package rules

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// A kubelet reads its own Node, its own pods, and by their names what these use. Whoever reads more with its credential is found by the first request, refused or not.
func TestOddReads(t *testing.T) {
	w := &world{
		nodes: []string{"worker-1", "worker-2"}, pods: map[string]string{"shop/own": "worker-1", "shop/other": "worker-2"},
		ended: map[string]int{},
	}
	noNodes := as("system:node:worker-3", "system:nodes")
	var s State = w
	f := func(name string, want Reason, what string, changes ...with) {
		t.Helper()
		misused(t, s, name, want, what, changes...)
	}
	refused := func(what string) {
		t.Helper()
		f("refused", ForeignReadRefused, what)
		f("refused by the API server's word", ForeignReadRefused, what, annotated("forbid", nodeauthz.Deny))
		f("in a race", "", what, race)
		f("and perhaps let through", "", what, func(r *Request) { r.Open = true })
		f("that the state allows", "", what, verdict(nodeauthz.Allow), annotated("forbid", nodeauthz.Deny))
		f("by another client", ForeignReadRefused, what, agent("kubelet.exe/v1.36"))
	}
	static := func(r *Request) { r.Answer = nodeauthz.Answer{Verdict: nodeauthz.Allow, Static: true} }
	byNode := func(r *Request) { annotated("allow", nodeauthz.Allow)(r); r.Event.Code = 200 }

	for _, what := range []string{
		"list pods", "watch pods", "list pods shop/", "get nodes worker-2", "list nodes", "watch nodes", "get csinodes.storage.k8s.io worker-2",
		"get leases.coordination.k8s.io kube-node-lease/worker-2", "watch podcertificaterequests.certificates.k8s.io", "get pods shop/other",
	} {
		f("by a name that is no Node's", "", what, noNodes)
		f("of what is not known", map[bool]Reason{true: ForeignReadRefused}[strings.HasPrefix(what, "get")], what, func(r *Request) { r.Event.RequestURI = "" })
		refused(what)
	}
	// What no kubelet reads, whatever its node is called and whatever it selects.
	for _, what := range []string{
		"list persistentvolumes", "watch persistentvolumeclaims shop/", "list volumeattachments.storage.k8s.io", "list namespaces", "get namespaces kube-system",
		"list deployments.apps", "list daemonsets.apps", "get clusterroles.rbac.authorization.k8s.io admin", "list customresourcedefinitions.apiextensions.k8s.io",
		"list apiservices.apiregistration.k8s.io", "get storageclasses.storage.k8s.io fast", "list widgets.example.com shop/", "list events shop/", "list endpoints", "watch endpoints default/",
		"list endpointslices.discovery.k8s.io", "list pods.metrics.k8s.io", "list serviceaccounts shop/", "get podcertificaterequests.certificates.k8s.io shop/r", "list plans.autopilot.k0sproject.io",
		"get leases.coordination.k8s.io kube-system/kube-scheduler", "get leases.coordination.k8s.io k0s-autopilot/k0s-autopilot-controller", "get /metrics", "get /debug/pprof/", "get /logs",
		"get /", "get /apisx", "get /openid/v1/jwks",
	} {
		f("by a name that is no Node's", ForeignReadRefused, what, noNodes)
		f("of what is not known", ForeignReadRefused, what, func(r *Request) { r.Event.RequestURI = "" })
		refused(what)
	}
	for _, what := range []string{"list secrets", "watch secrets shop/", "list configmaps", "watch configmaps kube-system/"} {
		f("by a name that is no Node's", ForeignReadRefused, what, noNodes)
		f("of what is not known", "", what, func(r *Request) { r.Event.RequestURI = "" })
		f("by an empty name", "", what, selecting("metadata.name", ""))
		f("by a name that is no path segment", "", what, selecting("metadata.name", "registry.example.com/pull"))
		f("by another field", ForeignReadRefused, what, selecting("type", ""))
		refused(what)
	}
	for _, what := range []string{"get secrets shop/db", "list secrets shop/db", "watch configmaps shop/web"} {
		f("by their names", "", what)
	}
	for _, what := range []string{"get /api", "get /apis/apps/v1", "get /version", "get /readyz/etcd", "get /openapi/v3", "get "} {
		f("that everybody may read", "", what)
	}
	f("of another node", ForeignReadRefused, "watch pods", selectsNode("worker-2"))
	f("of its own", "", "watch pods", selectsNode("worker-1"))
	for _, what := range []string{
		"get nodes worker-1", "watch nodes worker-1", "get pods shop/own", "get pods shop/gone", "get persistentvolumes pv",
		"get volumeattachments.storage.k8s.io csi-1", "get csinodes.storage.k8s.io worker-1", "get leases.coordination.k8s.io kube-node-lease/worker-1",
		"watch runtimeclasses.node.k8s.io", "list services", "watch clustertrustbundles.certificates.k8s.io", "list resourceslices.resource.k8s.io",
	} {
		f("refused", "", what)
	}

	f("before 1.32", PodOfAnother, "get pods shop/other", static, byNode)
	f("before 1.32, without annotations", PodOfAnother, "get pods shop/other", static, code(200))
	for _, verb := range []string{"list", "watch"} { // with a selector of the name
		f("before 1.32", PodOfAnother, verb+" pods shop/other", static, byNode, selecting("metadata.name", "other"))
		f("before 1.32", "", verb+" pods shop/own", static, byNode, selecting("metadata.name", "own"))
	}
	w.nodes, w.gone = append(w.nodes, "worker-3"), map[string]int{"worker-3": -60}
	f("by the credential of a Node that is gone", PodOfAnother, "get pods shop/other", static, byNode, noNodes)
	f("by the credential of a Node that is gone", ForeignReadRefused, "list nodes", noNodes)
	f("of its own, when its Node is gone", "", "get nodes worker-3", noNodes)
	w.nodes, w.gone = w.nodes[:2], nil
	f("before 1.32, of its own", "", "get pods shop/own", static, byNode)
	f("before 1.32, that the state does not have", "", "get pods shop/gone", static, byNode)
	f("before 1.32, not found", "", "get pods shop/other", static, code(404))
	f("against the graph", PodOfAnother, "get pods shop/other", byNode)
	f("by a binding", "", "get pods shop/other", byRBAC(200))
	w.pods["shop/other"] = "worker-2"
	s = had{w, "shop/other"}
	f("that was on the node", "", "get pods shop/other", static, byNode)
	f("that was on the node, refused", "", "get pods shop/other")
	// Somebody began to watch ten minutes before the request.
	for _, c := range []struct {
		came int // seconds before the request
		want Reason
	}{{30, ""}, {9 * 60, ""}, {20 * 60, ""}, {2 * 3600, ForeignReadRefused}} {
		begin := at(0).Add(-time.Duration(c.came) * time.Second)
		w.stays = map[string][]stay{"shop/other": {{node: "worker-2", Begin: begin}}}
		s = since{w, at(0).Add(-10 * time.Minute)}
		f("a state that begins late", c.want, "get pods shop/other")
		s = since{w, begin.Add(-time.Hour)}
		f("a state that begins before that", ForeignReadRefused, "get pods shop/other")
	}
	s = nil
	f("without a state", "", "get pods shop/other", static, byNode)
	f("without a state, refused", "", "get pods shop/other")
	f("without a state, refused", ForeignReadRefused, "list nodes")
}

// had is a world in which each node had a pod of that name in the day before.
type had struct {
	*world
	pod string
}

// since is a world that is watched from some time on.
type since struct {
	*world
	from time.Time
}

func (s since) PodsWatched(t time.Time) bool { return !t.Before(s.from) }

func (h had) Had(a *authorizer.AttributesRecord, _ string, _ time.Time) bool {
	return a.Namespace+"/"+a.Name == h.pod
}

func (h had) PodWasOn(namespace, name, _ string, _, _ time.Time) bool {
	return namespace+"/"+name == h.pod
}
