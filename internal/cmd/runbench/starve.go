package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// hostileConnections is how many are opened at a time by those without credentials, three quarters of them to the webhook, the others to /healthz.
	hostileConnections = 2000
	// starveRate is what the API server posts, in events a second: a post every 100 ms, each on a connection of its own.
	starveRate = 4000
	// apiServerTimeout is that of an API server's webhook backend.
	apiServerTimeout = 30 * time.Second
	askedHealthz     = time.Second
	askedRetried     = 0.01 // of the posts, where many addresses are hostile
)

// starve posts as an API server does while others hold as many connections as they get: from one address, and then from fifty.
func (r *bench) starve(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "starve")
	if err != nil {
		return fmt.Errorf("a folder for the certificate: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	trust, err := serverCertificate(dir)
	if err != nil {
		return err
	}
	c, err := startChild(ctx, r.o, fmt.Sprintf("sources: {webhook: {listen: %%s, tls: {certFile: %q, keyFile: %q}, bearerTokenFile: %q}}",
		filepath.Join(dir, "crt"), filepath.Join(dir, "key"), filepath.Join(dir, "token")))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	client := &http.Client{Timeout: apiServerTimeout, Transport: bearing{&http.Transport{
		DialContext: from("127.0.0.9"), TLSClientConfig: &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS13}, DisableKeepAlives: true, DisableCompression: true,
	}}}
	judged, unsure := int64(0), int64(0)
	for _, addresses := range []int{1, 50} {
		name := fmt.Sprintf("starve from %d", addresses)
		hostile, end := context.WithCancel(ctx)
		var wg sync.WaitGroup
		var opened atomic.Int64
		for i := range hostileConnections {
			to := c.audit
			if i%4 == 0 {
				to = c.listen
			}
			dial := from(fmt.Sprintf("127.0.1.%d", 1+i%addresses))
			wg.Go(func() { harass(hostile, dial, to, i, &opened) })
		}
		probes := make(chan probed, 1)
		go func() { probes <- probeHealth(hostile, "http://"+c.listen+"/healthz") }()
		var attempts, failed atomic.Int64
		out, w, err := r.measured(ctx, name, c, func() *outcome {
			return drive(ctx, r.ids, r.batches, starveRate, r.o.duration, retrying(client, "https://"+c.audit+"/audit", &attempts, &failed))
		})
		end()
		wg.Wait()
		p := <-probes
		if err != nil {
			return err
		}
		judged, unsure = judged+out.judged, unsure+out.unsure
		r.add(w, false)
		slices.Sort(out.delays)
		r.check(out.taken == out.events && float64(failed.Load()) <= askedRetried*float64(attempts.Load()) && (addresses > 1 || failed.Load() == 0),
			"%s: %d hostile connections opened; %d posts, %d of them again, the longest took %.3f s; asked for: at most %.0f %% again, from one address none",
			name, opened.Load(), attempts.Load(), failed.Load(), out.quantile(1), 100*askedRetried)
		r.check(p.late == 0 && p.n > 0, "%s: /healthz was asked %d times and answered all but %d times within %v, the longest took %.3f s", name, p.n, p.late, askedHealthz,
			p.longest.Seconds())
	}
	return r.counted(ctx, "starve", c, judged, unsure)
}

// bearing sends the token with each request.
type bearing struct{ http.RoundTripper }

// apiServerToken is the one that the webhook wants.
const apiServerToken = "the-token-of-the-api-server" //nolint:gosec // of a server that lives for a minute

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+apiServerToken)
	return b.RoundTripper.RoundTrip(r)
}

// from dials from an address of this machine.
func from(address string) func(ctx context.Context, network, to string) (net.Conn, error) {
	return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: 10 * time.Second}).DialContext
}

// retrying posts a batch until it is taken, as an API server does, and counts the attempts and those that failed.
func retrying(client *http.Client, url string, attempts, failed *atomic.Int64) send {
	return func(ctx context.Context, b *batch, o *outcome) {
		begin := time.Now()
		for ctx.Err() == nil {
			attempts.Add(1)
			code, _, err := postOnce(ctx, client, url, b.body)
			if err == nil && code == http.StatusOK {
				o.done(b, begin)
				return
			}
			failed.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		o.fail(ctx.Err())
	}
}

// harass holds a connection, in one of the ways in which that costs little, and opens another one a while after it was closed.
func harass(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), to string, way int, opened *atomic.Int64) {
	for ctx.Err() == nil {
		if conn, err := dial(ctx, "tcp", to); err == nil {
			opened.Add(1)
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			switch way / 4 % 4 {
			case 0: // idle
			case 1:
				_, _ = conn.Write([]byte("POST /audit HTTP/1.1\r\nHost: x\r\nX-")) // it may be closed already
			case 2:
				_, _ = conn.Write([]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")) // the beginning of a handshake
			case 3:
				_ = slowBody(ctx, conn)
			}
			_, _ = io.Copy(io.Discard, conn) // until the other side closes it
			stop()
			_ = conn.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second + mathrand.N(2*time.Second)):
		}
	}
}

// slowBody completes the handshake where there is one, and sends a body that takes hours.
func slowBody(ctx context.Context, conn net.Conn) error {
	w := conn
	if t := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}); t.HandshakeContext(ctx) == nil { //nolint:gosec // an attacker's
		w = t
	}
	if _, err := w.Write([]byte("POST /audit HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n")); err != nil {
		return err
	}
	for {
		if _, err := w.Write([]byte(" ")); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// probed is what came of the probes.
type probed struct {
	n, late int
	longest time.Duration
}

// probeHealth asks four times a second, each time on a new connection, as a kubelet does.
func probeHealth(ctx context.Context, url string) (p probed) {
	client := &http.Client{Timeout: askedHealthz, Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		begin := time.Now()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return p
		}
		resp, err := client.Do(req)
		if ctx.Err() != nil {
			return p
		}
		p.n++
		if err != nil || resp.StatusCode != http.StatusOK {
			p.late++
		}
		if err == nil {
			_ = resp.Body.Close()
		}
		p.longest = max(p.longest, time.Since(begin))
		select {
		case <-ctx.Done():
		case <-time.After(250 * time.Millisecond):
		}
	}
	return p
}

// serverCertificate writes a certificate for 127.0.0.1, its key, and the token of the API server into the folder, and returns what trusts it.
func serverCertificate(dir string) (*x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("a key: %w", err)
	}
	now := time.Now()
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("a certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("a key: %w", err)
	}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	err = errors.Join(os.WriteFile(filepath.Join(dir, "crt"), chain, 0o600),
		os.WriteFile(filepath.Join(dir, "token"), []byte(apiServerToken+"\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	if err != nil {
		return nil, fmt.Errorf("the certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(chain)
	return pool, nil
}
