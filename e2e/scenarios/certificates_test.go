package scenarios

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"net/http"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// A node asks for the certificate of its pod and follows that request, which is for no other node to read. The API is off by default, and older minors
// have it in other versions or not at all: this is the newest's test.
//
// Seen to fail with a graph without the edges of certificate requests.
func TestPodCertificates(t *testing.T) {
	w := newWorld(t, "certificates", plane.Options{Mode: "Node,RBAC", APIServer: []string{
		"--feature-gates=PodCertificateRequest=true", "--runtime-config=certificates.k8s.io/v1beta1=true",
	}}, "authorization: {kubernetesVersion: \"1.36\", featureGates: {PodCertificateRequest: true}}\n", "node-1")
	w.create(t, object("v1", "Node", "", "node-2"))
	w.namespace(t, "mesh")
	w.create(t, pod("mesh", "proxy", "node-1"))
	one, two := w.plane.Node("node-1"), w.plane.Node("node-2")

	const group, requests = "certificates.k8s.io/v1beta1", "/apis/certificates.k8s.io/v1beta1/podcertificaterequests"
	const mine = "/apis/certificates.k8s.io/v1beta1/namespaces/mesh/podcertificaterequests"
	uid := w.uid(t, podPath("mesh", "proxy"))
	public, private, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	request := with(object(group, "PodCertificateRequest", "mesh", "proxy"), "spec", map[string]any{
		"signerName": "mesh.example/workload", "maxExpirationSeconds": 3600,
		"podName": "proxy", "podUID": uid,
		"serviceAccountName": "default", "serviceAccountUID": w.uid(t, "/api/v1/namespaces/mesh/serviceaccounts/default"),
		"nodeName": "node-1", "nodeUID": w.uid(t, "/api/v1/nodes/node-1"),
		"pkixPublicKey": must(x509.MarshalPKIXPublicKey(public))(t), "proofOfPossession": ed25519.Sign(private, []byte(uid)),
	})
	var made *plane.Reply
	w.eventually(t, "the apiserver has seen the pod and takes the request", func() error {
		made, err = one.Must(w.ctx, http.MethodPost, mine, request)
		return err
	})
	if a := w.verdictOn(t, "POST "+mine, made); a.verdict.Verdict != "allow" {
		t.Errorf("POST %s: %s", mine, a.verdict.Verdict)
	}
	w.expect(t, one, mine+"/proxy", http.StatusOK, "allow")
	w.expect(t, two, mine+"/proxy", http.StatusForbidden, "deny")
	w.expect(t, one, requests+"?fieldSelector=spec.nodeName%3Dnode-1", http.StatusOK, "allow")
	w.expect(t, two, requests+"?fieldSelector=spec.nodeName%3Dnode-1", http.StatusForbidden, "deny")
	w.admin(t, http.MethodDelete, mine+"/proxy", nil)
	w.expect(t, one, mine+"/proxy", http.StatusForbidden, "deny")
	testBooks(t, w)
}
