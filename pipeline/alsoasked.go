package pipeline

import (
	"net/http"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// createsByWebSocket is the first minor in which somebody who connects to a pod by GET needs create, too (the feature gate
// AuthorizePodWebsocketUpgradeCreatePermission, on by default).
const createsByWebSocket = 35

// AlsoAsked returns what the API server asked its authorizers besides the request itself and does not write into the log: whether the user may create the
// object, where an update or an apply made it (k8s.io/apiserver/pkg/endpoints/handlers.withAuthorization), or where a GET connects to a pod
// (k8s.io/kubernetes/pkg/registry/core/pod/rest, since Kubernetes 1.35). Nil for all other requests.
func (j *Judgement) AlsoAsked() *authorizer.AttributesRecord {
	a := j.Attrs
	switch {
	case !a.ResourceRequest:
		return nil
	case a.Subresource == "" && (a.Verb == "update" || a.Verb == "patch") && j.Event.Code == http.StatusCreated:
	case a.Verb == "get" && a.APIGroup == "" && a.Resource == "pods" && connects(a.Subresource) && j.node != nil && j.node.Features().Minor >= createsByWebSocket:
	default:
		return nil
	}
	create := *a
	create.Verb = "create"
	return &create
}

// Asked is all that somebody needs who is to make the request: the request itself, and what the API server asked besides.
func (j *Judgement) Asked() []*authorizer.AttributesRecord {
	if also := j.AlsoAsked(); also != nil {
		return []*authorizer.AttributesRecord{j.Attrs, also}
	}
	return []*authorizer.AttributesRecord{j.Attrs}
}

// NodeAllows reports whether the Node authorizer would allow whoever made the request something else at the same time.
func (j *Judgement) NodeAllows(a *authorizer.AttributesRecord) bool {
	return j.IsNode && j.node != nil && j.node.Decide(a, j.Time).Verdict == nodeauthz.Allow
}

// connects reports whether a subresource of pods is a connection into the pod.
func connects(subresource string) bool {
	return subresource == "exec" || subresource == "attach" || subresource == "portforward"
}
