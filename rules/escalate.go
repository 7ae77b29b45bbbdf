package rules

import (
	"strings"

	"github.com/nodetrail/nodetrail/audit"
)

// escalates reports whether by the request a node would gain the rights of others: those of containers, of what listens in them and of kubelets, of whoever
// a role is bound to or a certificate is signed for, of another user, or of new nodes.
func escalates(r *Request) bool {
	a := r.Attrs
	// A refused impersonation is logged as the request that was to be made, by the node itself.
	if a.Verb == "impersonate" || !r.Allowed && audit.SaysImpersonation(r.Event.StatusMessage) {
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
