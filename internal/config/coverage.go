package config

import (
	"fmt"
	"net/url"
	"time"

	"github.com/nodetrail/nodetrail/internal/loopback"
)

// Coverage is what is known in addition to the log of what it cannot contain.
type Coverage struct {
	PolicyFile       string            `yaml:"policyFile"`
	ApiserverMetrics *ApiserverMetrics `yaml:"apiserverMetrics"`
}

// ApiserverMetrics is where API servers tell of audit events that they dropped.
type ApiserverMetrics struct {
	URLs            []string  `yaml:"urls"`
	Every           Duration  `yaml:"every" min:"1s" max:"1h"`
	Timeout         Duration  `yaml:"timeout" min:"100ms" max:"10m"`
	MaxBytes        Size      `yaml:"maxBytes" min:"64KiB" max:"1GiB"`
	BearerTokenFile string    `yaml:"bearerTokenFile"`
	TLS             ClientTLS `yaml:"tls"`
}

// SetDefaults sets what an empty section means.
func (a *ApiserverMetrics) SetDefaults() {
	*a = ApiserverMetrics{Every: Duration(30 * time.Second), Timeout: Duration(10 * time.Second), MaxBytes: 64 << 20}
}

func (v *validator) coverage() {
	a := v.c.Coverage.ApiserverMetrics
	if a == nil {
		return
	}
	const at = "coverage.apiserverMetrics"
	v.atLeastOne(at+".urls", a.URLs)
	v.distinct(at+".urls", a.URLs)
	v.clientTLS(at+".tls", &a.TLS)
	for i, text := range a.URLs {
		this := fmt.Sprintf("%s.urls[%d]", at, i)
		u, err := url.Parse(text)
		switch {
		case text == "":
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Fragment != "":
			// Not quoted: what is not understood may hold a password.
			v.fail(this, "it is not an address such as https://10.0.0.10:6443/metrics")
		case u.User != nil:
			v.fail(this, "a user in the address would be shown in logs: use bearerTokenFile or tls.certFile")
		case u.Scheme == "http" && a.BearerTokenFile != "" && !loopback.Host(u.Hostname()):
			v.fail(this, "a bearer token is sent to other machines by https only")
		case u.Scheme == "http" && a.TLS.Enabled:
			v.fail(this, "tls is enabled, and the address begins with http")
		}
	}
	if a.Timeout > a.Every && !follow(v, at+".timeout", &a.Timeout, a.Every) {
		v.fail(at+".timeout", "%s is more than every, which is %s", a.Timeout, a.Every)
	}
}
