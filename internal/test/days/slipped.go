package days

import "strings"

// slipped are mutations that a sixth examiner found to leave a day READY.
func slipped() []Mutation {
	return []Mutation{
		{
			Name: "always-allow", Effect: Hides, Checks: []string{"node-authorizer-on"},
			Description: "the API server allows everything, without a reason, from some time on, as with its default authorization mode", apply: func(m *mutator) string {
				from := m.late(minute).from
				account := m.controller(from.Add(second))
				account.Verb, account.Ref, account.URI = "list", &Ref{Version: "v1", Resource: "services"}, resServices.path("", "", "")
				m.add(account)
				n := m.change(func(e *Event) bool {
					return e.Received.After(from) && (e.Decision == "forbid" || strings.HasPrefix(e.DecisionReason, "RBAC: "))
				}, func(e *Event) {
					if e.Decision == "forbid" {
						e.Code, e.Message, e.Reason = 200, "", ""
					}
					e.Decision, e.DecisionReason = "allow", ""
				})
				return some(n, "all requests since "+stamp(from))
			},
		},
	}
}
