package config

import (
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/internal/loopback"
)

// Pages are what people look at, and the API next to it.
type Pages struct {
	Enabled         bool      `yaml:"enabled"`
	Listen          string    `yaml:"listen"`
	TLS             ServerTLS `yaml:"tls"`
	BearerTokenFile string    `yaml:"bearerTokenFile"`
	Kubernetes      Reviews   `yaml:"kubernetes"`
}

// Reviews is whether a cluster is asked who may read the pages.
type Reviews struct {
	Enabled    bool   `yaml:"enabled"`
	Kubeconfig string `yaml:"kubeconfig"`
	Context    string `yaml:"context"`
	Path       string `yaml:"path"`
}

func (v *validator) pages() {
	p := &v.c.Pages
	const at = "pages"
	v.pair(at+".tls.", p.TLS.CertFile, p.TLS.KeyFile)
	if p.TLS.CertFile == "" && p.TLS.ClientCAFile != "" {
		v.fail(at+".tls.clientCAFile", "client certificates need tls.certFile and tls.keyFile")
	}
	if len(p.TLS.ClientNames) > 0 && p.TLS.ClientCAFile == "" {
		v.fail(at+".tls.clientNames", "names of clients need tls.clientCAFile")
	}
	v.distinct(at+".tls.clientNames", p.TLS.ClientNames)
	k := &p.Kubernetes
	if !strings.HasPrefix(k.Path, "/") || strings.ContainsAny(k.Path, "*?# ") {
		v.fail(at+".kubernetes.path", "%s is not a path such as /nodetrail", v.q(at+".kubernetes.path", k.Path))
	}
	if !k.Enabled {
		for _, f := range []struct{ path, value string }{{at + ".kubernetes.kubeconfig", k.Kubeconfig}, {at + ".kubernetes.context", k.Context}} {
			if f.value != "" {
				v.fail(f.path, "it says which cluster to ask, and pages.kubernetes.enabled is false")
			}
		}
	}
	if p.Listen == "" {
		if p.TLS.CertFile != "" {
			v.fail(at+".tls.certFile", "TLS needs an address of the pages' own: set pages.listen")
		}
		return
	}
	if !v.listen(at+".listen", p.Listen) || loopback.Address(p.Listen) {
		return
	}
	switch {
	case p.TLS.CertFile == "":
		v.fail(at+".listen", "%s can be reached from other machines: set tls.certFile and tls.keyFile, or listen on 127.0.0.1", v.q(at+".listen", p.Listen))
	case p.TLS.ClientCAFile == "" && p.BearerTokenFile == "" && !k.Enabled:
		v.fail(at+".listen", "%s can be reached from other machines: set bearerTokenFile, tls.clientCAFile or kubernetes.enabled, or listen on 127.0.0.1",
			v.q(at+".listen", p.Listen))
	}
}

// step checks how finely counts are kept.
func (v *validator) step() {
	if d := v.c.Store.Step.D(); d > 0 && (d%time.Second != 0 || time.Hour%d != 0) {
		v.fail("store.step", "%s is not whole seconds of which an hour has a whole number, such as 10s, 1m or 1h", v.c.Store.Step)
	}
}
