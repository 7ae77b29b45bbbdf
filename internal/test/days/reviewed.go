package days

import (
	"fmt"
	"time"
)

// reviewed are mutations in which somebody asks the API server what a node may do, and does it by the answer.
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
	}
}
