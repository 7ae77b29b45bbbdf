package nodeadmission

import (
	"crypto/x509"
	"encoding/pem"
)

// signingRequests is admitCSR.
func (e *eval) signingRequests() Answer {
	if e.op != opCreate || e.a.version.gates.insecureCSR {
		return allowed()
	}
	var body struct {
		Spec struct {
			SignerName string `json:"signerName"`
			Request    []byte `json:"request"`
		} `json:"spec"`
	}
	if !decode(e.req.Body, &body) {
		return unknown(MissingBody)
	}
	switch body.Spec.SignerName {
	case "kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet":
	default:
		return allowed()
	}
	block, _ := pem.Decode(body.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return e.forbid(formCSRParse, "PEM block type must be CERTIFICATE REQUEST")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return e.forbid(formCSRParse, err)
	}
	if csr.Subject.CommonName != "system:node:"+e.req.Node {
		return e.forbid(formCSR, e.req.Node)
	}
	return allowed()
}
