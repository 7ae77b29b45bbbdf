package days

import (
	"fmt"
	"strings"
	"time"
)

// unseen are mutations that a fifth examiner found to leave a day READY.
func unseen() []Mutation {
	return []Mutation{
		{
			Name: "binding-unseen", Effect: Hides, Checks: []string{"bindings-inventoried"},
			Description: "a binding for nodes gives what others ask about: the approval of certificates, access to kubelets and to paths of other servers, audiences of tokens, signers", apply: func(m *mutator) string {
				given := [...]map[string]any{
					rule("create", resCSRs.group, resCSRs.name+"/selfnodeserver"), rule("get", "", "nodes/metrics,nodes/stats"),
					rule("request-serviceaccounts-token-audience", "", "https://kubernetes.default.svc"),
					// The same by wildcards.
					rule("create", resCSRs.group, "*"), rule("create", resCSRs.group, "*/selfnodeserver"), rule("get", "", "*"), rule("get", "", "*/metrics"),
					rule("*", "*", "*"),
					urls("get", "/metrics"), urls("get", "/debug/*"), urls("*", "*"), rule("update", "apps", "daemonsets/finalizers"),
					rule("*", "", "registry.example.com"), rule("*", "", "registry.example.com,configmaps"), rule("*", resCSRs.group, "example.com:mesh"), rule("*", resCSRs.group, "signers"),
				}[m.IntN(16)]
				old := m.From.Add(-time.Hour)
				m.addState(role(m.Rand, "", "unseen", old, given), binding(m.Rand, "", "unseen", "unseen", old, subject("Group", "", "system:nodes")))
				return fmt.Sprint(given)
			},
		},
		{
			Name: "reasons-changed", Effect: Breaks, Checks: []string{"node-authorizer-on"},
			Description: "something changes the API server's reasons, so that the one of a planted request is not RBAC's", apply: func(m *mutator) string {
				p := m.plantAsk(m.late(minute).from, asks[0])
				if p == nil {
					return ""
				}
				m.add(p.e)
				how := [...]func(string) string{strings.ToLower, func(string) string { return "REDACTED" }, func(s string) string { return strings.TrimPrefix(s, "RBAC: ") }}[m.IntN(3)]
				m.change(func(e *Event) bool { return e.DecisionReason != "" }, func(e *Event) { e.DecisionReason = how(e.DecisionReason) })
				return p.String()
			},
		},
		{
			Name: "remove-namespace", Effect: Hides, Checks: []string{"reads-logged"}, Description: "no request about objects in one namespace is logged", apply: func(m *mutator) string {
				for _, i := range m.Perm(len(m.pods)) {
					namespace, kubelets := m.pods[i].namespace, map[string]bool{}
					for _, e := range m.Events { // of the pods that were there at the day's beginning, too, some are looked at then
						if e.IsNode() && e.Verb == "create" && e.Ref != nil && e.Ref.Resource == resEvents.name && e.Ref.Namespace == namespace && e.Received.After(m.From.Add(20*minute)) &&
							e.Received.Before(m.To.Add(-20*minute)) {
							pod, _, _ := strings.Cut(e.Ref.Name, ".")
							kubelets[pod] = true
						}
					}
					if len(kubelets) < enough {
						continue
					}
					n := m.filter(func(e *Event) bool {
						return e.Ref != nil && e.Ref.Namespace == namespace && e.Ref.Resource != resLeases.name
					})
					return some(n, "requests about "+namespace)
				}
				return ""
			},
		},
	}
}
