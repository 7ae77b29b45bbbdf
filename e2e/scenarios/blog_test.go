package scenarios

import (
	"net/http"
	"testing"
	"time"
)

// The experiment of the blogs: with a kubelet's credentials all secrets cannot be listed; with system:nodes bound to the role system:node they can. The Node
// authorizer still denies it, the binding is to blame, and the alert fires.
//
// Seen to fail with a rule to which a read that succeeded is not critical.
func testBlog(t *testing.T, w *world) {
	w.namespace(t, "blog")
	w.create(t, secret("blog", "db"))
	node := w.plane.Node("node-1")
	w.expect(t, node, "/api/v1/secrets", http.StatusForbidden, "deny", "node-credential-misuse", "out-of-scope-secret-read")

	w.bindNodes(t, true)
	a := w.expect(t, node, "/api/v1/secrets", http.StatusOK, "deny", "out-of-scope-secret-read", "rbac-excess-access")
	if b := a.verdict.Observed.Binding; b == nil || b.Name != "system:node" {
		t.Errorf("the binding to blame is %+v, want system:node", b)
	}
	got := w.alerted(t, map[string]string{"alertname": "OutOfScopeSecretRead", "node": "node-1", "severity": "critical"})
	t.Logf("from the request to the alert: %s", got.At.Sub(a.Sent).Round(time.Millisecond))
	w.bindNodes(t, false)
	w.expect(t, node, "/api/v1/secrets", http.StatusForbidden, "deny", "node-credential-misuse", "out-of-scope-secret-read")
}
