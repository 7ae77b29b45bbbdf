package days

import "time"

// spares are the mutations about what somebody has by a binding that goes and by another one, and about the end of the other one.
func spares() (out []Mutation) {
	for _, x := range []struct {
		name, what string
		apply      func(m *mutator, ends bool) string
	}{
		{"rolebinding", "a RoleBinding for everybody", spareRoleBinding},
		{"account", "a Role of the service account to which system:node is bound, too", spareAccount},
		{"member", "a binding of the service account, to whose group system:node is bound", spareMember},
		{"early", "a ClusterRoleBinding for everybody, early in the day", spareEarly},
	} {
		out = append(out,
			Mutation{
				Name: "spare-" + x.name, Effect: Harmless, Description: "a client needs no binding that goes, as " + x.what + " gives the same",
				apply: func(m *mutator) string { return x.apply(m, false) },
			},
			Mutation{
				Name: "spare-" + x.name + "-ended", Effect: Breaks, Checks: []string{"nothing-depends"}, Description: x.what + " gave the same and was deleted after the request",
				apply: func(m *mutator) string { return x.apply(m, true) },
			})
	}
	out = append(out, Mutation{
		Name: "spare-group", Effect: Harmless, Description: "a node's credential names a group that gets the same by another binding",
		apply: func(m *mutator) string { return spareGroup(m, false) },
	}, Mutation{
		Name: "spare-group-left", Effect: Breaks, Checks: []string{"nothing-depends"}, apply: func(m *mutator) string { return spareGroup(m, true) },
		Description: "a node's next credential does not name the group that got by another binding what only system:node gives then",
	})
	for _, x := range []struct {
		name, what string
		apply      func(m *mutator) string
	}{
		{"node", "a node reads a secret by system:node, which another binding for nodes gives, too", func(m *mutator) string { return keptNode(m, "") }},
		{"account", "a service account reads a secret by one of two bindings of system:node", keptAccount},
		{"ended", "a node reads a secret by system:node, which another binding for nodes gave, too, until it was deleted", func(m *mutator) string { return keptNode(m, "DELETED") }},
		{"gives", "a service account writes a role, and has some of its rights by a binding that is kept and others by system:node", keptGives},
		{"node-gives", "a node writes a role by a binding that is kept, and has the role's rights by system:node", keptNodeGives},
		{"acts-trimmed", "a node acts as a user by one of two bindings, of which the role of one gives less later", keptActsTrimmed},
		{"acts-edited", "a node acts as a user in a group: the user is given by a binding for nodes, the group by system:node, which was edited", keptActsEdited},
		{"trimmed", "a node reads a secret by system:node, which the role of another binding for nodes gave, too, at that time", func(m *mutator) string { return keptNode(m, "MODIFIED") }},
	} {
		out = append(out, Mutation{Name: "keep-" + x.name, Effect: Breaks, Checks: []string{"nothing-depends"}, Description: x.what, apply: x.apply})
	}
	return append(out, Mutation{
		Name: "spare-trimmed-early", Effect: Breaks, Checks: []string{"nothing-depends"}, apply: func(m *mutator) string { return spareTrimmed(m, true) },
		Description: "a binding for nodes that stays gave early in the day what only system:node gives since a rule was taken out of its role",
	}, Mutation{
		Name: "spare-trimmed", Effect: Breaks, Checks: []string{"nothing-depends"}, apply: func(m *mutator) string { return spareTrimmed(m, false) },
		Description: "a binding for nodes that stays gave what only system:node gives since a rule was taken out of its role",
	})
}

// endLater takes the state's object away, or puts another in its place, between the request and the end of the day.
func (m *mutator) endLater(p *planted, change string, o map[string]any) {
	m.State = append(m.State, entry(p.e.Staged.Add(m.To.Sub(p.e.Staged)/2), change, o))
	sortState(m.State)
}

// trimLater leaves one rule to a ClusterRole between the request and the end of the day.
func (m *mutator) trimLater(p *planted, role map[string]any, name string, left map[string]any) {
	m.endLater(p, "MODIFIED", object(rbacGroup+"/v1", "ClusterRole", "", name, uidOf(role), m.old(), map[string]any{"rules": []map[string]any{left}}))
}

func spareRoleBinding(m *mutator, ends bool) string {
	p := m.stray("get", resConfigMaps, "kube-system", "cni-config", "", 200, "system:node", toNodes)
	return m.spare(p, ends, role(m.Rand, "kube-system", "cni-config", m.old(), rule("get", "", "configmaps", "cni-config")),
		binding(m.Rand, "kube-system", "cni-config", "cni-config", m.old(), subject("Group", "", "system:authenticated")))
}

func spareEarly(m *mutator, ends bool) string {
	p := m.stray("get", resSecrets, "kube-system", "cni-key", "", 200, "system:node", toNodes)
	if p == nil {
		return ""
	}
	p.moveTo(m.From.Add(20 * minute))
	b := binding(m.Rand, "", "cni-key", "cni-key", m.old(), subject("Group", "", "system:authenticated"))
	if ends {
		m.State = append(m.State, entry(m.From.Add(25*minute), "DELETED", b))
	}
	return m.spare(p, false, role(m.Rand, "", "cni-key", m.old(), rule("get", "", "secrets", "cni-key")), b)
}

func spareGroup(m *mutator, leaves bool) string {
	name := "gateway"
	if leaves { // of another group, which no other mutation gives the node for good
		name = "past-gateway"
	}
	group := "example:" + name + "-nodes"
	p := m.stray("get", resSecrets, "kube-system", name+"-key", "", 200, "system:node", toNodes)
	if p == nil {
		return ""
	}
	p.moveTo(m.From.Add(20 * minute))
	in := func(e *Event) {
		u := *e.User
		u.Groups = append([]string{group}, u.Groups...)
		e.User = &u
	}
	node := nodeOf(p.e.User)
	in(p.e)
	p.e.DecisionReason = allowedBy("ClusterRoleBinding", name, "ClusterRole", name, subjectText(subject("Group", "", group)))
	m.change(func(e *Event) bool {
		return e.User != nil && nodeOf(e.User) == node && (!leaves || e.Received.Before(p.e.Received.Add(5*minute)))
	}, in)
	return m.spare(p, false, role(m.Rand, "", name, m.old(), rule("get", "", "secrets", name+"-key")), binding(m.Rand, "", name, name, m.old(), subject("Group", "", group)))
}

func spareAccount(m *mutator, ends bool) string {
	account := subject("ServiceAccount", "kube-system", "node-agent")
	p := m.ofAccount(account, "agent-key", "spare:system:node", "system:node")
	m.logs("system:serviceaccount:kube-system:node-agent")
	m.addState(binding(m.Rand, "", "spare:system:node", "system:node", m.old(), account))
	return m.spare(p, ends, role(m.Rand, "kube-system", "node-agent", m.old(), rule("get", "", "secrets", "agent-key")),
		binding(m.Rand, "kube-system", "node-agent", "node-agent", m.old(), account))
}

func spareMember(m *mutator, ends bool) string {
	account := subject("ServiceAccount", "kube-system", "node-agent")
	p := m.ofAccount(account, "member-key", "node-agent", "node-agent")
	m.Policy = insertRule(m.Policy, "- level: Metadata\n  userGroups: [\"system:serviceaccounts:kube-system\"]\n")
	m.addState(binding(m.Rand, "", "spare:system:node", "system:node", m.old(), subject("Group", "", "system:serviceaccounts:kube-system")))
	return m.spare(p, ends, role(m.Rand, "", "node-agent", m.old(), rule("get", "", "secrets", "member-key")), binding(m.Rand, "", "node-agent", "node-agent", m.old(), account))
}

func spareTrimmed(m *mutator, early bool) string {
	p := m.stray("get", resSecrets, "kube-system", "pull-config", "", 200, "system:node", toNodes)
	if p == nil {
		return ""
	}
	if early {
		p.moveTo(m.From.Add(20 * minute))
	}
	audience := rule("request-serviceaccounts-token-audience", "", "registry.example.com")
	r := role(m.Rand, "", "image-credentials", m.old(), audience, rule("get", "", "secrets", "pull-config"))
	p.e.DecisionReason = allowedBy("ClusterRoleBinding", "image-credentials", "ClusterRole", "image-credentials", toNodes)
	what := m.spare(p, false, r, binding(m.Rand, "", "image-credentials", "image-credentials", m.old(), subject("Group", "", "system:nodes")))
	m.trimLater(p, r, "image-credentials", audience)
	return what
}

// Kept is the binding for nodes that the mutations of the name keep-... have besides system:node.
const Kept = "kept"

func keptNode(m *mutator, change string) string {
	p := m.stray("get", resSecrets, "kube-system", "kept-key", "", 200, "system:node", toNodes)
	if p == nil {
		return ""
	}
	p.moveTo(m.From.Add(20 * minute))
	r := role(m.Rand, "", Kept, m.old(), rule("get", "", "secrets", "kept-key"))
	b := binding(m.Rand, "", Kept, Kept, m.old(), subject("Group", "", "system:nodes"))
	what := m.spare(p, change == "DELETED", r, b)
	if change == "MODIFIED" {
		m.trimLater(p, r, Kept, rule("get", "", "configmaps", "kept-map"))
	}
	return what
}

func keptGives(m *mutator) string {
	account := subject("ServiceAccount", "kube-system", "node-agent")
	of := apiResource{rbacGroup, "v1", "clusterroles"}
	p := m.stray("update", of, "", "of-nodes", "", 200, "system:node", toNodes)
	if p == nil {
		return ""
	}
	p.e.User, p.e.SourceIPs = accountUser("kube-system", "node-agent"), []string{"10.244.1.9"}
	p.e.DecisionReason = allowedBy("ClusterRoleBinding", "writes-roles", "ClusterRole", "writes-roles", subjectText(account))
	m.logs("system:serviceaccount:kube-system:node-agent")
	m.add(p.e)
	m.addState(role(m.Rand, "", "writes-roles", m.old(), rule("update", of.group, of.name)), binding(m.Rand, "", "writes-roles", "writes-roles", m.old(), account),
		role(m.Rand, "", Kept, m.old(), rule("create", "example.com", "agents")), binding(m.Rand, "", Kept, Kept, m.old(), account, subject("Group", "", "system:nodes")),
		binding(m.Rand, "", "spare:system:node", "system:node", m.old(), account))
	return p.String()
}

func keptNodeGives(m *mutator) string {
	of := apiResource{rbacGroup, "v1", "clusterroles"}
	p := m.stray("update", of, "", "of-nodes", "", 200, "system:node", toNodes)
	if p == nil {
		return ""
	}
	p.e.DecisionReason = allowedBy("ClusterRoleBinding", Kept, "ClusterRole", Kept, toNodes)
	m.bind()
	m.add(p.e)
	m.addState(role(m.Rand, "", Kept, m.old(), rule("update", of.group, of.name)), binding(m.Rand, "", Kept, Kept, m.old(), subject("Group", "", "system:nodes")))
	return p.String()
}

// acts plants a list of services by a node that acts as jane.
func (m *mutator) acts(groups ...string) *planted {
	p := m.stray("list", resServices, "", "", "", 200, "system:node", toNodes)
	if p == nil {
		return nil
	}
	p.e.Impersonated = &User{Username: "jane", Groups: append(groups, "system:authenticated")}
	p.e.DecisionReason = allowedBy("ClusterRoleBinding", "services", "ClusterRole", "services", `User "jane"`)
	m.addState(role(m.Rand, "", "services", m.old(), rule("list", "", "services")), binding(m.Rand, "", "services", "services", m.old(), subject("User", "", "jane")))
	return p
}

func keptActsTrimmed(m *mutator) string {
	p := m.acts()
	if p == nil {
		return ""
	}
	p.moveTo(m.From.Add(20 * minute))
	m.add(p.e)
	nodes, r := subject("Group", "", "system:nodes"), role(m.Rand, "", Kept, m.old(), rule("impersonate", "", "users"))
	m.addState(role(m.Rand, "", "acting", m.old(), rule("impersonate", "", "users")), binding(m.Rand, "", "acting", "acting", m.old(), nodes),
		r, binding(m.Rand, "", Kept, Kept, m.old(), nodes))
	m.trimLater(p, r, Kept, rule("get", "", "configmaps", "kept-map"))
	return p.String()
}

func keptActsEdited(m *mutator) string {
	p := m.acts("devs")
	if p == nil {
		return ""
	}
	m.bind()
	m.add(p.e)
	m.addState(role(m.Rand, "", "system:node", m.old(), rule("impersonate", "", "groups"), rule("get,list,watch", "", "secrets,configmaps,pods,services,nodes")),
		role(m.Rand, "", Kept, m.old(), rule("impersonate", "", "users")), binding(m.Rand, "", Kept, Kept, m.old(), subject("Group", "", "system:nodes")))
	return p.String()
}

func keptAccount(m *mutator) string {
	account := subject("ServiceAccount", "kube-system", "node-agent")
	p := m.ofAccount(account, "agent-key", "spare:system:node", "system:node")
	m.logs("system:serviceaccount:kube-system:node-agent")
	m.addState(binding(m.Rand, "", "spare:system:node", "system:node", m.old(), account))
	if p == nil {
		return ""
	}
	m.bind()
	m.addState(binding(m.Rand, "", Kept, "system:node", m.old(), account))
	m.add(p.e)
	return p.String()
}

func (m *mutator) old() time.Time { return m.From.Add(-time.Hour) }

// ofAccount plants a request of a service account that the binding let through; the day's log must have its requests.
func (m *mutator) ofAccount(account map[string]any, secret, name, role string) *planted {
	p := m.stray("get", resSecrets, "kube-system", secret, "", 200, "system:node", toNodes)
	if p != nil {
		p.e.User, p.e.SourceIPs = accountUser("kube-system", "node-agent"), []string{"10.244.1.9"}
		p.e.DecisionReason = allowedBy("ClusterRoleBinding", name, "ClusterRole", role, subjectText(account))
	}
	return p
}

// spare adds a planted request, the role and the binding by which its user has the same as by one that goes, and the end of that binding.
func (m *mutator) spare(p *planted, ends bool, role, binding map[string]any) string {
	if p == nil {
		return ""
	}
	m.bind()
	m.addState(role, binding)
	if ends {
		m.endLater(p, "DELETED", binding)
	}
	m.add(p.e)
	return p.String()
}
