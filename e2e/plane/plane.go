package plane

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Options of a control plane.
type Options struct {
	// Policy is the audit policy's file.
	Policy string
	// Flags is a file with flags of kube-apiserver as deploy/kube-apiserver.flags has them; paths in it are replaced.
	Flags string
	// AuditWebhook is a kubeconfig's path for the audit webhook. Empty: there is none.
	AuditWebhook string
	// AuditLogMegabytes is after how much the audit log is rotated. 0: never, in practice.
	AuditLogMegabytes int
	// Mode is the --authorization-mode.
	Mode string
	// APIServer are further flags of kube-apiserver.
	APIServer []string
	// Unrestricted says that the admission plugin NodeRestriction is off.
	Unrestricted bool
	// First are those of the first of several API servers, whose host name is Host; [Plane.AddAPIServer] adds others. Nil: there is one, of the version
	// of all programs and with the machine's host name.
	First *Programs
	Host  string
}

// Plane is a control plane that runs.
type Plane struct {
	Programs *Programs
	Options  Options
	// Address is the API server's. CA signs everybody's certificates.
	Address string
	CA      *Authority
	// Dir holds keys and kubeconfigs, the audit log among them.
	Dir string
	// Log is what the API server has written for auditing.
	Log *AuditLog

	work       *Work
	etcd       string
	server     *Process
	balancer   *balancer
	saKey      string
	transports *transports
	// logs are the files of the API servers' own logs, in the order in which they were started.
	logs []string
	// Kubelets are the hollow kubelets by node name.
	Kubelets map[string]*Process
}

// New makes certificates and starts etcd. [Plane.StartAPIServer] comes next.
func New(ctx context.Context, w *Work, o Options) (*Plane, error) {
	programs, err := Build(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(w.Dir, "plane-")
	if err != nil {
		return nil, fmt.Errorf("making the control plane's folder: %w", err)
	}
	p := &Plane{Programs: programs, Options: o, Dir: dir, work: w, Kubelets: map[string]*Process{}, Log: &AuditLog{path: filepath.Join(dir, "audit.log")}}
	if err := p.keys(); err != nil {
		return nil, err
	}
	p.transports = &transports{plane: p, byUser: map[string]*http.Transport{}}
	if p.Address, err = FreeAddress(); err != nil {
		return nil, err
	}
	if err := p.startEtcd(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// AuditLogPath is where the API server writes its audit log.
func (p *Plane) AuditLogPath() string { return p.Log.path }

func (p *Plane) file(name string) string { return filepath.Join(p.Dir, name) }

func (p *Plane) keys() error {
	var err error
	if p.CA, err = NewAuthority("nodetrail-e2e"); err != nil {
		return err
	}
	if err := os.WriteFile(p.file("ca.crt"), p.CA.PEM, 0o600); err != nil {
		return fmt.Errorf("writing the authority: %w", err)
	}
	key, err := p.CA.Key()
	if err != nil {
		return err
	}
	if err := os.WriteFile(p.file("ca.key"), key, 0o600); err != nil {
		return fmt.Errorf("writing the authority's key: %w", err)
	}
	pair, err := p.CA.Server("kube-apiserver", "kubernetes", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	if _, _, err := pair.Write(p.Dir, "apiserver"); err != nil {
		return err
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("making the key of service accounts: %w", err)
	}
	p.saKey = p.file("sa.key")
	if err := os.WriteFile(p.saKey, pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey)), 0o600); err != nil {
		return fmt.Errorf("writing the key of service accounts: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(rsaKey.Public())
	if err != nil {
		return fmt.Errorf("writing the key of service accounts: %w", err)
	}
	return os.WriteFile(p.file("sa.pub"), pemOf("PUBLIC KEY", public), 0o600)
}

func (p *Plane) startEtcd(ctx context.Context) error {
	peer, err := FreeAddress()
	if err != nil {
		return err
	}
	if p.etcd, err = FreeAddress(); err != nil {
		return err
	}
	etcd, err := p.work.Start("etcd", p.Programs.path("etcd"), []string{
		"--data-dir=" + p.file("etcd"), "--listen-client-urls=http://" + p.etcd, "--advertise-client-urls=http://" + p.etcd,
		"--listen-peer-urls=http://" + peer, "--initial-advertise-peer-urls=http://" + peer, "--initial-cluster=default=http://" + peer,
		"--unsafe-no-fsync", "--log-level=warn",
	})
	if err != nil {
		return err
	}
	return Eventually(ctx, "etcd is healthy", func() error {
		if err := etcd.Alive(); err != nil {
			return Fatal(err)
		}
		return OK("http://" + p.etcd + "/health")
	})
}

// StartAPIServer starts kube-apiserver and waits until it is ready. It may be called again after [Plane.StopAPIServer], with other Options.
func (p *Plane) StartAPIServer(ctx context.Context) (err error) {
	if p.Options.First != nil {
		if p.balancer, err = newBalancer(p.Address); err != nil {
			return err
		}
		p.server, err = p.AddAPIServer(ctx, p.Options.First, p.Options.Host)
		return err
	}
	p.server, err = p.startAPIServer(ctx, p.Programs, p.Address, "")
	return err
}

// AddAPIServer starts another kube-apiserver on the same etcd, of any version, as a rolling upgrade does, and waits until it is ready. Clients come to
// all of them in turn. Its host name is its own, since the name of its identity Lease is a hash of that. [Plane.RemoveAPIServer] ends it.
func (p *Plane) AddAPIServer(ctx context.Context, programs *Programs, host string) (*Process, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	server, err := p.startAPIServer(ctx, programs, address, host)
	if err == nil {
		p.balancer.add(address, server)
	}
	return server, err
}

// RemoveAPIServer sends no more clients to a kube-apiserver and ends it.
func (p *Plane) RemoveAPIServer(server *Process) {
	p.balancer.remove(server)
	server.Stop(time.Minute)
}

// startAPIServer starts one; without a host name it has the machine's.
func (p *Plane) startAPIServer(ctx context.Context, programs *Programs, address, host string) (*Process, error) {
	args := []string{
		"--etcd-servers=http://" + p.etcd, "--bind-address=127.0.0.1", "--secure-port=" + portOf(address),
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--client-ca-file=" + p.file("ca.crt"), "--tls-cert-file=" + p.file("apiserver.crt"), "--tls-private-key-file=" + p.file("apiserver.key"),
		"--service-account-key-file=" + p.file("sa.pub"), "--service-account-signing-key-file=" + p.saKey,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged",
		"--enable-bootstrap-token-auth", "--authorization-mode=" + p.Options.Mode,
		"--audit-log-path=" + p.AuditLogPath(), "--audit-policy-file=" + p.Options.Policy,
		// Otherwise it waits a minute for watches to end when it is stopped.
		"--shutdown-watch-termination-grace-period=2s",
		// Refusals of the Node authorizer are logged from 2 on.
		"--v=2",
	}
	if !p.Options.Unrestricted {
		args = append(args, "--enable-admission-plugins=NodeRestriction")
	}
	if mb := p.Options.AuditLogMegabytes; mb > 0 {
		args = append(args, fmt.Sprintf("--audit-log-maxsize=%d", mb))
	} else {
		args = append(args, "--audit-log-maxsize=10000")
	}
	if p.Options.AuditWebhook != "" {
		args = append(args, "--audit-webhook-config-file="+p.Options.AuditWebhook)
		flags, err := flagsOf(p.Options.Flags)
		if err != nil {
			return nil, err
		}
		args = append(args, flags...)
	}
	path, args := programs.path("kube-apiserver"), append(args, p.Options.APIServer...)
	if host != "" {
		path, args = "unshare", append([]string{"--uts", "sh", "-c", `hostname "$0" && exec "$@"`, host, path}, args...)
	}
	server, err := p.work.Start("kube-apiserver", path, args)
	if err != nil {
		return nil, err
	}
	p.logs = append(p.logs, server.Log)
	p.Reconnect()
	return server, Eventually(ctx, "kube-apiserver is ready", func() error {
		if err := server.Alive(); err != nil {
			return Fatal(err)
		}
		return p.ok(ctx, address, "/readyz")
	})
}

// StopAPIServer ends kube-apiserver; what it holds for the audit webhook it still sends.
func (p *Plane) StopAPIServer() { p.server.Stop(time.Minute) }

// KillAPIServer ends it at once.
func (p *Plane) KillAPIServer() { p.server.Kill() }

// APIServer is its process.
func (p *Plane) APIServer() *Process { return p.server }

// flagsOf reads a file of flags, but for the paths, which are another machine's.
func flagsOf(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's flags: %w", err)
	}
	var flags []string
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "--") && !strings.Contains(line, "-file=") {
			flags = append(flags, line)
		}
	}
	return flags, nil
}

// StartControllers starts kube-controller-manager and kube-scheduler.
func (p *Plane) StartControllers(ctx context.Context) error {
	for name, args := range map[string][]string{
		"kube-controller-manager": {
			"--use-service-account-credentials", "--service-account-private-key-file=" + p.saKey, "--root-ca-file=" + p.file("ca.crt"),
			"--cluster-signing-cert-file=" + p.file("ca.crt"), "--cluster-signing-key-file=" + p.file("ca.key"),
			"--kube-api-qps=100", "--kube-api-burst=200",
		},
		"kube-scheduler": {},
	} {
		config, err := p.Kubeconfig(name, "system:"+name)
		if err != nil {
			return err
		}
		address, err := FreeAddress()
		if err != nil {
			return err
		}
		args = append(args, "--kubeconfig="+config, "--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port="+portOf(address),
			"--tls-cert-file="+p.file("apiserver.crt"), "--tls-private-key-file="+p.file("apiserver.key"))
		c, err := p.work.Start(name, p.Programs.path(name), args)
		if err != nil {
			return err
		}
		if err := Eventually(ctx, name+" is healthy", func() error {
			if err := c.Alive(); err != nil {
				return Fatal(err)
			}
			return p.ok(ctx, address, "/healthz")
		}); err != nil {
			return err
		}
	}
	return nil
}

// ok is an error unless a GET of the path is answered 200.
func (p *Plane) ok(ctx context.Context, address, path string) error {
	t, err := p.transports.of(Identity{User: "admin", Groups: []string{"system:masters"}})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+path, nil)
	if err != nil {
		return fmt.Errorf("asking for %s: %w", path, err)
	}
	resp, err := (&http.Client{Transport: t, Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return nil
}

// StartKubelets starts hollow kubelets and waits until their nodes are ready.
func (p *Plane) StartKubelets(ctx context.Context, nodes ...string) error {
	for _, node := range nodes {
		if err := p.StartKubelet(node, NodeIdentity(node)); err != nil {
			return err
		}
	}
	return p.NodesReady(ctx, nodes...)
}

// NodesReady waits until nodes are ready whose kubelets were started.
func (p *Plane) NodesReady(ctx context.Context, nodes ...string) error {
	for _, node := range nodes {
		if err := Eventually(ctx, "node "+node+" is ready", func() error {
			if err := p.Kubelets[node].Alive(); err != nil {
				return Fatal(err)
			}
			var n struct {
				Status struct {
					Conditions []struct{ Type, Status string }
				}
			}
			if err := p.Admin().Get(ctx, "/api/v1/nodes/"+node, &n); err != nil {
				return err
			}
			for _, c := range n.Status.Conditions {
				if c.Type == "Ready" && c.Status == "True" {
					return nil
				}
			}
			return errors.New("it is not")
		}); err != nil {
			return err
		}
	}
	return nil
}

// StartKubelet starts a hollow kubelet with a certificate of the identity, and does not wait.
func (p *Plane) StartKubelet(node string, as Identity) error {
	config, err := p.Kubeconfig("kubelet-"+node, as.User, as.Groups...)
	if err != nil {
		return err
	}
	return p.startKubelet(node, config)
}

// StartKubeletFrom starts a hollow kubelet that comes from an address of this machine with a certificate that it was given, and does not wait.
func (p *Plane) StartKubeletFrom(node, address string, held Pair) error {
	server, err := p.Forward(address)
	if err != nil {
		return err
	}
	cert, key, err := held.Write(p.Dir, "kubelet-"+node)
	if err != nil {
		return err
	}
	config := p.file("kubelet-" + node + ".kubeconfig")
	if err := writeKubeconfig(config, "https://"+server, p.file("ca.crt"), cert, key); err != nil {
		return err
	}
	return p.startKubelet(node, config)
}

func (p *Plane) startKubelet(node, config string) error {
	k, err := p.work.Start("kubelet-"+node, p.Programs.path("hollow"), []string{node, config})
	if err != nil {
		return err
	}
	// Real ones do not take the processor away from the API server: its graph would lag behind what kubelets know already.
	k.Yield()
	p.Kubelets[node] = k
	return nil
}

// Kubeconfig writes one for a new certificate of the user and returns its path.
func (p *Plane) Kubeconfig(name, user string, groups ...string) (string, error) {
	pair, err := p.CA.Client(user, groups...)
	if err != nil {
		return "", err
	}
	cert, key, err := pair.Write(p.Dir, name)
	if err != nil {
		return "", err
	}
	path := p.file(name + ".kubeconfig")
	return path, writeKubeconfig(path, "https://"+p.Address, p.file("ca.crt"), cert, key)
}

// WebhookKubeconfig writes the file for --audit-webhook-config-file, with a client certificate named kube-apiserver.
func WebhookKubeconfig(path, url, caFile string, pair Pair) error {
	cert, key, err := pair.Write(filepath.Dir(path), "audit-webhook")
	if err != nil {
		return err
	}
	return writeKubeconfig(path, url, caFile, cert, key)
}

func writeKubeconfig(path, server, ca, cert, key string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, `apiVersion: v1
kind: Config
current-context: it
clusters: [{name: it, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: it, user: {client-certificate: %q, client-key: %q}}]
contexts: [{name: it, context: {cluster: it, user: it}}]
`, server, ca, cert, key)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}

// TokenKubeconfig writes a kubeconfig for the bearer of a token.
func (p *Plane) TokenKubeconfig(name, token string) (string, error) {
	path := p.file(name + ".kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: it
clusters: [{name: it, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: it, user: {token: %q}}]
contexts: [{name: it, context: {cluster: it, user: it}}]
`, "https://"+p.Address, p.file("ca.crt"), token)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return path, nil
}
