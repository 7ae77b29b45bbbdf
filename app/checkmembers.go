package app

import (
	"slices"
	"strings"
	"time"

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
	groups map[string]*memberGroups // of the users that have such requests
	uses   map[memberUse]*memberRequest
}

// memberGroups are a user's groups by its latest request.
type memberGroups struct {
	groups  []string
	at      time.Time
	changed bool // since changes has handed them out, as of told
	told    time.Time
}

type memberUse struct {
	bindingUse
	group string
}

// memberRequest is what all requests of a key ask for.
type memberRequest struct {
	use   *checks.Use
	attrs authorizer.AttributesRecord
	// groups are the user's at the latest of them.
	groups []string
	told   int64 // the count that changes has handed out
}

// see takes in the groups of a request's user.
func (b *memberBook) see(ev *audit.Event, t time.Time) {
	if len(b.groups) == 0 {
		return
	}
	for _, u := range [...]*audit.User{&ev.User, ev.Effective()} {
		was := b.groups[u.Username]
		if was == nil || t.Before(was.at) {
			continue
		}
		if was.at = t; !slices.Equal(was.groups, u.Groups) {
			was.groups, was.changed = clonedGroups(u.Groups), true
		}
	}
}

// mayLeave reports whether the subject is a group that the next credential of a client may not name.
func mayLeave(by *rbac.SubjectRef) bool {
	return by.Kind == rbacv1.GroupKind && !by.ForNodes() && !by.Ambient()
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
	if !mayLeave(by) || strings.HasPrefix(who.Username, serviceaccount.ServiceAccountUsernamePrefix) {
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
			b.members.groups[k.user] = &memberGroups{groups: clonedGroups(who.Groups), at: j.Time, changed: true}
		}
	}
	if !slices.Equal(m.groups, who.Groups) {
		m.groups = clonedGroups(who.Groups)
	}
	addUse(m.use, j)
}

// left adds the uses whose client has left the group since, where only a binding that goes allows the request without it.
func (b *bindingBook) left(out []checks.Use) []checks.Use {
	for k, m := range b.members.uses {
		groups := b.members.groups[k.user].groups
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
