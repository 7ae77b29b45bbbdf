package pipeline

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/rbac"
)

// impersonation finds what let a node act as somebody else, another node included. The API server asks the authorizers for that by the side, and
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
	spare := j.RBAC != nil
	if j.RBAC != nil {
		allowed := func(a authorizer.Attributes) bool {
			return j.RBAC.AuthorizeWithout(a, out.Time, rbac.Grant.ForNodes).Allowed
		}
		for i, attrs := range Impersonation(j.RBAC, ev, out.Attrs, out.Time, allowed) {
			without := allowed(attrs)
			// The grant is that of what needs a binding for nodes, and one that is not kept if there is one.
			if i == 0 || !without && (spare || keeps(j.Kept, d.Grant)) {
				d = j.RBAC.Authorize(attrs, out.Time)
				d.Grant = KeptGrant(j.RBAC, j.Kept, attrs, out.Time, d.Grant)
			}
			spare = spare && without
		}
	}
	if !spare || !out.IsNode {
		out.Impersonator, out.Grant, out.HasGrant, out.Spare = node, d.Grant, d.Allowed, spare
	}
}

// asker makes what the API server asks the authorizers about who impersonates: by which verb, and in which group it has users and groups.
type asker struct {
	who         user.Info
	verb, group string
}

func askerOf(ev *audit.Event) asker {
	a := asker{&user.DefaultInfo{Name: ev.User.Username, UID: ev.User.UID, Groups: ev.User.Groups}, "impersonate", ""}
	if ev.Constraint != "" {
		a.verb, a.group = ev.Constraint, authentication
	}
	return a
}

func (a *asker) ask(group, resource, sub, namespace, name string) *authorizer.AttributesRecord {
	return &authorizer.AttributesRecord{
		User: a.who, Verb: a.verb, APIGroup: group, APIVersion: "v1", Resource: resource, Subresource: sub, Namespace: namespace, Name: name, ResourceRequest: true,
	}
}

const authentication = "authentication.k8s.io"

// impersonates is all that the API server asks the authorizers for an impersonation (k8s.io/apiserver/pkg/endpoints/filters/impersonation), of which each must
// be allowed: the user, each group, the UID and each value of its extra; with constrained impersonation (KEP-5284) also the request itself, whose
// attributes are given. Groups that the API server adds by itself are not asked for.
func impersonates(ev *audit.Event, request *authorizer.AttributesRecord) []*authorizer.AttributesRecord {
	as, by := &ev.Impersonated, askerOf(ev)
	var out []*authorizer.AttributesRecord
	ask := func(group, resource, sub, namespace, name string) {
		out = append(out, by.ask(group, resource, sub, namespace, name))
	}
	node, isNode := strings.CutPrefix(as.Username, nodeid.UserPrefix)
	namespace, account, err := serviceaccount.SplitUsername(as.Username)
	switch {
	case err == nil:
		ask(by.group, "serviceaccounts", "", namespace, account)
	case isNode && ev.Constraint != "":
		if ev.Constraint == "impersonate:associated-node" {
			node = "*"
		}
		ask(by.group, "nodes", "", "", node)
	default:
		ask(by.group, "users", "", "", as.Username)
	}
	for _, name := range askedGroups(as.Groups, err == nil, namespace, isNode && ev.Constraint != "") {
		ask(by.group, "groups", "", "", name)
	}
	if as.UID != "" {
		ask(authentication, "uids", "", "", as.UID)
	}
	for _, x := range as.Extra {
		ask(authentication, "userextras", x.Key, "", x.Value)
	}
	if mode, constrained := strings.CutPrefix(ev.Constraint, "impersonate:"); constrained {
		on := *request
		on.User, on.Verb = by.who, "impersonate-on:"+mode+":"+ev.Verb
		out = append(out, &on)
	}
	return out
}

// many is from how many groups, or values of extra, on the API server asks first whether the client may have any (manyAuthorizationChecksInLoop).
const many = 4

// Impersonation is what the API server asks the authorizers for an impersonation, of which each must be allowed. With constrained impersonation a client that asks
// for many groups or values at once may have them if it may have any ("*"), and each is asked for only if it may not. without reports whether RBAC allows something
// without the bindings that are looked at: if it does so for each, whether any is allowed does not matter.
func Impersonation(s *rbac.Store, ev *audit.Event, request *authorizer.AttributesRecord, t time.Time, without func(authorizer.Attributes) bool) []*authorizer.AttributesRecord {
	out := impersonates(ev, request)
	if ev.Constraint == "" {
		return out
	}
	for _, resource := range []string{"groups", "userextras"} {
		var of []*authorizer.AttributesRecord
		for _, a := range out {
			if a.Resource == resource && a.Verb == ev.Constraint {
				of = append(of, a)
			}
		}
		if len(of) < many || !slices.ContainsFunc(of, func(a *authorizer.AttributesRecord) bool { return !without(a) }) {
			continue
		}
		anyOf := *of[0]
		if anyOf.Name = "*"; anyOf.Subresource != "" {
			anyOf.Subresource = "*"
		}
		if !s.Authorize(&anyOf, t).Allowed {
			continue
		}
		out = append(slices.DeleteFunc(out, func(a *authorizer.AttributesRecord) bool { return slices.Contains(of, a) }), &anyOf)
	}
	return out
}

// MayImpersonate is what the API server may have asked the authorizers for an impersonation in addition: a group that it adds itself unless the client asks for it.
// The event does not tell both apart.
func MayImpersonate(ev *audit.Event) []*authorizer.AttributesRecord {
	as := &ev.Impersonated
	namespace, _, err := serviceaccount.SplitUsername(as.Username)
	if ev.Constraint != "" && (err == nil || strings.HasPrefix(as.Username, nodeid.UserPrefix)) {
		return nil // no groups may be asked for
	}
	by, asked := askerOf(ev), askedGroups(as.Groups, err == nil, namespace, false)
	var out []*authorizer.AttributesRecord
	for _, name := range as.Groups {
		if !slices.Contains(asked, name) {
			out = append(out, by.ask(by.group, "groups", "", "", name))
		}
	}
	return out
}

// askedGroups are the groups that a client asked for, of those that an impersonated user has. The API server adds a group last that says whether somebody is
// authenticated; a service account has the groups of every one unless others are asked for, and a node of constrained impersonation the one of nodes.
func askedGroups(all []string, account bool, namespace string, constrainedNode bool) []string {
	if n := len(all); n > 0 && (all[n-1] == user.AllAuthenticated || all[n-1] == user.AllUnauthenticated) {
		all = all[:n-1]
	}
	if constrainedNode || account && slices.Equal(all, serviceaccount.MakeGroupNames(namespace)) {
		return nil
	}
	return all
}
