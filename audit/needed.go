package audit

import (
	"slices"
	"strings"
)

// Want says what the caller has a use for beside the requests of nodes. Its zero value wants nothing else.
type Want struct {
	// State asks for the events that change the objects in the table of stateKind.
	State bool
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
	case "persistentvolumes", "volumeattachments", "podcertificaterequests", "nodes":
		return subresource == "" || subresource == "status"
	case "resourceslices", "roles", "clusterroles", "rolebindings", "clusterrolebindings":
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

// Needed is whether a rule or, if wanted, the state can have a use for the event: its user or impersonated user is named like a node
// or in the group of nodes, its client calls itself a kubelet, or it changes an object that the state holds.
func Needed(ev *Event, want Want) bool {
	if ev.User.nodeLike() || ev.IsImpersonated && ev.Impersonated.nodeLike() || strings.HasPrefix(ev.UserAgent, kubeletPrefix) {
		return true
	}
	return want.State && ChangesState(ev)
}

func (u *User) nodeLike() bool {
	return strings.HasPrefix(u.Username, nodeUserPrefix) || slices.Contains(u.Groups, nodesGroup)
}
