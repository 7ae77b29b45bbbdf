package days

import "time"

// unseen are mutations that a fifth examiner found to leave a day READY.
func unseen() []Mutation {
	return []Mutation{
		{
			Name: "binding-unseen", Effect: Hides, Checks: []string{"bindings-inventoried"},
			Description: "a binding for nodes gives what others ask about: the approval of certificates, access to kubelets, audiences of tokens", apply: func(m *mutator) string {
				given := [...]map[string]any{
					rule("create", resCSRs.group, resCSRs.name+"/selfnodeserver"), rule("get", "", "nodes/metrics,nodes/stats"),
					rule("request-serviceaccounts-token-audience", "", "vault"),
				}[m.IntN(3)]
				old := m.From.Add(-time.Hour)
				m.addState(role(m.Rand, "", "unseen", old, given), binding(m.Rand, "", "unseen", "unseen", old, subject("Group", "", "system:nodes")))
				return given["verbs"].([]string)[0] + " " + given["resources"].([]string)[0]
			},
		},
	}
}
