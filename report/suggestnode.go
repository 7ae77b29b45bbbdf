package report

import (
	"maps"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

const (
	impersonateVerb = "impersonate:associated-node"
	// onVerb begins the verb that allows another verb to somebody who impersonates a node so.
	onVerb = "impersonate-on:associated-node:"
)

// asksToImpersonate returns what the API server asks its authorizers before a service account makes a request as the node of its own pod
// (KEP-5284, k8s.io/apiserver/pkg/endpoints/filters/impersonation). The name of the node is always "*".
func asksToImpersonate(a *authorizer.AttributesRecord, u *user.DefaultInfo) [2]authorizer.AttributesRecord {
	on := asUser(a, u)
	on.Verb = onVerb + a.Verb
	return [2]authorizer.AttributesRecord{on, {
		User: u, Verb: impersonateVerb, APIGroup: authenticationv1.GroupName, APIVersion: authenticationv1.SchemeGroupVersion.Version, Resource: "nodes", Name: "*",
		ResourceRequest: true,
	}}
}

// formed are the uses as rights are written for them. If the client can impersonate its node, what the Node authorizer allows needs the verbs
// of that alone.
func (c *clientUse) formed(impersonates bool, most int) (out map[useKey]*use, asNode bool) {
	out = map[useKey]*use{}
	add := func(k useKey, u *use) {
		into := out[k]
		if into == nil {
			out[k] = &use{count: u.count, unnamed: u.unnamed, names: maps.Clone(u.names)}
			return
		}
		into.count += u.count
		for name, n := range u.names {
			was := into.names[name]
			switch {
			case into.unnamed:
			case was == nil:
				into.names[name] = n
			default:
				both := *was
				if n.first.Before(both.first) {
					both.first = n.first
				}
				if n.last.After(both.last) {
					both.last = n.last
				}
				into.names[name] = &both
			}
		}
		if u.unnamed || len(into.names) > most {
			into.unnamed, into.names = true, nil
		}
	}
	for k, u := range c.uses {
		if k.node && impersonates {
			k.verb = onVerb + k.verb
			asNode = true
			add(useKey{verb: impersonateVerb, group: authenticationv1.GroupName, resource: "nodes"}, &use{count: u.count, unnamed: true})
		}
		k.node = false
		add(k, u)
	}
	return out, asNode
}

// underNode reports whether a right is limited by the Node authorizer, which is asked as well.
func (r *grant) underNode() bool {
	return r.verb == impersonateVerb || strings.HasPrefix(r.verb, onVerb)
}
