package web

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/credfile"
)

// files are what proves who the server is and who its clients are. They are read anew when they have changed.
type files struct {
	o     *Access
	names []string
	every time.Duration
	now   func() time.Time
	log   zerolog.Logger

	inForce atomic.Pointer[secrets] // never nil
	mu      sync.Mutex              // held while the files are looked at
	next    atomic.Int64
	failure string
	// failures counts the looks that found something broken.
	failures atomic.Int64
}

// secrets is what is in force at one time; it never changes.
type secrets struct {
	sum       [sha256.Size]byte
	tls       *tls.Config // nil without TLS
	expires   time.Time   // of the certificate
	clientCAs *x509.CertPool
	tokens    credfile.Tokens
}

func newFiles(o *Access, now func() time.Time, log zerolog.Logger) (*files, error) {
	f := &files{o: o, names: o.ClientNames, every: o.Reload, now: now, log: log}
	if f.every <= 0 {
		f.every = 10 * time.Second
	}
	s, err := f.read(nil)
	if err != nil {
		return nil, err
	}
	f.inForce.Store(s)
	f.next.Store(now().Add(f.every).UnixNano())
	return f, nil
}

// read returns what the files hold, or old where that is the same.
func (f *files) read(old *secrets) (*secrets, error) {
	paths := []string{f.o.TokenFile, f.o.CertFile, f.o.KeyFile, f.o.ClientCAFile}
	contents := make([][]byte, len(paths))
	h := sha256.New()
	for i, path := range paths {
		if path == "" {
			continue
		}
		var err error
		if contents[i], err = credfile.Read(path); err != nil {
			return nil, fmt.Errorf("reading what the pages' access needs: %w", err)
		}
		one := sha256.Sum256(contents[i])
		_, _ = h.Write(one[:]) // never fails
	}
	s := &secrets{sum: [sha256.Size]byte(h.Sum(nil))}
	if old != nil && old.sum == s.sum {
		return old, nil
	}
	if f.o.TokenFile != "" {
		var err error
		if s.tokens, err = credfile.ParseTokens(contents[0]); err != nil {
			return nil, fmt.Errorf("the bearer tokens in %s: %w", f.o.TokenFile, err)
		}
	}
	if f.o.ClientCAFile != "" {
		var err error
		if s.clientCAs, err = credfile.ParseAuthorities(contents[3]); err != nil {
			return nil, fmt.Errorf("the authorities of clients in %s: %w", f.o.ClientCAFile, err)
		}
	}
	if f.o.CertFile != "" {
		pair, err := tls.X509KeyPair(contents[1], contents[2])
		if err != nil {
			return nil, fmt.Errorf("the certificate in %s and %s: %w", f.o.CertFile, f.o.KeyFile, err)
		}
		s.tls, s.expires = credfile.ServerTLS(), pair.Leaf.NotAfter
		s.tls.Certificates, s.tls.Time = []tls.Certificate{pair}, f.now
		if s.clientCAs != nil {
			s.tls.ClientCAs, s.tls.ClientAuth = s.clientCAs, tls.RequireAndVerifyClientCert
			if f.o.TokenFile != "" || f.o.Review != nil {
				s.tls.ClientAuth = tls.VerifyClientCertIfGiven
			}
		}
	}
	return s, nil
}

// current returns what is in force, after a look at the files if it is time for one. Of what is broken the old stays in force.
func (f *files) current() *secrets {
	now := f.now().UnixNano()
	if now < f.next.Load() || !f.mu.TryLock() {
		return f.inForce.Load()
	}
	defer f.mu.Unlock()
	f.next.Store(f.now().Add(f.every).UnixNano())
	old := f.inForce.Load()
	s, err := f.read(old)
	if err != nil {
		f.failures.Add(1)
	}
	switch {
	case err != nil && err.Error() != f.failure:
		f.failure = err.Error()
		f.log.Error().Err(err).Msg("the pages' credentials cannot be read again, the old ones stay in force")
	case err == nil && s != old:
		f.failure = ""
		f.inForce.Store(s)
		f.log.Info().Msg("the pages' credentials were read again")
	}
	return f.inForce.Load()
}

func (f *files) serverTLS() *tls.Config {
	if f.inForce.Load().tls == nil {
		return nil
	}
	conf := credfile.ServerTLS()
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.current().tls, nil }
	return conf
}

func (f *files) knowsToken(token string) bool { return f.current().tokens.Have(token) }

// knowsCertificate says whether the chain is of a known authority, and whether the client's name is one of the allowed.
func (f *files) knowsCertificate(chain []*x509.Certificate) (known, allowed bool) {
	s := f.current()
	if s.clientCAs == nil || !credfile.Vouched(chain, s.clientCAs, f.now()) {
		return false, false
	}
	return true, len(f.names) == 0 || credfile.Named(chain[0], f.names)
}
