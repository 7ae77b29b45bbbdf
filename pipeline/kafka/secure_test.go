package kafka

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/kafkatest"
)

// certificate makes a certificate with its key, in PEM, signed by itself: an authority of its own.
func certificate(t *testing.T, name string) (both, cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	return append(append([]byte{}, key...), cert...), cert, key
}

func TestSecure(t *testing.T) {
	server, serverCert, _ := certificate(t, "broker")
	_, clientCert, clientKey := certificate(t, "client")
	k := kafkatest.Start(t, kafkatest.Options{Users: map[string]string{"reader": "s3cret"}, ServerPEM: server, ClientsPEM: clientCert})
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca, cert, key := file("ca.pem", serverCert), file("client.pem", clientCert), file("client.key", clientKey)
	password := file("password", []byte("s3cret\n"))
	createTopic(t, k.Addresses(), "secure", 1, 1, nil)
	all := ids("secure", 0, 10)
	produce(t, k.Addresses(), "secure", all...)
	sasl := func(s SASL) Cluster { return Cluster{Brokers: k.SASLAddresses(), SASL: s} }
	withTLS := func(c TLS) Cluster { return Cluster{Brokers: k.TLSAddresses(), TLS: c} }
	for name, cluster := range map[string]Cluster{
		"plain":     sasl(SASL{Mechanism: SASLPlain, Username: "reader", Password: "s3cret"}),
		"scram-256": sasl(SASL{Mechanism: SASLScramSHA256, Username: "reader", PasswordFile: password}),
		"scram-512": sasl(SASL{Mechanism: SASLScramSHA512, Username: "reader", PasswordFile: password}),
		"tls":       withTLS(TLS{Enabled: true, CAFile: ca, CertFile: cert, KeyFile: key}),
	} {
		t.Run(name, func(t *testing.T) {
			st := newStore()
			opt := quickOptions(nil, name, "secure")
			opt.Cluster = cluster
			c := st.consume(t, opt, nil)
			wantCounted(t, st, once(all))
			c.shutdown(t)
			p, err := NewProducer(ProducerOptions{Cluster: cluster, Topic: "secure"}, testLog(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Produce(context.Background(), Record{}); err != nil {
				t.Error(err)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	for name, cluster := range map[string]Cluster{
		"plain, wrong password":     sasl(SASL{Mechanism: SASLPlain, Username: "reader", Password: "wrong"}),
		"scram-512, wrong password": sasl(SASL{Mechanism: SASLScramSHA512, Username: "reader", Password: "wrong"}),
		"tls, no certificate":       withTLS(TLS{Enabled: true, CAFile: ca}),
		"tls, unknown authority":    withTLS(TLS{Enabled: true, CertFile: cert, KeyFile: key}),
		"plain text to tls":         {Brokers: k.TLSAddresses()},
	} {
		t.Run(name, func(t *testing.T) {
			opt := quickOptions(nil, "refused", "secure")
			opt.Cluster = cluster
			c := newStore().consume(t, opt, nil)
			eventually(t, "the refusal", func() bool { return c.src.Stats().GroupErrors > 0 })
			c.shutdown(t)
			if n := c.st.total(); n != 0 {
				t.Errorf("%d events came in", n)
			}
		})
	}
}
