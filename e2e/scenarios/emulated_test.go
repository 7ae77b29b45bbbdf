package scenarios

import (
	"net/http"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// An apiserver that acts as an older minor, with the gate off that makes nodes name themselves in selectors: what is denied by default is allowed. What
// is allowed by default since, the service accounts of a node's pods, is denied.
//
// Seen to fail with an authorizer that wants selectors whatever the gate, with one that has a newer minor's default for service accounts, and with a
// nodetrail that asks for the apiserver's own version and not for the one that it acts as.
func TestEmulatedVersion(t *testing.T) {
	w := newWorld(t, "emulated", plane.Options{Mode: "Node,RBAC", APIServer: []string{
		"--emulated-version=1.33", "--feature-gates=AuthorizeNodeWithSelectors=false",
	}}, "authorization: {featureGates: {AuthorizeNodeWithSelectors: false}}\n", "node-1")
	w.create(t, object("v1", "Node", "", "node-2"))
	one := w.plane.Node("node-1")
	w.expect(t, one, "/api/v1/pods", http.StatusOK, "allow")
	w.expect(t, one, "/api/v1/nodes/node-2", http.StatusOK, "allow")
	w.expect(t, one, "/api/v1/secrets", http.StatusForbidden, "deny", "out-of-scope-secret-read")
	w.namespace(t, "accounts")
	w.create(t, pod("accounts", "runner", "node-1"))
	w.expect(t, one, "/api/v1/namespaces/accounts/serviceaccounts/default", http.StatusForbidden, "deny")
	testNameReused(t, w)
	testBooks(t, w)
}
