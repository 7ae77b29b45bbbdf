package webhook

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// authority signs certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(crand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// issue makes a certificate for name, for servers and clients unless change says otherwise.
func (a *authority) issue(name string, change func(*x509.Certificate)) (cert, key []byte) {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	k := newKey(a.t)
	der, err := x509.CreateCertificate(crand.Reader, template, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
}

func write(t testing.TB, path string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const token = "token-0123456789"

// files are what a server with TLS is configured with.
type files struct {
	t                testing.TB
	ca               *authority
	cert, key, roots string
}

func newFiles(t testing.TB) *files {
	t.Helper()
	dir := t.TempDir()
	f := &files{t: t, ca: newAuthority(t, "servers"), cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key"), roots: filepath.Join(dir, "ca.crt")}
	f.renew("webhook")
	return f
}

// renew writes a new certificate and its key.
func (f *files) renew(name string) {
	cert, key := f.ca.issue(name, nil)
	write(f.t, f.cert, cert)
	write(f.t, f.key, key)
}

// trusting is the TLS configuration of a client, with a certificate if cert is given.
func (f *files) trusting(cert, key []byte) *tls.Config {
	conf := &tls.Config{RootCAs: f.ca.pool(), MinVersion: tls.VersionTLS12}
	if cert != nil {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			f.t.Fatal(err)
		}
		// Whatever the server asks for.
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return conf
}

func TestClientCertificates(t *testing.T) {
	f := newFiles(t)
	clients, strangers := newAuthority(t, "clients"), newAuthority(t, "clients")
	write(t, f.roots, clients.pem)
	s := start(t, Options{CertFile: f.cert, KeyFile: f.key, ClientCAFile: f.roots, AllowedClients: []string{"kube-apiserver", "apiserver.example", "spiffe://example/apiserver"}})
	// send returns the status code, or 0 where there was no answer.
	send := func(conf *tls.Config) int {
		t.Helper()
		code := -1
		for _, http2 := range []bool{false, true} {
			r, err := tryPost(t, client(t, conf, http2), s.url, strings.NewReader(list(event("a"))))
			switch {
			case code >= 0 && r.code != code:
				t.Errorf("HTTP/1.1 is answered %d, HTTP/2 %d (%v)", code, r.code, err)
			case err == nil && (r.proto == "HTTP/2.0") != http2:
				t.Errorf("it spoke %s", r.proto)
			}
			code = r.code
		}
		return code
	}
	refused := func(what string, want int, conf *tls.Config) {
		t.Helper()
		if got := send(conf); got != want {
			t.Errorf("%s: answered %d, want %d", what, got, want)
		}
		s.store.empty(t)
	}
	named := func(from *authority, name string, change func(*x509.Certificate)) *tls.Config {
		cert, key := from.issue(name, change)
		return f.trusting(cert, key)
	}
	refused("no certificate", 0, f.trusting(nil, nil))
	refused("of another authority of the same name", 0, named(strangers, "kube-apiserver", nil))
	refused("expired", 0, named(clients, "kube-apiserver", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }))
	refused("not yet valid", 0, named(clients, "kube-apiserver", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }))
	refused("for servers only", 0, named(clients, "kube-apiserver", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }))
	refused("another name", 403, named(clients, "jane", nil))
	accepted := func(what string, conf *tls.Config) {
		t.Helper()
		if got := send(conf); got != 200 {
			t.Errorf("%s: answered %d", what, got)
		}
	}
	accepted("common name", named(clients, "kube-apiserver", nil))
	accepted("DNS name", named(clients, "jane", func(c *x509.Certificate) { c.DNSNames = []string{"apiserver.example"} }))
	uri, err := url.Parse("spiffe://example/apiserver")
	if err != nil {
		t.Fatal(err)
	}
	accepted("URI", named(clients, "jane", func(c *x509.Certificate) { c.URIs = []*url.URL{uri} }))
}

// lockedLog is written by the server while a test reads it.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// What fails in the handshake is among no requests. It is counted and logged all the same: an API server whose certificate has expired looks so.
// Who only looks whether somebody listens is no failure.
func TestHandshakes(t *testing.T) {
	f := newFiles(t)
	clients := newAuthority(t, "clients")
	write(t, f.roots, clients.pem)
	var log lockedLog
	s := start(t, Options{CertFile: f.cert, KeyFile: f.key, ClientCAFile: f.roots, Log: zerolog.New(&log)})
	address := s.wire.Addr().String()
	errorsCome := func(want int64) {
		t.Helper()
		eventually(t, "the server's complaint", func() bool { return s.server.Stats().ConnectionErrors >= want })
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	errorsCome(1)
	if got := s.server.Stats().Handshakes; got != 0 || strings.Contains(log.String(), "warn") {
		t.Errorf("who only connects is a failed handshake: %d, %s", got, log.String())
	}
	cert, key := clients.issue("kube-apiserver", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	distrusting := f.trusting(nil, nil)
	distrusting.RootCAs = clients.pool()
	for i, conf := range []*tls.Config{f.trusting(cert, key), f.trusting(nil, nil), distrusting} {
		if _, err := tryPost(t, client(t, conf, false), s.url, strings.NewReader(list(event("a")))); err == nil {
			t.Errorf("%d is let in", i)
		}
		errorsCome(int64(i) + 2)
	}
	if stats := s.server.Stats(); stats.Handshakes != 3 || stats.Requests["unauthenticated"] != 0 {
		t.Errorf("%d handshakes failed, want 3: %+v", stats.Handshakes, stats)
	}
	for _, want := range []string{"certificate has expired", "didn't provide a certificate", "remote error: tls: ", "127.0.0.1:"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q: %s", want, log.String())
		}
	}
	s.store.empty(t)
}

// A connection does not outlive its certificate, nor the authority that signed it.
func TestConnectionOutlivesCertificate(t *testing.T) {
	f := newFiles(t)
	clients := newAuthority(t, "clients")
	write(t, f.roots, clients.pem)
	var ahead atomic.Int64
	s := start(t, Options{CertFile: f.cert, KeyFile: f.key, ClientCAFile: f.roots, Reload: time.Nanosecond,
		now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	for i, end := range []func(){
		func() { write(t, f.roots, newAuthority(t, "new clients").pem) },
		func() { ahead.Store(int64(50 * time.Minute)) },
	} {
		if i == 1 {
			write(t, f.roots, clients.pem)
		}
		cert, key := clients.issue("kube-apiserver", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(40 * time.Minute) })
		c := client(t, f.trusting(cert, key), i == 1)
		s.expect("before", post(t, c, s.url, strings.NewReader(list(event("a")))), 200)
		before := len(s.store.stored())
		end()
		s.expect("afterwards", post(t, c, s.url, strings.NewReader(list(event("b")))), 401)
		if len(s.store.stored()) != before {
			t.Error("something got in")
		}
	}
}

func TestBearerTokens(t *testing.T) {
	f := newFiles(t)
	tokens, more := write(t, tempFile(t), []byte("\n first-token-012345 \r\nsecond-token-012345\n")), write(t, tempFile(t), []byte("third-token-012345"))
	s := start(t, Options{CertFile: f.cert, KeyFile: f.key, BearerTokenFiles: []string{tokens, more}, Reload: time.Nanosecond})
	send := func(what string, want int, headers ...string) {
		t.Helper()
		for _, http2 := range []bool{false, true} {
			r := post(t, client(t, f.trusting(nil, nil), http2), s.url, strings.NewReader(list(event("a"))), headers...)
			s.expect(what, r, want)
			if want == 401 && r.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s: %v", what, r.header)
			}
		}
		if want != 200 {
			s.store.empty(t)
		}
	}
	send("missing", 401)
	send("wrong", 401, "Authorization", "Bearer fourth-token-012345")
	send("empty", 401, "Authorization", "Bearer ")
	send("part of one", 401, "Authorization", "Bearer first")
	send("two in one", 401, "Authorization", "Bearer first-token-012345 second-token-012345")
	send("several lines in one", 401, "Authorization", "Bearer first-token-012345,second-token-012345")
	send("another scheme", 401, "Authorization", "Basic first-token-012345")
	send("without a scheme", 401, "Authorization", "first-token-012345")
	send("first", 200, "Authorization", "Bearer first-token-012345")
	send("second, lower case", 200, "Authorization", "bearer second-token-012345")
	send("of another file", 200, "Authorization", "Bearer third-token-012345")

	// Rotation: the new one is added, then the old one is removed. A file that is empty for a moment changes nothing.
	write(t, tokens, []byte("second-token-012345\nfourth-token-012345"))
	send("new", 200, "Authorization", "Bearer fourth-token-012345")
	write(t, tokens, nil)
	send("while it is empty", 200, "Authorization", "Bearer fourth-token-012345")
	if s.server.Stats().ReloadFailures == 0 {
		t.Error("the empty file is not counted")
	}
	stored := len(s.store.stored())
	s.expect("removed", post(t, client(t, f.trusting(nil, nil), false), s.url, strings.NewReader(list(event("a"))), "Authorization", "Bearer first-token-012345"), 401)
	if len(s.store.stored()) != stored {
		t.Error("a removed token got something in")
	}
}

// With both asked for, both are needed.
func TestCertificateAndToken(t *testing.T) {
	f := newFiles(t)
	clients := newAuthority(t, "clients")
	write(t, f.roots, clients.pem)
	s := start(t, Options{CertFile: f.cert, KeyFile: f.key, ClientCAFile: f.roots, BearerTokenFiles: []string{write(t, tempFile(t), []byte(token))}})
	cert, key := clients.issue("kube-apiserver", nil)
	body := list(event("a"))
	if _, err := tryPost(t, client(t, f.trusting(nil, nil), false), s.url, strings.NewReader(body), "Authorization", "Bearer "+token); err == nil {
		t.Error("the token alone was answered")
	}
	c := client(t, f.trusting(cert, key), false)
	s.expect("the certificate alone", post(t, c, s.url, strings.NewReader(body)), 401)
	s.store.empty(t)
	s.expect("both", post(t, c, s.url, strings.NewReader(body), "Authorization", "Bearer "+token), 200)
}

// Nothing of the body of a sender without credentials is read.
func TestUnauthenticatedBody(t *testing.T) {
	s := start(t, Options{BearerTokenFiles: []string{write(t, tempFile(t), []byte(token))}})
	f := func(head string) {
		t.Helper()
		before := s.wire.total()
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.wire.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "POST /audit HTTP/1.1\r\nHost: x\r\n%s\r\n", head); err != nil {
			t.Fatal(err)
		}
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			chunk := []byte("8000\r\n" + strings.Repeat("x", 32<<10) + "\r\n")
			for range 1024 { // until the server closes
				if _, err := conn.Write(chunk); err != nil {
					return
				}
			}
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized || !resp.Close {
			t.Errorf("%q: answered %s, close %v", head, resp.Status, resp.Close)
		}
		receive(t, "the server to close", sent)
		// net/http reads ahead 4 KiB with the header.
		if read := s.wire.total() - before; read > 8<<10 {
			t.Errorf("%q: %d bytes were read", head, read)
		}
	}
	f("Content-Length: 1000000000\r\n")
	f("Content-Length: 200000\r\n")
	f("Transfer-Encoding: chunked\r\n")
	f("Content-Length: 1000000000\r\nAuthorization: Bearer tokem-0123456789\r\n")
	f("Content-Length: 1000000000\r\nAuthorization: Bearer " + token + "\r\nAuthorization: Bearer " + token + "\r\n")
	s.store.empty(t)
	st := s.server.Stats()
	if st.Bytes != 0 || st.Requests["unauthenticated"] != 5 {
		t.Errorf("%+v", st)
	}
	// A sender who waits for leave to send its body never gets it.
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.wire.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "POST /audit HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 401 ") {
		t.Errorf("answered %q, %v", line, err)
	}
}

func TestCertificateReload(t *testing.T) {
	f := newFiles(t)
	var log strings.Builder
	tokens := write(t, tempFile(t), []byte(token))
	s := start(t, Options{CertFile: f.cert, KeyFile: f.key, BearerTokenFiles: []string{tokens}, Reload: time.Nanosecond, Log: zerolog.New(&log)})
	served := func(c *http.Client) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(list(event("a"))))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("answered %s", resp.Status)
		}
		return resp.TLS.PeerCertificates[0].Subject.CommonName
	}
	fresh := func() *http.Client { return client(t, f.trusting(nil, nil), true) }
	kept := fresh()
	for _, c := range []*http.Client{kept, fresh()} {
		if name := served(c); name != "webhook" {
			t.Errorf("served by %s", name)
		}
	}
	// The certificate of a new pair comes first: the old pair stays whole until the key has come too.
	cert, key := f.ca.issue("second", nil)
	for _, half := range [][]byte{cert, cert[:len(cert)/2], nil, cert} {
		write(t, f.cert, half)
		if name := served(fresh()); name != "webhook" {
			t.Errorf("served by %s while only %d bytes of a new certificate are there", name, len(half))
		}
	}
	failures := s.server.Stats().ReloadFailures
	if failures == 0 {
		t.Error("the broken pair is not counted")
	}
	if err := os.Remove(f.key); err != nil {
		t.Fatal(err)
	}
	if name := served(fresh()); name != "webhook" {
		t.Errorf("served by %s without a key", name)
	}
	write(t, f.key, key)
	if name := served(fresh()); name != "second" {
		t.Errorf("served by %s, not the new certificate", name)
	}
	if name := served(kept); name != "webhook" {
		t.Errorf("the connection that was open is served by %s", name)
	}
	block, _ := pem.Decode(cert)
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.server.Stats().CertificateExpires; !got.Equal(parsed.NotAfter) {
		t.Errorf("it expires at %v, want %v", got, parsed.NotAfter)
	}
	expired, key := f.ca.issue("third", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	write(t, f.cert, expired)
	write(t, f.key, key)
	if res, err := fresh().Get(s.url); err == nil {
		_ = res.Body.Close()
		t.Error("an expired certificate is trusted")
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "the webhook's certificate has expired"); n != 1 {
		t.Errorf("%d warnings that the certificate has expired:\n%s", n, log.String())
	}
	if n := strings.Count(log.String(), "cannot be reloaded"); n < 2 || int64(n) > failures {
		t.Errorf("%d complaints for %d failures:\n%s", n, failures, log.String())
	}
}

func TestBrowser(t *testing.T) {
	s := start(t, Options{})
	c := client(t, nil, false)
	for _, h := range []string{"Origin", "Sec-Fetch-Site"} {
		s.expect(h, post(t, c, s.url, strings.NewReader(list(event("a"))), h, "https://example.org"), 403)
	}
	s.store.empty(t)
}

func TestOptions(t *testing.T) {
	f := newFiles(t)
	tokens := write(t, tempFile(t), []byte(token))
	good := func(what string, opt Options) {
		t.Helper()
		opt.Letters = &letterBox{}
		if _, err := New(opt); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	bad := func(what, want string, opt Options) {
		t.Helper()
		if opt.Letters == nil {
			opt.Letters = &letterBox{}
		}
		if _, err := New(opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	withTLS := Options{Listen: ":9443", CertFile: f.cert, KeyFile: f.key}
	withTokens := withTLS
	withTokens.BearerTokenFiles = []string{tokens}
	good("TLS and tokens", withTokens)
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", "localhost:80"} {
		good(addr, Options{Listen: addr})
	}
	for _, addr := range []string{":9443", "0.0.0.0:9443", "[::]:9443", "10.0.0.1:9443", "example.org:9443", "localhost.example.org:9443", "127.0.0.1"} {
		bad(addr, addr+" can be reached from elsewhere and needs TLS", Options{Listen: addr, BearerTokenFiles: []string{tokens}})
	}
	bad("TLS alone", "needs to know its senders", withTLS)
	bad("no key", "go together", Options{Listen: "127.0.0.1:0", CertFile: f.cert})
	bad("authorities without TLS", "need TLS", Options{Listen: "127.0.0.1:0", ClientCAFile: f.cert})
	bad("names without authorities", "allowed clients", Options{Listen: "127.0.0.1:0", AllowedClients: []string{"x"}})
	bad("path", "absolute", Options{Listen: "127.0.0.1:0", Path: "audit"})
	bad("body", "less than", Options{Listen: "127.0.0.1:0", MaxBodyBytes: 10})
	bad("in flight", "less than", Options{Listen: "127.0.0.1:0", MaxInFlightBytes: 1 << 20})
	bad("timeout", "negative", Options{Listen: "127.0.0.1:0", BodyTimeout: -1})
	withTokens.CertFile = tokens
	bad("no certificate in it", "certificate in "+tokens, withTokens)
	bad("no file", "no such file", Options{Listen: "127.0.0.1:0", BearerTokenFiles: []string{filepath.Join(t.TempDir(), "none")}})
	bad("short token", "shorter than 16", Options{Listen: "127.0.0.1:0", BearerTokenFiles: []string{write(t, tempFile(t), []byte("secret"))}})
	bad("no token", "no token in it", Options{Listen: "127.0.0.1:0", BearerTokenFiles: []string{write(t, tempFile(t), []byte("\n \n"))}})
	if _, err := New(Options{Listen: "127.0.0.1:0"}); err == nil {
		t.Error("made without a place for dead letters")
	}
}
