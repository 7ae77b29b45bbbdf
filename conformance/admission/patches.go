package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// patched applies the patch as kube-apiserver's patch handler does.
func (w *Write) patched(patch []byte) (runtime.Object, error) {
	if w.Old == nil {
		return nil, nil // the plugin refuses without a look at it
	}
	old, err := json.Marshal(w.Old)
	if err != nil {
		return nil, err
	}
	data, err := unless(func() ([]byte, error) { return w.apply(old, patch) })
	if err != nil {
		return nil, errNotAsked{err}
	}
	return w.decoded(data)
}

// apply applies a patch of the write's type.
func (w *Write) apply(old, patch []byte) ([]byte, error) {
	switch w.Type {
	case "strategic":
		schema := map[string]any{"Node": corev1.Node{}, "Pod": corev1.Pod{}, "PersistentVolumeClaim": corev1.PersistentVolumeClaim{}, "CSINode": storagev1.CSINode{}}[w.Kind]
		return strategicpatch.StrategicMergePatch(old, patch, schema)
	case "merge":
		return jsonpatch.MergePatch(old, patch)
	}
	p, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return p.Apply(old)
}

// decoded decodes a patched object, which must keep its name. The API server decodes it into an object of the kind, so a patch can leave the kind out.
func (w *Write) decoded(data []byte) (runtime.Object, error) {
	kind := schema.GroupVersionKind{Group: w.Group, Version: "v1", Kind: w.Kind}
	obj, _, err := legacyscheme.Codecs.UniversalDecoder().Decode(data, &kind, nil)
	if err != nil {
		return nil, errNotAsked{fmt.Errorf("decoding a patched object: %w", err)}
	}
	if m, err := meta.Accessor(obj); err != nil || m.GetName() != w.Name || m.GetNamespace() != w.Namespace {
		return nil, errNotAsked{errors.New("the patch changes the name")}
	}
	return obj, nil
}

// unless ends in an error what a library panics at; in the API server that ends the request.
func unless(apply func() ([]byte, error)) (data []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return apply()
}

// patch makes a random patch of one of the types. Part after part is changed by what part returns.
func (g *generator) patch(w *Write, merge func() object, operation func() object) {
	w.Verb = "patch"
	switch w.Type = pick(g, "strategic", "strategic", "merge", "json"); w.Type {
	case "json":
		ops := []any{}
		for range 1 + g.IntN(3) {
			if g.chance(20) {
				ops = append(ops, g.wholeOperation(w))
				continue
			}
			ops = append(ops, operation())
		}
		w.Patch = ops
	default:
		p := merge()
		switch g.IntN(40) {
		case 0, 1, 2, 3, 4:
			p = g.replacement(w, merge)
		case 5: // what no kind has there
			p[pick(g, "metadata", "spec", "status")] = pick[any](g, nil, "x", 5, true, []any{}, []any{object{}})
		case 6: // as a server-side apply
			p["apiVersion"], p["kind"] = w.Old["apiVersion"], w.Old["kind"]
		}
		w.Patch = p
	}
	if g.chance(4) {
		w.Text = g.written(nil, w.Patch)
	}
}

// wholeOperation is of a JSON patch that takes all of the object, or of a member of it.
func (g *generator) wholeOperation(w *Write) object {
	whole := clone(w.Old)
	if g.chance(2) {
		member(whole, "metadata")["labels"] = g.labels(1)
	}
	return pick(g, object{"op": pick(g, "add", "replace", "test"), "path": "", "value": whole},
		object{"op": pick(g, "add", "replace", "test"), "path": "/metadata", "value": whole["metadata"]},
		object{"op": "move", "from": pick(g, "/metadata/labels", "/metadata/labels/app", "/spec/taints", "/status/resourceClaimStatuses"), "path": pick(g, "/status/phase", "/metadata/annotations", "/x")},
		object{"op": "copy", "from": "", "path": pick(g, "/x", "/metadata/labels/app")},
		object{"op": pick(g, "remove", "replace"), "path": pick(g, "/status", "/spec", "/metadata/annotations"), "value": pick[any](g, object{}, nil, 5)})
}

// written appends a value as a client may write it: with white space, with escapes, and with members that come twice, of which the last counts.
func (g *generator) written(out []byte, v any) []byte {
	white := func() { out = append(out, pick(g, "", "", "", " ", "\n\t ")...) }
	switch v := v.(type) {
	case object:
		out = append(out, '{')
		keys := slices.Sorted(maps.Keys(v))
		g.Shuffle(len(keys), func(i, k int) { keys[i], keys[k] = keys[k], keys[i] })
		for i, key := range keys {
			if i > 0 {
				out = append(out, ',')
			}
			for twice := g.chance(10); ; twice = false {
				white()
				out = g.quoted(out, key)
				white()
				out = append(out, ':')
				white()
				if !twice {
					break
				}
				out = append(g.written(out, pick[any](g, nil, object{}, "x", v[pick(g, keys...)])), ',')
			}
			out = g.written(out, v[key])
			white()
		}
		return append(out, '}')
	case []any:
		out = append(out, '[')
		for i := range v {
			if i > 0 {
				out = append(out, ',')
			}
			white()
			out = g.written(out, v[i])
		}
		return append(out, ']')
	case string:
		return g.quoted(out, v)
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was read from JSON
	}
	return append(out, text...)
}

func (g *generator) quoted(out []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // it is a string
	}
	if i := g.IntN(len(text)); g.chance(12) && text[i] > '"' && text[i] < 0x7f && !bytes.ContainsRune(text, '\\') {
		return append(fmt.Appendf(append(out, text[:i]...), "\\u%04x", text[i]), text[i+1:]...)
	}
	return append(out, text...)
}

// replacement makes a patch that puts itself in the place of all of the object, or of all of its metadata. The name must stay, or the API server
// refuses the patch before the plugin is asked.
func (g *generator) replacement(w *Write, merge func() object) object {
	p := object{}
	if g.chance(4) {
		p = merge()
	}
	m := member(p, "metadata")
	m["name"] = w.Name
	if w.Namespace != "" {
		m["namespace"] = w.Namespace
	}
	switch {
	case g.chance(4):
		m["$patch"] = "replace"
	case g.chance(6):
		m["$retainKeys"] = []any{"name", "namespace"}
	default:
		p["$patch"] = pick(g, "replace", "replace", "replace", "delete")
	}
	return p
}

func (g *generator) nodePatch() object {
	p := object{}
	if g.chance(2) {
		m := member(p, "metadata")
		switch g.IntN(6) {
		case 0:
			m["ownerReferences"] = g.owners()
		case 1:
			m["annotations"] = object{"x": "y"}
		case 2:
			m["labels"] = nil
		case 3:
			m["$setElementOrder/ownerReferences"] = []any{object{"uid": "u1"}}
		default:
			labels := g.labels(2)
			if g.chance(3) {
				labels[pick(g, labelKeys...)] = nil
			}
			if g.chance(8) {
				labels["$patch"] = "replace"
			}
			m["labels"] = labels
		}
	}
	if g.chance(3) {
		s := member(p, "spec")
		switch g.IntN(5) {
		case 0:
			s["taints"] = g.list(2, g.taint)
		case 1:
			s["configSource"] = pick(g, any(g.configSource()), nil)
		case 2:
			s["unschedulable"] = true
		case 3:
			s["$setElementOrder/taints"] = []any{object{"key": "x"}}
			s["taints"] = g.list(1, g.taint)
		default:
			p["spec"] = pick(g, nil, any(object{"$patch": pick(g, "replace", "delete")}))
		}
	}
	if g.chance(2) {
		p["status"] = object{"$setElementOrder/conditions": []any{object{"type": "Ready"}}, "conditions": []any{object{"type": "Ready", "message": `a "b" \ {`}}}
	}
	return p
}

func (g *generator) owners() []any {
	out := g.list(2, g.owner)
	if g.chance(3) {
		out = append(out, object{"$patch": pick(g, "delete", "replace"), "uid": "u1"})
	}
	return out
}

func (g *generator) nodeOperation() object {
	switch g.IntN(10) {
	case 0:
		return object{"op": pick(g, "add", "replace"), "path": "/metadata/labels", "value": g.labels(2)}
	case 1:
		return object{"op": "remove", "path": pick(g, "/metadata/labels", "/spec/taints", "/spec/configSource", "/spec/taints/0", "/metadata/ownerReferences")}
	case 2:
		return object{"op": "add", "path": pick(g, "/metadata/labels/app", "/metadata/labels/kubernetes.io~1evil", "/metadata/labels/kubernetes.io~1os"), "value": "1"}
	case 3:
		return object{"op": "add", "path": pick(g, "/spec/taints/-", "/spec/taints/0"), "value": g.taint()}
	case 4:
		return object{"op": pick(g, "add", "replace", "test"), "path": "/spec/taints", "value": g.list(2, g.taint)}
	case 5:
		return object{"op": "test", "path": pick(g, "/metadata/name", "/metadata/uid", "/spec"), "value": pick[any](g, "n1", object{})}
	case 6:
		return object{"op": pick(g, "copy", "move"), "from": pick(g, "/metadata/labels", "/metadata/annotations", "/metadata/labels/app"),
			"path": pick(g, "/metadata/annotations", "/metadata/labels", "/metadata/labels/kubernetes.io~1evil")}
	case 7:
		return object{"op": "add", "path": "/spec", "value": object{"taints": g.list(1, g.taint)}}
	case 8:
		return object{"op": "add", "path": "/metadata/ownerReferences", "value": g.list(2, g.owner)}
	}
	return object{"op": "add", "path": pick(g, "/status/phase", "/metadata/annotations"), "value": pick[any](g, "x", object{"a": "b"})}
}

func (g *generator) podStatusPatch() object {
	p := object{}
	if g.chance(6) { // all of a member goes
		p[pick(g, "status", "status", "metadata")] = nil
		if _, gone := p["metadata"]; !gone && g.chance(2) {
			member(p, "metadata")["annotations"] = nil
		}
		return p
	}
	if g.chance(2) {
		m := member(p, "metadata")
		m["uid"] = pick(g, "uid-pod-0", "uid-pod-1")
		if g.chance(2) {
			m["labels"] = pick[any](g, g.labels(1), object{"app": nil}, nil)
		}
	}
	if g.chance(3) {
		p["status"] = g.claimStatuses()
	} else {
		member(p, "status")["phase"] = "Running"
	}
	if g.chance(4) {
		member(p, "status")["$setElementOrder/conditions"] = []any{object{"type": "Ready"}}
	}
	if g.chance(8) {
		member(p, "status")["$setElementOrder/resourceClaimStatuses"] = []any{object{"name": "c1"}, object{"name": "c0"}}
	}
	if g.chance(10) {
		member(p, "status")["$retainKeys"] = []any{"phase"}
	}
	return p
}

func (g *generator) podStatusOperation() object {
	switch g.IntN(5) {
	case 0:
		return object{"op": pick(g, "add", "replace"), "path": "/metadata/labels", "value": g.labels(1)}
	case 1:
		return object{"op": pick(g, "remove", "test"), "path": pick(g, "/status/resourceClaimStatuses/0", "/status/extendedResourceClaimStatus", "/metadata/labels/app")}
	case 2:
		return object{"op": "replace", "path": "/status", "value": g.claimStatuses()}
	case 3:
		return object{"op": "add", "path": "/status/resourceClaimStatuses/0/name", "value": "c2"}
	}
	return object{"op": "add", "path": "/status/phase", "value": "Running"}
}

func (g *generator) claimPatch() object {
	p := object{"status": g.claimStatus()}
	if g.chance(4) {
		member(p, "metadata")[pick(g, "labels", "annotations")] = object{"app": pick(g, any("1"), nil)}
	}
	if g.chance(6) {
		member(p, "metadata")["finalizers"] = []any{"x/y"}
	}
	if g.chance(6) {
		member(p, "spec")["volumeName"] = "pv-1"
	}
	return p
}

func (g *generator) claimOperation() object {
	return object{"op": pick(g, "add", "replace", "remove", "test"), "path": pick(g, "/status/phase", "/status/capacity", "/status/allocatedResources", "/metadata/labels",
		"/spec/volumeMode", "/status/conditions"), "value": pick[any](g, "Bound", object{"storage": "2Gi"}, object{}, []any{})}
}
