package rules

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/selection"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// ofGoneNode reports whether the request is one that a kubelet makes whose Node was deleted: it names no node but its own, and gets nothing but what each
// kubelet watches, or what needs no Node. A kubelet with a wrong name asks for the Node, the Lease or the pods of another name.
func ofGoneNode(r *Request, s State) bool {
	a := r.Attrs
	named, other := namesNodes(r)
	switch code := r.Event.Code; {
	case other || !nodeid.CanBeName(r.Node), a.Subresource == "proxy": // whose answers are the backend's
		return false
	case needsNoNode(r, s):
		return fromItsMachine(r, s)
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusNotFound:
		return true
	case code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
		return reads(a.Verb) || named && a.Verb != "create" // there is nothing that it can have changed
	case !r.Succeeded(), code == 0:
		return false
	case a.Verb == "list" || a.Verb == "watch":
		return named && ofNodes(r) || watchedByAll(r)
	}
	return forEverybody(r) || reviewsToken(r) || a.Verb == "create" && a.APIGroup == "authorization.k8s.io" && a.Resource == "subjectaccessreviews"
}

// needsNoNode reports whether the request is one of those by which a kubelet gets something that does not depend on its Node, nor on a binding: it records an
// event, and looks after its certificates. It says nothing of the name, unless the object is another node's.
func needsNoNode(r *Request, s State) bool {
	a := r.Attrs
	if !a.ResourceRequest || a.Subresource != "" || r.NodeDenies() {
		return false
	}
	switch a.APIGroup + "/" + a.Resource {
	case "/events", "events.k8s.io/events":
		return (a.Verb == "create" || a.Verb == "patch" || a.Verb == "update") && ownEvent(r, s)
	case "certificates.k8s.io/certificatesigningrequests":
		return reads(a.Verb) || asksForItself(r)
	}
	return false
}

// ownEvent reports whether the object of an event is seen to be no other Node, and no pod on another node.
func ownEvent(r *Request, s State) bool {
	object := eventObject(r)
	if object == r.Node {
		return true
	}
	if other, _ := s.NodeExists(object, r.Time); other {
		return false
	}
	node, is := s.PodNode(r.Attrs.Namespace, object, r.Time)
	return !is || node == "" || node == r.Node
}

// asksForItself reports whether the request asks for a kubelet's certificate of the node's own name, or the log has no bodies and does not tell.
func asksForItself(r *Request) bool {
	if r.Attrs.Verb != "create" {
		return false
	}
	switch s, whole := r.Signing(); {
	case whole:
		return s.Node() == r.Node && (s.Signer == signerKubelet || s.Signer == signerServing)
	default:
		return s.Absent && !s.Cut
	}
}

// fromItsMachine reports whether nothing shows that the request comes from elsewhere than from the machine whose Node was deleted: from an address that the
// Node did not have, or that another one has.
func fromItsMachine(r *Request, s State) bool {
	address := lastAddress(r)
	from, is := audit.PlainAddress(address)
	if !is || from.IsLoopback() {
		return true
	}
	if other := s.NodeAt(address); other != "" && other != r.Node {
		return false
	}
	had := s.NodeAddresses(r.Node)
	return len(had) == 0 || hasAddress(had, from.String())
}

// renewsGone reports whether a machine whose Node was deleted got a new certificate of its own, so that the identity stays in use.
func renewsGone(r *Request) bool {
	if r.Attrs.Subresource != "" || !ofRequests(r.Attrs) || !r.Succeeded() || DryRun(r.Event) || !asksForItself(r) {
		return false
	}
	s, _ := r.Signing()
	return s.Signer != signerServing
}

// namesNodes reports whether a request names the node's own Node, or what has its name, and whether it does so for any other, or may.
func namesNodes(r *Request) (own, other bool) {
	a := r.Attrs
	see := func(name string) {
		own, other = own || name == r.Node, other || name != r.Node
	}
	ofName := nodeauthz.NamedAsNode(a.APIGroup, a.Resource, a.Namespace)
	if name := r.Event.ObjectRef.Name; ofName && a.Name == "" && name != "" {
		see(name) // that of the body
	}
	if ofName && a.Name != "" {
		see(a.Name)
	}
	for _, q := range a.FieldSelectorRequirements {
		if q.Field != "spec.nodeName" && (!ofName || q.Field != "metadata.name") {
			continue
		}
		if q.Operator != selection.Equals && q.Operator != selection.DoubleEquals {
			other = true
			continue
		}
		see(q.Value)
	}
	return own, other || a.FieldSelectorParsingErr != nil
}

// ofNodes reports whether what is asked for is of nodes by its name, or by the field spec.nodeName.
func ofNodes(r *Request) bool {
	a := r.Attrs
	return nodeauthz.NamedAsNode(a.APIGroup, a.Resource, a.Namespace) || slices.Contains([]string{
		"/pods", "resource.k8s.io/resourceslices", "certificates.k8s.io/podcertificaterequests",
	}, a.APIGroup+"/"+a.Resource)
}

// watchedByAll reports whether each kubelet watches what is asked for, whatever its name is.
func watchedByAll(r *Request) bool {
	a := r.Attrs
	return a.Namespace == "" && a.Name == "" && a.Subresource == "" && slices.Contains([]string{
		"/services", "storage.k8s.io/csidrivers", "node.k8s.io/runtimeclasses", "certificates.k8s.io/clustertrustbundles",
	}, a.APIGroup+"/"+a.Resource)
}
