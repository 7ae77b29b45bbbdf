package days

import (
	"fmt"
	"time"
)

// examined are mutations that a second examiner found to leave a day READY: what the API server asks its authorizers for in addition to the request.
func examined() []Mutation {
	const depends = "nothing-depends"
	out := []Mutation{
		{
			Name: "read-refused-behind", Effect: Breaks, Checks: []string{depends},
			Description: "a client reads from an aggregated API server, as a binding for nodes allows, and that server answers 403", apply: refusedBehind,
		},
		{
			Name: "allowed-without-reason", Effect: Breaks, Checks: []string{"node-authorizer-on"},
			Description: "an authorizer that gives no reasons allows a service account something, so that nobody knows what it allows nodes", apply: withoutReason,
		},
		{
			Name: "node-allowed-without-reason", Effect: Breaks, Checks: []string{"node-authorizer-on"},
			Description: "an authorizer that gives no reasons allows a node what the Node authorizer allows none", apply: func(m *mutator) string {
				p := m.stray("list", resSecrets, "", "", "", 200, "system:node", toNodes)
				if p == nil {
					return ""
				}
				p.e.DecisionReason = ""
				p.e.Received = m.late(minute).from
				p.e.Staged = p.e.Received.Add(milli)
				m.add(p.e)
				return p.String()
			},
		},
		{
			Name: "binding-unused", Effect: Harmless, Description: "system:node is bound to a service account that makes no request, and the audit policy logs what it does",
			apply: func(m *mutator) string {
				if m.Policy != Profiles()["nodetrail"] {
					return ""
				}
				m.addState(binding(m.Rand, "", "unused:system:node", "system:node", m.From.Add(-time.Hour), subject("ServiceAccount", "shop", "unused")))
				m.logs("system:serviceaccount:shop:unused")
				return "unused:system:node"
			},
		},
	}
	for _, part := range []struct{ name, what, group, resource string }{
		{"group", "a group", "", "groups"}, {"uid", "a UID", "authentication.k8s.io", "uids"}, {"extra", "a value of the extra", "authentication.k8s.io", "userextras/scopes"},
		{"constrained", "a user by constrained impersonation", "authentication.k8s.io", "users"},
	} {
		out = append(out, Mutation{
			Name: "node-acts-with-" + part.name, Effect: Breaks, Checks: []string{depends},
			Description: "everybody may act as jane, and only a binding for nodes gives a node " + part.what + " to do so with", apply: func(m *mutator) string {
				return m.actsWith(part.name, part.group, part.resource)
			},
		})
	}
	return out
}

// actsWith lets a node act as jane, who may list services.
func (m *mutator) actsWith(part, group, resource string) string {
	p := m.stray("list", resServices, "", "", "", 200, "system:node", toNodes)
	if p == nil {
		return ""
	}
	old := m.From.Add(-time.Hour)
	jane := &User{Username: "jane", Groups: []string{"system:authenticated"}}
	given, user := rule("impersonate", group, resource), rule("impersonate", "", "users", "jane")
	switch part {
	case "group":
		jane.Groups = []string{"devs", "system:authenticated"}
	case "uid":
		jane.UID = "1001"
	case "extra":
		jane.Scope = "view"
	case "constrained":
		given, user = rule("impersonate:user-info", group, resource), rule("impersonate-on:user-info:list", "", "services")
		p.e.Constraint = "impersonate:user-info"
	}
	m.addState(role(m.Rand, "", "acting-with", old, given), binding(m.Rand, "", "acting-with", "acting-with", old, subject("Group", "", "system:nodes")),
		role(m.Rand, "", "acting", old, user), binding(m.Rand, "", "acting", "acting", old, subject("Group", "", "system:authenticated")),
		role(m.Rand, "", "services", old, rule("list", "", "services")), binding(m.Rand, "", "services", "services", old, subject("User", "", "jane")))
	p.e.Impersonated, p.e.DecisionReason = jane, allowedBy("ClusterRoleBinding", "services", "ClusterRole", "services", `User "jane"`)
	m.add(p.e)
	return p.String() + " as jane with " + resource
}

func refusedBehind(m *mutator) string {
	p := m.stray("get", apiResource{"metrics.k8s.io", "v1beta1", "nodes"}, "", m.node(), "", 403, "metrics", toNodes)
	if p == nil {
		return ""
	}
	old := m.From.Add(-time.Hour)
	m.addState(role(m.Rand, "", "metrics", old, rule("get,list", "metrics.k8s.io", "nodes")), binding(m.Rand, "", "metrics", "metrics", old, subject("Group", "", "system:nodes")))
	p.e.DecisionReason = allowedBy("ClusterRoleBinding", "metrics", "ClusterRole", "metrics", toNodes)
	p.e.Message, p.e.Reason = "forbidden by the backend", "Forbidden"
	m.add(p.e)
	return p.String()
}

func withoutReason(m *mutator) string {
	like := m.like(m.node(), m.late(minute).from)
	if like == nil {
		return ""
	}
	e := *like
	e.AuditID, e.Verb, e.Code, e.Stage, e.User, e.UserAgent = uuid(m.Rand), "create", 201, StageComplete, accountUser("shop", "builder"), "builder/v1"
	e.URI, e.Ref = resConfigMaps.path("shop", "", ""), &Ref{Version: "v1", Resource: "configmaps", Namespace: "shop", Name: "built"}
	e.Request, e.Decision, e.DecisionReason, e.Message, e.Reason, e.Issued = nil, "allow", "", "", "", ""
	m.add(&e)
	return fmt.Sprintf("%s %s by %s", e.Verb, e.URI, e.User.Username)
}
