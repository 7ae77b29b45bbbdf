package days

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// grants are the mutations about who has what of system:node, by which binding, and when.
func grants() []Mutation {
	// to binds system:node to a subject, and somebody whom it means lives on it.
	to := func(name, what string, subject map[string]any, u *User) Mutation {
		return Mutation{
			Name: "binding-" + name, Effect: Breaks, Checks: []string{"bindings-inventoried", "nothing-depends"}, Description: "system:node is bound to " + what,
			apply: func(m *mutator) string {
				b := binding(m.Rand, "", "extra:system:node", "system:node", m.From.Add(-time.Hour), subject)
				return m.live(b, u, subject, "")
			},
		}
	}
	account := accountUser("kube-system", "node-agent")
	return []Mutation{
		to("user", "a user", subject("User", "", "jane"), &User{Username: "jane", Groups: []string{"staff", "system:authenticated"}}),
		to("group", "a group", subject("Group", "", "staff"), &User{Username: "jane", Groups: []string{"staff", "system:authenticated"}}),
		to("everybody", "everybody", subject("Group", "", "system:authenticated"), account),
		to("accounts", "all service accounts of a namespace", subject("Group", "", "system:serviceaccounts:kube-system"), account),
		to("anonymous", "those who do not say who they are", subject("Group", "", "system:unauthenticated"),
			&User{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}),
		{
			Name: "binding-namespace", Effect: Breaks, Checks: []string{"bindings-inventoried", "nothing-depends"},
			Description: "system:node is bound to a service account in one namespace", apply: func(m *mutator) string {
				s := subject("ServiceAccount", "kube-system", "node-agent")
				b := binding(m.Rand, "kube-system", "extra:system:node", "system:node", m.From.Add(-time.Hour), s)
				b["roleRef"].(map[string]any)["kind"] = "ClusterRole"
				return m.live(b, account, s, "kube-system")
			},
		},
		{
			Name: "binding-copy", Effect: Breaks, Checks: []string{"bindings-inventoried", "nothing-depends"},
			Description: "a copy of system:node by another name is bound to a service account, which lives on it", apply: func(m *mutator) string {
				if !m.copyRole("node-copy") {
					return ""
				}
				s := subject("ServiceAccount", "kube-system", "node-agent")
				return m.live(binding(m.Rand, "", "extra:node-copy", "node-copy", m.From.Add(-time.Hour), s), account, s, "")
			},
		},
		{
			Name: "binding-impersonated", Effect: Breaks, Checks: []string{"bindings-inventoried", "nothing-depends"},
			Description: "system:node is bound to a service account, as which alone somebody acts who needs no binding", apply: func(m *mutator) string {
				s := subject("ServiceAccount", "kube-system", "node-agent")
				what := m.live(binding(m.Rand, "", "extra:system:node", "system:node", m.From.Add(-time.Hour), s), account, s, "")
				m.change(func(e *Event) bool { return e.User == account }, func(e *Event) {
					e.User, e.Impersonated = &User{Username: "root", Groups: []string{"system:masters", "system:authenticated"}}, account
				})
				m.logs(account.Username)
				return what
			},
		},
		{
			Name: "binding-one-node", Effect: Breaks, Checks: []string{"nothing-depends"}, Description: "a role is bound to one node by its name, and a client there lives on it",
			apply: func(m *mutator) string {
				p := m.stray("list", resServices, "", "", "", 200, agentsRole, toNodes)
				if p == nil {
					return ""
				}
				p.e.Verb, p.e.Ref.Resource, p.e.Ref.Group, p.e.URI = "list", "statefulsets", "apps", "/apis/apps/v1/statefulsets"
				s := subject("User", "", p.e.User.Username)
				old := m.From.Add(-time.Hour)
				m.addState(role(m.Rand, "", "one-node", old, rule("list", "apps", "statefulsets")), binding(m.Rand, "", "one-node", "one-node", old, s))
				p.e.DecisionReason = allowedBy("ClusterRoleBinding", "one-node", "ClusterRole", "one-node", fmt.Sprintf("User %q", p.e.User.Username))
				m.add(p.e)
				return p.String()
			},
		},
		{
			Name: "binding-unlogged", Effect: Hides, Checks: []string{"bindings-inventoried", "policy-known"},
			Description: "system:node is bound to a service account, whose reads the audit policy keeps out of the log", apply: func(m *mutator) string {
				m.addState(binding(m.Rand, "", "extra:system:node", "system:node", m.From.Add(-time.Hour), subject("ServiceAccount", "kube-system", "node-agent")))
				if m.Policy != "" {
					m.Policy = insertRule(m.Policy, "- level: None\n  users: [\"system:serviceaccount:kube-system:node-agent\"]\n  verbs: [\"get\", \"list\", \"watch\"]\n")
				}
				return "extra:system:node"
			},
		},
		{
			Name: "policy-of-group", Effect: Hides, Checks: []string{"policy-known"},
			Description: "nodes are in a group of their own, too, of which the audit policy keeps the reads of nodes out of the log", apply: policyOfGroup,
		},
		{
			Name: "policy-not-in-force", Effect: Hides, Checks: []string{"policy-known"},
			Description: "the audit policy that is given would not have logged the watches of services, which are in the log", apply: policyNotInForce,
		},
		{
			Name: "binding-away", Effect: Breaks, Checks: []string{"bindings-inventoried", "agreement"},
			Description: "the binding for nodes is deleted for some minutes, in which alone a client asks and is refused, and is made again", apply: bindingAway,
		},
		{
			Name: "binding-changed", Effect: Breaks, Checks: []string{"nothing-depends"},
			Description: "a client lives on a binding for nodes that is given to a service account later, when another binding for nodes gives it the same", apply: bindingChanged,
		},
		{
			Name: "binding-not-in-force", Effect: Breaks, Checks: []string{"agreement"},
			Description: "the state has a binding for nodes, and the API server refuses what it gives", apply: bindingNotInForce,
		},
		{
			Name: "grant-elsewhere", Effect: Harmless, Description: "a client needs no binding for nodes, as another one allows everybody the same", apply: func(m *mutator) string {
				return m.grantedToAll(false)
			},
		},
		{
			Name: "grant-elsewhere-ended", Effect: Breaks, Checks: []string{"bindings-inventoried"},
			Description: "another binding allowed everybody the same, or a further group that nodes are in, and was deleted after the client's request", apply: func(m *mutator) string { return m.grantedToAll(true) },
		},
	}
}

func accountUser(namespace, name string) *User {
	return &User{
		Username: "system:serviceaccount:" + namespace + ":" + name, UID: "0d4f4a0a-7a53-4b8f-9d0a-000000000001",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
}

// subjectText is a subject as the authorizer's reasons name it.
func subjectText(s map[string]any) string {
	if s["kind"] == "ServiceAccount" {
		return fmt.Sprintf(`ServiceAccount "%s/%s"`, s["name"], s["namespace"])
	}
	return fmt.Sprintf("%s %q", s["kind"], s["name"])
}

// live adds a binding, and a request of a user who lives on it: in a namespace, or anywhere.
func (m *mutator) live(b map[string]any, u *User, s map[string]any, namespace string) string {
	m.addState(b)
	p := m.stray("get", resSecrets, "payments", "stray-"+hexString(m.Rand, 6), "", 200, "system:node", "")
	if p == nil {
		return ""
	}
	meta, ref := b["metadata"].(map[string]any), b["roleRef"].(map[string]any)
	name := meta["name"].(string)
	if namespace != "" {
		p.e.Ref.Namespace, p.e.URI = namespace, resSecrets.path(namespace, p.e.Ref.Name, "")
		name += "/" + namespace
	}
	p.e.User, p.e.SourceIPs = u, []string{"10.244.1.9"}
	p.e.DecisionReason = allowedBy(b["kind"].(string), name, ref["kind"].(string), ref["name"].(string), subjectText(s))
	m.add(p.e)
	return p.String()
}

// copyRole adds a ClusterRole with the rules of system:node.
func (m *mutator) copyRole(name string) bool {
	for _, e := range m.State {
		if e.Kind != "ClusterRole" || e.Name != "system:node" {
			continue
		}
		var o struct{ Rules []map[string]any }
		if err := json.Unmarshal(e.raw, &o); err != nil {
			return false
		}
		slices.Reverse(o.Rules)
		m.addState(role(m.Rand, "", name, m.From.Add(-time.Hour), o.Rules...))
		return true
	}
	return false
}

// policyOfGroup puts the nodes into a further group, whose members' GETs of nodes are not logged.
func policyOfGroup(m *mutator) string {
	if m.Policy == "" {
		return ""
	}
	const group = "example:edge"
	m.drop(func(e *Event) bool { return e.IsNode() && e.Verb == "get" && e.Ref != nil && e.Ref.Resource == "nodes" })
	users := map[*User]*User{}
	n := m.change((*Event).IsNode, func(e *Event) {
		u := users[e.User]
		if u == nil {
			c := *e.User
			u = &c
			u.Groups = append(slices.Clone(u.Groups), group)
			users[e.User] = u
		}
		e.User = u
	})
	m.Policy = insertRule(m.Policy, "- level: None\n  userGroups: [\""+group+"\"]\n  verbs: [\"get\"]\n  resources: [{group: \"\", resources: [\"nodes\"]}]\n")
	return some(n, "the group "+group)
}

// policyNotInForce gives another policy than the log was written by: one that leaves out only what nodes may do without any binding.
func policyNotInForce(m *mutator) string {
	watches := func(e *Event) bool {
		return e.IsNode() && e.Verb == "watch" && e.Code < 400 && e.Ref != nil && e.Ref.Resource == "services"
	}
	if m.Policy == "" || !slices.ContainsFunc(m.Events, watches) {
		return ""
	}
	m.Policy = insertRule(m.Policy, "- level: None\n  userGroups: [\"system:nodes\"]\n  verbs: [\"list\", \"watch\"]\n  resources: [{group: \"\", resources: [\"services\"]}]\n")
	return "a policy that has never been in force"
}

// bindingAway deletes the binding for nodes for three minutes. Kubelets get nothing by it in this time that they are not refused anyway.
func bindingAway(m *mutator) string {
	m.bind()
	at := m.late(10 * minute).from
	gone := span{at, at.Add(3 * minute)}
	for _, e := range m.Events {
		if gone.holds(e.Received) && e.IsNode() && e.DecisionReason != "" {
			return "" // what kubelets get by it in races would be refused
		}
	}
	p := m.plantAsk(gone.from.Add(minute), asks[m.IntN(2)])
	if p == nil {
		return ""
	}
	for _, e := range m.State {
		if e.Kind == "ClusterRoleBinding" && e.Name == legacyBinding && e.Type == "ADDED" {
			again := binding(m.Rand, "", legacyBinding, "system:node", gone.to, subject("Group", "", "system:nodes"))
			m.State = append(m.State, entry(gone.from, "DELETED", e.Object), entry(gone.to, "ADDED", again))
			break
		}
	}
	sortState(m.State)
	m.refuse(p.e)
	m.add(p.e)
	return fmt.Sprintf("from %s to %s; %s", stamp(gone.from), stamp(gone.to), p)
}

// bindingChanged adds a request by a binding for nodes whose subject is another one in the end. The binding for nodes that gives the same was there all the
// time.
func bindingChanged(m *mutator) string {
	p := m.stray("get", resSecrets, "payments", "stray-"+hexString(m.Rand, 6), "", 200, "system:node", toNodes)
	if p == nil {
		return ""
	}
	const name = "agent-secrets"
	old := m.From.Add(-time.Hour)
	m.addState(role(m.Rand, "", name, old, rule("get,list,watch", "", "secrets")), binding(m.Rand, "", name, name, old, subject("Group", "", "system:nodes")))
	changed := binding(m.Rand, "", name, name, old, subject("ServiceAccount", "kube-system", "node-agent"))
	m.State = append(m.State, entry(p.e.Staged.Add(m.To.Sub(p.e.Staged)/2), "MODIFIED", changed))
	sortState(m.State)
	p.e.DecisionReason = allowedBy("ClusterRoleBinding", name, "ClusterRole", name, toNodes)
	m.add(p.e)
	return p.String() + ", by " + name
}

// bindingNotInForce adds a request that is refused although the state allows it.
func bindingNotInForce(m *mutator) string {
	m.bind()
	p := m.plantAsk(m.late(10*minute).from, asks[m.IntN(2)])
	if p == nil {
		return ""
	}
	m.refuse(p.e)
	m.add(p.e)
	return p.String()
}

// refuse makes it a request for an object that Node refuses, and no binding allows.
func (m *mutator) refuse(e *Event) {
	e.Decision, e.DecisionReason, e.UserAgent = "forbid", m.noRelationship(e), strays[0]
	e.fail(403)
	e.Stage = StageComplete
}

// noRelationship is the reason for which the API server that wrote an event refuses its node an object: it depends on the version that the server has then.
func (m *mutator) noRelationship(e *Event) string {
	minor, latest := m.Options.Minor, time.Time{}
	for _, x := range m.Events {
		if x.Server != e.Server || x.User == nil || x.User.Username != "system:apiserver" || x.Received.After(e.Received) || x.Received.Before(latest) {
			continue
		}
		var of int
		if _, err := fmt.Sscanf(x.UserAgent, "kube-apiserver/v1.%d.", &of); err == nil {
			minor, latest = of, x.Received
		}
	}
	reason := fmt.Sprintf("no relationship found between node '%s' and this object", nodeOf(e.User))
	if namesAuthorizer(minor) {
		reason = "node: " + reason
	}
	return reason
}

// grantedToAll plants a request that a binding for everybody allows too, or one for a further group that all nodes are in.
func (m *mutator) grantedToAll(ends bool) string {
	p := m.stray("list", apiResource{"apps", "v1", "replicasets"}, "", "", "", 200, agentsRole, toNodes)
	if p == nil {
		return ""
	}
	old := m.From.Add(-time.Hour)
	group := "system:authenticated"
	if m.IntN(2) == 0 {
		group = "acme:machines"
		in := func(e *Event) {
			u := *e.User
			u.Groups = append(slices.Clone(u.Groups), group)
			e.User = &u
		}
		in(p.e)
		m.change(func(e *Event) bool { return nodeOf(e.User) != "" }, in)
	}
	b := binding(m.Rand, "", "all-see-replicasets", "see-replicasets", old, subject("Group", "", group))
	m.addState(role(m.Rand, "", "see-replicasets", old, rule("get,list,watch", "apps", "replicasets")), b)
	if ends {
		m.endLater(p, "DELETED", b)
	}
	m.add(p.e)
	return p.String()
}
