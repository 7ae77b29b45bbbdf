package rules

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// The signers of Kubernetes whose certificates a node may have (k8s.io/api/certificates/v1).
const (
	signerClient  = "kubernetes.io/kube-apiserver-client"
	signerKubelet = "kubernetes.io/kube-apiserver-client-kubelet"
	signerServing = "kubernetes.io/kubelet-serving"
)

// maxSANs bounds the alternative names of a request that are kept. Its length is not bounded here: who asks chooses it, the API server signs it however
// long it is, and no event is longer than the bound of events.
const maxSANs = 256

// Signing is what the body of an event tells of a CertificateSigningRequest. It shares no memory with the event.
type Signing struct {
	// Key is the same in all events of one request: of what is to be signed, and for whom.
	Key string
	// Name is the object's, empty on creation with generateName. It is there whether the body is whole or not, and so are Absent and Cut.
	Name string
	// Absent says that the log has no body, Cut that it has none because the event was too long.
	Absent bool `json:",omitempty"`
	Cut    bool `json:",omitempty"`
	Signer string
	// User is who asked for it.
	User string
	// CommonName, Organizations and Names are of what is to be signed; Names are its alternative names of any kind.
	CommonName    string
	Organizations []string
	Names         []string
	// Approved says that the body has the condition Approved, or may have it where it is not whole. Certificate is the credential ID of the certificate in it, such as X509SHA256=…
	Approved    bool
	Certificate string
}

// Node is the node whose identity the certificate is to have; empty for none.
func (s *Signing) Node() string {
	name, is := strings.CutPrefix(s.CommonName, nodeid.UserPrefix)
	if !is {
		return ""
	}
	return name
}

// Client reports whether the signer's certificates identify clients of the API server.
func (s *Signing) Client() bool { return s.Signer == signerClient || s.Signer == signerKubelet }

// private reports whether the signer is none that gives the certificates of kubelets and of clients of the API server. What trusts its certificates is not known.
func (s *Signing) private() bool { return !s.Client() && s.Signer != signerServing }

// ofNode reports whether the certificate is one of a node, whoever asks for it: its common name or its group is.
func (s *Signing) ofNode() bool {
	return s.Node() != "" || slices.Contains(s.Organizations, user.NodesGroup)
}

// signingRead is what was read of a body.
type signingRead struct {
	Signing
	whole bool
}

// Signing returns the CertificateSigningRequest in the body of a request that [audit.Signs] reports. It is false where the body is missing, is a patch,
// or is no request that can be signed. The body is read once, however many ask. The caller must not change what it returns.
func (r *Request) Signing() (s *Signing, whole bool) {
	if r.signing == nil {
		r.signing = &signingRead{}
		r.signing.Signing, r.signing.whole = signingOf(r.Event)
	}
	return &r.signing.Signing, r.signing.whole
}

func signingOf(ev *audit.Event) (Signing, bool) {
	var body struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Request    []byte `json:"request"`
			SignerName string `json:"signerName"`
			Username   string `json:"username"`
		} `json:"spec"`
		Status struct {
			Conditions []struct {
				Type   string `json:"type"`
				Status string `json:"status"`
			} `json:"conditions"`
			Certificate []byte `json:"certificate"`
		} `json:"status"`
	}
	raw := ev.RequestObject
	s := Signing{Name: bounded(ev.ObjectRef.Name, maxRemembered), Absent: len(raw) == 0}
	s.Cut = s.Absent && (ev.Cut || ev.ReducedFrom > 0 && ev.ResponseBytes == 0)
	if ev.Verb == "patch" { // what it says of the rest is not stored, and how it says something is the client's choice
		s.Approved = bytes.Contains(raw, []byte("Approved")) || bytes.Contains(raw, []byte(`\u`))
		return s, false
	}
	unread := s
	unread.Approved = !s.Absent
	if s.Absent || json.Unmarshal(raw, &body) != nil {
		return unread, false
	}
	s.Name, s.Signer, s.User = cmp.Or(s.Name, bounded(body.Metadata.Name, maxRemembered)), body.Spec.SignerName, body.Spec.Username
	if ev.Verb == "create" {
		s.User = strings.Clone(ev.Effective().Username) // what the client says is ignored
	}
	block, _ := pem.Decode(body.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return unread, false
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return unread, false
	}
	s.CommonName, s.Organizations = csr.Subject.CommonName, csr.Subject.Organization
	s.Names = append(s.Names, csr.DNSNames...)
	for _, ip := range csr.IPAddresses {
		s.Names = append(s.Names, ip.String())
	}
	s.Names = append(s.Names, csr.EmailAddresses...)
	for _, u := range csr.URIs {
		s.Names = append(s.Names, u.String())
	}
	if more := len(s.Names) - maxSANs + 1; more > 1 { // those that are left out are names too, and none of a Node
		s.Names = append(slices.Clip(s.Names[:maxSANs-1]), fmt.Sprintf("%d others", more))
	}
	for i := range s.Names {
		s.Names[i] = bounded(s.Names[i], maxRemembered)
	}
	sum := sha256.Sum256(slices.Concat(block.Bytes, []byte{0}, []byte(s.Signer), []byte{0}, []byte(s.User)))
	s.Key = hex.EncodeToString(sum[:16])
	for _, c := range body.Status.Conditions {
		s.Approved = s.Approved || c.Type == "Approved" && c.Status != "False"
	}
	// Who does not decode: the API server's ID is of the certificate's own bytes (k8s.io/apiserver/pkg/authentication/request/x509).
	if leaf, _ := pem.Decode(bytes.TrimSpace(body.Status.Certificate)); leaf != nil && leaf.Type == "CERTIFICATE" {
		id := sha256.Sum256(leaf.Bytes)
		s.Certificate = certCredential + hex.EncodeToString(id[:])
	}
	return s, true
}

// CertificateHash is the hash in the ID of a credential that is a certificate; is is false for others.
func CertificateHash(id string) (hash string, is bool) { return strings.CutPrefix(id, certCredential) }

// DryRun reports whether the request changes nothing by its own wish.
func DryRun(ev *audit.Event) bool {
	_, query, is := strings.Cut(ev.RequestURI, "?")
	if !is || !strings.Contains(query, "dryRun") {
		return false
	}
	values, err := url.ParseQuery(query)
	return err == nil && values.Has("dryRun")
}
