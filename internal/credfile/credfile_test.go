package credfile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func textFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadIsBounded(t *testing.T) {
	if text, err := Read(textFile(t, strings.Repeat("x", maxBytes))); err != nil || len(text) != maxBytes {
		t.Errorf("a megabyte: %d bytes, %v", len(text), err)
	}
	if _, err := Read(textFile(t, strings.Repeat("x", maxBytes+1))); err == nil {
		t.Error("more than a megabyte is read")
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("of no file: %v", err)
	}
}

func TestTokens(t *testing.T) {
	const first, second = "0123456789abcdef", "0123456789abcdef-second"
	tokens, err := ParseTokens([]byte("\n " + first + " \r\n\n" + second))
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]bool{first: true, second: true, "": false, first + "-": false, second[:len(second)-1]: false, first + "\n" + second: false} {
		if got := tokens.Have(token); got != want {
			t.Errorf("%q: %t", token, got)
		}
	}
	if Tokens(nil).Have("") {
		t.Error("no tokens have one")
	}
	for text, want := range map[string]string{
		"": "no token", "\n\n": "no token", first + "\n" + first[1:]: "shorter than 16", strings.Repeat("x", MaxToken+1): "longer than 16384",
	} {
		if _, err := ParseTokens([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func TestBearer(t *testing.T) {
	f := func(want string, values ...string) {
		t.Helper()
		if got := Bearer(http.Header{"Authorization": values}); got != want {
			t.Errorf("%q: %q", values, got)
		}
	}
	f("abc", "Bearer abc")
	f("abc", "bearer  abc ")
	f("a b", "Bearer a b")
	f("")
	f("", "")
	f("", "Bearer")
	f("", "Bearer ")
	f("", "abc")
	f("", "Basic abc")
	f("", "Bearer abc", "Bearer abc")
}

func TestCertificates(t *testing.T) {
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	type pair struct {
		cert *x509.Certificate
		key  *ecdsa.PrivateKey
	}
	serial := int64(0)
	sign := func(of x509.Certificate, by *pair) *pair {
		t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		serial++
		of.SerialNumber, of.NotBefore, of.NotAfter, of.BasicConstraintsValid = big.NewInt(serial), at.Add(-time.Hour), at.Add(time.Hour), true
		if by == nil {
			by = &pair{&of, key}
		}
		der, err := x509.CreateCertificate(rand.Reader, &of, by.cert, &key.PublicKey, by.key)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return &pair{cert, key}
	}
	authority := x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "authority"}}
	root, other := sign(authority, nil), sign(authority, nil)
	middle := sign(authority, root)
	leaf := x509.Certificate{
		Subject: pkix.Name{CommonName: "client"}, DNSNames: []string{"client.example"}, URIs: []*url.URL{{Scheme: "spiffe", Host: "example", Path: "/client"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	client := sign(leaf, middle)
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server := sign(leaf, middle)

	bundle := func(p *pair) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.cert.Raw}))
	}
	roots, err := Authorities(textFile(t, bundle(root)))
	if err != nil {
		t.Fatal(err)
	}
	others, err := ParseAuthorities([]byte(bundle(other)))
	if err != nil {
		t.Fatal(err)
	}
	f := func(what string, want bool, chain []*x509.Certificate, by *x509.CertPool, at time.Time) {
		t.Helper()
		if got := Vouched(chain, by, at); got != want {
			t.Errorf("%s: %t", what, got)
		}
	}
	chain := []*x509.Certificate{client.cert, middle.cert}
	f("all that is needed", true, chain, roots, at)
	f("nothing shown", false, nil, roots, at)
	f("what is between is missing", false, chain[:1], roots, at)
	f("another authority", false, chain, others, at)
	f("too early", false, chain, roots, at.Add(-2*time.Hour))
	f("too late", false, chain, roots, at.Add(2*time.Hour))
	f("a server's", false, []*x509.Certificate{server.cert, middle.cert}, roots, at)

	for name, want := range map[string]bool{"client": true, "client.example": true, "spiffe://example/client": true, "authority": false, "": false, "example": false} {
		if got := Named(client.cert, []string{"somebody", name}); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}

	if _, err := Authorities(textFile(t, "x")); err == nil || !strings.Contains(err.Error(), "no certificate in it") {
		t.Errorf("authorities of what has none: %v", err)
	}
	if _, err := ClientCertificate(textFile(t, bundle(client)), textFile(t, "")); err == nil {
		t.Error("a certificate without its key is taken")
	}
	key, err := x509.MarshalECPrivateKey(client.key)
	if err != nil {
		t.Fatal(err)
	}
	keyFile := textFile(t, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key})))
	load, err := ClientCertificate(textFile(t, bundle(client)), keyFile)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := load(nil); err != nil || !got.Leaf.Equal(client.cert) {
		t.Errorf("the client's certificate: %v", err)
	}
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	if _, err := load(nil); err == nil {
		t.Error("the files are not read for each connection")
	}
}
