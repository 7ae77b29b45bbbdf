package app

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
)

// memberBook has the requests for which a client needs no binding that goes for as long as its credential names a further group, to which another binding gives
// the same. The next certificate may not name the group any more, and the state does not tell who is in a group: the log does, by the client's latest request.
type memberBook struct {
	groups map[string][]string // of the users that have such requests, those of the latest request
	uses   map[memberUse]*memberRequest
}

type memberUse struct {
	bindingUse
	group string
}

// memberRequest is what all requests of a key ask for, but for their users' groups.
type memberRequest struct {
	use   *checks.Use
	attrs authorizer.AttributesRecord
}

// see takes in the groups of a request's user.
func (b *memberBook) see(ev *audit.Event) {
	if len(b.groups) == 0 {
		return
	}
	for _, u := range [...]*audit.User{&ev.User, ev.Effective()} {
		if was, ok := b.groups[u.Username]; ok && !slices.Equal(was, u.Groups) {
			b.groups[strings.Clone(u.Username)] = clonedGroups(u.Groups)
		}
	}
}

func clonedGroups(all []string) []string {
	out := make([]string, len(all))
	for i, g := range all {
		out[i] = strings.Clone(g)
	}
	return out
}

// member notes a request that a binding allows which stays, if it may be that of a group which the client can leave.
func (b *bindingBook) member(j *pipeline.Judgement, a authorizer.Attributes, who *audit.User, impersonation bool, by *rbac.SubjectRef) {
	if by.Kind != rbacv1.GroupKind || by.ForNodes() || by.Ambient() || strings.HasPrefix(who.Username, serviceaccount.ServiceAccountUsernamePrefix) {
		return
	}
	k := memberUse{b.key(j, a, who, bindingUse{impersonation: impersonation, ended: true}), by.Name}
	m := b.members.uses[k]
	if m == nil {
		if len(b.members.uses) >= maxBindingUses {
			b.unjudged++
			return
		}
		k.clone()
		k.group = strings.Clone(k.group)
		m = &memberRequest{use: k.use(j, a), attrs: authorizer.AttributesRecord{
			Verb: strings.Clone(a.GetVerb()), Namespace: strings.Clone(a.GetNamespace()), APIGroup: strings.Clone(a.GetAPIGroup()), Resource: strings.Clone(a.GetResource()),
			Subresource: strings.Clone(a.GetSubresource()), Name: strings.Clone(a.GetName()), Path: strings.Clone(a.GetPath()), ResourceRequest: a.IsResourceRequest(),
		}}
		b.members.uses[k] = m
		if _, ok := b.members.groups[who.Username]; !ok {
			b.members.groups[k.user] = clonedGroups(who.Groups)
		}
	}
	addUse(m.use, j)
}

// left adds the uses whose client has left the group since, where only a binding that goes allows the request without it.
func (b *bindingBook) left(out []checks.Use) []checks.Use {
	for k, m := range b.members.uses {
		groups := b.members.groups[k.user]
		if slices.Contains(groups, k.group) {
			continue
		}
		a := m.attrs
		a.User = &user.DefaultInfo{Name: k.user, Groups: groups}
		if b.allows(&a, endOfTime(), b.last) {
			continue
		}
		if d := b.store.Authorize(&a, endOfTime()); d.Allowed {
			u := *m.use
			u.Binding = d.Grant.Binding
			out = append(out, u)
		}
	}
	return out
}
