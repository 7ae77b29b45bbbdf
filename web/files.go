package web

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// Bounds of tokens, in bytes. The least also keeps the beginning of one, from a file that is being written, from being one.
const (
	minToken = 16
	maxToken = 16 << 10
	maxFile  = 1 << 20
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
}

// secrets is what is in force at one time; it never changes.
type secrets struct {
	sum       [sha256.Size]byte
	tls       *tls.Config // nil without TLS
	clientCAs *x509.CertPool
	tokens    [][sha256.Size]byte
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
		if contents[i], err = readSmall(path); err != nil {
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
		if s.tokens, err = tokensOf(contents[0]); err != nil {
			return nil, fmt.Errorf("the bearer tokens in %s: %w", f.o.TokenFile, err)
		}
	}
	if f.o.ClientCAFile != "" {
		s.clientCAs = x509.NewCertPool()
		if !s.clientCAs.AppendCertsFromPEM(contents[3]) {
			return nil, fmt.Errorf("the authorities of clients in %s: no certificate in it", f.o.ClientCAFile)
		}
	}
	if f.o.CertFile != "" {
		pair, err := tls.X509KeyPair(contents[1], contents[2])
		if err != nil {
			return nil, fmt.Errorf("the certificate in %s and %s: %w", f.o.CertFile, f.o.KeyFile, err)
		}
		s.tls = baseTLS()
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

// tokensOf are the hashes of the lines.
func tokensOf(text []byte) ([][sha256.Size]byte, error) {
	var out [][sha256.Size]byte
	for line := range bytes.Lines(text) {
		switch token := bytes.TrimSpace(line); {
		case len(token) > maxToken:
			return nil, fmt.Errorf("a token of %d bytes is longer than %d", len(token), maxToken)
		case len(token) >= minToken:
			out = append(out, sha256.Sum256(token))
		case len(token) > 0:
			return nil, fmt.Errorf("a token of %d bytes is shorter than %d", len(token), minToken)
		}
	}
	if len(out) == 0 {
		return nil, errNoToken // a file that is being written is empty first
	}
	return out, nil
}

func readSmall(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = errors.New(path + " is longer than a megabyte")
	}
	return text, err
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

// baseTLS is what holds for every handshake. There is no resumption: a session would outlive the authorities that vouched for it.
func baseTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, SessionTicketsDisabled: true}
}

func (f *files) serverTLS() *tls.Config {
	if f.inForce.Load().tls == nil {
		return nil
	}
	conf := baseTLS()
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return f.current().tls, nil }
	return conf
}

// knowsToken compares with all tokens, whichever matches, and by hashes: the time it takes tells nothing of a token.
func (f *files) knowsToken(token string) bool {
	s := f.current()
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	known := 0
	for i := range s.tokens {
		known |= subtle.ConstantTimeCompare(sum[:], s.tokens[i][:])
	}
	return known == 1
}
