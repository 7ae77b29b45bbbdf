package rules

import (
	"strings"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
)

// forwarded says that a request came with a node's client certificate and with a header in which proxies say for whom they forward, which kubelets do not
// send: X-Forwarded-For or X-Real-Ip. A proxy that reads HTTP cannot pass a client certificate on. One that authenticates its clients itself names them in
// headers of its own, and the request has no such certificate; before Kubernetes 1.32 none has. API servers forward requests to each other, and pass the ID on:
// they name no address but that of the connection they had.
func forwarded(r *Request, s State, f *Finding) bool {
	ips := r.Event.SourceIPs
	if len(ips) < 2 || !strings.HasPrefix(r.Event.User.CredentialID, certCredential) || byServer(r, s) {
		return false
	}
	address, home := ips[0], ips[len(ips)-1]
	if addr, ok := audit.PlainAddress(address); ok {
		address = addr.String()
	}
	f.Severity, f.Reason, f.Allowed = Medium, Forwarded, r.Allowed
	f.Params = codes.Params{codes.Text(ParamAddress, codes.Bound(address, maxAsked)), codes.Text(ParamHome, codes.Bound(home, maxAsked))}
	return true
}

// byServer reports whether another API server may have forwarded the request: it came to that one from an address of the Node, and from none to the one that
// logged it. Who else did that came from an address that is not the Node's.
func byServer(r *Request, s State) bool {
	ips := r.Event.SourceIPs
	if s == nil || len(ips) != 2 {
		return false
	}
	own := s.NodeAddresses(r.Node)
	return isAmong(own, ips[0]) && !isAmong(own, ips[1])
}

// isAmong reports whether an address in any form is among those of a Node.
func isAmong(own []string, text string) bool {
	addr, ok := audit.PlainAddress(text)
	return ok && hasAddress(own, addr.String())
}
