package days

import (
	"fmt"
	"time"
)

// reviewed are mutations in which somebody asks the API server what a node may do, and does it by the answer, and those in which a right ends before the day does.
func reviewed() []Mutation {
	// anybody asks by a service account of its own, once an hour.
	asks := func(m *mutator, username, agent string) {
		for at := m.From.Add(7 * minute); at.Before(m.To); at = at.Add(time.Hour) {
			m.add(&Event{
				Level: LevelMetadata, AuditID: uuid(m.Rand), Stage: StageComplete, Verb: "create", URI: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
				User:      &User{Username: username, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:monitoring", "system:authenticated"}},
				SourceIPs: []string{"10.244.1.9"}, UserAgent: agent, Server: m.IntN(m.Options.Servers), Code: 201, Decision: "allow",
				Ref:            &Ref{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"},
				DecisionReason: allowedBy("ClusterRoleBinding", "rbac-proxy", "ClusterRole", "system:auth-delegator", `ServiceAccount "node-exporter/monitoring"`), Received: at, Staged: at.Add(milli),
			})
		}
	}
	given := func(m *mutator) string {
		rules := [...]map[string]any{
			rule("get", "", "services/proxy"), rule("get", "example.com", "metrics"), rule("*", "", "pods/log"), rule("list", "", "*"), rule("update", resCSRs.group, resCSRs.name+"/approval"),
		}[m.IntN(5)]
		old := m.From.Add(-time.Hour)
		m.addState(role(m.Rand, "", "asked", old, rules), binding(m.Rand, "", "asked", "asked", old, subject("Group", "", "system:nodes")))
		return fmt.Sprint(rules)
	}
	const proxy, account = "kube-rbac-proxy/v0.18", "system:serviceaccount:monitoring:node-exporter"
	return []Mutation{
		{
			Name: "right-asked", Effect: Hides, Checks: []string{"bindings-inventoried"},
			Description: "a binding gives nodes a right that no request shows, and somebody asks in reviews what others may do", apply: func(m *mutator) string {
				asks(m, account, proxy)
				return given(m)
			},
		},
		{
			Name: "right-asked-nobody", Effect: Harmless, Description: "a binding gives nodes a right that requests would show, and only kube-scheduler asks what others may do", apply: func(m *mutator) string {
				asks(m, "system:kube-scheduler", "kube-scheduler/v1.36.3")
				return given(m)
			},
		},
		{
			Name: "only-asked", Effect: Harmless, Description: "nodes have system:node, and somebody asks in reviews what others may do", apply: func(m *mutator) string {
				m.bind()
				asks(m, account, proxy)
				return "kube-rbac-proxy"
			},
		},
		{
			Name: "everybody-reached", Effect: Harmless, Confined: []string{"tokens-on-node"},
			Description: "everybody had a right that leads to other nodes, until its binding was deleted or its role was cut back", apply: everybodyReached,
		},
		{
			Name: "grown-role", Effect: Breaks, Checks: []string{"nothing-depends"}, Confined: []string{"no-excess-use"},
			Description: "the role of a binding that stays gives more for some minutes, and a node uses that", apply: grownRole,
		},
	}
}

func everybodyReached(m *mutator) string {
	const name = "everybody-reaches"
	subjects := [...]map[string]any{subject("Group", "", "system:authenticated"), subject("Group", "", "system:unauthenticated"), subject("User", "", "system:anonymous")}
	given, to, p := reaching(m), subjects[m.IntN(3)], m.late(10*minute)
	bound, had := binding(m.Rand, "", name, name, p.from, to), role(m.Rand, "", name, p.from, given)
	m.State = append(m.State, entry(p.from, "ADDED", had), entry(p.from, "ADDED", bound))
	if m.IntN(2) == 0 {
		m.State = append(m.State, entry(p.to, "DELETED", bound))
	} else {
		m.State = append(m.State, entry(p.to, "MODIFIED", object(rbacGroup+"/v1", "ClusterRole", "", name, uidOf(had), p.from, map[string]any{"rules": []map[string]any{rule("get", "", "services")}})))
	}
	sortState(m.State)
	return fmt.Sprintf("%s to %s from %s to %s", given, to["name"], stamp(p.from), stamp(p.to))
}

func grownRole(m *mutator) string {
	const name, namespace = "system:bootstrappers:worker-config-1.36", "kube-system" // of k0s
	p := m.late(10 * minute)
	at := p.from.Add(time.Duration(m.Int64N(int64(p.to.Sub(p.from)))))
	like := m.like(m.node(), at)
	if like == nil {
		return ""
	}
	verb := [...]string{"patch", "update", "delete"}[m.IntN(3)]
	documented, more := rule("get,list,watch", "", "configmaps", "worker-config-default-1.36"), rule(verb, "", "configmaps")
	had := role(m.Rand, namespace, name, m.old(), documented)
	m.addState(had, binding(m.Rand, namespace, name, name, m.old(), subject("Group", "", "system:nodes")))
	for when, rules := range map[time.Time][]map[string]any{p.from: {documented, more}, p.to: {documented}} {
		m.State = append(m.State, entry(when, "MODIFIED", object(rbacGroup+"/v1", "Role", namespace, name, uidOf(had), m.old(), map[string]any{"rules": rules})))
	}
	sortState(m.State)
	e := &Event{
		Level: LevelMetadata, AuditID: uuid(m.Rand), Stage: StageComplete, Verb: verb, URI: resConfigMaps.path(namespace, "kube-proxy", ""), User: like.User, SourceIPs: like.SourceIPs,
		UserAgent: like.UserAgent, Server: like.Server, Code: 200, Decision: "allow", DecisionReason: allowedBy("RoleBinding", name+"/"+namespace, "Role", name, toNodes),
		Ref:      &Ref{Version: "v1", Resource: "configmaps", Namespace: namespace, Name: "kube-proxy"},
		Received: at, Staged: at.Add(3 * milli),
	}
	m.add(e)
	return fmt.Sprintf("%s by %s at %s", verb, e.User.Username, stamp(at))
}

func uidOf(o map[string]any) string { return o["metadata"].(map[string]any)["uid"].(string) }
