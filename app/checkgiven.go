package app

import (
	"encoding/json"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
)

// gives notes a request by which the user gave rights to others: in a role or a binding, or to an admission policy, which reads its parameters. The API server lets
// him do so only if he has these rights himself (pkg/registry/rbac, pkg/registry/admissionregistration), or for a role the verb escalate or bind. The log need
// not say which rights he gave, so it counts where he has any by a binding that goes alone.
func (b *bindingBook) gives(j *pipeline.Judgement) {
	a := j.Attrs
	if a.Subresource != "" || !slices.Contains([]string{"create", "update", "patch"}, a.Verb) {
		return
	}
	policy := false
	switch a.APIGroup {
	case rbacv1.GroupName:
		free := *a
		free.Verb = "escalate"
		if strings.HasSuffix(a.Resource, "bindings") {
			free.Verb, free.Resource, free.Name = "bind", "clusterroles", "" // of which role is in the body
		}
		if b.without(&free, j.Time) {
			return
		}
	case admissionregistrationv1.GroupName:
		if policy = mayHaveParameters(a.Resource, j.Event); !policy {
			return
		}
	default:
		return
	}
	noted := map[rbac.BindingRef]bool{}
	for _, right := range b.rights {
		if policy && right.Verb != "get" && right.Verb != "list" {
			continue
		}
		if right.User, right.Namespace = a.User, a.Namespace; b.without(&right, j.Time) {
			continue
		}
		if d := b.store.Authorize(&right, j.Time); d.Allowed {
			if by := pipeline.KeptGrant(b.store, b.kept, &right, j.Time, d.Grant).Binding; !noted[by] {
				noted[by] = true
				b.note(j, a, j.Event.Effective(), bindingUse{binding: by, given: true})
			}
		}
	}
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
