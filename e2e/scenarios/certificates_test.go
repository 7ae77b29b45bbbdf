package scenarios

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"net/http"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

const meshSigner = "mesh.example/workload"

// A node asks for the certificate of its pod and follows that request, which is for no other node to read. The API is on by default since 1.37.
//
// Seen to fail with a graph without the edges of certificate requests.
func TestPodCertificates(t *testing.T) {
	if !has(t, "pod certificates", 37) {
		return
	}
	w := newWorld(t, "certificates", plane.Options{Mode: "Node,RBAC"}, "", "node-1")
	w.create(t, object("v1", "Node", "", "node-2"))
	w.namespace(t, "mesh")
	proxy := pod("mesh", "proxy", "node-1")
	proxy["spec"].(map[string]any)["volumes"] = []any{map[string]any{"name": "certificate", "projected": map[string]any{"sources": []any{
		map[string]any{"podCertificate": map[string]any{"signerName": meshSigner, "keyType": "ED25519", "credentialBundlePath": "bundle.pem"}},
	}}}}
	w.create(t, proxy)
	one, two := w.plane.Node("node-1"), w.plane.Node("node-2")

	const group, requests = "certificates.k8s.io/v1", "/apis/certificates.k8s.io/v1/podcertificaterequests"
	const mine = "/apis/certificates.k8s.io/v1/namespaces/mesh/podcertificaterequests"
	_, key, err := ed25519.GenerateKey(rand.Reader)
	plane.Check(t, err)
	request := with(object(group, "PodCertificateRequest", "mesh", "proxy"), "spec", map[string]any{
		"signerName": meshSigner, "maxExpirationSeconds": 3600,
		"podName": "proxy", "podUID": w.uid(t, podPath("mesh", "proxy")),
		"serviceAccountName": "default", "serviceAccountUID": w.uid(t, "/api/v1/namespaces/mesh/serviceaccounts/default"),
		"nodeName": "node-1", "nodeUID": w.uid(t, "/api/v1/nodes/node-1"),
		"stubPKCS10Request": plane.Must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key))(t),
	})
	var made *plane.Reply
	w.eventually(t, "the API server has seen the pod and takes the request", func() error {
		made, err = one.Must(w.ctx, http.MethodPost, mine, request)
		return err
	})
	if a := w.verdictOn(t, "POST "+mine, made); a.verdict.Verdict != "allow" {
		t.Errorf("POST %s: %s", mine, a.verdict.Verdict)
	}
	w.expect(t, one, mine+"/proxy", http.StatusOK, "allow")
	w.expect(t, two, mine+"/proxy", http.StatusForbidden, "deny", "node-credential-misuse") // a kubelet lists and watches its own ones alone
	w.expect(t, one, requests+"?fieldSelector=spec.nodeName%3Dnode-1", http.StatusOK, "allow")
	w.expect(t, two, requests+"?fieldSelector=spec.nodeName%3Dnode-1", http.StatusForbidden, "deny", "node-credential-misuse") // a kubelet lists and watches its own ones alone
	w.admin(t, http.MethodDelete, mine+"/proxy", nil)
	w.expect(t, one, mine+"/proxy", http.StatusForbidden, "deny", "node-credential-misuse")
	testBooks(t, w)
}
