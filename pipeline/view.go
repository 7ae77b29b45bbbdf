package pipeline

import (
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// View answers what rules ask of a cluster's state. Not safe for concurrent use.
type View struct {
	state *cluster.State
	auth  *nodeauthz.Authorizer
}

// NewView returns a view of the state through the authorizer's eyes.
func NewView(s *cluster.State, a *nodeauthz.Authorizer) *View { return &View{state: s, auth: a} }

// NodeRegistered says whether there ever was a Node of that name, as far as the state that covers t knows: a kubelet asks before it
// registers, and a while after its Node is gone.
func (v *View) NodeRegistered(name string, t time.Time) (registered, known bool) {
	_, covered := v.state.Nodes.Known(name, t)
	return v.state.Nodes.Ever(name), covered
}

// SimilarNode names a Node that differs only by letter case or domain.
func (v *View) SimilarNode(name string, _ time.Time) (similar, how string) {
	similar, in, ok := v.state.Nodes.Similar(name)
	switch {
	case !ok:
		return "", ""
	case in == cluster.SimilarCase:
		return similar, "letter case"
	}
	return similar, "domain"
}

// NodeCreatedBetween says whether a Node of that name began in the interval.
func (v *View) NodeCreatedBetween(name string, from, to time.Time) bool {
	return v.state.Nodes.CreatedBetween(name, from, to)
}

// PodNode returns the node that had the pod at t.
func (v *View) PodNode(namespace, name string, t time.Time) (string, bool) {
	return v.state.Graph.PodNode(namespace, name, t)
}

// PodOnNode judges whether the node could get the pod at t.
func (v *View) PodOnNode(namespace, name, node string, t time.Time) nodeauthz.Answer {
	return v.auth.Decide(&authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "system:node:" + node, Groups: []string{user.NodesGroup}},
		Verb: "get", APIVersion: "v1", Resource: "pods", Namespace: namespace, Name: name, ResourceRequest: true,
	}, t)
}
