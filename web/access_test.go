package web

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/internal/credfile"
)

const (
	goodToken  = "0123456789abcdef-good"
	otherToken = "0123456789abcdef-other"
)

// secured are pages that ask for what the access says; nothing waits.
func secured(t *testing.T, a Access) *Server {
	t.Helper()
	s := newSite(t, time.Hour)
	s.o.Access = a
	h := s.server()
	h.access.slowly = 0
	return h
}

func textFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	ok(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Without any authentication only this machine is let in, by its own name, through no proxy.
func TestOpenIsLocal(t *testing.T) {
	h := secured(t, Access{})
	for name, x := range map[string]struct {
		remote, host, header string
		want                 int
	}{
		"local": {"127.0.0.1:1", "127.0.0.1:9876", "", 200}, "by name": {"127.0.0.1:1", "localhost:9876", "", 200}, "without a port": {"[::1]:1", "localhost", "", 200},
		"IPv6": {"[::1]:1", "[::1]:9876", "", 200}, "IPv6 without a port": {"[::1]:1", "[::1]", "", 200}, "mapped": {"[::ffff:127.0.0.1]:1", "LOCALHOST:1", "", 200},
		"another machine": {"192.0.2.1:1", "localhost:9876", "", 403}, "another name": {"127.0.0.1:1", "evil.example:9876", "", 403},
		"a name that looks local": {"127.0.0.1:1", "localhost.evil.example", "", 403}, "no name": {"127.0.0.1:1", "", "", 403},
		"a proxy": {"127.0.0.1:1", "localhost", "X-Forwarded-For", 403}, "another proxy": {"127.0.0.1:1", "localhost", "Forwarded", 403},
	} {
		for _, path := range []string{"/", "/api/v1/overview", "/findings.csv", "/assets/style.css", "/login"} {
			r := request(path)
			r.RemoteAddr, r.Host = x.remote, x.host
			if x.header != "" {
				r.Header.Set(x.header, "192.0.2.1")
			}
			if w := do(h, r); (w.Code == 403) != (x.want == 403) {
				t.Errorf("%s, %s: status %d, want %d", name, path, w.Code, x.want)
			}
		}
	}
}

// With a token every path but the form and what it looks like asks for it, wherever the request comes from.
func TestTokens(t *testing.T) {
	h := secured(t, Access{TokenFile: textFile(t, goodToken+"\n"+otherToken+"\n")})
	for _, path := range []string{"/", "/findings", "/findings.csv", "/findings.json", "/nodes", "/rules", "/api/v1/overview", "/api/v1/openapi.json", "/api/v1/nope", "/nope"} {
		for header, want := range map[string]int{
			"": 401, "Bearer " + goodToken: 200, "bearer " + otherToken: 200, "Bearer " + goodToken + "x": 401, "Bearer": 401, "Basic " + goodToken: 401, goodToken: 401,
			"Bearer " + goodToken[:16]: 401,
		} {
			r := request(path, "Host", "nodetrail.example")
			r.RemoteAddr = "192.0.2.1:1"
			if header != "" {
				r.Header.Set("Authorization", header)
			}
			w := do(h, r)
			if want == 200 && strings.HasSuffix(path, "nope") {
				want = 404
			}
			if w.Code != want {
				t.Errorf("%s with %q: status %d, want %d", path, header, w.Code, want)
			}
			if want == 401 && w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %q: nothing says what is asked for", path, header)
			}
		}
	}
	r := request("/")
	r.Header["Authorization"] = []string{"Bearer " + goodToken, "Bearer " + goodToken}
	if w := do(h, r); w.Code != 401 {
		t.Errorf("two tokens: %d", w.Code)
	}
	for _, path := range []string{"/login", "/assets/nothing"} {
		if w := do(h, request(path)); w.Code == 401 || w.Code == 403 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	// Of ten paths each: four with nothing that is a token, two with a wrong one; and the two tokens at once.
	want := map[string]int64{"wrong_token": 20, "no_credentials": 41, "forbidden": 0, "not_local": 0, "too_many": 0, "unavailable": 0}
	if diff := cmp.Diff(want, h.Stats().Refused); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

func signIn(h http.Handler, token, next string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(url.Values{"token": {token}, "next": {next}}.Encode()))
	r.Host, r.RemoteAddr = "nodetrail.example", "192.0.2.1:1"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if change != nil {
		change(r)
	}
	return do(h, r)
}

// A browser is led to the form, signs in, and is known from then on until the session, or the token, ends.
func TestSessions(t *testing.T) {
	now := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	s := newSite(t, time.Hour)
	path := textFile(t, goodToken)
	s.o.Access = Access{TokenFile: path}
	s.o.Now = func() time.Time { return now }
	h := s.server()
	h.access.slowly = 0
	browser := func(path string, cookie *http.Cookie, header ...string) *httptest.ResponseRecorder {
		r := request(path, append([]string{"Accept", "text/html", "Host", "nodetrail.example"}, header...)...)
		if cookie != nil {
			r.AddCookie(cookie)
		}
		return do(h, r)
	}
	if w := browser("/findings?q=a+b&node=%2F", nil); w.Code != 303 || w.Header().Get("Location") != "/login?next="+url.QueryEscape("/findings?q=a+b&node=%2F") {
		t.Errorf("%d %s", w.Code, w.Header().Get("Location"))
	}
	// By a link of another site the browser keeps a strict cookie back: it is asked again from here.
	if w := browser("/findings/1", nil, "Sec-Fetch-Site", "cross-site"); w.Code != 200 || w.Header().Get("Refresh") != "0" {
		t.Errorf("from another site: %d %v", w.Code, w.Header())
	}
	if w := signIn(h, goodToken+"x", "/findings", nil); w.Code != 303 || w.Header().Get("Location") != "/login?failed=1&next=%2Ffindings" || len(w.Result().Cookies()) > 0 {
		t.Errorf("a wrong token: %d %v", w.Code, w.Header())
	}
	for next, want := range map[string]string{
		"/findings?q=1": "/findings?q=1", "": "/", "https://evil.example/": "/", "//evil.example": "/", `/\evil.example`: "/", "findings": "/", "/a\r\nX: y": "/",
		"javascript:alert(1)": "/",
	} {
		if w := signIn(h, goodToken, next, nil); w.Code != 303 || w.Header().Get("Location") != want {
			t.Errorf("next %q leads to %q", next, w.Header().Get("Location"))
		}
	}
	for name, change := range map[string]func(*http.Request){
		"another site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"another origin": func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			r.Header.Set("Origin", "https://evil.example")
		},
	} {
		if w := signIn(h, goodToken, "/", change); w.Code != 403 || len(w.Result().Cookies()) > 0 {
			t.Errorf("the form of %s: %d", name, w.Code)
		}
	}
	w := signIn(h, goodToken, "/", nil)
	c := w.Result().Cookies()[0]
	if c.Name != cookieName || !c.HttpOnly || c.Secure || c.SameSite != http.SameSiteStrictMode || c.MaxAge != 12*60*60 || c.Path != "/" || strings.Contains(c.Value, goodToken) {
		t.Errorf("%+v", c)
	}
	secure := signIn(h, goodToken, "/", func(r *http.Request) { r.TLS = &tls.ConnectionState{} }).Result().Cookies()[0]
	if !secure.Secure || secure.Name != "__Host-"+cookieName {
		t.Errorf("over TLS: %+v", secure)
	}
	if w := browser("/", c); w.Code != 200 {
		t.Errorf("signed in: %d", w.Code)
	}
	if w := browser("/", &http.Cookie{Name: cookieName, Value: c.Value + "x"}); w.Code != 303 {
		t.Errorf("another session: %d", w.Code)
	}
	now = now.Add(12*time.Hour - time.Second)
	if w := browser("/", c); w.Code != 200 {
		t.Errorf("after almost 12 hours: %d", w.Code)
	}
	now = now.Add(time.Second)
	if w := browser("/", c); w.Code != 303 {
		t.Errorf("after 12 hours: %d", w.Code)
	}
	c = signIn(h, goodToken, "/", nil).Result().Cookies()[0]
	ok(t, os.WriteFile(path, []byte(otherToken), 0o600))
	now = now.Add(time.Minute)
	if w := browser("/", c); w.Code != 303 {
		t.Errorf("the token is another one now: %d", w.Code)
	}
	c = signIn(h, otherToken, "/", nil).Result().Cookies()[0]
	ok(t, os.WriteFile(path, nil, 0o600))
	now = now.Add(time.Minute)
	if w := browser("/", c); w.Code != 200 {
		t.Errorf("the file is being written: %d", w.Code)
	}
	out := httptest.NewRequest(http.MethodPost, "/logout", nil)
	out.Header.Set("Sec-Fetch-Site", "same-origin")
	out.AddCookie(c)
	if w := do(h, out); w.Code != 303 {
		t.Errorf("signing out: %d", w.Code)
	}
	if w := browser("/", c); w.Code != 303 {
		t.Errorf("signed out: %d", w.Code)
	}
	for range maxSessions + 10 {
		signIn(h, otherToken, "/", nil)
	}
	if n := len(h.access.sessions.all); n > maxSessions {
		t.Errorf("%d sessions", n)
	}
	// Where no token is asked for there is nothing to sign in to.
	if w := signIn(secured(t, Access{}), goodToken, "/", func(r *http.Request) { r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost" }); w.Code != 404 {
		t.Errorf("signing in to open pages: %d", w.Code)
	}
}

// Wrong tokens are answered late, and few at a time; who has the right one does not wait for them.
func TestGuessing(t *testing.T) {
	h := secured(t, Access{TokenFile: textFile(t, goodToken)})
	h.access.slowly = time.Hour
	ctx, stop := context.WithCancel(t.Context())
	answers := make(chan int)
	for range maxTries {
		go func() {
			answers <- do(h, request("/", "Authorization", "Bearer wrong-wrong-wrong-wrong").WithContext(ctx)).Code
		}()
	}
	for end := time.Now().Add(time.Minute); len(h.access.tries) < maxTries; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the wrong tokens are not being tried")
		}
	}
	if w := do(h, request("/", "Authorization", "Bearer wrong-wrong-wrong-wrong")); w.Code != 429 || w.Header().Get("Retry-After") == "" {
		t.Errorf("one too many: %d", w.Code)
	}
	if w := signIn(h, "wrong-wrong-wrong-wrong", "/", nil); w.Code != 429 {
		t.Errorf("the form: %d", w.Code)
	}
	if w := do(h, request("/", "Authorization", "Bearer "+goodToken)); w.Code != 200 {
		t.Errorf("the right one: %d", w.Code)
	}
	stop()
	for range maxTries {
		if code := <-answers; code != 401 {
			t.Errorf("a wrong one: %d", code)
		}
	}
}

// The cluster's word counts, and where it has none nobody is let in.
func TestReviews(t *testing.T) {
	h := secured(t, Access{Review: func(_ context.Context, token string) (string, bool, error) {
		switch token {
		case "admin":
			return "admin", true, nil
		case "guest":
			return "guest", false, nil
		case "broken":
			return "", false, errors.New("the cluster is away")
		}
		return "", false, nil
	}})
	for token, want := range map[string]int{"admin": 200, "guest": 403, "broken": 503, "nobody": 401} {
		if w := do(h, request("/", "Authorization", "Bearer "+token)); w.Code != want {
			t.Errorf("%s: status %d, want %d", token, w.Code, want)
		}
		w := signIn(h, token, "/", nil)
		if in := len(w.Result().Cookies()) > 0; in != (want == 200) {
			t.Errorf("%s signs in: %d", token, w.Code)
		}
	}
}

func TestWhatCannotBe(t *testing.T) {
	for name, a := range map[string]Access{
		"no file": {TokenFile: "/nowhere"}, "an empty file": {TokenFile: textFile(t, "\n")}, "a short token": {TokenFile: textFile(t, "short")},
		"a long token": {TokenFile: textFile(t, strings.Repeat("x", credfile.MaxToken+1))}, "no authority": {ClientCAFile: textFile(t, "x")},
		"no certificate": {CertFile: textFile(t, "x"), KeyFile: textFile(t, "y")}, "a long file": {TokenFile: textFile(t, strings.Repeat("0123456789abcdef\n", 1<<17))},
	} {
		s := newSite(t, time.Hour)
		s.o.Access = a
		if _, err := New(s.o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for address, open := range map[string]bool{"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, ":1": false, "0.0.0.0:1": false, "192.0.2.1:1": false, "nodetrail.example:1": false} {
		if err := (&Access{}).Check(address); (err == nil) != open {
			t.Errorf("%s without authentication: %v", address, err)
		}
		if err := (&Access{TokenFile: "x"}).Check(address); (err == nil) != open {
			t.Errorf("%s with a token in clear: %v", address, err)
		}
		if err := (&Access{TokenFile: "x", CertFile: "y"}).Check(address); err != nil {
			t.Errorf("%s with a token over TLS: %v", address, err)
		}
	}
}

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ok(t, err)
	tpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, tpl, &key.PublicKey, key)
	ok(t, err)
	cert, err := x509.ParseCertificate(der)
	ok(t, err)
	return &authority{t, cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a *authority) sign(name string) (cert, key []byte) {
	a.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ok(a.t, err)
	tpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, a.cert, &k.PublicKey, a.key)
	ok(a.t, err)
	b, err := x509.MarshalECPrivateKey(k)
	ok(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: b})
}

// A client's certificate counts if its authority and its name do; with tokens next to it, either is enough.
func TestCertificates(t *testing.T) {
	ours, other := newAuthority(t), newAuthority(t)
	serverCert, serverKey := ours.sign("localhost")
	base := Access{
		CertFile: textFile(t, string(serverCert)), KeyFile: textFile(t, string(serverKey)), ClientCAFile: textFile(t, string(ours.pem)), ClientNames: []string{"viewer"},
	}
	both := base
	both.TokenFile = textFile(t, goodToken)
	for _, x := range []struct {
		name   string
		access Access
		client *authority
		as     string
		token  string
		want   int // 0: the handshake fails
	}{
		{"no certificate", base, nil, "", "", 0}, {"ours", base, ours, "viewer", "", 200}, {"another name", base, ours, "other", "", 403},
		{"another authority", base, other, "viewer", "", 0}, {"a token alone", both, nil, "", goodToken, 200}, {"a certificate alone", both, ours, "viewer", "", 200},
		{"neither", both, nil, "", "", 401}, {"a wrong token", both, nil, "", otherToken, 401}, {"another name with a token", both, ours, "other", goodToken, 403},
	} {
		s := newSite(t, time.Hour)
		s.o.Access, s.o.Now = x.access, time.Now
		h := s.server()
		h.access.slowly = 0
		server := httptest.NewUnstartedServer(h)
		server.Config.ErrorLog = nil
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ok(t, err)
		ok(t, server.Listener.Close())
		server.Listener = tls.NewListener(l, h.TLS())
		server.Start()
		pool := x509.NewCertPool()
		pool.AddCert(ours.cert)
		conf := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		if x.client != nil {
			pair, err := tls.X509KeyPair(x.client.sign(x.as))
			ok(t, err)
			conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		transport := &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+l.Addr().String()+"/api/v1/overview", nil)
		ok(t, err)
		if x.token != "" {
			req.Header.Set("Authorization", "Bearer "+x.token)
		}
		res, err := (&http.Client{Transport: transport}).Do(req)
		got := 0
		if err == nil {
			got = res.StatusCode
			_, err = io.Copy(io.Discard, res.Body)
			ok(t, errors.Join(err, res.Body.Close()))
		}
		if got != x.want {
			t.Errorf("%s: status %d, want %d: %v", x.name, got, x.want, err)
		}
		transport.CloseIdleConnections()
		server.Close()
	}
}

// Too many requests at once are refused, and every answer has the headers.
func TestTooMany(t *testing.T) {
	h := secured(t, Access{})
	for range maxRequests {
		h.room <- struct{}{}
	}
	w := do(h, request("/"))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || w.Header().Get("Content-Security-Policy") != policy {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	<-h.room
	if w := do(h, request("/")); w.Code != 200 || len(h.room) != maxRequests-1 {
		t.Errorf("%d", w.Code)
	}
}
