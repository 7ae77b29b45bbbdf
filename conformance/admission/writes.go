package admission

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/nodeadmission"
)

// Write is a request of a node.
type Write struct {
	Node, Verb, Group, Resource, Subresource, Namespace, Name string
	// Object is what the body of a create or an update decodes to, Patch a patch of the type.
	Object object
	Patch  any
	Type   string // strategic, merge or json
	Kind   string
	// Old is the object that is written, where the plugin looks at it.
	Old object
	// Stranger is a write of somebody who has a node's name but is none.
	Stranger bool
	// Text is the patch as the client writes it.
	Text []byte
	// Raw gives ours the body as the client sent it, not as the audit log has it.
	Raw bool
}

func (w *Write) String() string {
	data, err := json.Marshal(w)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// errNotAsked means that the API server refuses the write before the plugin is asked.
type errNotAsked struct{ error }

// asked makes of a write what the plugin and ours are asked.
func (w *Write) asked() (admission.Attributes, *nodeadmission.Request, error) {
	op := map[string]admission.Operation{"create": admission.Create, "update": admission.Update, "patch": admission.Update, "delete": admission.Delete}[w.Verb]
	body, obj, err := w.bodies()
	if err != nil {
		return nil, nil, err
	}
	var old runtime.Object
	if w.Old != nil && w.Verb != "create" {
		if old, err = decodedObject(w.Old); err != nil {
			return nil, nil, err
		}
	}
	name, objectName := w.Name, w.Name
	if w.Verb == "create" && w.Object != nil && name == "" {
		objectName, _ = member(w.Object, "metadata")["name"].(string)
		name = objectName
	}
	gvr := schema.GroupVersionResource{Group: w.Group, Version: "v1", Resource: w.Resource}
	kind := schema.GroupVersionKind{Group: w.Group, Version: "v1", Kind: w.Kind}
	user := nodeUser(w.Node)
	if w.Stranger {
		user.Groups = user.Groups[1:]
	}
	attrs := admission.NewAttributesRecord(obj, old, kind, w.Namespace, name, gvr, w.Subresource, op, nil, false, user)
	r := &nodeadmission.Request{
		Attributes: &authorizer.AttributesRecord{User: user, Verb: w.Verb, Namespace: w.Namespace, APIGroup: w.Group, APIVersion: "v1", Resource: w.Resource,
			Subresource: w.Subresource, Name: w.Name, ResourceRequest: true},
		Node: w.Node, IsNode: !w.Stranger, Name: objectName, Body: body,
	}
	return attrs, r, nil
}

func decodedObject(o object) (runtime.Object, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	obj, err := decoded(data)
	if err != nil {
		return nil, fmt.Errorf("decoding %s: %w", data, err)
	}
	return obj, nil
}

// bodies are that of the log, and the object that the plugin sees.
func (w *Write) bodies() (body []byte, obj runtime.Object, err error) {
	switch {
	case w.Patch != nil:
		if body = w.Text; body == nil {
			if body, err = json.Marshal(w.Patch); err != nil {
				return nil, nil, err
			}
		}
		obj, err = w.patched(body)
		return body, obj, err
	case w.Object == nil:
		return nil, nil, nil
	}
	if obj, err = decodedObject(w.Object); err != nil {
		return nil, nil, errNotAsked{err}
	}
	if w.Raw {
		body, err = json.Marshal(w.Object)
	} else {
		version, _ := w.Object["apiVersion"].(string)
		var gv schema.GroupVersion
		if gv, err = schema.ParseGroupVersion(version); err == nil {
			body, err = logged(obj, gv)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if w.Kind != "TokenRequest" {
		err = dedup(obj)
	}
	return body, obj, err
}
