package trail

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// Options of a control plane with nodetrail next to it.
type Options struct {
	// Plane are the control plane's; flags and webhook are nodetrail's own from deploy/, and so is the policy unless there is one.
	Plane plane.Options
	// Program is nodetrail's path.
	Program string
	// Alertmanager is the address of one. Empty: there is none.
	Alertmanager string
	// Config are further lines of nodetrail's configuration.
	Config string
}

// Pair is a control plane with nodetrail next to it, as deploy/ and docs/ say: the audit log is followed, the audit webhook sends to it over TLS with
// client certificates, the state is live, by the rights and the token of a service account of its own, the API server's metrics are read, and it is
// asked who may read the pages.
type Pair struct {
	Plane *plane.Plane
	Trail *Instance
	// Dir holds certificates and kubeconfigs of nodetrail.
	Dir string
}

// Beside starts etcd, kube-apiserver and nodetrail. Controllers and kubelets are the caller's.
func Beside(ctx context.Context, w *plane.Work, name string, o Options) (*Pair, error) {
	root, err := plane.Root()
	if err != nil {
		return nil, err
	}
	p := &Pair{Dir: filepath.Join(w.Dir, name)}
	if err := os.Mkdir(p.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	webhook, err := NewWebhook(p.Dir)
	if err != nil {
		return nil, err
	}
	o.Plane.Policy = cmp.Or(o.Plane.Policy, filepath.Join(root, "deploy", "audit-policy.yaml"))
	o.Plane.Flags = filepath.Join(root, "deploy", "kube-apiserver.flags")
	o.Plane.AuditWebhook = webhook.Kubeconfig
	if p.Plane, err = plane.New(ctx, w, o.Plane); err != nil {
		return nil, err
	}
	if err := p.Plane.StartAPIServer(ctx); err != nil {
		return nil, err
	}
	token, kubeconfig, err := Rights(ctx, p.Plane, o.Program, p.Dir)
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`cluster: e2e
state: {live: {enabled: true, kubeconfig: %q}}
pages: {kubernetes: {enabled: true, kubeconfig: %q}}
coverage:
  policyFile: %q
  apiserverMetrics: {urls: ["https://%s/metrics"], every: 5s, bearerTokenFile: %q, tls: {enabled: true, caFile: %q}}
sources:
  files: [{paths: [%q]}]
  webhook: %s
sinks:
  jsonl: [{path: %q, verdicts: true}]
`, kubeconfig, kubeconfig, o.Plane.Policy, p.Plane.Address, token, filepath.Join(p.Plane.Dir, "ca.crt"), p.Plane.AuditLogPath(), webhook.Config, VerdictsPath(w, name))
	if o.Alertmanager != "" {
		config += fmt.Sprintf("  alertmanager: [{urls: [\"http://%s\"], alerts: findings}]\n", o.Alertmanager)
	}
	if p.Trail, err = New(w, o.Program, name, config+o.Config); err != nil {
		return nil, err
	}
	return p, p.Trail.StartReady(ctx)
}

// Webhook is an endpoint for the audit webhook that nodetrail is to serve.
type Webhook struct {
	// Kubeconfig is the API server's file, Config nodetrail's value, as YAML.
	Kubeconfig, Config string
	// Address, Cert, Key and CA are in Config: where it listens, and the paths of the server's certificate, its key and the clients' authority.
	Address, Cert, Key, CA string
}

// NewWebhook makes its certificates in the folder.
func NewWebhook(dir string) (*Webhook, error) {
	address, err := plane.FreeAddress()
	if err != nil {
		return nil, err
	}
	ca, err := plane.NewAuthority("nodetrail")
	if err != nil {
		return nil, err
	}
	caFile := filepath.Join(dir, "webhook-ca.crt")
	if err := os.WriteFile(caFile, ca.PEM, 0o600); err != nil {
		return nil, fmt.Errorf("writing the webhook's authority: %w", err)
	}
	server, err := ca.Server("nodetrail")
	if err != nil {
		return nil, err
	}
	cert, key, err := server.Write(dir, "webhook")
	if err != nil {
		return nil, err
	}
	client, err := ca.Client("kube-apiserver")
	if err != nil {
		return nil, err
	}
	h := &Webhook{Kubeconfig: filepath.Join(dir, "audit-webhook.kubeconfig"), Address: address, Cert: cert, Key: key, CA: caFile}
	h.Config = fmt.Sprintf("{listen: %q, tls: {certFile: %q, keyFile: %q, clientCAFile: %q, clientNames: [kube-apiserver]}}", address, cert, key, caFile)
	return h, plane.WebhookKubeconfig(h.Kubeconfig, "https://"+address+"/audit", caFile, client)
}

// Rights gives nodetrail a service account with the rights that it prints, and the right to read metrics. It returns the paths of a token and of a
// kubeconfig.
func Rights(ctx context.Context, p *plane.Plane, program, dir string) (token, kubeconfig string, err error) {
	rights, err := Run(ctx, program, "record", "--print-rbac", "--rbac-service-account", "nodetrail")
	if err != nil {
		return "", "", err
	}
	const more = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metrics-reader}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metrics-reader}
subjects: [{kind: ServiceAccount, namespace: nodetrail, name: nodetrail}]
---
`
	if err := p.Apply(ctx, []byte(more+strings.TrimPrefix(string(rights), "---\n"))); err != nil {
		return "", "", err
	}
	t, err := p.ServiceAccountToken(ctx, "nodetrail", "nodetrail")
	if err != nil {
		return "", "", err
	}
	token = filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(t), 0o600); err != nil {
		return "", "", fmt.Errorf("writing the token: %w", err)
	}
	kubeconfig, err = p.TokenKubeconfig("nodetrail", t)
	return token, kubeconfig, err
}
