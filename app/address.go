package app

import (
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/internal/loopback"
)

// pagesURL is where others reach the pages, as far as one can tell.
func pagesURL(c *config.Config) string {
	if c.Pages.Enabled && c.Pages.Listen != "" {
		return strings.TrimSuffix(pageAddress(c.Pages.Listen, c.Pages.TLS.CertFile != ""), "/")
	}
	return externalURL(c.Listen)
}

// externalURL is where others reach an address that this process listens on, as far as one can tell.
func externalURL(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "http://" + listen
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil || host == "" {
			host = "localhost"
		}
	}
	return "http://" + net.JoinHostPort(host, port)
}

// LocalAddress is what to open in a browser of this machine, "" for an address of which this machine is not known to be the one that asks.
func LocalAddress(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if ip, bad := netip.ParseAddr(host); err == nil && (host == "" || bad == nil && ip.IsUnspecified()) {
		return "http://" + net.JoinHostPort("localhost", port) + "/"
	}
	if !loopback.Address(listen) {
		return ""
	}
	return pageAddress(listen, false)
}

// pageAddress is what to open in a browser.
func pageAddress(listen string, secure bool) string {
	s := externalURL(listen) + "/"
	if secure {
		return "https" + strings.TrimPrefix(s, "http")
	}
	return s
}
