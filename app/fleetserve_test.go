package app

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/nodetrail/nodetrail/report"
)

// configuration is that of the ConfigMap in deploy/fleet.yaml, with files of this machine.
func (f *fleetTest) configuration(files map[string]string) string {
	f.t.Helper()
	manifest, err := os.ReadFile("../deploy/fleet.yaml")
	if err != nil {
		f.t.Fatal(err)
	}
	for part := range strings.SplitSeq(string(manifest), "\n---\n") {
		var o struct {
			Kind string
			Data map[string]string
		}
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			f.t.Fatal(err)
		}
		text := o.Data["fleet.yaml"]
		if o.Kind != "ConfigMap" || text == "" {
			continue
		}
		for name, path := range files {
			if strings.Count(text, name) != 1 {
				f.t.Fatalf("%s is not once in\n%s", name, text)
			}
			text = strings.Replace(text, name, path, 1)
		}
		return f.write("fleet.yaml", []byte(text))
	}
	f.t.Fatal("deploy/fleet.yaml has no configuration")
	return ""
}

// deployed serves the pages as deploy/fleet.yaml configures them: over TLS, to who has a token, with probes elsewhere that show nothing.
func (f *fleetTest) deployed(clusters int) {
	t := f.t
	t.Helper()
	https := httptest.NewTLSServer(nil) // for its certificate
	defer https.Close()
	pair := https.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	const token = "a-token-of-somebody-who-reads"
	config := f.configuration(map[string]string{
		"/etc/nodetrail-tls/tls.crt":         f.write("tls.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})),
		"/etc/nodetrail-tls/tls.key":         f.write("tls.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		"/etc/nodetrail-secrets/pages-token": f.write("pages-token", []byte(token+"\n")),
		"/etc/nodetrail-secrets/dsn":         f.write("dsn", []byte(f.dsn+"\n")),
	})
	probes, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	health := probes.Addr().String()
	if err := probes.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	running, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- Serve(ctx, ServeOptions{
			StoreOptions: StoreOptions{Config: config}, Fleet: true, Listen: "127.0.0.1:0", Health: health, Log: LogTo{W: io.Discard},
			Running: func(pages string) error { running <- pages; return nil },
		})
	}()
	var address string
	select {
	case address = <-running:
	case err := <-ended:
		t.Fatal(err)
	}
	get := func(url, token string) (int, []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := https.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, body
	}
	if !strings.HasPrefix(address, "https://") {
		t.Errorf("the pages are at %s", address)
	}
	var list report.Fleet
	code, body := get(address+"api/v1/fleet", token)
	if err := json.Unmarshal(body, &list); code != http.StatusOK || err != nil || len(list.Clusters) != clusters {
		t.Errorf("%d %v: %.500s", code, err, body)
	}
	for _, c := range list.Clusters {
		if code, body := get(address+"clusters/"+c.Schema+"/api/v1/overview", token); code != http.StatusOK {
			t.Errorf("%s: %d %.500s", c.Schema, code, body)
		}
	}
	for _, wrong := range []string{"", "a-token-of-nobody-at-all"} {
		if code, body := get(address+"api/v1/fleet", wrong); code != http.StatusUnauthorized {
			t.Errorf("with the token %q: %d %.500s", wrong, code, body)
		}
	}
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusOK, "/api/v1/fleet": http.StatusNotFound} {
		if code, body := get("http://"+health+path, token); code != want {
			t.Errorf("probes: %s: %d %.500s", path, code, body)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
