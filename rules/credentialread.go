package rules

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// podsRead returns the reason of a finding on a read of other nodes' pods that was let through, "" for any other request.
func podsRead(r *Request, s State) Reason {
	a := r.Attrs
	switch {
	case !a.ResourceRequest || a.Subresource != "" || a.Resource != "pods" || a.APIGroup != "" || !reads(a.Verb) || !r.Allowed:
		return ""
	case a.Verb != "get" && (a.Name == "" || a.Namespace == ""): // there, a name is of one pod in each namespace
		if readsPodsOfAll(r) {
			return PodsOfAll
		}
	case a.Name != "" && (r.Answer.Static || r.Answer.Verdict != nodeauthz.Allow): // else the graph leads the node to the pod
		if r.Succeeded() && nodeAllows(r) && onOthersAlone(r, s) && !namesNoNode(r, s) {
			return PodOfAnother
		}
	}
	return ""
}

// namesNoNode reports whether no Node ever had the name that the kubelet's user name says. A kubelet whose Node is gone asks for it by its name, as before.
func namesNoNode(r *Request, s State) bool {
	if s == nil {
		return false
	}
	if registered, _ := s.NodeRegistered(r.Node, r.Time); registered {
		return false
	}
	_, known := s.NodeExists(r.Node, r.Time)
	return known
}

// readsPodsOfAll reports whether a node read pods without selecting its own, and the Node authorizer let it, or looked so.
func readsPodsOfAll(r *Request) bool {
	return r.Event.RequestURI != "" && r.Succeeded() && r.Observed.NodeVerdict == nodeauthz.Allow && !selectsOwn(r)
}

// selectsOwn reports whether a request selects the pods, the slices or the certificate requests of the node.
func selectsOwn(r *Request) bool {
	return selects(r, "spec.nodeName", func(value string) bool { return value == r.Node })
}

// selects reports whether a request selects one value of the field, and that is wanted.
func selects(r *Request, field string, want func(value string) bool) bool {
	return slices.ContainsFunc(r.Attrs.FieldSelectorRequirements, func(q fields.Requirement) bool {
		return q.Field == field && want(q.Value) && (q.Operator == selection.Equals || q.Operator == selection.DoubleEquals)
	})
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
	return s.PodWasOn(namespace, name, node, t.Add(-ReturnsFor), t.Add(ClockDoubt)) || s.HadPod(namespace, name, node, t)
}

// asksForOthers reports whether the request is for what other nodes have, in reads that kubelets make for their own, and in deletions of whole collections. It is not where
// no Node ever had the name that the user name says: then the kubelet asks for its own by another name (see node-identity).
func asksForOthers(r *Request, s State) bool {
	a := r.Attrs
	if !a.ResourceRequest || a.Subresource != "" || a.Verb != "get" && r.Event.RequestURI == "" { // what it selects is not known
		return false
	}
	others, group := false, ""
	switch a.Resource {
	case "nodes":
		others = reads(a.Verb) && a.Name != r.Node
	case "csinodes":
		others, group = reads(a.Verb) && a.Name != r.Node, "storage.k8s.io"
	case "leases":
		others, group = reads(a.Verb) && a.Name != r.Node && a.Namespace == "kube-node-lease", "coordination.k8s.io"
	case "pods":
		others = a.Verb == "get" && a.Name != "" && onOthersAlone(r, s) || a.Verb != "get" && reads(a.Verb) && !selectsOwn(r)
	case "podcertificaterequests":
		others, group = reads(a.Verb) && !selectsOwn(r), "certificates.k8s.io"
	case "resourceslices":
		others, group = a.Verb == "deletecollection" && !selectsOwn(r), "resource.k8s.io"
	}
	return others && a.APIGroup == group && !namesNoNode(r, s)
}
