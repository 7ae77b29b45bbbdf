package scenarios

import (
	"net/http"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// An API server that acts as the oldest minor that it can, with a gate set otherwise than there: nodetrail is given neither, and finds both in the log.
// Up to 1.36 the gate is the one that makes nodes name themselves in selectors, so that what is denied by default is allowed; 1.37 does not have it,
// and acts as 1.34 without service accounts for nodes.
//
// Seen to fail with an authorizer that wants selectors whatever the gate, and with hypotheses of no emulated version.
func TestEmulatedVersion(t *testing.T) {
	if !has(t, "emulated version", 31) {
		return
	}
	version, gate := "1.33", "AuthorizeNodeWithSelectors"
	code, verdict, found := http.StatusOK, "allow", []string(nil)
	if running(t) >= 37 {
		version, gate = "1.34", "KubeletServiceAccountTokenForCredentialProviders"
		code, verdict, found = http.StatusForbidden, "deny", []string{"node-credential-misuse"}
	}
	w := newWorld(t, "emulated", plane.Options{Mode: "Node,RBAC", APIServer: []string{
		"--emulated-version=" + version, "--feature-gates=" + gate + "=false",
	}}, "", "node-1")
	w.create(t, object("v1", "Node", "", "node-2"))
	one := w.plane.Node("node-1")
	w.expect(t, one, "/api/v1/pods", code, verdict, found...)
	w.expect(t, one, "/api/v1/nodes/node-2", code, verdict, found...)
	w.expect(t, one, "/api/v1/secrets", http.StatusForbidden, "deny", "node-credential-misuse", "out-of-scope-secret-read")
	w.namespace(t, "accounts")
	w.create(t, pod("accounts", "runner", "node-1"))
	w.expect(t, one, "/api/v1/namespaces/accounts/serviceaccounts/default", http.StatusForbidden, "deny")
	w.expect(t, one, "/apis/certificates.k8s.io/v1/podcertificaterequests?fieldSelector=spec.nodeName%3Dnode-1", http.StatusForbidden, "deny")
	testNameReused(t, w)
	testBooks(t, w)
}
