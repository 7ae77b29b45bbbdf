package days

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// dropped are mutations that leave out of the log what somebody did who is no node, with what shows that something breaks: shippers drop events by their users.
func dropped() []Mutation {
	account := func(e *Event) bool { return strings.HasPrefix(e.User.Username, "system:serviceaccount:") }
	list := []Mutation{
		{
			Name: "drop-accounts", Effect: Hides, Description: "system:node is bound to a service account that lives on it, and a shipper drops what service accounts do",
			apply: func(m *mutator) string {
				what := serviceAccount(m)
				if what == "" || !m.comes() {
					return ""
				}
				m.logs("system:serviceaccount:kube-system:node-agent")
				return some(m.filter(account), what)
			},
		},
		{
			Name: "drop-others-for-hours", Effect: Hides, Description: "a shipper drops for some hours what others than nodes and API servers do", apply: func(m *mutator) string {
				made := map[int64]int{} // by hour
				for _, p := range m.pods {
					if p.bound.After(m.From.Add(25*minute)) && p.bound.Before(m.To.Add(-25*minute)) {
						made[p.bound.Unix()/3600]++
					}
				}
				for h := m.From.Unix() / 3600; h <= m.To.Unix()/3600; h++ {
					dropped := func(e *Event) bool {
						at := e.Received.Unix()
						return !e.IsNode() && e.User.Username != "system:apiserver" && at >= h*3600-900 && at < h*3600+4500
					}
					others := slices.ContainsFunc(m.Events, func(e *Event) bool { // else it is a log of nodes alone
						return !e.IsNode() && e.Ref != nil && e.Ref.Resource == resPods.name && e.Verb == "create" && !dropped(e) &&
							e.Received.After(m.From.Add(5*minute)) && e.Received.Before(m.To)
					})
					if made[h] < 3 || !others {
						continue
					}
					return fmt.Sprintf("%d events around hour %d", m.filter(dropped), h)
				}
				return ""
			},
		},
	}
	for i := range list {
		list[i].Checks = []string{"policy-known"}
	}
	return append(list, Mutation{
		Name: "drop-account", Effect: Hides, Checks: []string{"bindings-inventoried"},
		Description: "system:node is bound to a service account whose pods have tokens, and the log has no request of it", apply: func(m *mutator) string {
			who := [...]map[string]any{
				subject("ServiceAccount", "kube-system", "node-agent"), subject("User", "", "system:serviceaccount:kube-system:node-agent"), subject("Group", "", "system:serviceaccounts:kube-system"),
			}[m.IntN(3)]
			m.addState(binding(m.Rand, "", "silent:system:node", "system:node", m.From.Add(-time.Hour), who))
			m.Policy = insertRule(m.Policy, "- level: Metadata\n  userGroups: [\"system:serviceaccounts:kube-system\"]\n")
			n := m.filter(func(e *Event) bool {
				return strings.HasPrefix(e.User.Username, "system:serviceaccount:kube-system:") && (e.Ref == nil || e.Ref.Resource != resPods.name || who["kind"] == "Group")
			})
			return fmt.Sprintf("%v, %d events", who, n)
		},
	})
}

// comes reports whether a pod came to a node well within the log.
func (m *mutator) comes() bool {
	for _, p := range m.pods {
		if p.bound.After(m.From.Add(15*minute)) && p.bound.Before(m.To.Add(-15*minute)) {
			return true
		}
	}
	return false
}
