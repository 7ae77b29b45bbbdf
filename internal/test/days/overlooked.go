package days

import (
	"fmt"
	"slices"
	"time"
)

// overlooked are mutations that an examiner from outside found to leave a day READY.
func overlooked() []Mutation {
	const depends, inventoried = "nothing-depends", "bindings-inventoried"
	return []Mutation{
		{
			Name: "binding-not-in-state", Effect: Breaks, Checks: []string{inventoried},
			Description: "a service account lives on a binding of system:node that the state does not have, whatever other bindings the log names before", apply: bindingNotInState,
		},
		{
			Name: "node-not-asked", Effect: Breaks, Checks: []string{"node-authorizer-on"},
			Description: "an API server lets a node do by RBAC, once, what the Node authorizer allows every node", apply: nodeNotAsked,
		},
		{
			Name: "gate-off", Effect: Breaks, Checks: []string{depends, "agreement"},
			Description: "a kubelet reads the service account of a pod, as some versions and feature gates allow, and RBAC lets it through", apply: gateOff,
		},
		{
			Name: "binding-actor-unlogged", Effect: Hides, Checks: []string{"policy-known"},
			Description: "system:node is bound to a service account, and the audit policy keeps the reads of somebody who may act as it out of the log", apply: actorUnlogged,
		},
		{
			Name: "plant-no-ref", Effect: Breaks, Checks: []string{depends, "every-event-judged"}, Description: "the event of a planted request has no objectRef",
			apply: func(m *mutator) string {
				p := m.plant(m.moment())
				if p == nil {
					return ""
				}
				p.e.Ref = nil
				m.add(p.events()...)
				return "without objectRef: " + p.String()
			},
		},
	}
}

// bindingNotInState has a service account read secrets by a binding that the state lacks. Other reasons come before, at times more than anybody keeps.
func bindingNotInState(m *mutator) string {
	p := m.stray("get", resSecrets, "payments", "stray-"+hexString(m.Rand, 6), "", 200, "system:node", "")
	if p == nil {
		return ""
	}
	p.e.User, p.e.SourceIPs = accountUser("kube-system", "node-agent"), []string{"10.244.1.9"}
	p.e.DecisionReason = allowedBy("ClusterRoleBinding", "extra:system:node", "ClusterRole", "system:node", `ServiceAccount "node-agent/kube-system"`)
	var all []*Event
	reasons := 0
	if m.IntN(20) == 0 {
		reasons = 10_100
	}
	for i := range reasons {
		e := *p.e
		e.AuditID, e.User, e.Received, e.Staged = uuid(m.Rand), admin(), e.Received.Add(-second+time.Duration(i)), e.Staged.Add(-second+time.Duration(i))
		e.DecisionReason = allowedBy("ClusterRoleBinding", fmt.Sprintf("viewer-%d", i), "ClusterRole", "system:node-proxier", `User "kubernetes-admin"`)
		all = append(all, &e)
	}
	m.Events = append(m.Events, append(all, p.e)...)
	sortEvents(m.Events)
	return fmt.Sprintf("after %d reasons, %s", reasons, p)
}

// actorUnlogged lets eve act as a service account in its namespace, or everywhere.
func actorUnlogged(m *mutator) string {
	if m.Policy == "" {
		return ""
	}
	old, namespace := m.From.Add(-time.Hour), [...]string{"", "kube-system"}[m.IntN(2)]
	m.addState(binding(m.Rand, "", "extra:system:node", "system:node", old, subject("ServiceAccount", "kube-system", "node-agent")),
		role(m.Rand, namespace, "actors", old, rule("impersonate", "", "serviceaccounts")), binding(m.Rand, namespace, "actors", "actors", old, subject("User", "", "eve")))
	m.Policy = insertRule(m.Policy, "- level: None\n  users: [\"eve\"]\n  verbs: [\"get\", \"list\", \"watch\"]\n")
	m.logs("system:serviceaccount:kube-system:node-agent")
	return "eve may act as kube-system/node-agent in namespace " + namespace
}

// nodeNotAsked changes the reason of one request that every node may make.
func nodeNotAsked(m *mutator) string {
	always := func(e *Event) bool {
		return e.IsNode() && e.Stage == StageComplete && e.Decision == "allow" && e.DecisionReason == "" && e.Ref != nil &&
			(e.Ref.Resource == "services" || e.Ref.Resource == "csidrivers" || e.Ref.Resource == "nodes" && e.Ref.Subresource == "status")
	}
	from := m.late(minute).from
	at := slices.IndexFunc(m.Events, func(e *Event) bool { return always(e) && e.Received.After(from) })
	if at < 0 {
		return ""
	}
	m.bind()
	e := *m.Events[at]
	e.DecisionReason = allowedBy("ClusterRoleBinding", legacyBinding, "ClusterRole", "system:node", toNodes)
	m.Events[at] = &e
	return fmt.Sprintf("%s %s by %s", e.Verb, e.URI, e.User.Username)
}

// gateOff has a kubelet read the service account of a pod that is on its node for long.
func gateOff(m *mutator) string {
	at := m.moment()
	for _, i := range m.Perm(len(m.pods)) {
		p := m.pods[i]
		like := m.like(p.node.name, at)
		if like == nil || at.Sub(p.bound) < 10*minute || at.After(p.end().Add(-minute)) || !slices.Contains(m.NodeNames, p.node.name) {
			continue
		}
		m.bind()
		m.add(&Event{
			Level: LevelMetadata, AuditID: uuid(m.Rand), Stage: StageComplete, Verb: "get", URI: resAccounts.path(p.namespace, p.account(), ""), User: like.User,
			SourceIPs: like.SourceIPs, UserAgent: like.UserAgent, Server: like.Server, Code: 200, Received: at, Staged: at.Add(2 * milli), Decision: "allow",
			Ref:            &Ref{Version: "v1", Resource: "serviceaccounts", Namespace: p.namespace, Name: p.account()},
			DecisionReason: allowedBy("ClusterRoleBinding", legacyBinding, "ClusterRole", "system:node", toNodes),
		})
		return fmt.Sprintf("get serviceaccount %s/%s by %s", p.namespace, p.account(), p.node.name)
	}
	return ""
}
