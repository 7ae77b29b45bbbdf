package coverage

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"

	"github.com/nodetrail/nodetrail/internal/credfile"
)

// Credentials are how an API server is asked. All are optional.
type Credentials struct {
	// CAFile holds certificate authorities, PEM; empty for the system's. ServerName is the name that the certificate must have.
	CAFile, ServerName string
	// CertFile and KeyFile are the client's, PEM. They are read again for each connection.
	CertFile, KeyFile string
	// BearerTokenFile holds a token. It is read again for each request: the kubelet renews those of service accounts.
	BearerTokenFile string
}

// Client returns a client with these credentials, which follows no redirection.
func (c *Credentials) Client() (*http.Client, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	var err error
	if c.CAFile != "" {
		if conf.RootCAs, err = credfile.Authorities(c.CAFile); err != nil {
			return nil, fmt.Errorf("reading certificate authorities: %w", err)
		}
	}
	if c.CertFile != "" {
		if conf.GetClientCertificate, err = credfile.ClientCertificate(c.CertFile, c.KeyFile); err != nil {
			return nil, err
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1,
		},
		// Credentials go where they were sent, and nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// Authorize adds the bearer token to a request, if there is one.
func (c *Credentials) Authorize(r *http.Request) error {
	if c.BearerTokenFile == "" {
		return nil
	}
	b, err := credfile.Read(c.BearerTokenFile)
	if err != nil {
		return fmt.Errorf("reading the bearer token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return fmt.Errorf("reading the bearer token: %s does not hold one", c.BearerTokenFile)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return nil
}
