package days

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"time"
)

const (
	bootstrapGroup = "system:bootstrappers:kubeadm:default-node-token"
	nodesRole      = "kubeadm:nodes-kubeadm-config"
	kubeletRole    = "kubeadm:kubelet-config"
)

// kubeadmRBAC are kubeadm's own roles and bindings.
func (s *sim) kubeadmRBAC(at time.Time) []map[string]any {
	group := func(name string) map[string]any { return subject("Group", "", name) }
	return []map[string]any{
		role(s.Rand, "kube-system", nodesRole, at, rule("get", "", "configmaps", "kubeadm-config")),
		role(s.Rand, "kube-system", kubeletRole, at, rule("get", "", "configmaps", "kubelet-config")),
		role(s.Rand, "kube-public", "kubeadm:bootstrap-signer-clusterinfo", at, rule("get", "", "configmaps", "cluster-info")),
		role(s.Rand, "", "kubeadm:get-nodes", at, rule("get", "", "nodes")),
		binding(s.Rand, "kube-system", nodesRole, nodesRole, at, group(bootstrapGroup), group("system:nodes")),
		binding(s.Rand, "kube-system", kubeletRole, kubeletRole, at, group("system:nodes"), group(bootstrapGroup)),
		binding(s.Rand, "kube-public", "kubeadm:bootstrap-signer-clusterinfo", "kubeadm:bootstrap-signer-clusterinfo", at, subject("User", "", "system:anonymous")),
		binding(s.Rand, "", "kubeadm:get-nodes", "kubeadm:get-nodes", at, group(bootstrapGroup)),
		binding(s.Rand, "", "kubeadm:kubelet-bootstrap", "system:node-bootstrapper", at, group(bootstrapGroup)),
		binding(s.Rand, "", "kubeadm:node-autoapprove-bootstrap", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", at, group(bootstrapGroup)),
		binding(s.Rand, "", "kubeadm:node-autoapprove-certificate-rotation", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", at,
			group("system:nodes")),
		role(s.Rand, "kube-system", "kube-proxy", at, rule("get", "", "configmaps", "kube-proxy")),
		binding(s.Rand, "kube-system", "kube-proxy", "kube-proxy", at, group(bootstrapGroup)),
	}
}

// bootstrap writes kubeadm join's first half: what a bootstrap token reads, and the certificate that the kubelet gets by it.
func (s *sim) bootstrap(x *session) {
	n, at := x.node, x.from.Add(-8*second)
	user := &User{Username: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers", bootstrapGroup, "system:authenticated"}}
	ips := x.ips
	kubeadm := &client{user: user, agent: agent("kubeadm", x.minor, "linux/amd64", ""), ips: ips, server: x.server}
	anonymous := *kubeadm
	anonymous.user = &User{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}
	anonymous.reason = allowedBy("RoleBinding", "kubeadm:bootstrap-signer-clusterinfo/kube-public", "Role", "kubeadm:bootstrap-signer-clusterinfo",
		`User "system:anonymous"`)
	s.request(&anonymous, at, "get", resConfigMaps, "kube-public", "cluster-info", "", "timeout=10s", 200)
	as := func(kind, binding, role string) *client {
		c, roleKind := *kubeadm, "ClusterRole"
		if kind == "RoleBinding" {
			role, roleKind = binding, "Role"
			binding += "/kube-system"
		}
		c.reason = allowedBy(kind, binding, roleKind, role, `Group "`+bootstrapGroup+`"`)
		return &c
	}
	s.request(as("RoleBinding", nodesRole, ""), at.Add(40*milli), "get", resConfigMaps, "kube-system", "kubeadm-config", "", "timeout=10s", 200)
	s.request(as("RoleBinding", kubeletRole, ""), at.Add(60*milli), "get", resConfigMaps, "kube-system", "kubelet-config", "", "timeout=10s", 200)
	s.request(as("RoleBinding", "kube-proxy", ""), at.Add(50*milli), "get", resConfigMaps, "kube-system", "kube-proxy", "", "timeout=10s", 200)
	s.request(as("ClusterRoleBinding", "kubeadm:get-nodes", "kubeadm:get-nodes"), at.Add(80*milli), "get", resNodes, "", n.name, "", "timeout=10s", 404)
	boot := as("ClusterRoleBinding", "kubeadm:kubelet-bootstrap", "system:node-bootstrapper")
	boot.agent = x.agent
	s.certificate(boot, at.Add(4*second), n, x.user)
}

// certificate writes a kubelet's CSR, its approval, the certificate that next has, and how the kubelet waits for it.
func (s *sim) certificate(c *client, at time.Time, n *node, next *User) {
	name := "csr-" + hexString(s.Rand, 5)
	bodies := signing{node: n.name, name: name, user: c.user, certificate: next.certificate}
	s.request(c, at, "create", resCSRs, "", name, "", "", 201).Request = bodies.created()
	s.watch(c, at.Add(8*milli), at.Add(140*milli), resCSRs, "", name, "metadata.name="+name, 5*minute+30*second, !listsFirst(s.opts.Minor))
	by := s.controller("certificate-controller", at)
	s.request(by, at.Add(40*milli), "update", resCSRs, "", name, "approval", "", 200).Request = bodies.written(false)
	s.request(by, at.Add(120*milli), "update", resCSRs, "", name, "status", "", 200).Request = bodies.written(true)
}

// signing is a CertificateSigningRequest for a node.
type signing struct {
	node, name  string
	user        *User
	certificate []byte
}

// created is the body by which it is created.
func (x *signing) created() []byte {
	return fmt.Appendf(nil, `{"kind":"CertificateSigningRequest","apiVersion":"certificates.k8s.io/v1","metadata":{"name":%q},"spec":{"request":%q,`+
		`"signerName":"kubernetes.io/kube-apiserver-client-kubelet","usages":["digital signature","client auth"]},"status":{}}`, x.name,
		base64.StdEncoding.EncodeToString(signingRequest(x.node, x.name)))
}

// written is the body by which it is approved, or signed, which holds all of it.
func (x *signing) written(signed bool) []byte {
	certificate := ""
	if signed {
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: x.certificate})
		certificate = fmt.Sprintf(`,"certificate":%q`, base64.StdEncoding.EncodeToString(text))
	}
	return fmt.Appendf(nil, `{"kind":"CertificateSigningRequest","apiVersion":"certificates.k8s.io/v1","metadata":{"name":%q},"spec":{"request":%q,`+
		`"signerName":"kubernetes.io/kube-apiserver-client-kubelet","usages":["digital signature","client auth"],"username":%q,"groups":["system:authenticated"]},`+
		`"status":{"conditions":[{"type":"Approved","status":"True","reason":"AutoApproved"}]%s}}`, x.name,
		base64.StdEncoding.EncodeToString(signingRequest(x.node, x.name)), x.user.Username, certificate)
}

// signingRequest is what the kubelet of a node asks to be signed, in PEM, the same for the same node and name.
func signingRequest(node, name string) []byte {
	seed := sha256.Sum256([]byte(node + "/" + name))
	der, err := x509.CreateCertificateRequest(nil, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
	}, ed25519.NewKeyFromSeed(seed[:])) // signs without random numbers
	if err != nil {
		panic(err) // only for a key or a name that cannot be encoded
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// afterJoin writes kubeadm join's last step, with the kubelet's new credential: it notes the container runtime on the Node, after it has read its
// configuration again.
func (s *sim) afterJoin(x *session, at time.Time) {
	c := x.client(false)
	c.agent = agent("kubeadm", x.minor, "linux/amd64", "")
	s.request(c, at.Add(500*milli), "get", resNodes, "", x.node.name, "", "timeout=10s", 200)
	s.request(c, at.Add(520*milli), "patch", resNodes, "", x.node.name, "", "timeout=10s", 200)
}

// afterUpgrade writes what kubeadm upgrade node reads with the kubelet's credential. kubeadm's own bindings give that, but RBAC looks at ClusterRoleBindings first.
func (s *sim) afterUpgrade(x *session) {
	c := x.client(false)
	c.agent = agent("kubeadm", x.minor, "linux/amd64", "")
	for i, name := range []string{nodesRole, kubeletRole} {
		if c.reason = allowedBy("RoleBinding", name+"/kube-system", "Role", name, toNodes); !s.opts.NoBinding {
			c.reason = allowedBy("ClusterRoleBinding", legacyBinding, "ClusterRole", "system:node", toNodes)
		}
		s.request(c, x.from.Add(-time.Duration(4-i)*second), "get", resConfigMaps, "kube-system", []string{"kubeadm-config", "kubelet-config"}[i], "", "timeout=10s", 200)
	}
}
