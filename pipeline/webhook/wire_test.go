package webhook

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func (s *site) dial() net.Conn {
	s.t.Helper()
	conn, err := new(net.Dialer).DialContext(context.Background(), "tcp", s.wire.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() }) // the server may have been first
	return conn
}

// say writes to the connection and returns the status code that comes back, or 0 if the connection ends without one.
func (s *site) say(conn net.Conn, text string) int {
	s.t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatal(err)
	}
	return s.hear(conn)
}

func (s *site) hear(conn net.Conn) int {
	s.t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func hangUp(t testing.TB, conn net.Conn) {
	t.Helper()
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

const requestHead = "POST /audit HTTP/1.1\r\nHost: x\r\n"

func TestSlow(t *testing.T) {
	s := start(t, Options{HeaderTimeout: 50 * time.Millisecond, BodyTimeout: 50 * time.Millisecond, IdleTimeout: 50 * time.Millisecond})
	if code := s.say(s.dial(), requestHead+"Content-Length: 100\r\n\r\n{"); code != 408 {
		t.Errorf("a body that does not come: answered %d", code)
	}
	if code := s.say(s.dial(), requestHead+"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"); code != 408 {
		t.Errorf("a chunk that does not come: answered %d", code)
	}
	if code := s.say(s.dial(), "POST /audit HTTP/1.1\r\nHost:"); code != 0 && code != 408 {
		t.Errorf("a header that does not come: answered %d", code)
	}
	if code := s.say(s.dial(), ""); code != 0 {
		t.Errorf("nothing: answered %d", code)
	}
	// Drop by drop: each byte is in time, the whole is not.
	conn := s.dial()
	if _, err := io.WriteString(conn, requestHead+"Content-Length: 1000000\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	dropped := make(chan struct{})
	go func() {
		defer close(dropped)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := io.WriteString(conn, " "); err != nil {
				return
			}
		}
	}()
	if code := s.hear(conn); code != 408 {
		t.Errorf("drop by drop: answered %d", code)
	}
	hangUp(t, conn)
	receive(t, "the drops to end", dropped)
	// A refused request holds its connection no longer either.
	if code := s.say(s.dial(), "GET /audit HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"); code != 405 && code != 0 {
		t.Errorf("a GET whose body does not come: answered %d", code)
	}
	s.store.empty(t)
	s.idle()
}

func TestTruncated(t *testing.T) {
	s := start(t, Options{})
	body := list(event("a"), event("b"))
	for _, head := range []string{
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body)+10, body),
		fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(body), body),
		fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s", len(body)+10, body),
		"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
	} {
		conn := s.dial()
		if _, err := io.WriteString(conn, requestHead+head); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if code := s.hear(conn); code != 400 {
			t.Errorf("%.60q: answered %d", head, code)
		}
	}
	s.store.empty(t)
	if letters := s.letters.all(); len(letters) != 0 || s.requests("truncated") != 4 {
		t.Errorf("%+v, %+v", letters, s.server.Stats())
	}
}

func TestRefused(t *testing.T) {
	s := start(t, Options{MaxConnections: 8})
	f := func(want int, head string) {
		t.Helper()
		if code := s.say(s.dial(), head); code != want {
			t.Errorf("%.60q: answered %d, want %d", head, code, want)
		}
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "OPTIONS", "TRACE", "post"} {
		f(405, method+" /audit HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	}
	for _, path := range []string{"/", "/audit/", "/audit/x", "//audit", "/x/../audit"} {
		f(404, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	}
	f(400, "noise\r\n\r\n")
	f(431, "POST /audit HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 32<<10)+"\r\n\r\n")
	f(400, requestHead+"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}")
	f(400, requestHead+"Content-Length: -1\r\n\r\n{}")
	s.store.empty(t)
	resp := post(t, client(t, nil, false), s.url+"?dry", strings.NewReader(list(event("a"))))
	s.expect("with a query", resp, 200)
}

// Whoever has shown credentials keeps its connection; of the others the oldest makes room.
func TestConnections(t *testing.T) {
	s := start(t, Options{MaxConnections: 3})
	eventually(t, "no connection to be open", func() bool { return s.server.Stats().Connections == 0 })
	senders := []*http.Client{client(t, nil, false), client(t, nil, false)}
	for _, c := range senders {
		s.expect("a sender", post(t, c, s.url, strings.NewReader(list(event("a")))), 200)
	}
	idle := s.dial()
	eventually(t, "three connections", func() bool { return s.server.Stats().Connections == 3 })
	s.expect("in place of the idle one", post(t, client(t, nil, false), s.url, strings.NewReader(list(event("b")))), 200)
	hangUp(t, idle)
	for _, c := range senders {
		s.expect("as before", post(t, c, s.url, strings.NewReader(list(event("c")))), 200)
	}
	if code := s.say(s.dial(), ""); code != 0 {
		t.Errorf("a fourth connection: answered %d", code)
	}
	if st := s.server.Stats(); st.RefusedConnections != 2 || st.Connections != 3 {
		t.Errorf("%d connections were refused, %d are open", st.RefusedConnections, st.Connections)
	}
}

// memoryListener gives out the server's end of pipes.
type memoryListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *memoryListener) Close() error   { close(l.done); return nil }
func (l *memoryListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// FuzzRequest sends raw bytes without credentials: nothing gets in.
func FuzzRequest(f *testing.F) {
	body := list(event("a"))
	for _, seed := range []string{
		requestHead + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body),
		requestHead + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body),
		requestHead + "Authorization: Bearer \r\n\r\n",
		requestHead + "Authorization: Bearer token\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
		"GET /audit HTTP/1.0\r\n\r\nPOST /audit HTTP/1.1\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"CONNECT /audit HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /audit HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
		"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
	} {
		f.Add([]byte(seed))
	}
	listener := &memoryListener{conns: make(chan net.Conn), done: make(chan struct{})}
	letters, st := &letterBox{}, &store{}
	server, err := New(Options{Listener: listener, Letters: letters, BearerTokenFiles: []string{write(f, tempFile(f), []byte(token))}})
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, st) }()
	f.Cleanup(func() {
		cancel()
		if err := receive(f, "the server's end", ended); err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, request []byte) {
		if bytes.Contains(request, []byte(token)) {
			return
		}
		ours, theirs := net.Pipe()
		listener.conns <- theirs
		answer := make(chan []byte, 1)
		go func() {
			text, _ := io.ReadAll(ours) // an error ends it as well
			answer <- text
		}()
		// A server that has heard enough closes, and this fails.
		_, _ = ours.Write(request)
		// net.Pipe cannot be closed by half: an answer, if there is one, has to come first.
		select {
		case text := <-answer:
			if bytes.HasPrefix(text, []byte("HTTP/1.1 2")) {
				t.Errorf("%q: answered %q", request, text)
			}
		case <-time.After(time.Millisecond):
		}
		hangUp(t, ours)
		st.empty(t)
		if stats := server.Stats(); stats.Bytes != 0 || stats.Events != 0 || stats.Requests["stored"]+stats.Requests["dead_letter"] != 0 || len(letters.all()) != 0 {
			t.Errorf("%q: %+v", request, stats)
		}
	})
}

// FuzzBody posts any bytes with credentials. Whatever they are, each event is stored or each value that is none is a dead letter.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		list(event("a"), other("b"), event("c")), list(event("a"), `{"verb":1}`, "7", event("b")), list(event("a"))[:300], "[" + event("a") + "]",
		event("a") + "\n" + event("b"), "", "noise", "\x00", list(strings.Repeat("7,", 40) + "7"), `{"kind":"EventList","items":{}}`,
	} {
		f.Add([]byte(seed), "", false)
		f.Add([]byte(zipped(seed)), "gzip", true)
	}
	f.Add([]byte(strings.Repeat(" ", minBodyBytes+1)), "", true)
	f.Add([]byte(zipped(strings.Repeat(" ", minBodyBytes+1))), "gzip", false)
	f.Add([]byte("{}"), "br", false)
	f.Fuzz(func(t *testing.T, text []byte, encoding string, raw bool) {
		if len(text) > 3*minBodyBytes {
			return
		}
		letters, st := &letterBox{}, &store{}
		server, err := New(Options{Listen: "127.0.0.1:0", Letters: letters, MaxBodyBytes: minBodyBytes, BearerTokenFiles: []string{write(t, tempFile(t), []byte(token))}})
		if err != nil {
			t.Fatal(err)
		}
		handler := server.Handler(st)
		if raw {
			handler = server.HandlerRaw(st)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/audit", bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Encoding", encoding)
		w := &answerWriter{header: http.Header{}}
		handler.ServeHTTP(w, req)
		if w.code != 0 { // 200 is what is not said
			t.Fatalf("answered %d", w.code)
		}
		stats, counts := server.Stats(), st.total()
		if stats.Requests["stored"]+stats.Requests["dead_letter"] != 1 || stats.Bytes != int64(len(text)) {
			t.Errorf("%+v", stats)
		}
		if raw {
			if stats.Events != int64(len(st.raw)) {
				t.Errorf("%d events, %+v", len(st.raw), stats)
			}
		} else if counts.Read-counts.Skipped != int64(len(st.ids)) || stats.Events != int64(len(st.ids)) || counts.Malformed != stats.Malformed {
			t.Errorf("%d events, %+v, %+v", len(st.ids), counts, stats)
		}
		kept := letters.all()
		if (stats.Malformed == 0) != (len(kept) == 0) || stats.Letters != int64(len(kept)) {
			t.Errorf("%d letters, %+v", len(kept), stats)
		}
		if stats.Malformed <= maxLetters && int(stats.Malformed) != len(kept) {
			t.Errorf("%d letters for %d that are malformed", len(kept), stats.Malformed)
		}
		for _, l := range kept {
			if l.Cause == "" || len(l.Cause) > 500 || encoding == "" && !bytes.Contains(text, l.Data) {
				t.Errorf("letter %+v", l)
			}
		}
		if server.budget.used() != 0 {
			t.Errorf("%d bytes stay behind", server.budget.used())
		}
	})
}

type answerWriter struct {
	header http.Header
	code   int
}

func (w *answerWriter) Header() http.Header         { return w.header }
func (w *answerWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *answerWriter) WriteHeader(code int)        { w.code = code }

// However many connections are opened that never say who they are, an API server's posts are taken.
func TestAttack03StarvedByNobody(t *testing.T) {
	s := start(t, Options{MaxConnections: 16})
	var hostile []net.Conn
	for i := range 12 {
		for j := range 20 {
			conn := s.dial()
			if j%2 == 0 { // a header without an end
				_, _ = conn.Write([]byte("POST /audit HTTP/1.1\r\nHost: x\r\nX-")) // it may be closed already
			}
			hostile = append(hostile, conn)
		}
		s.expect("a post", post(t, client(t, nil, false), s.url, strings.NewReader(list(event(fmt.Sprint(i))))), 200)
	}
	if st := s.server.Stats(); st.Connections > 16 || st.RefusedConnections < 200 {
		t.Errorf("%d are open, %d were refused", st.Connections, st.RefusedConnections)
	}
	for _, conn := range hostile {
		hangUp(t, conn)
	}
}
