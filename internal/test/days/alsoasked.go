package days

// alsoAsked are mutations in which a binding that stays allows a request, and one that goes what the API server asks besides, which it does not log.
func alsoAsked() []Mutation {
	const by = "the API server asks besides whether somebody may create it, which a binding for nodes alone allows"
	harmless := func(name, description string, apply func(*mutator) string) Mutation {
		return Mutation{Name: name, Effect: Harmless, Description: description, apply: apply}
	}
	breaks := func(name, description string, apply func(*mutator) string) Mutation {
		return Mutation{Name: name, Effect: Breaks, Checks: []string{"nothing-depends"}, Description: description + ": " + by, apply: apply}
	}
	return []Mutation{
		breaks("account-creates-by-write", "a service account updates or applies a Lease that is not there", func(m *mutator) string { return m.createsByWrite(false, "get,update,patch", 201) }),
		breaks("node-creates-by-write", "a client of a node updates or applies a Lease that is not there", func(m *mutator) string { return m.createsByWrite(true, "get,update,patch", 201) }),
		breaks("node-connects-by-get", "a client of a node connects to a pod by GET", (*mutator).connectsByGet),
		harmless("write-of-what-is-there", "a service account updates or applies a Lease that is there", func(m *mutator) string { return m.createsByWrite(false, "get,update,patch", 200) }),
		harmless("may-create-by-write", "a service account that may create a Lease updates or applies it", func(m *mutator) string { return m.createsByWrite(false, "get,create,update,patch", 201) }),
	}
}

// createsByWrite has somebody who is bound to system:node, too, write a Lease that a Role names.
func (m *mutator) createsByWrite(node bool, verbs string, code int) string {
	m.bind()
	account, old := subject("ServiceAccount", "kube-system", "node-agent"), m.From.Add(-3*60*minute)
	verb := [...]string{"update", "patch"}[m.IntN(2)]
	p := m.stray(verb, resLeases, "kube-system", "node-agent", "", code, "system:node", toNodes)
	for ; p != nil && p.e.Received.Before(m.From.Add(5*minute)); p = m.stray(verb, resLeases, "kube-system", "node-agent", "", code, "system:node", toNodes) {
		continue // the account makes no other request, and it may be asked what it does from some minutes on
	}
	if p == nil {
		return ""
	}
	to := subject("Group", "", "system:authenticated")
	p.e.DecisionReason = allowedBy("RoleBinding", "node-agent-lock/kube-system", "Role", "node-agent-lock", subjectText(to))
	if !node {
		to = account
		m.addState(binding(m.Rand, "", "extra:system:node", "system:node", old, account))
		p.e.User, p.e.SourceIPs = accountUser("kube-system", "node-agent"), []string{"10.244.1.9"}
		m.logs(p.e.User.Username)
		p.e.DecisionReason = allowedBy("ClusterRoleBinding", "extra:system:node", "ClusterRole", "system:node", subjectText(account))
	}
	m.addState(role(m.Rand, "kube-system", "node-agent-lock", old, rule(verbs, "coordination.k8s.io", "leases", "node-agent")),
		binding(m.Rand, "kube-system", "node-agent-lock", "node-agent-lock", old, to))
	if verb == "patch" {
		p.e.URI += "?fieldManager=node-agent&force=true"
	}
	m.add(p.e)
	return p.String()
}

// connectsByGet has a client of a node connect to a pod by a WebSocket, where GET stays allowed to all users and POST is to nodes.
func (m *mutator) connectsByGet() string {
	if m.Options.Minor < 35 { // before that nothing else is asked
		return ""
	}
	m.bind()
	sub, old := [...]string{"exec", "attach", "portforward"}[m.IntN(3)], m.From.Add(-3*60*minute)
	all := subject("Group", "", "system:authenticated")
	p := m.stray("get", resPods, "shop", "web", sub, 101, "system:node", toNodes)
	if p == nil {
		return ""
	}
	m.addState(role(m.Rand, "", "connect-get", old, rule("get", "", "pods/"+sub)), binding(m.Rand, "", "connect-get", "connect-get", old, all),
		role(m.Rand, "", "connect-create", old, rule("create", "", "pods/"+sub)), binding(m.Rand, "", "connect-create", "connect-create", old, subject("Group", "", "system:nodes")))
	p.e.DecisionReason = allowedBy("ClusterRoleBinding", "connect-get", "ClusterRole", "connect-get", subjectText(all))
	m.add(p.e)
	return p.String()
}
