package scenarios

import (
	"net/http"
	"testing"
	"time"
)

func testBlog(t *testing.T, w *world) {
	w.create(t, object("v1", "Namespace", "", "blog"))
	w.create(t, secret("blog", "db"))
	node := w.plane.Node("node-1")
	a := w.expect(t, node, "/api/v1/secrets", http.StatusForbidden, "deny", "out-of-scope-secret-read")

	w.create(t, binding("blog", "system:node", group("system:nodes")))
	a = w.expect(t, node, "/api/v1/secrets", http.StatusOK, "deny", "out-of-scope-secret-read", "rbac-excess-access")
	if b := a.verdict.Observed.Binding; b == nil || b.Name != "blog" {
		t.Errorf("the binding to blame is %+v, want blog", b)
	}
	got := w.alerted(t, map[string]string{"alertname": "OutOfScopeSecretRead", "node": "node-1", "severity": "critical"})
	t.Logf("from the request to the alert: %s", got.at.Sub(a.Sent).Round(time.Millisecond))
	w.admin(t, http.MethodDelete, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/blog", nil)
	w.expect(t, node, "/api/v1/secrets", http.StatusForbidden, "deny", "out-of-scope-secret-read")
}
