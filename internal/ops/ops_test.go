package ops

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// start serves until the test ends; the returned function asks and gives back the status and the body.
func start(t *testing.T, o Options) (*Server, func(method, path string, header ...string) (int, string)) {
	t.Helper()
	o.Listen = "127.0.0.1:0"
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	return s, func(method, path string, header ...string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(method, "http://"+s.Addr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
			if header[i] == "Host" {
				req.Host = header[i+1]
			}
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
}

func TestEndpoints(t *testing.T) {
	var why []string
	var sick error
	_, ask := start(t, Options{
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") }),
		Ready:   func() []string { return why }, Healthy: func() error { return sick },
	})
	want := func(method, path string, code int, text string) {
		t.Helper()
		if gotCode, got := ask(method, path); gotCode != code || !strings.Contains(got, text) {
			t.Errorf("%s %s: %d %q, want %d %q", method, path, gotCode, got, code, text)
		}
	}
	want("GET", "/metrics", 200, "up 1\n")
	want("GET", "/healthz", 200, "ok\n")
	want("GET", "/readyz", 200, "ready\n")
	why, sick = []string{"Pod has not been listed", "the store is not open"}, errors.New("stuck")
	want("GET", "/readyz", 503, "not ready\nPod has not been listed\nthe store is not open\n")
	want("GET", "/healthz", 503, "stuck\n")
	want("POST", "/metrics", 405, "")
	want("POST", "/-/reload", 404, "")
	want("GET", "/debug/pprof/", 404, "")
	want("GET", "/", 404, "")
	want("HEAD", "/healthz", 503, "")
}

// A page in a browser on this machine, to which its name was led, does not read the metrics.
func TestAttack16MetricsUnderAForeignName(t *testing.T) {
	_, ask := start(t, Options{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret 1\n") })})
	for host, code := range map[string]int{
		"evil.example": 421, "evil.example:9090": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "10.0.0.1": 421,
		"localhost:9090": 200, "127.0.0.1": 200, "[::1]:9090": 200,
	} {
		if got, body := ask("GET", "/metrics", "Host", host); got != code || (code == 421) == strings.Contains(body, "secret") {
			t.Errorf("as %s: %d %q, want %d", host, got, body, code)
		}
	}
}

func TestReload(t *testing.T) {
	var fail error
	calls, token := 0, ""
	var unread error
	_, ask := start(t, Options{
		Reload:      func() error { calls++; return fail },
		ReloadToken: func() (string, error) { return token, unread },
	})
	want := func(code, called int, header ...string) {
		t.Helper()
		calls = 0
		if got, body := ask("POST", "/-/reload", header...); got != code || calls != called {
			t.Errorf("%q: %d after %d calls (%s), want %d after %d", header, got, calls, body, code, called)
		}
	}
	want(200, 1)
	want(200, 1, "Host", "localhost:1")
	want(200, 1, "Host", "[::1]")
	want(403, 0, "X-Forwarded-For", "10.0.0.1")
	want(403, 0, "Host", "attacker.example:9876") // a page that was led here by DNS
	want(403, 0, "Origin", "https://attacker.example")
	want(403, 0, "Sec-Fetch-Site", "cross-site")
	fail = errors.New("n.yaml:3: listen: wrong")
	if code, body := ask("POST", "/-/reload"); code != 422 || body != "n.yaml:3: listen: wrong\n" {
		t.Errorf("%d %q", code, body)
	}
	fail, token = nil, "abc"
	want(401, 0)
	want(401, 0, "Authorization", "Bearer abd")
	want(401, 0, "Authorization", "abc")
	want(401, 0, "Authorization", "Bearer ")
	want(200, 1, "Authorization", "Bearer abc")
	want(200, 1, "Authorization", "Bearer abc", "X-Forwarded-For", "10.0.0.1")
	unread = errors.New("no such file")
	want(500, 0, "Authorization", "Bearer abc")
	if code, _ := ask("GET", "/-/reload"); code != 405 {
		t.Errorf("GET is answered %d", code)
	}
}

// Connections to the address of operations take none of those of probes. On one listener, the connection of the probe here would be the oldest of its
// address, and go first.
func TestAttack20ProbesHaveAnAddressOfTheirOwn(t *testing.T) {
	s, _ := start(t, Options{Health: "127.0.0.1:0", Metrics: http.NotFoundHandler()})
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ask := func(path string, code int) (reused bool) {
		t.Helper()
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.HealthAddr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != code {
			t.Fatalf("%s: %d, %v", path, resp.StatusCode, err)
		}
		return reused
	}
	ask("/healthz", 200)
	for i := range 2000 {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nX-") // it may be closed already
		}
		if i%100 == 0 && !ask("/healthz", 200) {
			t.Fatalf("after %d connections to the other address the probe's connection was closed", i)
		}
	}
	ask("/readyz", 200)
	for _, path := range []string{"/metrics", "/-/reload", "/", "/debug/pprof/"} {
		ask(path, 404)
	}
}

func TestPprof(t *testing.T) {
	s, _ := start(t, Options{Pprof: "127.0.0.1:0"})
	for host, want := range map[string]int{"": 200, "attacker.example": 403} {
		req, err := http.NewRequest(http.MethodGet, "http://"+s.profiling.Addr().String()+"/debug/pprof/cmdline", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("for host %q: %d", host, resp.StatusCode)
		}
	}
	resp, err := http.Get("http://" + s.profiling.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("/metrics is answered %d there", resp.StatusCode)
	}
	for _, bad := range []string{"0.0.0.0:0", ":0", "nonsense"} {
		if _, err := New(Options{Listen: "127.0.0.1:0", Pprof: bad}); err == nil {
			t.Errorf("profiles are served on %s", bad)
		}
	}
}

func TestListen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := New(Options{Listen: l.Addr().String()}); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("%v", err)
	}
	s, err := New(Options{Listen: "127.0.0.1:0", Pprof: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Serve(context.Background()); err == nil {
		t.Error("it serves although it was closed")
	}
}

// A request in hand is answered when the server stops; one that never ends is cut off.
func TestStop(t *testing.T) {
	for name, grace := range map[string]time.Duration{"answered": time.Minute, "cut off": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			s, err := New(Options{Listen: "127.0.0.1:0", Grace: grace, Log: zerolog.Nop()})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			inHand := make(chan struct{})
			s.Handle("GET /slow", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				close(inHand)
				if grace > time.Second {
					<-ctx.Done()
					_, _ = io.WriteString(w, "done")
					return
				}
				<-req.Context().Done()
			}))
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(ctx) }()
			got := make(chan string, 1)
			go func() {
				resp, err := http.Get("http://" + s.Addr() + "/slow")
				if err != nil {
					got <- "cut off"
					return
				}
				defer resp.Body.Close()
				b, _ := io.ReadAll(resp.Body)
				got <- map[string]string{"done": "answered"}[string(b)]
			}()
			<-inHand
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if g := <-got; g != name {
				t.Errorf("the request was %q", g)
			}
		})
	}
}

// Connections beyond the bound are closed; once there is room again they are served.
func TestConnectionsAreBounded(t *testing.T) {
	s, _ := start(t, Options{MaxConnections: 2})
	var open []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatalf("connection %d is not served: %v", len(open), err)
		}
		open = append(open, c)
	}
	third, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	if n, err := third.Read(make([]byte, 1)); err == nil {
		t.Errorf("a third connection was answered %d bytes", n)
	}
	_ = open[0].Close()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + s.Addr() + "/healthz")
		if err == nil {
			_ = resp.Body.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal("there is never room again")
		}
	}
}
