package scenarios

import (
	"net/http"
	"slices"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// archive is a persistent volume of no pod: in no version it is a node's to read, but the role system:node allows it.
const archive = "/api/v1/persistentvolumes/archive"

func (w *world) archive(t *testing.T) {
	t.Helper()
	w.create(t, with(object("v1", "PersistentVolume", "", "archive"), "spec", map[string]any{
		"capacity": map[string]any{"storage": "1Gi"}, "accessModes": []string{"ReadWriteOnce"}, "persistentVolumeReclaimPolicy": "Retain",
		"csi": map[string]any{"driver": "csi.example", "volumeHandle": "archive"},
	}))
}

// another is what becomes of a node's request to see another one, or all pods.
func (w *world) another() (code int, verdict string) {
	if w.minor() < selectors {
		return http.StatusOK, "allow"
	}
	return http.StatusForbidden, "deny"
}

// A client that is no kubelet uses a node's certificate: it is distinguished by its user agent, and what it may is what the node may.
//
// Seen to fail with calico-node among the user agents that are kubelets.
func testSharedCredential(t *testing.T, w *world) {
	workload := w.plane.Node("node-1").With("calico-node/v3.29.1 (linux/amd64) kubernetes/e2e")
	code, verdict := w.another()
	w.expect(t, workload, "/api/v1/pods", code, verdict, "node-credential-misuse")
	w.expect(t, workload, "/api/v1/nodes/node-2", code, verdict, "node-credential-misuse")
	w.expect(t, workload, "/api/v1/nodes/node-1", http.StatusOK, "allow", "node-credential-misuse")
	w.archive(t)
	w.expect(t, workload, archive, http.StatusForbidden, "deny", "node-credential-misuse")

	// With rights of the nodes' group it would break when those go.
	w.create(t, clusterRole("workloads", rule("", "persistentvolumes", "get")))
	w.create(t, binding("workloads", "workloads", group("system:nodes")))
	w.expect(t, workload, archive, http.StatusOK, "deny", "node-credential-misuse", "rbac-excess-access")
	r := plane.Must(w.trail.Report(w.ctx))(t)
	if !slices.ContainsFunc(r.Readiness.Clients, func(c clientOf) bool {
		return c.UserAgent == "calico-node" && c.Binding == "ClusterRoleBinding workloads"
	}) {
		t.Errorf("readiness does not know who would break: %+v", r.Readiness.Clients)
	}
	w.admin(t, http.MethodDelete, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/workloads", nil)
}

// As Azure had it once: nodes may read secrets by a role of their own.
//
// Seen to fail with secrets that are no worse than anything else.
func testSecretGrant(t *testing.T, w *world) {
	w.namespace(t, "vault")
	w.create(t, secret("vault", "root"))
	w.create(t, clusterRole("kubelet-secret-get", rule("", "secrets", "get")))
	w.create(t, binding("kubelet-secret-get", "kubelet-secret-get", group("system:nodes")))
	a := w.expect(t, w.plane.Node("node-2"), "/api/v1/namespaces/vault/secrets/root", http.StatusOK, "deny", "out-of-scope-secret-read", "rbac-excess-access")
	if b := a.verdict.Observed.Binding; b == nil || b.Name != "kubelet-secret-get" {
		t.Errorf("the binding to blame is %+v", b)
	}
	w.alerted(t, map[string]string{"alertname": "RbacExcessAccess", "node": "node-2", "namespace": "vault", "severity": "critical"})
	w.admin(t, http.MethodDelete, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/kubelet-secret-get", nil)
	w.expect(t, w.plane.Node("node-2"), "/api/v1/namespaces/vault/secrets/root", http.StatusForbidden, "deny", "out-of-scope-secret-read")
}

// A kubelet that is not in system:nodes depends on RBAC, and is no node for the Node authorizer.
//
// Seen to fail with a rule that does not ask for the group.
func testOutsider(t *testing.T, w *world) {
	w.create(t, binding("outsider", "system:node", user("system:node:outsider")))
	plane.Check(t, w.plane.StartKubelet("outsider", plane.Identity{User: "system:node:outsider"}))
	w.identity(t, "outsider", "group missing")
	w.plane.Kubelets["outsider"].Kill()
	w.admin(t, http.MethodDelete, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/outsider", nil)
}

// A user name that names no node is nobody to the Node authorizer, group or not.
//
// Seen to fail with a rule that does not ask for the form of the name.
func testUndifferentiated(t *testing.T, w *world) {
	kubelet := w.plane.As(plane.Identity{User: "kubelet", Groups: []string{"system:nodes"}})
	r := plane.Must(kubelet.Do(w.ctx, http.MethodGet, "/api/v1/nodes/node-1", nil))(t)
	if r.Code != http.StatusForbidden {
		t.Errorf("the API server lets it: %d", r.Code)
	}
	w.identity(t, "kubelet", "name form")
}

// Node names are distinguished by letter case, so that a certificate with another spelling is another node's.
//
// Seen to fail with a report that does not know the rule's words, as it once was.
func testLetterCase(t *testing.T, w *world) {
	code, verdict := w.another()
	a := w.settled(t, w.plane.Node("Node-1"), http.MethodGet, "/api/v1/nodes/node-1", nil)
	if a.Code != code || a.verdict.Verdict != verdict || !slices.Contains(a.verdict.Findings, "node-identity") {
		t.Errorf("%d, %s, %q", a.Code, a.verdict.Verdict, a.verdict.Findings)
	}
	w.identity(t, "Node-1", "letter case")
}

// A write to another node passes the authorizer and is refused by admission: 403, and yet decided as allowed.
//
// Seen to fail with a rule that looks at Nodes and not at their status.
func testForeignWrite(t *testing.T, w *world) {
	patch := map[string]any{"metadata": map[string]any{"labels": map[string]string{"taken": "yes"}}}
	a := w.settled(t, w.plane.Node("node-1"), http.MethodPatch, "/api/v1/nodes/node-2/status", patch)
	if a.Code != http.StatusForbidden || a.event.Decision() != "allow" || a.verdict.Verdict != "allow" || !slices.Contains(a.verdict.Findings, "foreign-node-write") {
		t.Errorf("%d, %s, %s, %q", a.Code, a.event.Decision(), a.verdict.Verdict, a.verdict.Findings)
	}
	w.alerted(t, map[string]string{"alertname": "ForeignNodeWrite", "node": "node-1"})
}
