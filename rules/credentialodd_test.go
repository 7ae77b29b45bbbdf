package rules

import (
	"testing"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// What no kubelet of any supported version writes is found by the first refusal. What some kubelet writes is not, whatever the reason of the refusal.
func TestOddWrites(t *testing.T) {
	w := &world{nodes: []string{"worker-1", "worker-2"}, pods: map[string]string{"shop/own": "worker-1", "shop/other": "worker-2"}, ended: map[string]int{}}
	f := func(name string, want Reason, what string, changes ...with) {
		t.Helper()
		misused(t, w, name, want, what, changes...)
	}
	version := func(v string) with { return func(r *Request) { r.Event.ObjectRef.APIVersion = v } }
	const slices = "resourceslices.resource.k8s.io"
	for _, what := range []string{
		"delete secrets shop/db", "update secrets shop/db", "create secrets shop/", "patch secrets shop/db", "deletecollection secrets shop/", "deletecollection pods shop/",
		"patch pods shop/own", "update pods shop/own", "patch pods/resize shop/own", "create pods/binding shop/own", "delete nodes worker-1", "create services shop/web", "patch services shop/web",
		"patch persistentvolumes pv", "patch persistentvolumeclaims shop/data", "create persistentvolumeclaims shop/data", "update configmaps kube-system/coredns", "delete events shop/e",
		"create serviceaccounts shop/web", "create namespaces x", "create deployments.apps kube-system/", "create daemonsets.apps kube-system/", "create jobs.batch shop/", "create cronjobs.batch shop/",
		"create mutatingwebhookconfigurations.admissionregistration.k8s.io x", "patch volumeattachments.storage.k8s.io csi-1", "create volumeattachments.storage.k8s.io csi-1",
		"delete volumeattachments.storage.k8s.io csi-1", "update leases.coordination.k8s.io kube-system/kube-scheduler",
		"create leases.coordination.k8s.io kube-system/x", "delete podcertificaterequests.certificates.k8s.io shop/r", "delete certificatesigningrequests.certificates.k8s.io x",
		"patch runtimeclasses.node.k8s.io x", "patch csidrivers.storage.k8s.io x", "update resourceclaims.resource.k8s.io shop/c", "create widgets.example.com shop/w",
	} {
		f("refused", OddWriteRefused, what)
		f("refused by the API server's word", OddWriteRefused, what, annotated("forbid", nodeauthz.Deny))
		f("in a race", "", what, race)
		f("and perhaps let through", "", what, func(r *Request) { r.Open = true })
	}
	for _, what := range []string{"get pods/log shop/own", "get pods/status shop/own", "get nodes/status worker-1", "get podcertificaterequests/status.certificates.k8s.io shop/r"} {
		f("refused", ForeignReadRefused, what)
	}
	everybody := func(r *Request) {
		byRBAC(200)(r)
		granted("Group system:authenticated")(r)
	}
	other := func(r *Request) {
		everybody(r)
		r.HasGrant, r.Observed.Authorizer = false, ByOther
	}
	for _, what := range []string{"list pods.metrics.k8s.io", "list namespaces", "get secrets/x shop/db", "get pods/log shop/other", "list nodes", "get nodes worker-2", "list leases.coordination.k8s.io kube-node-lease/"} {
		f("for everybody", ForeignReadGranted, what, everybody)
		f("by another authorizer", ForeignReadGranted, what, other)
		f("for nodes", "", what, byRBAC(200))
		f("for everybody, and not there", "", what, everybody, code(404))
		f("for everybody, in a race", "", what, everybody, race)
	}
	for _, what := range []string{"get nodes worker-1", "get pods shop/own", "get services shop/web", "get /version", "get endpoints shop/web"} {
		f("for everybody", "", what, everybody)
	}
	for _, what := range []string{"create pods/exec shop/own", "create pods/attach shop/own", "get pods/portforward shop/own", "create clusterroles.rbac.authorization.k8s.io x"} {
		f("refused", EscalationRefused, what)
	}
	for _, what := range []string{
		"create pods kube-system/mirror", "delete pods kube-system/mirror", "patch pods/status shop/own", "update pods/status shop/own", "create pods/eviction shop/own", "create nodes worker-1",
		"patch nodes worker-1", "update nodes worker-1", "patch nodes/status worker-1", "update nodes/status worker-1", "create events shop/e", "patch events shop/e", "update events default/e",
		"create events.events.k8s.io shop/e", "create tokenreviews.authentication.k8s.io", "create subjectaccessreviews.authorization.k8s.io", "create localsubjectaccessreviews.authorization.k8s.io shop/",
		"create serviceaccounts/token shop/web", "create certificatesigningrequests.certificates.k8s.io x", "create podcertificaterequests.certificates.k8s.io shop/r",
		"get persistentvolumeclaims/status shop/data", "patch persistentvolumeclaims/status shop/data", "update persistentvolumeclaims/status shop/data",
		"create leases.coordination.k8s.io kube-node-lease/worker-1", "update leases.coordination.k8s.io kube-node-lease/worker-1", "delete leases.coordination.k8s.io kube-node-lease/worker-1",
		"create csinodes.storage.k8s.io worker-1", "update csinodes.storage.k8s.io worker-1", "delete csinodes.storage.k8s.io worker-1", "update csinodes/status.storage.k8s.io worker-1",
		"watch volumeattachments.storage.k8s.io csi-1",
		"get resourceclaims.resource.k8s.io shop/c", "get endpoints shop/web", "create " + slices,
	} {
		f("refused", "", what)
	}
	f("of another Node, which foreign-node-write has", "", "delete nodes worker-2")
	f("that the log does not tell the selector of", "", "deletecollection "+slices, func(r *Request) { r.Event.RequestURI = "" })
	f("of its own", "", "deletecollection "+slices, selectsNode("worker-1"), version("v1"))
	f("of another node's", OddWriteRefused, "deletecollection "+slices, selectsNode("worker-2"), version("v1"))
	f("of all", OddWriteRefused, "deletecollection "+slices, version("v1"))
	for _, verb := range []string{"create", "update", "delete"} {
		f("by a kubelet of 1.30", "", verb+" "+slices+" x", version("v1alpha2"))
		f("by a later one", OddWriteRefused, verb+" "+slices+" x", version("v1beta1"))
	}
	f("by a kubelet of 1.30", "", "watch "+slices, version("v1alpha2"))
	f("by a later one", ForeignReadRefused, "get "+slices+" x", version("v1"))
	f("of its own", "", "watch podcertificaterequests.certificates.k8s.io", selectsNode("worker-1"))
	f("of all", ForeignReadRefused, "watch podcertificaterequests.certificates.k8s.io")
	f("elsewhere", ForeignReadRefused, "get leases.coordination.k8s.io kube-system/kube-scheduler")
	for _, what := range []string{"selfsubjectaccessreviews.authorization.k8s.io", "selfsubjectrulesreviews.authorization.k8s.io", "selfsubjectreviews.authentication.k8s.io"} {
		f("of what everybody may ask", "", "create "+what, byRBAC(201))
		f("of what everybody may ask, refused", "", "create "+what)
	}
	f("of another group", OddWriteRefused, "create selfsubjectreviews.example.com")
	f("of what everybody may read", "", "get /version", agent("kubeadm/v1.36"))
	for _, what := range []string{
		"get namespaces kube-system", "get daemonsets.apps kube-system/x", "list daemonsets.apps", "watch plans.autopilot.k0sproject.io", "get leases.coordination.k8s.io k0s-autopilot/k0s-autopilot-controller",
		"list nodes", "watch customresourcedefinitions.apiextensions.k8s.io",
	} {
		f("by k0s", "", what, agent("k0s/v1.36"))
		f("by k0s on Windows", "", what, agent("k0s.exe/v1.36"))
		f("by a kubelet", ForeignReadRefused, what)
	}
	f("by a kubelet of 1.30", "", "get resourceslices.resource.k8s.io x", version("v1alpha2"))
	f("by a kubelet of 1.30, which replaces them", OddWriteRefused, "patch resourceslices.resource.k8s.io x", version("v1alpha2"))
	for _, what := range []string{
		"get namespaces shop", "list namespaces", "list deployments.apps", "get leases.coordination.k8s.io kube-system/x", "list k0sproject.io", "get nodes/status worker-2", "list widgets.example.com", "get daemonsets/scale.apps kube-system/x",
	} {
		f("by k0s", ForeignReadRefused, what, agent("k0s/v1.36"))
	}
	f("by k0s", OddWriteRefused, "delete plans.autopilot.k0sproject.io x", agent("k0s/v1.36"))
	f("a path", OddWriteRefused, "post /metrics")
	w.nodes = w.nodes[1:]
	f("by the credential of a Node that is gone", OddWriteRefused, "delete secrets shop/db")
	f("by a kubelet whose Node has another name", "", "deletecollection "+slices, selectsNode("worker-one"), version("v1"))
}
