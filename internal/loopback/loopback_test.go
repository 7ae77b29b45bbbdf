package loopback

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestAddress(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "127.8.9.10:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true, "LocalHost:1": true,
		"10.0.0.1:1": false, "0.0.0.0:1": false, ":1": false, "[::]:1": false, "localhost": false, "127.0.0.1.evil.example:1": false, "": false, "@": false,
	} {
		if got := Address(address); got != want {
			t.Errorf("%q: %t", address, got)
		}
	}
}

func TestRequest(t *testing.T) {
	f := func(want bool, remote, host string, header ...string) {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9876/", nil)
		r.RemoteAddr, r.Host = remote, host
		if len(header) > 0 {
			r.Header.Set(header[0], header[1])
		}
		if got := Request(r); got != want {
			t.Errorf("from %q for %q, %q: %t", remote, host, header, got)
		}
	}
	f(true, "127.0.0.1:1", "127.0.0.1:9876")
	f(true, "[::1]:1", "localhost")
	f(true, "127.0.0.1:1", "[::1]")
	f(false, "10.0.0.1:1", "127.0.0.1:9876")
	f(false, "127.0.0.1:1", "attacker.example:9876")
	f(false, "127.0.0.1:1", "")
	for _, h := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Via"} {
		f(false, "127.0.0.1:1", "localhost", h, "10.0.0.1")
	}
}
