// Package credfile reads the files that prove who somebody is: bearer tokens, certificates, and the authorities behind those.
//
// What goes in: paths, and what a client showed. What comes out: tokens to compare with, pools of authorities, the client's certificate of a
// connection, and whether a client is one of those. When a file is read again is its user's to say. The package imports none of ours.
package credfile

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// maxBytes bounds a file. Bundles of authorities have some 200 kB.
const maxBytes = 1 << 20

// Read reads a file of at most a megabyte.
func Read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err == nil && len(text) > maxBytes {
		err = fmt.Errorf("%s is longer than %d bytes", path, maxBytes)
	}
	return text, err
}

// Authorities reads the certificates of authorities, in PEM.
func Authorities(path string) (*x509.CertPool, error) {
	text, err := Read(path)
	if err != nil {
		return nil, err
	}
	pool, err := ParseAuthorities(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return pool, nil
}

// ParseAuthorities is Authorities of what a file held.
func ParseAuthorities(text []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("no certificate in it")
	}
	return pool, nil
}

// ClientCertificate is for [tls.Config.GetClientCertificate]: the files are read for each connection, so that they can be replaced. They are read now
// too, and must be good.
func ClientCertificate(certFile, keyFile string) (func(*tls.CertificateRequestInfo) (*tls.Certificate, error), error) {
	load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("reading the client's certificate: %w", err)
		}
		return &pair, nil
	}
	if _, err := load(nil); err != nil {
		return nil, err
	}
	return load, nil
}

// ServerTLS is what holds for every handshake of a server. There is no resumption: a session would outlive the authorities that vouched for it.
func ServerTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, SessionTicketsDisabled: true}
}

// Vouched reports whether a client's certificate, the first of the chain that it showed, leads to one of the authorities at a time. It is to be asked for
// each request, so that a connection does not outlive the certificate or the authority that it was opened with.
func Vouched(chain []*x509.Certificate, authorities *x509.CertPool, at time.Time) bool {
	if len(chain) == 0 {
		return false
	}
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: authorities, Intermediates: between, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}

// Named reports whether one of the names is a certificate's common name, a DNS name or a URI of it.
func Named(cert *x509.Certificate, names []string) bool {
	its := append([]string{cert.Subject.CommonName}, cert.DNSNames...)
	for _, uri := range cert.URIs {
		its = append(its, uri.String())
	}
	return slices.ContainsFunc(its, func(name string) bool { return slices.Contains(names, name) })
}
