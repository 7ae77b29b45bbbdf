package webhook

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/credfile"
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
	tokens    credfile.Tokens
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
	pool, err := credfile.ParseAuthorities(contents[0])
	if err != nil {
		return err
	}
	s.clientCAs = pool
	return nil
}

func loadTokens(s *secrets, contents [][]byte) error {
	var all credfile.Tokens
	for _, text := range contents {
		tokens, err := credfile.ParseTokens(text)
		if err != nil {
			return err
		}
		all = append(all, tokens...)
	}
	s.tokens = all
	return nil
}

// read puts what the files hold into s, and is true, unless it is the same as before or broken.
func (f *fileSet) read(s *secrets) (bool, error) {
	contents := make([][]byte, len(f.paths))
	h := sha256.New()
	for i, path := range f.paths {
		text, err := credfile.Read(path)
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

// enforce makes s what is in force.
func (c *credentials) enforce(s *secrets) {
	if len(s.cert.Certificate) > 0 {
		s.tls = credfile.ServerTLS()
		s.tls.Certificates = []tls.Certificate{s.cert}
		s.tls.Time = c.now
		if s.clientCAs != nil {
			s.tls.ClientAuth, s.tls.ClientCAs = tls.RequireAndVerifyClientCert, s.clientCAs
		}
	}
	c.inForce.Store(s)
	if !s.expires.IsZero() && c.now().After(s.expires) {
		c.log.Warn().Time("expired", s.expires).Strs("files", c.files[0].paths).Msg("the webhook's certificate has expired")
	}
}

// current returns what is in force, after a look at the files if it is time for one. While one caller looks the others continue.
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
	conf := credfile.ServerTLS()
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current().tls, nil }
	return conf
}

// authenticate says whether the sender of a request has shown who it is: proceed, or else the outcome of the request.
func (c *credentials) authenticate(r *http.Request) outcome {
	s := c.current()
	if s.clientCAs == nil && s.tokens == nil {
		// Anybody on this machine may post. A page in a browser on it is not meant: browsers say that they are one.
		if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
			return forbidden
		}
		return proceed
	}
	if s.tokens != nil && !s.tokens.Have(credfile.Bearer(r.Header)) {
		return unauthenticated
	}
	if s.clientCAs == nil {
		return proceed
	}
	if r.TLS == nil || !credfile.Vouched(r.TLS.PeerCertificates, s.clientCAs, c.now()) {
		return unauthenticated
	}
	if len(c.allowed) > 0 && !credfile.Named(r.TLS.PeerCertificates[0], c.allowed) {
		return forbidden
	}
	return proceed
}
