package pipeline

import (
	"slices"
	"strings"

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
		for i, attrs := range Impersonates(ev, out.Attrs) {
			without := j.RBAC.AuthorizeWithout(attrs, out.Time, rbac.Grant.ForNodes).Allowed
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

// Impersonates is all that the API server asks the authorizers for an impersonation (k8s.io/apiserver/pkg/endpoints/filters/impersonation), of which each must
// be allowed: the user, each group, the UID and each value of its extra; with constrained impersonation (KEP-5284) also the request itself, whose
// attributes are given. Groups that the API server adds by itself are not asked for.
func Impersonates(ev *audit.Event, request *authorizer.AttributesRecord) []*authorizer.AttributesRecord {
	const authentication = "authentication.k8s.io"
	as, verb, group := &ev.Impersonated, "impersonate", ""
	who := &user.DefaultInfo{Name: ev.User.Username, UID: ev.User.UID, Groups: ev.User.Groups}
	var out []*authorizer.AttributesRecord
	ask := func(group, resource, sub, namespace, name string) {
		out = append(out, &authorizer.AttributesRecord{
			User: who, Verb: verb, APIGroup: group, APIVersion: "v1", Resource: resource, Subresource: sub, Namespace: namespace, Name: name, ResourceRequest: true,
		})
	}
	node, isNode := strings.CutPrefix(as.Username, nodeid.UserPrefix)
	if ev.Constraint != "" {
		verb, group = ev.Constraint, authentication
	}
	namespace, account, err := serviceaccount.SplitUsername(as.Username)
	switch {
	case err == nil:
		ask(group, "serviceaccounts", "", namespace, account)
	case isNode && ev.Constraint != "":
		if ev.Constraint == "impersonate:associated-node" {
			node = "*"
		}
		ask(group, "nodes", "", "", node)
	default:
		ask(group, "users", "", "", as.Username)
	}
	for _, name := range askedGroups(as.Groups, err == nil, namespace, isNode && ev.Constraint != "") {
		ask(group, "groups", "", "", name)
	}
	if as.UID != "" {
		ask(authentication, "uids", "", "", as.UID)
	}
	for _, x := range as.Extra {
		ask(authentication, "userextras", x.Key, "", x.Value)
	}
	if mode, constrained := strings.CutPrefix(ev.Constraint, "impersonate:"); constrained {
		on := *request
		on.User, on.Verb = who, "impersonate-on:"+mode+":"+ev.Verb
		out = append(out, &on)
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
