// Package loopback says which addresses only this machine reaches, and which requests only this machine made.
//
// What goes in: addresses and HTTP requests. What comes out: yes or no. It imports none of ours.
package loopback

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Address reports whether host:port can only be this machine.
func Address(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && Host(host)
}

// Host reports whether a name or an IP address can only be this machine.
func Host(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// Request reports whether a request comes from this machine itself, and not through a proxy on it; a name other than this machine's in Host is
// that of a page that was led here by DNS.
func Request(r *http.Request) bool {
	for _, h := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Via"} {
		if r.Header.Get(h) != "" {
			return false
		}
	}
	return Address(r.RemoteAddr) && Named(r)
}

// Named reports whether the Host of a request can only be this machine.
func Named(r *http.Request) bool {
	host := r.Host
	if !strings.Contains(host, ":") || strings.HasSuffix(host, "]") {
		host += ":80"
	}
	return Address(host)
}
