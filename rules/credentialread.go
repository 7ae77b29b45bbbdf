package rules

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// oddRead returns the reason of a finding on a read that no kubelet makes, "" for any other request. Kubelets of all versions that nodetrail knows read their own Node,
// the pods on it, and by their names what these use (pkg/kubelet, pkg/volume).
func oddRead(r *Request, s State) (reason Reason) {
	a := r.Attrs
	if !a.ResourceRequest || a.Subresource != "" || !reads(a.Verb) {
		return ""
	}
	switch {
	case !r.Allowed:
		if r.refusedForGood() && (neverRead(r) || getsPod(a) && onOthersAlone(r, s)) {
			reason = ForeignReadRefused
		}
	case a.Resource != "pods" || a.APIGroup != "":
	case a.Verb != "get":
		if readsPodsOfAll(r) {
			return PodsOfAll
		}
	case a.Name != "" && (r.Answer.Static || r.Answer.Verdict != nodeauthz.Allow): // else the graph leads the node to the pod
		if r.Succeeded() && nodeAllows(r) && onOthersAlone(r, s) {
			reason = PodOfAnother
		}
	}
	if reason != "" && namesNoNode(r, s) {
		return "" // it asks for what is its own: see node-identity
	}
	return reason
}

// namesNoNode reports whether no Node has the name that the kubelet's user name says.
func namesNoNode(r *Request, s State) bool {
	if s == nil {
		return false
	}
	registered, known := s.NodeRegistered(r.Node, r.Time)
	exists, told := s.NodeExists(r.Node, r.Time)
	return known && !registered || told && !exists
}

// readsPodsOfAll reports whether a node read pods without selecting its own, and the Node authorizer let it, or looked so.
func readsPodsOfAll(r *Request) bool {
	a := r.Attrs
	return a.Name == "" && r.Event.RequestURI != "" && r.Succeeded() && r.Observed.NodeVerdict == nodeauthz.Allow && !selectsOwn(r)
}

// selectsOwn reports whether a request selects the pods, the slices or the certificate requests of the node.
func selectsOwn(r *Request) bool {
	return slices.ContainsFunc(r.Attrs.FieldSelectorRequirements, func(q fields.Requirement) bool {
		return q.Field == "spec.nodeName" && q.Value == r.Node && (q.Operator == selection.Equals || q.Operator == selection.DoubleEquals)
	})
}

func getsPod(a *authorizer.AttributesRecord) bool {
	return a.Verb == "get" && a.APIGroup == "" && a.Resource == "pods" && a.Name != ""
}

// onOthersAlone reports whether the pod is on another node, and none of its name was on this one that its kubelet may ask after: for a day, as in ownUntilBefore, or since
// the node was cut off. Before Kubernetes 1.32 the Node authorizer lets nodes get any pod, so that its word says nothing of where the pod is.
func onOthersAlone(r *Request, s State) bool {
	a := r.Attrs
	if s == nil {
		return false
	}
	other, bound := s.PodNode(a.Namespace, a.Name, r.Time)
	if !bound || other == r.Node || hadPod(s, a.Namespace, a.Name, r.Node, r.Time) {
		return false
	}
	came := r.Time // to the other node
	s.PodStays(a.Namespace, a.Name, "", r.Time, r.Time, func(x *nodeauthz.Stay) {
		if x.Node == other && x.Begin.Before(came) {
			came = x.Begin
		}
	})
	return came.Before(r.Time.Add(-time.Hour)) || s.PodsWatched(came.Add(-asksAfter)) // else one of that name may have been here before the state begins
}

// asksAfter is for how long a kubelet asks after a pod that left its node, or was made again on another one, while it is in touch with the API server.
const asksAfter = 10 * time.Minute

func hadPod(s State, namespace, name, node string, t time.Time) bool {
	return s.PodWasOn(namespace, name, node, t.Add(-returnsFor), t.Add(ClockDoubt)) || s.HadPod(namespace, name, node, t)
}

// neverRead reports whether a read is of something that no kubelet reads, whatever is on its node.
func neverRead(r *Request) bool {
	a := r.Attrs
	if a.Verb != "get" && r.Event.RequestURI == "" {
		return false // what it selects is not known
	}
	switch a.APIGroup {
	case "":
		switch a.Resource {
		case "nodes":
			return a.Name != r.Node
		case "pods":
			return a.Verb != "get" && !selectsOwn(r)
		case "persistentvolumes", "persistentvolumeclaims":
			return a.Name == ""
		case "namespaces", "replicationcontrollers", "resourcequotas", "limitranges", "podtemplates":
			return true
		}
	case "storage.k8s.io":
		switch a.Resource {
		case "csinodes":
			return a.Name != r.Node
		case "volumeattachments":
			return a.Name == ""
		}
	case "coordination.k8s.io":
		return a.Resource == "leases" && (a.Namespace != "kube-node-lease" || a.Name != r.Node)
	case "resource.k8s.io":
		return a.Resource == "resourceslices" && !slicesOf130(r) // later kubelets read none
	case "certificates.k8s.io":
		return a.Resource == "podcertificaterequests" && (a.Verb == "get" || !selectsOwn(r))
	case "apps", "batch", "autoscaling", "policy", "networking.k8s.io", "rbac.authorization.k8s.io", "admissionregistration.k8s.io":
		return true
	}
	return false
}
