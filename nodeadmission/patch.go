package nodeadmission

import (
	"bytes"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/util/strategicpatch"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// document is an object as far as it bears on an answer.
type document = map[string]any

// maxPatch bounds the patches that are applied, in bytes: merging lists takes the square of their length. Kubelets' patches of a status may be longer, and
// need not be applied.
const maxPatch = 128 << 10

// changed calls f with the object that an update makes of old, and returns its answer. Of a patch f is called for each type that it can be: where
// the answers differ, it is unknown.
func (e *eval) changed(p *objectParts, old document, f func(document) Answer) Answer {
	if e.req.Body == nil {
		return unknown(MissingBody)
	}
	if e.verb == "patch" && len(e.req.Body) > maxPatch {
		return unknown(MissingPatchType)
	}
	if e.verb != "patch" {
		var body document
		if !decode(e.req.Body, &body) || !wellTyped(body) {
			return unknown(MissingBody)
		}
		return f(p.of(body))
	}
	if isJSONPatch(e.req.Body) {
		doc, missing := p.jsonPatched(old, e.req.Body)
		if missing != MissingNothing {
			return unknown(missing)
		}
		return f(doc)
	}
	return e.mergePatched(p, old, f)
}

// isJSONPatch reports whether a patch is a list of operations.
func isJSONPatch(patch []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(patch, " \t\r\n"), []byte("["))
}

// mergePatched tries the types of a patch that is an object. One that cannot be applied is not the type that the API server applied.
func (e *eval) mergePatched(p *objectParts, old document, f func(document) Answer) Answer {
	var patch document
	if !decode(e.req.Body, &patch) || patch == nil {
		return unknown(MissingBody)
	}
	_, kind := patch["kind"]
	apply := kind && patch["apiVersion"] != nil // may be a server-side apply, whose result depends on managed fields
	if apply && !e.req.Done {
		return unknown(MissingPatchType)
	}
	doc := merge(copied(old), p.kept(copied(patch)))
	if !wellTyped(doc) {
		return unknown(MissingBody) // the API server refuses it, before the plugin is asked
	}
	merged := f(p.of(doc))
	if apply { // it sets what the patch has, whatever else it may take away: only a refusal of that is certain
		if merged.Verdict != Deny || f(p.of(merge(copied(old), withoutNulls(p.kept(copied(patch)))))) != merged {
			return unknown(MissingPatchType)
		}
	}
	doc, ok := strategic(copied(old), p.kept(copied(patch)), p.typed)
	if !ok {
		return merged
	}
	if other := f(p.of(doc)); other != merged {
		return unknown(MissingPatchType)
	}
	return merged
}

// withoutNulls takes out of a patch what a merge patch removes.
func withoutNulls(patch document) document {
	for key, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(patch, key)
		case document:
			patch[key] = withoutNulls(v)
		}
	}
	return patch
}

// wellTyped reports whether the members that parts are in are objects, as all kinds have them.
func wellTyped(doc document) bool {
	for _, top := range [...]string{"metadata", "spec", "status"} {
		switch doc[top].(type) {
		case nil, document:
		default:
			return false
		}
	}
	return true
}

// strategic applies a strategic merge patch, and is false if it cannot be applied.
func strategic(old, patch document, typed any) (doc document, ok bool) {
	ok = survives(func() error {
		var err error
		doc, err = strategicpatch.StrategicMergeMapPatch(old, patch, typed)
		return err
	})
	return doc, ok
}

// survives reports whether f returns without an error. Libraries panic on some patches that a client may send; in the API server that ends the
// request.
func survives(f func() error) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return f() == nil
}

// kept leaves of a patch what can bear on the parts: directives, and what they are in. Of a member without parts it leaves nothing, as of does of the
// object: the type need not have such a member.
func (p *objectParts) kept(patch document) document {
	for _, top := range []struct {
		name  string
		inner []string
	}{{"metadata", p.metadata}, {"spec", p.spec}, {"status", p.status}} {
		m, ok := patch[top.name].(document)
		if !ok {
			continue
		}
		if len(top.inner) == 0 {
			delete(patch, top.name)
			continue
		}
		for key := range m {
			if top.inner[0] != everything && untouched(key, top.inner) {
				delete(m, key)
			}
		}
	}
	return patch
}

// everything stands for all members.
const everything = "*"

// of keeps the parts of an object.
func (p *objectParts) of(doc document) document {
	out := document{}
	for _, top := range []struct {
		name  string
		inner []string
	}{{"metadata", p.metadata}, {"spec", p.spec}, {"status", p.status}} {
		m, ok := doc[top.name].(document)
		if !ok || len(top.inner) == 0 {
			continue
		}
		kept := document{}
		for key, value := range m {
			if top.inner[0] == everything || !untouched(key, top.inner) {
				kept[key] = value
			}
		}
		out[top.name] = kept
	}
	return out
}

// merge applies a JSON merge patch (RFC 7386) to doc.
func merge(doc, patch document) document {
	for key, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(doc, key)
		case document:
			inner, ok := doc[key].(document)
			if !ok {
				inner = document{}
			}
			doc[key] = merge(inner, v)
		default:
			doc[key] = v
		}
	}
	return doc
}

func copied(doc document) document {
	out := make(document, len(doc))
	for key, value := range doc {
		out[key] = copiedValue(value)
	}
	return out
}

func copiedValue(value any) any {
	switch v := value.(type) {
	case document:
		return copied(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = copiedValue(v[i])
		}
		return out
	}
	return value
}

// jsonPatched applies the operations of a JSON patch (RFC 6902) that bear on the parts. Where these come from, or depend on, what is not kept of
// the old object, the result is unknown.
func (p *objectParts) jsonPatched(old document, body []byte) (document, Missing) {
	var all []json.RawMessage
	if json.Unmarshal(body, &all) != nil {
		return nil, MissingBody
	}
	var kept []json.RawMessage
	for _, raw := range all {
		var op patchOperation
		if json.Unmarshal(raw, &op) != nil {
			return nil, MissingBody
		}
		moves := op.Op == "move"
		switch bears, fromBears := p.bears(op.Path), moves && p.bears(op.From); {
		case bears && op.Op == "copy": // what is copied into itself again and again fills the memory
			return nil, MissingPatchType
		case bears && moves && !p.within(op.From), fromBears && !p.within(op.From), bears && op.Op == "test" && !p.within(op.Path):
			return nil, MissingOldObject
		case !bears && op.Op == "test":
			return nil, MissingOldObject
		case !bears && op.Op == "move" && fromBears:
			raw, _ = json.Marshal(map[string]string{"op": "remove", "path": op.From})
			kept = append(kept, raw)
		case bears:
			kept = append(kept, raw)
		}
	}
	if len(kept) == 0 {
		return old, MissingNothing
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return nil, MissingBody
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, MissingBody
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, MissingOldObject
	}
	var after []byte
	if !survives(func() error {
		after, err = patch.Apply(before)
		return err
	}) {
		return nil, MissingBody // the API server refuses it as well, before the plugin is asked
	}
	var doc document
	if !decode(after, &doc) || !wellTyped(doc) {
		return nil, MissingBody
	}
	return p.of(doc), MissingNothing
}

// bears reports whether a JSON pointer leads to one of the parts, into it, or to what it is in.
func (p *objectParts) bears(pointer string) bool {
	top, member := splitPointer(pointer)
	switch top {
	case "":
		return true
	case "metadata":
		return member == "" || bearsOn(member, p.metadata)
	case "spec":
		return member == "" && len(p.spec) > 0 || bearsOn(member, p.spec)
	case "status":
		return member == "" && len(p.status) > 0 || bearsOn(member, p.status)
	}
	return false
}

// within reports whether a JSON pointer leads to one of the parts or into it, so that the old object has all of what is there.
func (p *objectParts) within(pointer string) bool {
	_, member := splitPointer(pointer)
	return member != "" && p.bears(pointer)
}

func bearsOn(member string, inner []string) bool {
	return len(inner) > 0 && inner[0] == everything || !untouched(member, inner)
}

// unescape makes a name of a part of a JSON pointer.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

func splitPointer(pointer string) (top, member string) {
	top, rest, _ := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	member, _, _ = strings.Cut(rest, "/")
	return unescape.Replace(top), unescape.Replace(member)
}
