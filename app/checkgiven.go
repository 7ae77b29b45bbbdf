package app

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
)

// gives notes a request by which the user gave rights to others, in a role or a binding. RBAC lets him do so only if he has these rights himself, or the verb
// escalate or bind (pkg/registry/rbac). The log need not say which rights he gave, so it counts where he has any by a binding that goes alone.
func (b *bindingBook) gives(j *pipeline.Judgement) {
	a := j.Attrs
	if a.APIGroup != rbacv1.GroupName || a.Subresource != "" || !slices.Contains([]string{"create", "update", "patch"}, a.Verb) {
		return
	}
	free := *a
	free.Verb = "escalate"
	if strings.HasSuffix(a.Resource, "bindings") {
		free.Verb, free.Resource, free.Name = "bind", "clusterroles", "" // of which role is in the body
	}
	if b.without(&free, j.Time) {
		return
	}
	noted := map[rbac.BindingRef]bool{}
	for _, right := range b.rights {
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
