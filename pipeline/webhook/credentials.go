package webhook

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// credentials are what the files say that prove who the server is and who its clients are. They are read anew when the files have changed.
type credentials struct {
	every   time.Duration
	now     func() time.Time
	log     zerolog.Logger
	allowed []string
	// inForce is never nil and what it points to never changes.
	inForce  atomic.Pointer[secrets]
	failures atomic.Int64

	mu    sync.Mutex // held while the files are looked at
	next  atomic.Int64
	files []*fileSet
}

// secrets is what is in force at one time.
type secrets struct {
	tls       *tls.Config // nil without TLS
	expires   time.Time   // of the server's certificate
	clientCAs *x509.CertPool
	tokens    [][sha256.Size]byte
	cert      tls.Certificate
}

// fileSet is files that are good only together, such as a certificate and its key.
type fileSet struct {
	what  string
	paths []string
	// load puts what the files hold into s.
	load func(s *secrets, contents [][]byte) error
	// sum is of the contents in force, and failure why newer contents are not.
	sum     [sha256.Size]byte
	failure string
}

// maxCredentialBytes bounds a file of credentials.
const maxCredentialBytes = 1 << 20

func newCredentials(opt *Options) (*credentials, error) {
	c := &credentials{every: opt.Reload, now: opt.now, log: opt.Log, allowed: opt.AllowedClients}
	if opt.CertFile != "" {
		c.files = append(c.files, &fileSet{what: "certificate", paths: []string{opt.CertFile, opt.KeyFile}, load: loadCertificate})
	}
	if opt.ClientCAFile != "" {
		c.files = append(c.files, &fileSet{what: "client authorities", paths: []string{opt.ClientCAFile}, load: loadAuthorities})
	}
	if len(opt.BearerTokenFiles) > 0 {
		c.files = append(c.files, &fileSet{what: "bearer tokens", paths: opt.BearerTokenFiles, load: loadTokens})
	}
	s := &secrets{}
	for _, f := range c.files {
		if _, err := f.read(s); err != nil {
			return nil, err
		}
	}
	c.enforce(s)
	if at := c.now(); !s.expires.IsZero() && at.After(s.expires) {
		c.log.Warn().Time("expired", s.expires).Strs("files", c.files[0].paths).Msg("the webhook's certificate has expired")
	}
	c.next.Store(c.now().Add(c.every).UnixNano())
	return c, nil
}

func loadCertificate(s *secrets, contents [][]byte) error {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return err
	}
	s.cert, s.expires = pair, pair.Leaf.NotAfter
	return nil
}

func loadAuthorities(s *secrets, contents [][]byte) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(contents[0]) {
		return errors.New("no certificate in it")
	}
	s.clientCAs = pool
	return nil
}

// minToken is the least length of a token. It also keeps the beginning of one, from a file that is being written, from being one.
const minToken = 16

func loadTokens(s *secrets, contents [][]byte) error {
	var tokens [][sha256.Size]byte
	for _, text := range contents {
		before := len(tokens)
		for line := range bytes.Lines(text) {
			switch token := bytes.TrimSpace(line); {
			case len(token) >= minToken:
				tokens = append(tokens, sha256.Sum256(token))
			case len(token) > 0:
				return fmt.Errorf("a token of %d bytes is shorter than %d", len(token), minToken)
			}
		}
		// A file that is being written is empty first.
		if len(tokens) == before {
			return errors.New("no token in it")
		}
	}
	s.tokens = tokens
	return nil
}

// read puts what the files hold into s, and is true, unless it is the same as before or broken.
func (f *fileSet) read(s *secrets) (bool, error) {
	contents := make([][]byte, len(f.paths))
	h := sha256.New()
	for i, path := range f.paths {
		text, err := readSmall(path)
		if err != nil {
			return false, fmt.Errorf("%s: %w", f.what, err)
		}
		contents[i] = text
		one := sha256.Sum256(text)
		h.Write(one[:])
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	if sum == f.sum {
		return false, nil
	}
	if err := f.load(s, contents); err != nil {
		return false, fmt.Errorf("%s in %s: %w", f.what, strings.Join(f.paths, ", "), err)
	}
	f.sum = sum
	return true, nil
}

func readSmall(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxCredentialBytes+1))
	if err == nil && len(text) > maxCredentialBytes {
		err = fmt.Errorf("%s: longer than %d bytes", path, maxCredentialBytes)
	}
	return text, err
}

// enforce makes s what is in force.
func (c *credentials) enforce(s *secrets) {
	if len(s.cert.Certificate) > 0 {
		s.tls = baseTLS()
		s.tls.Certificates = []tls.Certificate{s.cert}
		s.tls.Time = c.now
		if s.clientCAs != nil {
			s.tls.ClientAuth, s.tls.ClientCAs = tls.RequireAndVerifyClientCert, s.clientCAs
		}
	}
	c.inForce.Store(s)
}

// baseTLS is what holds for every handshake. There is no resumption: a session would outlive the authorities that vouched for it.
func baseTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, SessionTicketsDisabled: true}
}

// current returns what is in force, after a look at the files if it is time for one. While one caller looks the others go on.
func (c *credentials) current() *secrets {
	if now := c.now().UnixNano(); now >= c.next.Load() && c.mu.TryLock() {
		c.look()
		c.next.Store(c.now().Add(c.every).UnixNano())
		c.mu.Unlock()
	}
	return c.inForce.Load()
}

// look reads the files. Of those that are good only together the old ones stay in force until all are good.
func (c *credentials) look() {
	s := *c.inForce.Load()
	changed := false
	for _, f := range c.files {
		switch fresh, err := f.read(&s); {
		case err != nil:
			c.failures.Add(1)
			if text := err.Error(); text != f.failure {
				f.failure = text
				c.log.Error().Err(err).Msg("the webhook's credentials cannot be reloaded, the old ones stay in force")
			}
		case fresh:
			f.failure, changed = "", true
			c.log.Info().Str("what", f.what).Strs("files", f.paths).Msg("the webhook's credentials were reloaded")
		default:
			f.failure = ""
		}
	}
	if changed {
		c.enforce(&s)
	}
}

// serverTLS returns the configuration of a listener, or nil without TLS.
func (c *credentials) serverTLS() *tls.Config {
	if c.inForce.Load().tls == nil {
		return nil
	}
	conf := baseTLS()
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current().tls, nil }
	return conf
}

// authenticate says whether the sender of a request has shown who it is: proceed, or else the outcome of the request. It does so for each
// request, so that a connection does not outlive the certificate or the authority that it was opened with.
func (c *credentials) authenticate(r *http.Request) outcome {
	s := c.current()
	if s.clientCAs == nil && s.tokens == nil {
		// Anybody on this machine may post. A page in a browser on it is not meant: browsers say that they are one.
		if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
			return forbidden
		}
		return proceed
	}
	if s.tokens != nil && !s.knowsToken(r.Header.Values("Authorization")) {
		return unauthenticated
	}
	if s.clientCAs == nil {
		return proceed
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return unauthenticated
	}
	leaf := r.TLS.PeerCertificates[0]
	between := x509.NewCertPool()
	for _, cert := range r.TLS.PeerCertificates[1:] {
		between.AddCert(cert)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{
		Roots: s.clientCAs, Intermediates: between, CurrentTime: c.now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return unauthenticated
	}
	if len(c.allowed) > 0 && !c.isAllowed(leaf) {
		return forbidden
	}
	return proceed
}

// knowsToken compares with all tokens, whichever matches, and by hashes: the time it takes tells nothing of a token.
func (s *secrets) knowsToken(headers []string) bool {
	if len(headers) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return false
	}
	sum := sha256.Sum256([]byte(token))
	known := 0
	for i := range s.tokens {
		known |= subtle.ConstantTimeCompare(sum[:], s.tokens[i][:])
	}
	return known == 1
}

func (c *credentials) isAllowed(cert *x509.Certificate) bool {
	if slices.Contains(c.allowed, cert.Subject.CommonName) {
		return true
	}
	for _, name := range cert.DNSNames {
		if slices.Contains(c.allowed, name) {
			return true
		}
	}
	for _, uri := range cert.URIs {
		if slices.Contains(c.allowed, uri.String()) {
			return true
		}
	}
	return false
}
