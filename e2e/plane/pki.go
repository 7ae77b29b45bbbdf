package plane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority signs the certificates of one cluster.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// PEM is its certificate.
	PEM []byte
}

// Pair is a certificate and its key, PEM.
type Pair struct{ Cert, Key []byte }

// NewAuthority makes one that is valid for a day.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of authority %s: %w", name, err)
	}
	t, err := template(name, nil)
	if err != nil {
		return nil, err
	}
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("making authority %s: %w", name, err)
	}
	return &Authority{cert: cert, key: key, PEM: pemOf("CERTIFICATE", der)}, nil
}

func template(name string, groups []string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: groups},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
	}, nil
}

// Client makes a client's certificate: the common name is the user's name, the organizations are its groups.
func (a *Authority) Client(user string, groups ...string) (Pair, error) {
	t, err := template(user, groups)
	if err != nil {
		return Pair{}, err
	}
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(t)
}

// Server makes a certificate for this machine and further DNS names.
func (a *Authority) Server(name string, dns ...string) (Pair, error) {
	t, err := template(name, nil)
	if err != nil {
		return Pair{}, err
	}
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	t.DNSNames, t.IPAddresses = append([]string{"localhost"}, dns...), []net.IP{net.IPv4(127, 0, 0, 1)}
	return a.sign(t)
}

func (a *Authority) sign(t *x509.Certificate) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("making the key of %s: %w", t.Subject.CommonName, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing the certificate of %s: %w", t.Subject.CommonName, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("writing the key of %s: %w", t.Subject.CommonName, err)
	}
	return Pair{Cert: pemOf("CERTIFICATE", der), Key: pemOf("PRIVATE KEY", private)}, nil
}

// Key is the authority's private key, PEM.
func (a *Authority) Key() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, fmt.Errorf("writing the authority's key: %w", err)
	}
	return pemOf("PRIVATE KEY", der), nil
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Write writes NAME.crt and NAME.key into the folder and returns their paths.
func (p Pair) Write(dir, name string) (cert, key string, err error) {
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	if err := os.WriteFile(cert, p.Cert, 0o600); err != nil {
		return "", "", fmt.Errorf("writing the certificate of %s: %w", name, err)
	}
	if err := os.WriteFile(key, p.Key, 0o600); err != nil {
		return "", "", fmt.Errorf("writing the key of %s: %w", name, err)
	}
	return cert, key, nil
}
