package deploy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/internal/test/docs"
)

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func recipes(t *testing.T) []docs.Block {
	t.Helper()
	return docs.Read("docs/recipes.md", readFile(t, "../docs/recipes.md")).Blocks
}

// kubeadm is what docs/recipes.md uses of ClusterConfiguration of kubeadm.k8s.io/v1beta4, whose extraArgs are a list.
type kubeadm struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	APIServer  struct {
		ExtraArgs []struct{ Name, Value string } `yaml:"extraArgs"`
		Volumes   []map[string]any               `yaml:"extraVolumes"`
	} `yaml:"apiServer"`
}

// TestRecipesYAML holds that the YAML of docs/recipes.md is of the form that its reader expects.
func TestRecipesYAML(t *testing.T) {
	kinds := map[string]int{}
	for _, block := range recipes(t) {
		if block.Language != "yaml" {
			continue
		}
		documents := 0
		for decoder := yaml.NewDecoder(strings.NewReader(block.Text)); ; documents++ {
			var object map[string]any
			if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", block.Section, err)
			}
			kind, _ := object["kind"].(string)
			switch kind {
			case "":
			case "ClusterConfiguration":
				mounted(t, block.Text)
			default:
				metadata, _ := object["metadata"].(map[string]any)
				if name, _ := metadata["name"].(string); object["apiVersion"] == nil || name == "" || object["spec"] == nil {
					t.Errorf("%s: %v", block.Section, object)
				}
			}
			kinds[kind]++
		}
		if documents == 0 {
			t.Errorf("%s: an empty block", block.Section)
		}
		if strings.HasPrefix(block.Section, "AKS") {
			if _, err := config.Parse("recipes", []byte(block.Text), func(string) (string, bool) { return "", false }); err != nil {
				t.Error(err)
			}
			kinds["nodetrail"]++
		}
	}
	if want := map[string]int{"": 4, "nodetrail": 1, "ClusterConfiguration": 1, "APIServer": 1, "ClusterLogForwarder": 1, "Issuer": 2, "Certificate": 3}; !reflect.DeepEqual(kinds, want) {
		t.Errorf("%v", kinds)
	}
}

// mounted holds that each file of the API server's arguments is in a folder that is mounted, the log's not read-only.
func mounted(t *testing.T, text string) {
	t.Helper()
	var c kubeadm
	if err := yaml.Unmarshal([]byte(text), &c); err != nil || c.APIVersion != "kubeadm.k8s.io/v1beta4" || len(c.APIServer.ExtraArgs) < 4 {
		t.Fatalf("%+v: %v", c, err)
	}
	for _, arg := range c.APIServer.ExtraArgs {
		if !strings.HasPrefix(arg.Value, "/") {
			continue
		}
		if !slices.ContainsFunc(c.APIServer.Volumes, func(v map[string]any) bool {
			return v["mountPath"] == filepath.Dir(arg.Value) && v["hostPath"] != nil && (arg.Name != "audit-log-path" || v["readOnly"] == nil)
		}) {
			t.Errorf("%s is not mounted", arg.Value)
		}
	}
}

// TestRecipesFlags holds that each flag of kube-apiserver in docs/recipes.md is one that kube-apiserver.names lists. TestFlagNames of e2e/plane
// compares that list with the help of a real one.
func TestRecipesFlags(t *testing.T) {
	known, found := strings.Fields(string(readFile(t, "kube-apiserver.names"))), map[string]bool{}
	for _, block := range recipes(t) {
		if block.Language != "yaml" {
			continue
		}
		for _, m := range regexp.MustCompile(`(?m)^ *- (?:name: |)((?:audit|authorization|enable-admission)-[a-z-]+)(?:$|=)`).FindAllStringSubmatch(block.Text, -1) {
			if !strings.HasPrefix(block.Section, "kops") && m[1] != "audit-policy" && m[1] != "audit-log" {
				found[m[1]] = true
			}
		}
		// kops has the flags' names in another form.
		for _, m := range regexp.MustCompile(`(?m)^    (audit[A-Za-z]+):`).FindAllStringSubmatch(block.Text, -1) {
			name := strings.ToLower(regexp.MustCompile("[A-Z]").ReplaceAllString(m[1], "-$0"))
			found[strings.Replace(name, "max-", "max", 1)] = true
		}
	}
	for _, line := range strings.Split(string(readFile(t, "kube-apiserver.flags")), "\n") {
		if flag, ok := strings.CutPrefix(line, "--"); ok {
			name, _, _ := strings.Cut(flag, "=")
			found[name] = true
		}
	}
	for name := range found {
		// The field of kops has an s that the flag does not have.
		if !slices.Contains(known, name) && !slices.Contains(known, strings.TrimSuffix(name, "s")) {
			t.Errorf("kube-apiserver.names does not have %s", name)
		}
	}
	if len(found) < 14 || !found["audit-log-maxsize"] || !found["authorization-mode"] {
		t.Errorf("%v", found)
	}
}

// TestOpenSSL runs the commands of docs/recipes.md that make certificates, and connects by them as an API server and nodetrail do.
func TestOpenSSL(t *testing.T) {
	script := ""
	for _, block := range recipes(t) {
		if strings.Contains(block.Text, "openssl ") {
			script += block.Text
		}
	}
	dir := t.TempDir()
	cmd := exec.Command("sh", "-euc", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pair := func(cert, key string) tls.Certificate {
		t.Helper()
		p, err := tls.LoadX509KeyPair(filepath.Join(dir, cert), filepath.Join(dir, key))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	pool := func(name string) *x509.CertPool {
		t.Helper()
		p := x509.NewCertPool()
		if !p.AppendCertsFromPEM(readFile(t, filepath.Join(dir, name))) {
			t.Fatalf("%s has no certificate", name)
		}
		return p
	}
	server := &tls.Config{
		Certificates: []tls.Certificate{pair("tls.crt", "tls.key")}, ClientCAs: pool("clients.crt"), ClientAuth: tls.RequireAndVerifyClientCert,
	}
	f := func(name string, client *tls.Config, works bool) {
		t.Helper()
		client.ServerName, client.RootCAs = name, pool("ca.crt")
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		served := tls.Server(a, server)
		result := make(chan error, 1)
		go func() { result <- errors.Join(served.Handshake(), a.Close()) }()
		err := tls.Client(b, client).Handshake()
		_ = b.Close()
		err = errors.Join(err, <-result)
		if (err == nil) != works {
			t.Errorf("%q: %v", name, err)
		}
		if works {
			if cn := served.ConnectionState().PeerCertificates[0].Subject.CommonName; cn != "kube-apiserver" || !regexp.MustCompile(`clientNames:\s+- `+cn+"\n").Match(readFile(t, "nodetrail.yaml")) {
				t.Errorf("the client is %q", cn)
			}
		}
	}
	client := func() *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{pair("client.crt", "client.key")}}
	}
	f("nodetrail.nodetrail.svc", client(), true)
	f("10.96.0.50", client(), true)
	f("nodetrail.example", client(), false)
	f("nodetrail.nodetrail.svc", &tls.Config{}, false)
	f("nodetrail.nodetrail.svc", &tls.Config{Certificates: []tls.Certificate{pair("tls.crt", "tls.key")}}, false)
}
