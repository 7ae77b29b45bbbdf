package alertmanager

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nodetrail/nodetrail/sinks"
)

// Whatever a log holds, Alertmanager takes it: the fake fails the test where it would not.
func TestHostile(t *testing.T) {
	b := newBench(t, 1)
	s := b.begin()
	texts := hostile()
	for _, text := range texts {
		s.Add([]sinks.Finding{everywhere(text, b.clock.Now())})
	}
	b.pass(5 * time.Second)
	if st := s.Stats(); st.Firing != len(texts) || st.Peers[0].Sent == 0 || st.Peers[0].Refused != 0 {
		t.Errorf("%+v", st)
	}
	for _, r := range b.peers[0].received() {
		for name, v := range r.Annotations {
			if len(v) > 2000 || strings.ContainsAny(v, "\x00\x1b\n\u202e\u2028") {
				t.Errorf("%s is %.100q", name, v)
			}
		}
	}
}

func hostile() []string {
	return []string{
		"</script><b>&amp;\"'\\", "line\nfeed\r\n\x00\x1b[31mred\x7f", "\xff\xfe\xc0broken", "\u2028\u2029\u202e\ufeff", strings.Repeat("é", 5000),
		strings.Repeat("\xff", 300), "{{ .Labels }} ${x}", "-", " ",
	}
}

func everywhere(text string, now time.Time) sinks.Finding {
	return sinks.Finding{
		ID: "0123", Cluster: text, Rule: text, Severity: "high", Node: text, Verb: text, APIGroup: text, Resource: text, Subresource: text, Namespace: text,
		Name: text, UserAgent: text, Binding: sinks.Binding{Kind: text, Namespace: text, Name: text}, Message: text, Detail: text, Count: 1,
		First: now, Last: now, AuditIDs: []string{text, text, text, text, text, text, text}, Runbook: text,
	}
}

func FuzzWire(f *testing.F) {
	for _, text := range hostile() {
		f.Add(text, int64(0), int64(1))
	}
	f.Add("", int64(1<<62), int64(-1<<62))
	f.Fuzz(func(t *testing.T, text string, first, last int64) {
		now := start
		m := &manager{t: t, clock: newClock(), alerts: map[string]received{}}
		b := newBook(&Options{URLs: []string{""}, Resend: time.Minute, ResolveAfter: time.Minute, MaxAlerts: 10, ExternalURL: "http://a", Clock: m.clock})
		finding := everywhere(text, now)
		finding.First, finding.Last = now.Add(time.Duration(first)), now.Add(time.Duration(last))
		for _, from := range []origin{live, stored} {
			b.fold(&finding, now, from)
		}
		b.counted()
		for range 2 {
			batch, _ := b.due(0, now, 10, false)
			for i := range batch {
				if err := m.valid(&batch[i].wire); err != nil {
					t.Error(err)
				}
				b.sent(0, &batch[i], now, false)
				for _, v := range batch[i].wire.Labels {
					if len(v) > maxName+len("…") || !utf8.ValidString(v) {
						t.Errorf("%q", v)
					}
				}
			}
			now = now.Add(time.Hour)
			b.settle(now, now)
		}
	})
}

// Of alerts that are sent together, those that are refused do not take the others with them.
func TestRefused(t *testing.T) {
	b := newBench(t, 2)
	b.peers[0].set(func() { b.peers[0].poison = "poison" })
	s := b.begin()
	var all []sinks.Finding
	for i := range 20 {
		all = append(all, b.finding(fmt.Sprintf("n-%02d", i), "x", 0))
	}
	all[3].Message = "poison"
	s.Add(all)
	b.settle()
	if st := s.Stats().Peers[0]; st.Refused != 1 {
		t.Errorf("%+v", st)
	}
	b.pass(5 * time.Minute)
	for i, n := range []int{19, 20} {
		if firing, _ := b.peers[i].has(); len(firing) != n {
			t.Errorf("peer %d has %q", i, firing)
		}
	}
	if st := s.Stats().Peers[0]; st.Length != 0 || st.Refused != 3 { // again after one minute, and after two more
		t.Errorf("%+v", st)
	}
}

// A proxy that answers 400 for a while delays an alert by minutes at most; what is refused again and again is sent every ten minutes.
func TestRefusedForAWhile(t *testing.T) {
	b := newBench(t, 1)
	poison := func(text string) { b.peers[0].set(func() { b.peers[0].poison = text }) }
	poison("poison")
	s := b.begin()
	f := b.finding("worker-1", "db", 0)
	f.Message = "poison"
	find := func() { f.Last = b.clock.Now(); b.find(s, f) }
	find()
	b.pass(30 * time.Second)
	poison("none")
	b.pass(time.Minute)
	want(t, b.peers[0], []string{worker1}, nil)
	poison("poison")
	b.pass(2 * time.Minute)
	before := s.Stats().Peers[0].Refused
	for range 6 {
		find()
		b.pass(10 * time.Minute)
	}
	if n := s.Stats().Peers[0].Refused - before; n < 5 || n > 10 {
		t.Errorf("refused %d times in an hour", n)
	}
}

// Close ends when its context does, whatever the peers do, and one that is down does not hold it up.
func TestClose(t *testing.T) {
	b := newBench(t, 2)
	hang := make(chan struct{})
	defer close(hang)
	b.peers[0].set(func() { b.peers[0].hang = hang })
	b.peers[1].set(func() { b.peers[1].down = true })
	s := b.begin()
	s.Add([]sinks.Finding{b.finding("worker-1", "db", 0)})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); err == nil || strings.Count(err.Error(), "1 alerts were not sent") != 2 {
		t.Errorf("closing says %v", err)
	}
	b.sinks = nil
	b.peers[0].set(func() { b.peers[0].hang = nil })
	s = b.begin()
	s.Add([]sinks.Finding{b.finding("worker-1", "db", 0)})
	if err := s.Close(context.Background()); err == nil || strings.Count(err.Error(), "1 alerts were not sent") != 1 {
		t.Errorf("closing says %v", err)
	}
	want(t, b.peers[0], []string{worker1}, nil) // it was sent, and is not resolved by closing
	if err := s.Close(context.Background()); err == nil {
		t.Error("closing again says nothing")
	}
	b.sinks = nil
}

func TestConcurrent(t *testing.T) {
	b := newBench(t, 2)
	s := b.begin()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 50 {
				s.Add([]sinks.Finding{b.finding(fmt.Sprintf("n-%d-%d", w, i), "x", 0)})
				_ = s.Stats()
				b.clock.advance(time.Second)
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	b.sinks = nil
	for _, p := range b.peers {
		p.set(func() {
			if len(p.alerts) != 200 {
				t.Errorf("%d alerts", len(p.alerts))
			}
		})
	}
}

func TestCredentials(t *testing.T) {
	b := newBench(t, 1)
	file := filepath.Join(t.TempDir(), "token")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	b.peers[0].set(func() { b.peers[0].auth = "Bearer first" })
	s := b.begin(func(o *Options) { o.HTTP.BearerTokenFile = file })
	b.find(s, b.finding("worker-1", "db", 0))
	b.pass(time.Second)
	want(t, b.peers[0], []string{worker1}, nil)
	b.peers[0].set(func() { b.peers[0].auth = "Bearer second" })
	b.pass(2 * time.Minute)
	if st := s.Stats().Peers[0]; st.FailingSince.IsZero() || st.Refused != 0 {
		t.Errorf("%+v", st) // 401 is what a change of the file mends
	}
	write("second")
	b.pass(2 * time.Minute)
	want(t, b.peers[0], []string{worker1}, nil)
	if st := s.Stats().Peers[0]; !st.FailingSince.IsZero() {
		t.Errorf("%+v", st)
	}
	b.end(s)
	b.peers[0].set(func() { b.peers[0].auth = "Basic dTpw" })
	s = b.begin(func(o *Options) { o.HTTP.Username, o.HTTP.Password = "u", "p" })
	b.pass(2 * time.Second)
	if st := s.Stats().Peers[0]; st.Sent != 1 {
		t.Errorf("%+v", st)
	}
}

// The authorities are read again when the peer's certificate is not trusted.
func TestAuthoritiesChange(t *testing.T) {
	b := newBench(t, 1)
	srv := httptest.NewTLSServer(b.peers[0])
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	of := func(s *httptest.Server) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	}
	if err := os.WriteFile(ca, otherAuthority(t), 0o600); err != nil {
		t.Fatal(err)
	}
	s := b.begin(func(o *Options) { o.URLs, o.HTTP.CAFile = []string{srv.URL}, ca })
	b.find(s, b.finding("worker-1", "db", 0))
	b.pass(time.Minute)
	if st := s.Stats().Peers[0]; st.Sent != 0 || st.Failures == 0 {
		t.Errorf("%+v", st)
	}
	if err := os.WriteFile(ca, of(srv), 0o600); err != nil {
		t.Fatal(err)
	}
	b.pass(2 * time.Minute)
	want(t, b.peers[0], []string{worker1}, nil)
}

func TestNew(t *testing.T) {
	ok := Options{URLs: []string{"http://a"}, Recent: newMemory().Recent}
	for name, change := range map[string]func(*Options){
		"it has no peer":            func(o *Options) { o.URLs = nil },
		"it cannot read the store":  func(o *Options) { o.Recent = nil },
		"cannot be a label":         func(o *Options) { o.Labels = map[string]string{"node": "x"} },
		"\"a-b\" cannot be a label": func(o *Options) { o.Labels = map[string]string{"a-b": "x"} },
		"not one of http":           func(o *Options) { o.URLs = []string{"http://a", "ftp://u:hunter2@b"} },
		"reading the certificate":   func(o *Options) { o.HTTP.CAFile = "/nowhere" },
	} {
		o := ok
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("want %q, got %v", name, err)
		}
	}
}

func BenchmarkDue(b *testing.B) {
	bk := newBook(&Options{URLs: []string{""}, Resend: time.Minute, ResolveAfter: time.Minute, MaxAlerts: 10_000, Clock: newClock()})
	for i := range 10_000 {
		f := everywhere(fmt.Sprint(i), start)
		bk.fold(&f, start, live)
	}
	for _, a := range bk.order {
		a.sent[0] = mark{at: start, firing: true}
	}
	b.ReportAllocs()
	for b.Loop() {
		bk.due(0, start, 100, false)
	}
}

var _ http.Handler = (*manager)(nil)

// otherAuthority is a certificate that signed nothing here.
func otherAuthority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "other"}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
