package audit

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// Want says what the caller has a use for in addition to the requests of nodes. Its zero value wants nothing else.
type Want struct {
	// State asks for the events that change the objects in the table of stateKind.
	State bool
	// Aside asks for the events by which pods come to nodes, and for reviews of access.
	Aside bool
	// All asks for every event, whether anything needs it or not.
	All bool
	// Others asks for the requests of these users and groups; nil for none.
	Others *Subjects
}

const kubeletPrefix = "kubelet"

// stateKind is the table of the resources whose changes are state, each with the subresources through which a request changes what the state
// holds of it; "" is the object itself. The API group is not looked at: whoever reads the body knows it.
func stateKind(resource, subresource string) bool {
	switch resource {
	case "pods":
		switch subresource {
		case "", "binding", "status", "ephemeralcontainers", "resize", "eviction":
			return true
		}
	case "persistentvolumes", "persistentvolumeclaims", "volumeattachments", "podcertificaterequests", "nodes":
		return subresource == "" || subresource == "status"
	case "csidrivers", "serviceaccounts", "resourceslices", "roles", "clusterroles", "rolebindings", "clusterrolebindings":
		return subresource == ""
	}
	return false
}

// stateVerb is whether requests with this verb can change an object.
func stateVerb(verb string) bool {
	switch verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// ChangesState is whether the event, by its verb and object, tells of a change of the objects that the state holds.
func ChangesState(ev *Event) bool {
	return stateVerb(ev.Verb) && stateKind(ev.ObjectRef.Resource, ev.ObjectRef.Subresource)
}

// BringsPod is whether the event tells that somebody makes a pod or binds one to a node.
func BringsPod(ev *Event) bool {
	ref := &ev.ObjectRef
	return ref.Resource == "pods" && ev.Verb == "create" && ref.APIGroup == "" && (ref.Subresource == "" || ref.Subresource == "binding")
}

// AsksReview is whether somebody asks the API server what another user may do.
func AsksReview(ev *Event) bool {
	ref := &ev.ObjectRef
	return ev.Verb == "create" && ref.APIGroup == "authorization.k8s.io" && ref.Subresource == "" && (ref.Resource == "subjectaccessreviews" || ref.Resource == "localsubjectaccessreviews")
}

// Needed is whether a rule, a check or, if wanted, the state can have a use for the event: its user or impersonated user is named like a node,
// in the group of nodes, or one of those that are wanted; its client calls itself a kubelet, an API server keeps its own Lease, somebody renews
// a node's, it is refused to impersonate a node, it is made with a bootstrap token or makes one, it is about the signing of a certificate, it
// changes an object that the state holds, it brings a pod, asks for a review, or the ClusterRole system:node allowed it, or an authorizer that gives no reason.
func Needed(ev *Event, want Want) bool {
	if want.All || ev.User.nodeLike() || ev.IsImpersonated && ev.Impersonated.nodeLike() || strings.HasPrefix(ev.UserAgent, kubeletPrefix) {
		return true
	}
	if ev.User.bootstraps() || ev.IsImpersonated && ev.Impersonated.bootstraps() || Signs(ev) || MakesBootstrapToken(ev) {
		return true
	}
	if want.Others.Holds(&ev.User) || ev.IsImpersonated && want.Others.Holds(&ev.Impersonated) {
		return true
	}
	if _, refused := RefusedImpersonation(ev); refused {
		return true
	}
	return KeepsServer(ev) || renewsNode(ev) || byNodeRole(ev) || WithoutReason(ev) || want.State && ChangesState(ev) ||
		want.Aside && (BringsPod(ev) || AsksReview(ev))
}

// WithoutReason reports whether a service account, for which the API server asks its authorizers, was allowed a request without a reason. RBAC always gives
// one. Of a log that is derived from another form nothing is known: groups and reasons may be missing there.
func WithoutReason(ev *Event) bool {
	if ev.Decision != "allow" || ev.Reason != "" || ev.Derived {
		return false
	}
	u := ev.Effective()
	return strings.HasPrefix(u.Username, serviceaccount.ServiceAccountUsernamePrefix) && !slices.Contains(u.Groups, user.SystemPrivilegedGroup)
}

// byNodeRole is whether RBAC allowed the request by a binding of the ClusterRole system:node, whoever made it. The state may not have that binding.
func byNodeRole(ev *Event) bool {
	return strings.HasPrefix(ev.Reason, "RBAC: ") && strings.Contains(ev.Reason, nodeRoleInReason)
}

const nodeRoleInReason = ` of ClusterRole "system:node" to `

// RefusedImpersonation returns the node that a client tried to impersonate and might not; "*" where the API server does not name it. Such an event has
// no impersonated user: the API server's message tells (k8s.io/apiserver/pkg/endpoints/filters/impersonation, ForbiddenStatusError). With constrained
// impersonation, on since 1.36, that asks first for the right to the request itself while acting as a node, and names only what was asked for.
func RefusedImpersonation(ev *Event) (node string, refused bool) {
	if ev.Code != 403 || ev.IsImpersonated || !SaysImpersonation(ev) {
		return "", false
	}
	cannot := "User " + inMessage.Replace(strconv.Quote(ev.User.Username)) + refusal
	for _, mode := range [...]string{"associated-node", "arbitrary-node"} {
		if strings.Contains(ev.StatusMessage, "forbidden: "+cannot+"-on:"+mode+":") {
			return "*", true
		}
	}
	verb := " "
	rest, ok := strings.CutPrefix(ev.StatusMessage, `users "`+nodeid.UserPrefix)
	if !ok {
		if rest, ok = strings.CutPrefix(ev.StatusMessage, `nodes.authentication.k8s.io "`); !ok {
			return "", false
		}
		verb = ":"
	}
	node, rest, ok = strings.Cut(rest, `" is forbidden: `)
	return node, ok && node != "" && strings.HasPrefix(rest, cannot+verb)
}

// SaysImpersonation reports whether the API server's message may say that somebody may not impersonate. Such a request is refused before it is authorized, so that it has
// no annotation about that. Of the message only what follows the name of the user counts. That is found by the colon before it, which comes first in nearly all messages: a
// search for the words takes longer.
func SaysImpersonation(ev *Event) bool {
	if ev.Decision != "" {
		return false
	}
	for message := ev.StatusMessage; ; {
		before, rest, found := strings.Cut(message, `: User "`)
		if !found {
			return false
		}
		if strings.HasSuffix(before, "forbidden") {
			name, after, _ := strings.Cut(rest, `"`)
			switch {
			case strings.HasPrefix(after, refusal):
				return true
			case strings.HasSuffix(name, `\`): // the name has a quotation mark
				return strings.Contains(rest, refusal)
			}
		}
		message = rest
	}
}

const refusal = " cannot impersonate"

// inMessage is how the API server writes a name in a refusal (responsewriters.sanitizer).
var inMessage = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// KeepsServer is whether an API server writes its identity Lease, as it does every ten seconds while it lives, or looks for it, as it does when it
// starts (pkg/controlplane/controller/apiserverleasegc and component-helpers' lease controller upstream). The Lease's name is a hash of the
// server's host name; the user agent tells the server's exact version.
func KeepsServer(ev *Event) bool {
	return ev.User.Username == serverUser && keepVerb(ev.Verb) && ev.ObjectRef.APIGroup == leaseGroup && ev.ObjectRef.isServerLease()
}

// keepVerb is whether an API server makes requests with this verb for its own Lease.
func keepVerb(verb string) bool { return verb == "get" || stateVerb(verb) }

// renewsNode is whether somebody writes the Lease of a node. Who is no node and does so plays a node that has no kubelet with an identity.
func renewsNode(ev *Event) bool {
	return renewVerb(ev.Verb) && ev.ObjectRef.APIGroup == leaseGroup && ev.ObjectRef.isNodeLease()
}

const (
	serverUser = "system:apiserver"
	leaseGroup = "coordination.k8s.io"
	// serverLeasePrefix begins the names of API servers' identity Leases.
	serverLeasePrefix = "apiserver-"
)

// renewVerb is whether requests with this verb can renew a Lease.
func renewVerb(verb string) bool { return verb == "update" || verb == "patch" || verb == "create" }

// isServerLease is whether the object is named like the identity Lease of an API server, whatever its group.
func (o *ObjectRef) isServerLease() bool {
	return o.Resource == "leases" && o.Subresource == "" && o.Namespace == "kube-system" && strings.HasPrefix(o.Name, serverLeasePrefix)
}

// isNodeLease is whether the object is where the Leases of nodes are, whatever its group.
func (o *ObjectRef) isNodeLease() bool {
	return o.Resource == "leases" && o.Subresource == "" && o.Namespace == "kube-node-lease"
}

func (u *User) nodeLike() bool {
	return nodeid.Resembles(u.Username, u.Groups)
}

// Signs reports whether the request writes a CertificateSigningRequest, its approval or its status: how credentials of nodes come to be.
func Signs(ev *Event) bool {
	return renewVerb(ev.Verb) && ev.ObjectRef.APIGroup == certificatesGroup && ev.ObjectRef.isSigning()
}

// MakesBootstrapToken reports whether the request writes the Secret of a bootstrap token (k8s.io/cluster-bootstrap/token/api).
func MakesBootstrapToken(ev *Event) bool {
	return renewVerb(ev.Verb) && ev.ObjectRef.APIGroup == "" && ev.ObjectRef.isBootstrapToken()
}

const (
	certificatesGroup = "certificates.k8s.io"
	// BootstrapUserPrefix begins the user names of bootstrap tokens. Their groups say nothing: on EKS nodes have them, too.
	BootstrapUserPrefix = "system:bootstrap:"
	// BootstrapSecretPrefix begins the names of their Secrets, which are in kube-system.
	BootstrapSecretPrefix = "bootstrap-token-"
)

// isSigning is whether the object is a CertificateSigningRequest, whatever its group.
func (o *ObjectRef) isSigning() bool { return o.Resource == "certificatesigningrequests" }

// isBootstrapToken is whether the object is named like the Secret of a bootstrap token, whatever its group.
func (o *ObjectRef) isBootstrapToken() bool {
	return o.Resource == "secrets" && o.Subresource == "" && o.Namespace == "kube-system" && strings.HasPrefix(o.Name, BootstrapSecretPrefix)
}

func (u *User) bootstraps() bool { return strings.HasPrefix(u.Username, BootstrapUserPrefix) }
