package audit

import (
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Attributes recovers from audit events what kube-apiserver's authorizer was asked. Its zero value is ready; one is used for event after
// event, by one goroutine.
type Attributes struct {
	record authorizer.AttributesRecord
	user   user.DefaultInfo
	field  [1]fields.Requirement
}

// Of returns the attributes that kube-apiserver computed for the event's request, as its RequestInfoFactory and GetAuthorizerAttributes
// do (k8s.io/apiserver/pkg/endpoints/request and filters, with the default prefixes api and apis). The user is the effective one,
// without extra. selectors is the feature gate AuthorizeWithSelectors; without it selectors are not parsed.
//
// They are read from requestURI: kube-apiserver fills an empty name or namespace of the event's objectRef from the body, which the
// authorizer never saw. Only the name that a list or a watch selects is taken from objectRef, since those have no body. Where requestURI is
// missing, or is not that of a resource though there is an objectRef, the objectRef is all there is. A requestURI of a resource counts without an
// objectRef too: kube-apiserver always writes one, and what handled the log may have left it out.
//
// The record, its user and its field requirements belong to a and change with the next call. Its strings are those of the event or
// slices of them.
func (a *Attributes) Of(ev *Event, selectors bool) *authorizer.AttributesRecord {
	who := ev.Effective()
	a.user = user.DefaultInfo{Name: who.Username, UID: who.UID, Groups: who.Groups}
	a.record = authorizer.AttributesRecord{User: &a.user, Verb: ev.Verb}
	path, query, ok := splitURI(ev.RequestURI)
	a.record.Path = path
	var target target
	ok = ok && target.parse(path)
	if a.record.ResourceRequest = ev.HasObjectRef || ok; !a.record.ResourceRequest {
		return &a.record
	}
	if !ok {
		a.fromRef(&ev.ObjectRef)
		if ev.Derived && ev.Verb == "create" && ev.ObjectRef.Subresource == "" {
			a.record.Name = "" // a create names its object in the body only
		}
		return &a.record
	}
	if target.name == "" && !target.verbInPath && (ev.Verb == "list" || ev.Verb == "watch") {
		target.name = ev.ObjectRef.Name
	}
	a.record.APIGroup, a.record.APIVersion, a.record.Namespace = target.group, target.version, target.namespace
	a.record.Resource, a.record.Subresource, a.record.Name = target.resource, target.subresource, target.name
	if selectors && query != "" && !target.verbInPath && (ev.Verb == "list" || ev.Verb == "watch" || ev.Verb == "deletecollection") {
		a.selectors(query)
	}
	return &a.record
}

func (a *Attributes) fromRef(o *ObjectRef) {
	a.record.APIGroup, a.record.APIVersion, a.record.Namespace = o.APIGroup, o.APIVersion, o.Namespace
	a.record.Resource, a.record.Subresource, a.record.Name = o.Resource, o.Subresource, o.Name
}

// A target is what the path of a request names.
type target struct {
	group, version, namespace, resource, subresource, name string
	// verbInPath is whether the verb is part of the path, as in the old /api/v1/watch/pods.
	verbInPath bool
}

// parse reads the path of a resource request, and is false for any other path.
func (t *target) parse(path string) bool {
	prefix, rest, more := strings.Cut(strings.Trim(path, "/"), "/")
	switch prefix {
	case "api":
	case "apis":
		if more {
			t.group, rest, more = strings.Cut(rest, "/")
		}
	default:
		return false
	}
	if more {
		t.version, rest, more = strings.Cut(rest, "/")
	}
	if !more {
		return false
	}
	part, after, more := strings.Cut(rest, "/")
	proxy := false
	if part == "watch" || part == "proxy" {
		if !more {
			return false
		}
		t.verbInPath, proxy = true, part == "proxy"
		rest = after
		part, after, more = strings.Cut(rest, "/")
	}
	if part == "namespaces" && more {
		var next string
		t.namespace, next, more = strings.Cut(after, "/")
		if kind, _, _ := strings.Cut(next, "/"); more && kind != "status" && kind != "finalize" {
			rest = next
		}
	}
	t.resource, rest, _ = strings.Cut(rest, "/")
	t.name, rest, _ = strings.Cut(rest, "/")
	if !proxy {
		t.subresource, _, _ = strings.Cut(rest, "/")
	}
	return true
}

// selectors parses the first field selector and the first label selector of a query. A selector that does not parse leaves its error.
func (a *Attributes) selectors(query string) {
	rec := &a.record
	if field, ok := queryValue(query, "fieldSelector"); ok && field != "" {
		if key, value, ok := plainSelector(field); ok {
			a.field[0] = fields.Requirement{Operator: selection.Equals, Field: key, Value: value}
			rec.FieldSelectorRequirements = a.field[:1:1]
		} else if text, err := url.QueryUnescape(field); err == nil && text != "" {
			selector, err := fields.ParseSelector(text)
			rec.FieldSelectorParsingErr = err
			if err == nil {
				rec.FieldSelectorRequirements = slices.Clip(selector.Requirements())
			}
			if len(rec.FieldSelectorRequirements) == 0 {
				rec.FieldSelectorRequirements = nil
			}
		}
	}
	if label, ok := queryValue(query, "labelSelector"); ok && label != "" {
		text, err := url.QueryUnescape(label)
		if err != nil || text == "" {
			return
		}
		selector, err := labels.Parse(text)
		if rec.LabelSelectorParsingErr = err; err == nil {
			if requirements, _ := selector.Requirements(); len(requirements) > 0 {
				rec.LabelSelectorRequirements = requirements
			}
		}
	}
}

// plainSelector splits a field selector of the shape that kubelets send, field=value with nothing that needs unescaping but the
// equals sign itself, and is false for any other.
func plainSelector(escaped string) (key, value string, ok bool) {
	key, value, ok = strings.Cut(escaped, "%3D")
	if !ok {
		key, value, ok = strings.Cut(escaped, "=")
	}
	return key, value, ok && key != "" && plain(key) && plain(value)
}

func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || c == '.' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}
