package confined

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/result"
	"github.com/nodetrail/nodetrail/e2e/trail"
)

// cluster is a hardened control plane with nodetrail next to it.
type cluster struct {
	*trail.Pair
	name    string
	ctx     context.Context
	program string
	page    *page
	// held are the credentials of the nodes that joined.
	held   map[string]plane.Pair
	result result.Confined
	// known are the checks that steps have defeated.
	known []string
}

// minWindow is for how long everything must be proven.
const minWindow = time.Minute

// token is the bootstrap token of the nodes.
const token = "abcdef.0123456789abcdef"

// newCluster starts one with kubeadm's roles, bindings and ConfigMaps, and a bootstrap token. The audit policy is nodetrail's own unless there is one.
func newCluster(t *testing.T, name, policy string) *cluster {
	t.Helper()
	c := &cluster{name: name, ctx: work.Context(), page: readPage(t), held: map[string]plane.Pair{}}
	c.program = plane.Must(trail.Build(c.ctx, work))(t)
	// Evidence is kept by the hour: a node that joined at the end of one shows nothing of the next.
	if left := time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)); left < 5*time.Minute {
		t.Logf("the cluster starts in %s, with the hour", left.Round(time.Second))
		c.later(left)
	}
	config := fmt.Sprintf("readiness: {minWindow: %s}\nrules: {lateness: 10s}\nstore: {step: 10s}\n%s", minWindow, c.page.block(t, "yaml", "exceptions:"))
	c.Pair = plane.Must(trail.Beside(c.ctx, work, name, trail.Options{Plane: plane.Options{Mode: "Node,RBAC", Policy: policy}, Program: c.program, Config: config}))(t)
	plane.Check(t, c.Plane.Apply(c.ctx, []byte(kubeadm)))
	plane.Check(t, c.Plane.StartControllers(c.ctx))
	return c
}

// kubeadm is what kubeadm init makes for nodes that join, and a bootstrap token of kubeadm's kind.
const kubeadm = `
apiVersion: v1
kind: Secret
metadata: {namespace: kube-system, name: bootstrap-token-abcdef}
type: bootstrap.kubernetes.io/token
stringData: {token-id: abcdef, token-secret: 0123456789abcdef, usage-bootstrap-authentication: "true", auth-extra-groups: "system:bootstrappers:kubeadm:default-node-token"}
---
{apiVersion: v1, kind: ConfigMap, metadata: {namespace: kube-public, name: cluster-info}, data: {kubeconfig: "{}"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {namespace: kube-system, name: kubeadm-config}, data: {ClusterConfiguration: "{}"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {namespace: kube-system, name: kubelet-config}, data: {kubelet: "{}"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {namespace: kube-system, name: kube-proxy}, data: {config.conf: "{}"}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "kubeadm:kubelet-bootstrap"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:node-bootstrapper"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:bootstrappers:kubeadm:default-node-token"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "kubeadm:node-autoapprove-bootstrap"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:bootstrappers:kubeadm:default-node-token"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "kubeadm:node-autoapprove-certificate-rotation"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:nodes"}]
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: "kubeadm:get-nodes"}, rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "kubeadm:get-nodes"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "kubeadm:get-nodes"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:bootstrappers:kubeadm:default-node-token"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: kube-system, name: "kubeadm:nodes-kubeadm-config"}
rules: [{apiGroups: [""], resources: [configmaps], resourceNames: [kubeadm-config], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: kube-system, name: "kubeadm:nodes-kubeadm-config"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: "kubeadm:nodes-kubeadm-config"}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:bootstrappers:kubeadm:default-node-token"}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:nodes"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: kube-system, name: "kubeadm:kubelet-config"}
rules: [{apiGroups: [""], resources: [configmaps], resourceNames: [kubelet-config], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: kube-system, name: "kubeadm:kubelet-config"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: "kubeadm:kubelet-config"}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:nodes"}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:bootstrappers:kubeadm:default-node-token"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: kube-system, name: kube-proxy}
rules: [{apiGroups: [""], resources: [configmaps], resourceNames: [kube-proxy], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: kube-system, name: kube-proxy}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: kube-proxy}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:bootstrappers:kubeadm:default-node-token"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: kube-public, name: "kubeadm:bootstrap-signer-clusterinfo"}
rules: [{apiGroups: [""], resources: [configmaps], resourceNames: [cluster-info], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: kube-public, name: "kubeadm:bootstrap-signer-clusterinfo"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: "kubeadm:bootstrap-signer-clusterinfo"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:anonymous"}]
`

// live lets nodes join, and each of them run a pod with a secret.
func (c *cluster) live(t *testing.T, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		c.join(t, node)
	}
	plane.Check(t, c.Plane.NodesReady(c.ctx, nodes...))
	plane.Check(t, c.Plane.Apply(c.ctx, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n---\n"+
		"{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: db}, stringData: {key: value}}\n---\n"+
		"{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: root}, stringData: {key: value}}")))
	c.eventually(t, "there is a service account", func() error {
		var o struct{}
		return c.Plane.Admin().Get(c.ctx, "/api/v1/namespaces/shop/serviceaccounts/default", &o)
	})
	for _, node := range nodes {
		c.runs(t, "web-"+node, node)
	}
}

// join does what kubeadm join does with a machine: it reads with the bootstrap token how to join, and has the kubelet ask for a certificate with it.
func (c *cluster) join(t *testing.T, node string) {
	t.Helper()
	from := addresses()[node]
	for _, path := range []string{"/api/v1/namespaces/kube-public/configmaps/cluster-info"} {
		c.get(t, c.Plane.As(plane.Identity{From: from}).With(c.kubeadmAgent()), path, http.StatusOK)
	}
	join := c.Plane.As(plane.Identity{Token: token, From: from}).With(c.kubeadmAgent())
	for _, name := range []string{"kubeadm-config", "kube-proxy", "kubelet-config"} {
		c.get(t, join, "/api/v1/namespaces/kube-system/configmaps/"+name, http.StatusOK)
	}
	if r := plane.Must(join.Do(c.ctx, http.MethodGet, "/api/v1/nodes/"+node, nil))(t); r.Code != http.StatusNotFound && r.Code != http.StatusOK {
		t.Fatalf("kubeadm looks for the Node: %d", r.Code)
	}
	c.held[node] = c.certificate(t, c.Plane.As(plane.Identity{Token: token, From: from}), node)
	plane.Check(t, c.Plane.StartKubeletFrom(node, from, c.held[node]))
}

func (c *cluster) kubeadmAgent() string {
	return "kubeadm/" + c.Plane.Programs.Kubernetes + " (linux/amd64) kubernetes/e2e"
}

func (c *cluster) get(t *testing.T, client *plane.Client, path string, code int) {
	t.Helper()
	if r := plane.Must(client.Do(c.ctx, http.MethodGet, path, nil))(t); r.Code != code {
		t.Fatalf("GET %s: %d %.200s", path, r.Code, r.Body)
	}
}

const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// ask asks for a node's certificate as somebody, and returns the request's name and the key.
func (c *cluster) ask(t *testing.T, as *plane.Client, node string) (name string, key []byte) {
	t.Helper()
	private := plane.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	subject := pkix.Name{CommonName: plane.NodeIdentity(node).User, Organization: plane.NodeIdentity(node).Groups}
	der := plane.Must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, private))(t)
	var made struct{ Metadata struct{ Name string } }
	plane.Check(t, as.Post(c.ctx, requests, map[string]any{
		"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": map[string]any{"generateName": "csr-"},
		"spec": map[string]any{
			"request": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
			"usages": []string{"digital signature", "client auth"},
		},
	}, &made))
	return made.Metadata.Name, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: plane.Must(x509.MarshalPKCS8PrivateKey(private))(t)})
}

// certificate asks for one and waits until it is issued, as a kubelet does.
func (c *cluster) certificate(t *testing.T, as *plane.Client, node string) plane.Pair {
	t.Helper()
	name, key := c.ask(t, as, node)
	return c.issued(t, as, name, key)
}

// issued waits for the certificate.
func (c *cluster) issued(t *testing.T, as *plane.Client, name string, key []byte) plane.Pair {
	t.Helper()
	var request struct {
		Items []struct{ Status struct{ Certificate []byte } }
	}
	c.eventually(t, "certificate request "+name+" is signed", func() error {
		if err := as.Get(c.ctx, requests+"?fieldSelector=metadata.name%3D"+name, &request); err != nil {
			return err
		}
		if len(request.Items) != 1 || len(request.Items[0].Status.Certificate) == 0 {
			return fmt.Errorf("it is not: %+v", request.Items)
		}
		return nil
	})
	return plane.Pair{Cert: request.Items[0].Status.Certificate, Key: key}
}

// probe asks as an administrator, in the name of a node, for what NodeRestriction refuses: a dry run.
func (c *cluster) probe(t *testing.T) *plane.Reply {
	t.Helper()
	path, body, user, group := c.page.probe(t)
	return plane.Must(c.Plane.Admin().Acting(user, group).Do(c.ctx, http.MethodPost, path, body))(t)
}

// runs makes a pod with a secret on a node and waits until its kubelet says that it runs.
func (c *cluster) runs(t *testing.T, name, node string) {
	t.Helper()
	plane.Check(t, c.Plane.Apply(c.ctx, fmt.Appendf(nil, `{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: %s}, spec: {nodeName: %s,
  containers: [{name: main, image: registry.example/main}], volumes: [{name: db, secret: {secretName: db}}]}}`, name, node)))
	c.eventually(t, "pod "+name+" runs", func() error {
		var p struct{ Status struct{ Phase string } }
		if err := c.Plane.Admin().Get(c.ctx, "/api/v1/namespaces/shop/pods/"+name, &p); err != nil {
			return err
		}
		if p.Status.Phase != "Running" {
			return fmt.Errorf("it is %s", p.Status.Phase)
		}
		return nil
	})
}

// stored is the report of run's store on the time that is asked for.
func (c *cluster) stored() (*trail.Report, error) {
	return c.Trail.Report(c.ctx, "--window", minWindow.String())
}

// analyzed is the report of analyze on the audit log up to a moment, with the state that run has learned.
func (c *cluster) analyzed(until time.Time, more ...string) (*trail.Report, error) {
	args := []string{"analyze", "--state", c.stateDir(), "--audit-policy", c.Plane.Options.Policy, c.Plane.AuditLogPath()}
	return c.run(append(append(args, forTest(until)...), more...)...)
}

func (c *cluster) stateDir() string { return filepath.Join(work.Dir, c.name+"-data", "state") }

// forTest are flags of analyze for a test, which has minutes.
func forTest(until time.Time) []string {
	return []string{"-o", "json", "--min-window", minWindow.String(), "--until", until.UTC().Format(time.RFC3339Nano)}
}

// run runs a command of nodetrail, which has to succeed and to print a report.
func (c *cluster) run(args ...string) (*trail.Report, error) {
	out, err := trail.Run(c.ctx, c.program, args...)
	if err != nil {
		return nil, err
	}
	return trail.ParseReport(out)
}

// failed are the checks of the second question that failed, in order.
func failed(r *trail.Report) (out []string) {
	for i := range r.Confinement.Checks {
		if x := &r.Confinement.Checks[i]; x.State == "failed" {
			out = append(out, x.Name)
		}
	}
	slices.Sort(out)
	return out
}

// open are the checks of both questions that did not pass, with what is wrong.
func open(r *trail.Report) string {
	var out []string
	for _, c := range slices.Concat(r.Readiness.Checks, r.Confinement.Checks) {
		for _, i := range c.Evidence {
			if line := fmt.Sprintf("%s %s: %s", c.Name, i.State, i.Message); i.State != "passed" && !slices.Contains(out, line) {
				out = append(out, line)
			}
		}
	}
	return strings.Join(out, "\n  ")
}

func (c *cluster) eventually(t *testing.T, what string, ok func() error) {
	t.Helper()
	plane.Check(t, plane.Eventually(c.ctx, what, func() error {
		if err := c.Trail.Process.Alive(); err != nil {
			return plane.Fatal(err)
		}
		return ok()
	}))
}

func (c *cluster) later(d time.Duration) {
	select {
	case <-c.ctx.Done():
	case <-time.After(d):
	}
}
