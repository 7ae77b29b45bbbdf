package app

import (
	"testing"

	"github.com/nodetrail/nodetrail/internal/config"
)

// Where nothing is said of it, an alert's link leads to where the pages are.
func TestPagesURL(t *testing.T) {
	for _, x := range []struct {
		pages config.Pages
		want  string
	}{
		{config.Pages{Enabled: true}, "http://127.0.0.1:9876"},
		{config.Pages{Enabled: true, Listen: "10.0.0.1:9443"}, "http://10.0.0.1:9443"},
		{config.Pages{Enabled: true, Listen: "10.0.0.1:9443", TLS: config.ServerTLS{CertFile: "c"}}, "https://10.0.0.1:9443"},
		{config.Pages{Listen: "10.0.0.1:9443"}, "http://127.0.0.1:9876"},
	} {
		c := config.Default()
		c.Pages = x.pages
		if got := pagesURL(c); got != x.want {
			t.Errorf("%+v: %s, want %s", x.pages, got, x.want)
		}
	}
}

// Where only this machine may read the pages, what is shown leads there by a name that is this machine's.
func TestLocalAddress(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:80": "http://127.0.0.1:80/", "[::1]:80": "http://[::1]:80/", "[::]:80": "http://localhost:80/", "0.0.0.0:80": "http://localhost:80/",
		":80": "http://localhost:80/", "10.0.0.1:80": "", "localhost:80": "http://localhost:80/",
	} {
		if got := LocalAddress(listen); got != want {
			t.Errorf("%s: %q, want %q", listen, got, want)
		}
	}
}
