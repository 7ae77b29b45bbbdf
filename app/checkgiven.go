package app

import (
	"encoding/json"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
)

// gives notes a request by which the user gave rights to others: in a role or a binding, or to an admission policy, which reads its parameters. The API server lets
// him do so only if he has these rights himself (pkg/registry/rbac, pkg/registry/admissionregistration), or for a role the verb escalate or bind. The log need
// not say which rights he gave, so it counts where he has any by a binding that goes alone, at the time of the request or in the end.
func (b *bindingBook) gives(j *pipeline.Judgement) {
	a := j.Attrs
	if a.Subresource != "" || !slices.Contains([]string{"create", "update", "patch"}, a.Verb) {
		return
	}
	policy, spared, sparedLast := false, false, false
	switch a.APIGroup {
	case rbacv1.GroupName:
		spared, sparedLast = true, true
		for _, free := range sparing(j) {
			spared, sparedLast = spared && b.without(&free, j.Time), sparedLast && b.allows(&free, endOfTime(), b.last)
		}
	case admissionregistrationv1.GroupName:
		if policy = mayHaveParameters(a.Resource, j.Event); !policy {
			return
		}
	default:
		return
	}
	if spared && sparedLast {
		return
	}
	noted := map[bindingUse]bool{}
	note := func(by rbac.BindingRef, ended bool) {
		if k := (bindingUse{binding: by, given: true, ended: ended}); !noted[k] {
			noted[k] = true
			b.note(j, a, j.Event.Effective(), k)
		}
	}
	for _, right := range b.rights {
		if policy && right.Verb != "get" && right.Verb != "list" {
			continue
		}
		right.User, right.Namespace = a.User, a.Namespace
		if !spared {
			if by, needed := b.needed(&right, j.Time, b.goes); needed {
				note(by, false)
				continue
			}
		}
		if !sparedLast {
			if by, needed := b.needed(&right, endOfTime(), b.last); needed {
				note(by, true)
			}
		}
	}
}

// sparing are the requests of which each has to be allowed, so that who wrote a role or a binding needed no right that it gives. Which role a binding names is in the body.
func sparing(j *pipeline.Judgement) []authorizer.AttributesRecord {
	free := *j.Attrs
	if !strings.HasSuffix(free.Resource, "bindings") {
		free.Verb = "escalate"
		return []authorizer.AttributesRecord{free}
	}
	free.Verb, free.Resource, free.Name = "bind", "clusterroles", ""
	local := free
	local.Resource = "roles"
	switch kind, name := roleOf(j); {
	case kind == rbac.KindClusterRole || j.Attrs.Resource == "clusterrolebindings":
		free.Name = name
		return []authorizer.AttributesRecord{free}
	case kind == rbac.KindRole:
		local.Name = name
		return []authorizer.AttributesRecord{local}
	}
	return []authorizer.AttributesRecord{free, local}
}

// roleOf is the role that a written binding names, as the log has it; "" for one that it does not have.
func roleOf(j *pipeline.Judgement) (kind, name string) {
	bodies := [][]byte{j.Event.ResponseObject}
	if j.Attrs.Verb != "patch" {
		bodies = append(bodies, j.Event.RequestObject)
	}
	for _, body := range bodies {
		var o struct{ RoleRef rbacv1.RoleRef }
		if json.Unmarshal(body, &o) == nil && o.RoleRef.Kind != "" {
			return o.RoleRef.Kind, o.RoleRef.Name
		}
	}
	return "", ""
}

// mayHaveParameters reports whether a written object is an admission policy with parameters, or a binding of one, or the log does not tell.
func mayHaveParameters(resource string, ev *audit.Event) bool {
	var o struct {
		Spec *struct{ ParamKind, ParamRef json.RawMessage } `json:"spec"`
	}
	switch resource {
	case "validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings":
		if json.Unmarshal(ev.ResponseObject, &o) != nil || o.Spec == nil { // not what was asked for: a patch has a part of the object
			return true
		}
		named := func(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
		return named(o.Spec.ParamKind) || named(o.Spec.ParamRef)
	}
	return false
}
