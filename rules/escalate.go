package rules

import (
	"net/http"
	"strings"

	"github.com/nodetrail/nodetrail/audit"
)

// refusedToImpersonate returns what the node was to be allowed for an impersonation that was refused. It is logged as the request that was to be made, by the node
// itself, and it does not matter whether the node may make that.
func refusedToImpersonate(r *Request) (what string, refused bool) {
	message := r.Event.StatusMessage
	if r.Allowed || r.Event.Code != http.StatusForbidden || !audit.SaysImpersonation(r.Event) {
		return "", false
	}
	whom, rest, _ := strings.Cut(message, ` is forbidden: User "`)
	_, rest, _ = strings.Cut(rest, `" cannot `)
	verb, _, _ := strings.Cut(rest, " ")
	return bounded(verb+" "+whom, maxDeniedText), true
}

// escalates reports whether by the request a node would gain the rights of others: those of containers, of what listens in them and of kubelets, of whoever
// a role is bound to or a certificate is signed for, of another user, or of new nodes.
func escalates(r *Request) bool {
	a := r.Attrs
	if a.Verb == "impersonate" {
		return true
	}
	write := writes(a.Verb)
	switch a.APIGroup {
	case "":
		switch a.Resource {
		case "pods":
			return a.Subresource == "exec" || a.Subresource == "attach" || a.Subresource == "portforward" || a.Subresource == "proxy" || a.Subresource == "ephemeralcontainers" && write
		case "nodes", "services":
			return a.Subresource == "proxy"
		case "secrets":
			return a.Namespace == kubeSystem && strings.HasPrefix(a.Name, audit.BootstrapSecretPrefix)
		}
	case "rbac.authorization.k8s.io":
		return write
	case "certificates.k8s.io":
		return a.Resource == "certificatesigningrequests" && a.Subresource != "" && write
	}
	return false
}
