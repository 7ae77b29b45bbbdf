package http

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/sinks/sinktest"
)

// receiver takes findings in as the suite wants.
type receiver struct {
	cloudEvents  bool
	fail, refuse atomic.Bool
	mu           sync.Mutex
	got          []sinks.Finding
	hang         chan struct{}
	unread       error
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	hang := r.hang
	r.mu.Unlock()
	body, err := io.ReadAll(req.Body)
	if hang != nil {
		select {
		case <-hang:
		case <-req.Context().Done():
			return
		}
	}
	if err != nil {
		return // the client went away
	}
	if r.fail.Load() {
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var findings []sinks.Finding
	if r.cloudEvents {
		var events []sinks.CloudEvent
		err = strict(body, &events)
		for _, e := range events {
			if e.SpecVersion != "1.0" || e.ID == "" || e.Source == "" || e.Type != sinks.EventType || e.Data == nil {
				err = errors.Join(err, errors.New("not a CloudEvent"))
				break
			}
			findings = append(findings, *e.Data)
		}
	} else {
		err = strict(body, &findings)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unread = errors.Join(r.unread, err)
	for _, f := range findings {
		if r.refuse.Load() && f.Message == sinktest.Poison {
			http.Error(w, "no poison", http.StatusBadRequest)
			return
		}
	}
	r.got = append(r.got, findings...)
	w.WriteHeader(http.StatusAccepted)
}

func strict(b []byte, v any) error {
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

func TestSuite(t *testing.T) {
	for name, events := range map[string]bool{"json": false, "cloudevents": true} {
		t.Run(name, func(t *testing.T) {
			sinktest.Run(t, func(t *testing.T) *sinktest.Sink {
				r := &receiver{cloudEvents: events}
				srv := httptest.NewServer(r)
				t.Cleanup(srv.Close)
				s, err := New(Options{Name: "receiver", URL: srv.URL + "/findings", Format: map[bool]sinks.Format{false: sinks.JSON, true: sinks.CloudEvents}[events], Timeout: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				return &sinktest.Sink{
					Sender: s,
					Received: func(t *testing.T) []sinks.Finding {
						r.mu.Lock()
						defer r.mu.Unlock()
						if r.unread != nil {
							t.Error(r.unread)
						}
						return r.got
					},
					Fail:   func(on bool) { r.fail.Store(on) },
					Refuse: func() { r.refuse.Store(true) },
					Hang: func(on bool) {
						r.mu.Lock()
						defer r.mu.Unlock()
						if on {
							r.hang = make(chan struct{})
						} else {
							close(r.hang)
						}
					},
				}
			})
		})
	}
}

func send(t *testing.T, o Options) error {
	t.Helper()
	o.Name = "x"
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Send(context.Background(), sinktest.Findings(1))
}

func TestRequest(t *testing.T) {
	var got http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { got = req.Header.Clone() }))
	defer srv.Close()
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	write(t, token, "abc\n")
	for _, o := range []Options{
		{BearerToken: "abc"}, {BearerTokenFile: token}, {Username: "u", Password: "p"}, {Headers: map[string]string{"X-Tenant": "7"}, UserAgent: "nodetrail/1"},
		{Format: sinks.CloudEvents},
	} {
		o.URL = srv.URL
		if err := send(t, o); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"Content-Type": "application/json", "User-Agent": "nodetrail", "Authorization": "", "X-Tenant": ""}
		switch {
		case o.Username != "":
			want["Authorization"] = "Basic dTpw"
		case o.BearerToken+o.BearerTokenFile != "":
			want["Authorization"] = "Bearer abc"
		case o.Format == sinks.CloudEvents:
			want["Content-Type"] = "application/cloudevents-batch+json; charset=UTF-8"
		default:
			want["X-Tenant"], want["User-Agent"] = "7", "nodetrail/1"
		}
		for k, v := range want {
			if got.Get(k) != v {
				t.Errorf("%+v: header %s is %q, want %q", o, k, got.Get(k), v)
			}
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Each answer is tried again but those that say that the findings themselves are at fault.
func TestAnswers(t *testing.T) {
	var code atomic.Int32
	var after atomic.Value
	after.Store("")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if s := after.Load().(string); s != "" {
			w.Header().Set("Retry-After", s)
		}
		w.WriteHeader(int(code.Load()))
	}))
	defer srv.Close()
	for _, c := range []int32{200, 201, 202, 204} {
		code.Store(c)
		if err := send(t, Options{URL: srv.URL}); err != nil {
			t.Errorf("%d: %v", c, err)
		}
	}
	for c, want := range map[int32]bool{400: true, 413: true, 415: true, 422: true, 401: false, 403: false, 404: false, 408: false, 429: false, 500: false, 502: false, 503: false, 304: false, 300: false} {
		code.Store(c)
		err := send(t, Options{URL: srv.URL})
		var p *sinks.PermanentError
		if err == nil || errors.As(err, &p) != want {
			t.Errorf("%d: %v", c, err)
		}
	}
	for _, c := range []int32{429, 503} {
		code.Store(c)
		for s, want := range map[string]time.Duration{"7": 7 * time.Second, "999999999": 24 * time.Hour, "-1": 0, "soon": 0, "": 0,
			"Mon, 02 Jan 2006 15:04:05 GMT": 0, time.Now().Add(72 * time.Hour).UTC().Format(http.TimeFormat): 24 * time.Hour} {
			after.Store(s)
			var r *sinks.RetryError
			if err := send(t, Options{URL: srv.URL}); errors.As(err, &r) != (want > 0) || r != nil && r.After != want {
				t.Errorf("%d, Retry-After %q: %v", c, s, err)
			}
		}
	}
}

func TestTooLarge(t *testing.T) {
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var f []sinks.Finding
		if err := json.NewDecoder(req.Body).Decode(&f); err != nil {
			t.Error(err)
		}
		if len(f) > 3 {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		for i := range f {
			got = append(got, f[i].ID)
		}
	}))
	defer srv.Close()
	s, err := New(Options{Name: "x", URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var want []string
	all := sinktest.Findings(10)
	for i := range all {
		want = append(want, all[i].ID)
	}
	if err := s.Send(context.Background(), all); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Credentials never go to another host, and a POST never becomes a GET.
func TestRedirects(t *testing.T) {
	var others, gets, posts atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { others.Add(1) }))
	defer other.Close()
	mux := http.NewServeMux()
	to := func(path, where string, code int) {
		mux.HandleFunc(path, func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, where, code) })
	}
	to("/other", other.URL, http.StatusTemporaryRedirect)
	to("/found", "/end", http.StatusFound)
	to("/same", "/end", http.StatusPermanentRedirect)
	to("/loop", "/loop", http.StatusTemporaryRedirect)
	mux.HandleFunc("/end", func(_ http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost {
			gets.Add(1)
			return
		}
		var f []sinks.Finding
		if err := json.NewDecoder(req.Body).Decode(&f); err != nil || len(f) != 1 || req.Header.Get("Authorization") == "" {
			t.Errorf("%v, %d findings", err, len(f))
		}
		posts.Add(1)
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	for path, ok := range map[string]bool{"/other": false, "/found": false, "/loop": false, "/same": true} {
		if err := send(t, Options{URL: srv.URL + path, BearerToken: "abc"}); (err == nil) != ok {
			t.Errorf("%s: %v", path, err)
		}
	}
	if others.Load() != 0 || gets.Load() != 0 || posts.Load() != 1 {
		t.Errorf("%d to another host, %d GET, %d POST", others.Load(), gets.Load(), posts.Load())
	}
}

func TestTLS(t *testing.T) {
	srv := httptest.NewTLSServer(&receiver{})
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	write(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})))
	if err := send(t, Options{URL: srv.URL}); err == nil {
		t.Error("a certificate of nobody is taken")
	}
	if err := send(t, Options{URL: srv.URL, CAFile: ca}); err != nil {
		t.Error(err)
	}
	if err := send(t, Options{URL: srv.URL, CAFile: ca, ServerName: "another.example"}); err == nil || strings.Contains(err.Error(), srv.URL) {
		t.Errorf("of another name: %v", err)
	}
	write(t, ca, "nothing")
	for _, o := range []Options{{URL: srv.URL, CAFile: ca}, {URL: srv.URL, CertFile: ca, KeyFile: ca}, {URL: "ftp://x"}, {URL: ":"}, {URL: srv.URL, CAFile: ca + "x"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// Neither the address's query nor credentials show in errors.
func TestErrorsHoldNoSecrets(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close() // nobody listens
	for _, o := range []Options{
		{URL: srv.URL + "/?key=hunter2", BearerToken: "hunter2"}, {URL: srv.URL, BearerToken: "hunter2\n"},
		{URL: srv.URL, Headers: map[string]string{"X": "hunter2\n"}}, {URL: srv.URL, BearerTokenFile: "none"},
	} {
		if err := send(t, o); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "0", "7", "-1", "4294967295", "4294967296", "Mon, 02 Jan 2006 15:04:05 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "1e3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d := retryAfter(s); d > 24*time.Hour {
			t.Errorf("%q: %s", s, d)
		}
	})
}
