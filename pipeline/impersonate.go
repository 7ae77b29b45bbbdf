package pipeline

import (
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/rbac"
)

// impersonation finds what let a node act as somebody else, another node included. The apiserver asks the authorizers for that by the side, and
// the event does not say who allowed it; but it names the impersonated user only if somebody did, and the Node authorizer never does. Where a node
// may act as another one without any binding for nodes, the request is judged as that one's.
func (j *Judge) impersonation(out *Judgement) {
	ev := out.Event
	if !ev.IsImpersonated {
		return
	}
	node, isNode := nodeid.Of(ev.User.Username, ev.User.Groups)
	if !isNode {
		return
	}
	var d rbac.Decision
	spare := false
	if j.RBAC != nil {
		attrs := Impersonates(ev)
		d = j.RBAC.Authorize(attrs, out.Time)
		spare = j.RBAC.AuthorizeWithout(attrs, out.Time, rbac.Grant.ForNodes).Allowed
	}
	if !spare || !out.IsNode {
		out.Impersonator, out.Grant, out.HasGrant, out.Spare = node, d.Grant, d.Allowed, spare
	}
}

// Impersonates is what the apiserver asks the authorizers for the user of an impersonation (k8s.io/apiserver/pkg/endpoints/filters/impersonation). Its groups,
// UID and extra are asked for apart, and are left out: who may not have them all is not let through. Nor are the verbs of constrained
// impersonation (KEP-5284) tried: what they allow is by a binding that is not named.
func Impersonates(ev *audit.Event) *authorizer.AttributesRecord {
	a := &authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: ev.User.Username, Groups: ev.User.Groups}, Verb: "impersonate", APIVersion: "v1",
		Resource: "users", Name: ev.Impersonated.Username, ResourceRequest: true,
	}
	if account, is := strings.CutPrefix(a.Name, "system:serviceaccount:"); is {
		if namespace, name, ok := strings.Cut(account, ":"); ok {
			a.Resource, a.Namespace, a.Name = "serviceaccounts", namespace, name
		}
	}
	return a
}
