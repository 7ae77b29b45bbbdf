package rules

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/nodetrail/nodetrail/nodeadmission"
)

// oddWrite reports whether a write succeeded that no kubelet of any supported version makes. What the log does not show counts for the kubelet. What is not here is in
// nodeauthz.EverRuled, or needs a binding.
func oddWrite(r *Request, s State) bool {
	a := r.Attrs
	if !a.ResourceRequest || !writes(a.Verb) || !r.Succeeded() || r.Unnamed || DryRun(r.Event) {
		return false
	}
	if a.Subresource != "" {
		return a.Subresource == "eviction" && evicts(r, s)
	}
	switch a.APIGroup {
	case "":
		switch a.Resource {
		case "events":
			return eventOfOthers(r, s)
		case "nodes":
			return changesNode(r)
		case "pods":
			return beyondStatic(r)
		}
	case "events.k8s.io":
		return a.Resource == "events" && eventOfOthers(r, s)
	case "coordination.k8s.io":
		return deletesLease(r)
	}
	return false
}

// evicts reports whether the request evicts a pod that is not on another node (see foreign-node-write). A kubelet ends the pods that it evicts by itself (pkg/kubelet/eviction), and asks
// for no eviction. k0s drains its node.
func evicts(r *Request, s State) bool {
	a := r.Attrs
	return a.APIGroup == "" && a.Resource == "pods" && a.Verb == "create" && program(r.product()) != "k0s" && !writesForeign(r, s)
}

// deletesLease reports whether the request deletes the node's own Lease. A kubelet renews it, and leaves it where it is when it stops: it runs the controller of Leases by Run, not
// by Start and Stop, which delete one (pkg/kubelet/kubelet.go; k8s.io/component-helpers/apimachinery/lease).
func deletesLease(r *Request) bool {
	a := r.Attrs
	return a.Resource == "leases" && a.Namespace == "kube-node-lease" && a.Verb == "delete" && a.Name == r.Node
}

// eventOfOthers reports whether an event is none of a kubelet's. Kubelets record events of their own Node, which is in no namespace and has them in default, and of the pods on it
// and of what these use, in their namespaces (the recorder's uses in pkg/kubelet and pkg/volume). They come late, and are patched when the pod is gone: so the node may have had the pod
// at any time. The name of an event begins with that of its object (k8s.io/client-go/tools/record, makeEvent); that of a long one does not.
func eventOfOthers(r *Request, s State) bool {
	a, object := r.Attrs, eventObject(r)
	if s == nil || object == "" || a.Namespace == "" || !s.PodsWatched(r.Time.Add(-asksAfter)) || !s.PodsWatched(r.Time) || namesNoNode(r, s) {
		return false
	}
	if hadPod(s, a.Namespace, object, r.Node, r.Time) {
		return false
	}
	if a.Namespace == "default" {
		exists, _ := s.NodeExists(object, r.Time)
		return exists && object != r.Node
	}
	return !s.HadPodIn(a.Namespace, r.Node, r.Time.Add(ClockDoubt))
}

// eventObject is the name of the object of an event, as the event's name has it; "" for none.
func eventObject(r *Request) string {
	name := r.Attrs.Name
	if name == "" {
		name = r.Event.ObjectRef.Name // on create, from the body
	}
	return name[:max(0, strings.LastIndexByte(name, '.'))]
}

// changesNode reports whether the request changes the node's own Node as no kubelet does. A kubelet writes spec and labels when it makes its Node (pkg/kubelet/kubelet_node_status.go,
// initialNode); after that it patches nodes/status alone, also for labels and annotations (k8s.io/component-helpers/node/util, PatchNodeStatus). kubeadm annotates the Node, k0s cordons its
// node, and k3s updates its Node with all that it has.
func changesNode(r *Request) bool {
	p := program(r.product())
	switch a := r.Attrs; {
	case a.Name != r.Node: // see foreign-node-write
	case a.Verb == "update":
		return p == "kubelet"
	case a.Verb == "patch":
		body := r.Event.RequestObject
		return p == "kubelet" || p != "k0s" && patches(body, "spec") || p == "kubeadm" && patches(body, "metadata", "labels")
	}
	return false
}

// patches reports whether a patch is seen to change a member: one that is merged, or a list of operations.
func patches(body []byte, member ...string) bool {
	if body = bytes.TrimSpace(body); len(body) == 0 {
		return false
	}
	if body[0] == '[' {
		var ops []struct {
			Op   string `json:"op"`
			Path string `json:"path"`
		}
		if json.Unmarshal(body, &ops) != nil {
			return false
		}
		path := "/" + strings.Join(member, "/") + "/"
		for _, o := range ops { // of the member, of what it is in, or of what is in it
			if is := o.Path + "/"; o.Op != "test" && (strings.HasPrefix(is, path) || strings.HasPrefix(path, is)) {
				return true
			}
		}
		return false
	}
	for _, name := range member {
		var merged map[string]json.RawMessage
		if json.Unmarshal(body, &merged) != nil {
			return false
		}
		body = merged[name]
	}
	var in map[string]json.RawMessage
	return json.Unmarshal(body, &in) == nil && len(in) > 0
}

// beyondStatic reports whether a node makes a pod that is no static pod's mirror, by what it names.
func beyondStatic(r *Request) bool {
	return r.Attrs.Verb == "create" && nodeadmission.BeyondStatic(r.Event.RequestObject) != ""
}
