package pipeline

import (
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rules"
)

// View answers what rules ask of a cluster's state. Not safe for concurrent use.
type View struct {
	state *cluster.State
	auth  *nodeauthz.Authorizer
	// asked is when a name without a Node was first asked for, nil where the state knows all that came.
	asked map[string]time.Time
	// unsure is called when asked would be needed, in a copy that lacks it; nil otherwise.
	unsure *bool
}

// NewView returns a view of the state through the authorizer's eyes.
func NewView(s *cluster.State, a *nodeauthz.Authorizer) *View { return &View{state: s, auth: a} }

// NewLiveView returns a view of a state that follows a cluster and does not know what comes.
func NewLiveView(s *cluster.State, a *nodeauthz.Authorizer) *View {
	return &View{state: s, auth: a, asked: map[string]time.Time{}}
}

// Use has the view ask another authorizer over the same state.
func (v *View) Use(a *nodeauthz.Authorizer) { v.auth = a }

const (
	// joinsWithin is how long a kubelet may ask before its Node is there: registration is tried again every few seconds, and fails as long
	// as a webhook or a quota refuses it.
	joinsWithin = 5 * time.Minute
	// mostAsked bounds the names without a Node that are remembered.
	mostAsked = 4096
)

// NodeRegistered says whether there ever was a Node of that name, as far as the state that covers t knows: a kubelet asks before it
// registers, and a while after its Node is gone. A live state knows that none comes only some minutes after the name was first asked for.
func (v *View) NodeRegistered(name string, t time.Time) (registered, known bool) {
	if v.state.Nodes.Ever(name) { // as nearly always, and what follows costs more
		return true, true
	}
	_, covered := v.state.Nodes.Known(name, t)
	return false, covered && !v.mayJoin(name, t)
}

// mayJoin reports whether a Node of that name may come yet. One that has nearly the name of another is not waited for: it is that one's.
func (v *View) mayJoin(name string, t time.Time) bool {
	if v.asked == nil && v.unsure == nil {
		return false
	}
	if _, _, similar := v.state.Nodes.Similar(name); similar {
		return false
	}
	if v.unsure != nil {
		*v.unsure = true
		return false
	}
	first, known := v.asked[name]
	if !known || t.Before(first) {
		if len(v.asked) >= mostAsked {
			clear(v.asked)
		}
		v.asked[strings.Clone(name)] = t
		return true
	}
	return t.Before(first.Add(joinsWithin))
}

// SimilarNode names a Node that differs only by letter case or domain.
func (v *View) SimilarNode(name string, _ time.Time) (similar string, how rules.Reason) {
	similar, in, ok := v.state.Nodes.Similar(name)
	switch {
	case !ok:
		return "", ""
	case in == cluster.SimilarCase:
		return similar, rules.NameLetterCase
	}
	return similar, rules.NameDomain
}

// NodeCreatedBetween says whether a Node of that name began in the interval.
func (v *View) NodeCreatedBetween(name string, from, to time.Time) bool {
	return v.state.Nodes.CreatedBetween(name, from, to)
}

// PodNode returns the node that had the pod at t.
func (v *View) PodNode(namespace, name string, t time.Time) (string, bool) {
	return v.state.Graph.PodNode(namespace, name, t)
}

// PodWasOn says whether a pod of that name was on the node at some instant in the interval.
func (v *View) PodWasOn(namespace, name, node string, from, to time.Time) bool {
	return v.state.Graph.PodWasOn(namespace, name, node, from, to)
}

// PodStays implements rules.State.
func (v *View) PodStays(namespace, name, uid string, from, to time.Time, f func(*nodeauthz.Stay)) {
	v.state.Graph.PodStays(namespace, name, uid, from, to, f)
}

// PodOnNode judges whether the node could get the pod at t.
func (v *View) PodOnNode(namespace, name, node string, t time.Time) nodeauthz.Answer {
	return v.auth.Decide(&authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: nodeid.UserPrefix + node, Groups: []string{user.NodesGroup}},
		Verb: "get", APIVersion: "v1", Resource: "pods", Namespace: namespace, Name: name, ResourceRequest: true,
	}, t)
}

// Leads implements rules.State.
func (v *View) Leads(a *authorizer.AttributesRecord, node string, t time.Time) bool {
	return v.mayAllow(a, node, t.Add(-rules.ClockDoubt), t.Add(rules.ClockDoubt))
}

// mayAllow reports whether the node may do it at any instant from one to the other.
func (v *View) mayAllow(a *authorizer.AttributesRecord, node string, from, to time.Time) bool {
	as := *a
	as.User = &user.DefaultInfo{Name: nodeid.UserPrefix + node, Groups: []string{user.NodesGroup}}
	return v.auth.MayAllow(&as, from, to)
}

// Had implements rules.State.
func (v *View) Had(a *authorizer.AttributesRecord, node string, t time.Time) bool {
	return v.Leads(a, node, t) || v.mayAllow(a, node, v.heard(node, t), t)
}

// HadPod implements rules.State.
func (v *View) HadPod(namespace, name, node string, t time.Time) bool {
	return v.PodWasOn(namespace, name, node, t.Add(-rules.ClockDoubt), t) || v.PodWasOn(namespace, name, node, v.heard(node, t), t)
}

// HadPodIn implements rules.State.
func (v *View) HadPodIn(namespace, node string, t time.Time) bool {
	return v.state.Graph.HadPodIn(namespace, node, t)
}

// heard is since when the node's kubelet may not have heard of what happened: for as long as clocks may be wrong, and where the node was silent, since before that.
func (v *View) heard(node string, t time.Time) time.Time {
	if silent := v.SilentSince(node, t); !silent.IsZero() {
		t = silent
	}
	return t.Add(-rules.ClockDoubt)
}

// SilentSince implements rules.State.
func (v *View) SilentSince(node string, t time.Time) time.Time {
	return v.state.Nodes.SilentSince(node, t, rules.ClockDoubt)
}

// NodeExists says whether there was a Node object of that name at t, as far as the state covers t.
func (v *View) NodeExists(name string, t time.Time) (exists, known bool) {
	return v.state.Nodes.Known(name, t)
}

// AddressesKnown implements rules.State.
func (v *View) AddressesKnown(t time.Time) bool { return v.state.Nodes.AddressesKnown(t) }

// PodsWatched implements rules.State.
func (v *View) PodsWatched(t time.Time) bool { return v.state.PodsWatched(t) }

// NodeAddresses are the addresses and host names that a Node of the name had at any time; empty where the state does not tell.
func (v *View) NodeAddresses(name string) []string { return v.state.Nodes.Addresses(name) }

// NodeAddressSets implements rules.State.
func (v *View) NodeAddressSets(name string, t time.Time) [][]string {
	return v.state.Nodes.AddressSets(name, t)
}

// NodeAt implements rules.State.
func (v *View) NodeAt(address string) string { return v.state.Nodes.At(address) }

// NodesWith implements rules.State.
func (v *View) NodesWith(address string, t time.Time) []string {
	return v.state.Nodes.With(address, t)
}

// OnlyPulls implements rules.State.
func (v *View) OnlyPulls(namespace, name string) bool {
	return v.state.Graph.OnlyPulls(namespace, name)
}

// FreshSecret returns a secret that the node could not get before the pod was bound to it.
func (v *View) FreshSecret(namespace, pod, node string, t time.Time) (secret string, bound time.Time, ok bool) {
	secrets, bound, _ := v.state.Graph.PodSecrets(namespace, pod, node, t)
	for _, s := range secrets {
		a := v.auth.Decide(&authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: nodeid.UserPrefix + node, Groups: []string{user.NodesGroup}},
			Verb: "get", APIVersion: "v1", Resource: "secrets", Namespace: s.Namespace, Name: s.Name, ResourceRequest: true,
		}, bound.Add(-time.Minute))
		if a.Verdict == nodeauthz.Deny && !a.Race {
			return s.Namespace + "/" + s.Name, bound, true
		}
	}
	return "", time.Time{}, false
}
