package coverage

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// Credentials are how an apiserver is asked. All are optional.
type Credentials struct {
	// CAFile holds certificate authorities, PEM; empty for the system's. ServerName is the name that the certificate must have.
	CAFile, ServerName string
	// CertFile and KeyFile are the client's, PEM. They are read again for each connection.
	CertFile, KeyFile string
	// BearerTokenFile holds a token. It is read again for each request: the kubelet renews those of service accounts.
	BearerTokenFile string
}

// maxTokenBytes bounds a file with a token.
const maxTokenBytes = 64 << 10

// Client returns a client with these credentials, which follows no redirection.
func (c *Credentials) Client() (*http.Client, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("reading certificate authorities: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("reading certificate authorities: %s holds no certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile); err != nil {
			return nil, fmt.Errorf("reading the client's certificate: %w", err)
		}
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("reading the client's certificate: %w", err)
			}
			return &pair, nil
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
	f, err := os.Open(c.BearerTokenFile)
	if err != nil {
		return fmt.Errorf("reading the bearer token: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxTokenBytes))
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
