package rules

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/nodetrail/nodetrail/nodeadmission"
)

// written is what kubelets of any supported version write, of that whose body or namespace may show something else. It says of a write that succeeded whether no kubelet makes it.
// What is not here is in nodeauthz.EverRuled, or needs a binding.
var written = map[string]func(r *Request, s State) bool{
	"events": eventOfOthers,
	"nodes":  specOfNode,
	"pods":   beyondStatic,
}

// oddWrite reports whether a write succeeded that no kubelet makes. What the log does not show counts for the kubelet.
func oddWrite(r *Request, s State) bool {
	a := r.Attrs
	if !a.ResourceRequest || a.Subresource != "" || !writes(a.Verb) || !r.Succeeded() || r.Unnamed || DryRun(r.Event) {
		return false
	}
	odd := written[a.Resource]
	return odd != nil && (a.APIGroup == "" || a.Resource == "events" && a.APIGroup == "events.k8s.io") && odd(r, s)
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

// specOfNode reports whether the request changes the spec of a Node. A kubelet writes that when it makes its Node (pkg/kubelet/kubelet_node_status.go, initialNode), and never after: it patches
// nodes/status, without the spec (pkg/util/node, preparePatchBytesforNodeStatus). k0s cordons its node, and k3s updates its Node with all that it has.
func specOfNode(r *Request, _ State) bool {
	p := program(r.product())
	switch a := r.Attrs; {
	case a.Name != r.Node: // see foreign-node-write
	case a.Verb == "update":
		return p == "kubelet"
	case a.Verb == "patch":
		return p != "k0s" && patchesSpec(r.Event.RequestObject)
	}
	return false
}

// patchesSpec reports whether a patch is seen to change the member spec: one that is merged, or a list of operations.
func patchesSpec(body []byte) bool {
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
		for _, o := range ops {
			if o.Op != "test" && (o.Path == "" || o.Path == "/spec" || strings.HasPrefix(o.Path, "/spec/")) {
				return true
			}
		}
		return false
	}
	var merged struct {
		Spec map[string]json.RawMessage `json:"spec"`
	}
	return json.Unmarshal(body, &merged) == nil && len(merged.Spec) > 0
}

// beyondStatic reports whether a node makes a pod that is no static pod's mirror, by what it names.
func beyondStatic(r *Request, _ State) bool {
	return r.Attrs.Verb == "create" && nodeadmission.BeyondStatic(r.Event.RequestObject) != ""
}
