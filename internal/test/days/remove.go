package days

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// removals are the mutations that take out what a day's parts must produce.
func removals() []Mutation {
	hide := func(name, what string, f func(m *mutator) string, checks ...string) Mutation {
		return Mutation{Name: name, Description: what, Effect: Hides, Checks: checks, apply: f}
	}
	list := []Mutation{
		hide("remove-node-hour", "all that a node asked for in an hour is missing", removeNodeHour, "window-covered", "reads-logged"),
		hide("remove-watch-kind", "a node's watches of one kind are missing", removeWatchKind, "reads-logged"),
		hide("remove-server", "the log of one of several API servers is missing", removeServer, "servers-seen", "window-covered"),
		hide("remove-tenth", "one event in ten is missing, at random", removeTenth, "window-covered", "servers-seen"),
		hide("remove-bursts", "a shipper passes only so many events of each second", removeBursts, "policy-known"),
		hide("remove-all-but-fragments", "ten minutes of log, and a stray event of the day before", fragments, "window-covered"),
		hide("remove-node-reads", "a node's get, list and watch are missing", removeNodeReads, "reads-logged"),
		hide("remove-all-reads", "nobody's get, list and watch are logged, as by kube-audit-admin", removeAllReads, "reads-logged", "policy-known"),
		hide("remove-node-gets", "what nodes get of nodes is not logged, and the policy says so", removeNodeGets, "policy-known"),
		hide("remove-policy", "nobody knows the audit policy", removePolicy, "policy-known"),
		hide("remove-annotations", "no event has annotations", removeAnnotations, "node-authorizer-on", "agreement", "version-known"),
		hide("remove-hour", "an hour is missing for all", removeHour, "window-covered", "reads-logged", "servers-seen"),
		hide("remove-silent-node", "a node is silent for hours but for the renewals of its Lease", silentNode, "reads-logged"),
		hide("remove-all-but-two", "a node was logged twice", loggedTwice, "window-covered", "reads-logged"),
		hide("remove-identity-leases", "no API server's renewals of its identity Lease are logged", removeIdentity, "servers-seen"),
		hide("remove-starts", "no kubelet's start is in the log", removeStarts, "rare-paths-seen"),
		hide("remove-object-watches", "what a node reads of secrets and configmaps is missing", removeObjectWatches, "reads-logged"),
		hide("remove-leases", "the renewals of nodes' Leases are not logged, and the policy says so", removeLeases, "window-covered"),
	}
	return append(list,
		hide("state-without-pods", "the journal has no pods of one namespace", statePods, "agreement", "state-complete", "every-event-judged"),
		hide("state-without-nodes", "the journal has no Nodes", stateKind("Node"), "state-complete", "window-covered", "identities-conform"),
		hide("state-without-bindings", "the journal has no bindings", stateKind("ClusterRoleBinding", "RoleBinding"), "bindings-inventoried", "state-complete"),
		hide("state-without-rolebindings", "the journal has no RoleBindings", stateKind("RoleBinding"), "bindings-inventoried"),
		hide("state-without-roles", "the journal has no Roles", stateKind("Role"), "bindings-inventoried"),
		hide("state-cut", "the journal ends long before the log", stateCut, "state-complete"),
	)
}

func removeNodeHour(m *mutator) string {
	p := m.late(time.Hour)
	node := m.busy(p)
	if node == "" {
		return ""
	}
	n := m.drop(func(e *Event) bool { return nodeOf(e.User) == node && (p.holds(e.Staged) || p.holds(e.Received)) })
	return fmt.Sprintf("%d events of %s from %s to %s", n, node, stamp(p.from), stamp(p.to))
}

func stamp(t time.Time) string { return t.Format(time.RFC3339) }

func removeWatchKind(m *mutator) string {
	node, kind := m.node(), [...]string{"pods", "nodes", "services", "csidrivers", "runtimeclasses"}[m.IntN(5)]
	n := m.drop(func(e *Event) bool {
		return nodeOf(e.User) == node && (e.Verb == "watch" || e.Verb == "list") && e.Ref != nil && e.Ref.Resource == kind
	})
	return some(n, fmt.Sprintf("%d events of watches of %s by %s", n, kind, node))
}

// some is what, or nothing if there was nothing to do.
func some(n int, what string) string {
	if n == 0 {
		return ""
	}
	return what
}

func removeServer(m *mutator) string {
	if m.Options.Servers < 2 {
		return ""
	}
	server := m.IntN(m.Options.Servers)
	n := m.drop(func(e *Event) bool { return e.Server == server })
	return some(n, fmt.Sprintf("%d events that API server %d wrote", n, server+1))
}

func removeTenth(m *mutator) string {
	n := m.drop(func(*Event) bool { return m.IntN(10) == 0 })
	return fmt.Sprintf("%d events", n)
}

// removeBursts has a rate limit at which some 3 % of the events are lost, at the end of the seconds with the most.
func removeBursts(m *mutator) string {
	seconds, lost := map[int64]int{}, map[int]int{} // events by second, and those lost by limit
	for _, e := range m.Events {
		second := e.Staged.Unix()
		seconds[second]++
		for limit := range seconds[second] {
			lost[limit]++
		}
	}
	limit := 1
	for lost[limit]*100 > 3*len(m.Events) {
		limit++
	}
	clear(seconds)
	n := m.drop(func(e *Event) bool {
		seconds[e.Staged.Unix()]++
		return seconds[e.Staged.Unix()] > limit
	})
	return fmt.Sprintf("%d of %d events beyond %d in a second", n, n+len(m.Events), limit)
}

func fragments(m *mutator) string {
	p := m.late(10 * minute)
	var stray *Event
	for _, e := range m.Events {
		if isBeat(e) {
			c := *e
			c.Received, c.Staged = c.Received.Add(-24*time.Hour), c.Staged.Add(-24*time.Hour)
			stray = &c
			break
		}
	}
	if stray == nil {
		return ""
	}
	n := m.drop(func(e *Event) bool { return !p.holds(e.Staged) })
	m.add(stray)
	return fmt.Sprintf("%d events, all but those from %s to %s and one at %s", n, stamp(p.from), stamp(p.to), stamp(stray.Staged))
}

func removeNodeReads(m *mutator) string {
	node := m.node()
	n := m.drop(func(e *Event) bool { return nodeOf(e.User) == node && isRead(e) })
	return some(n, fmt.Sprintf("%d reads of %s", n, node))
}

func removeAllReads(m *mutator) string {
	n := m.drop(isRead)
	m.Policy = aksPolicy
	return some(n, fmt.Sprintf("%d reads; the policy is that of kube-audit-admin", n))
}

// insertRule puts a rule before a policy's others.
func insertRule(policy, rule string) string {
	return strings.Replace(policy, "rules:\n", "rules:\n"+rule, 1)
}

// logs has the policy, if there is one, log the user: of others than nodes policies log little.
func (m *mutator) logs(username string) {
	m.Policy = insertRule(m.Policy, "- level: Metadata\n  users: [\""+username+"\"]\n")
}

func removeNodeGets(m *mutator) string {
	if m.Policy == "" {
		return ""
	}
	n := m.drop(func(e *Event) bool { return e.IsNode() && e.Verb == "get" && e.Ref != nil && e.Ref.Resource == "nodes" })
	m.Policy = insertRule(m.Policy, "- level: None\n  userGroups: [\"system:nodes\"]\n  verbs: [\"get\"]\n  resources: [{group: \"\", resources: [\"nodes\"]}]\n")
	return some(n, fmt.Sprintf("%d events of nodes that get nodes", n))
}

func removePolicy(m *mutator) string {
	if m.Policy == "" {
		return ""
	}
	m.Policy = ""
	return "the policy"
}

func removeAnnotations(m *mutator) string {
	n := m.change(func(e *Event) bool { return e.Decision != "" }, func(e *Event) { e.Decision, e.DecisionReason, e.Issued = "", "", "" })
	return some(n, fmt.Sprintf("the annotations of %d events", n))
}

func removeHour(m *mutator) string {
	p := m.late(time.Hour)
	n := m.drop(func(e *Event) bool { return p.holds(e.Staged) })
	return some(n, fmt.Sprintf("%d events from %s to %s", n, stamp(p.from), stamp(p.to)))
}

func silentNode(m *mutator) string {
	p := m.late(4 * time.Hour)
	node := m.busy(p)
	if node == "" {
		return ""
	}
	n := m.drop(func(e *Event) bool {
		return nodeOf(e.User) == node && (p.holds(e.Staged) || p.holds(e.Received)) && !isBeat(e)
	})
	return fmt.Sprintf("%d events of %s from %s to %s, all but renewals of its Lease", n, node, stamp(p.from), stamp(p.to))
}

func loggedTwice(m *mutator) string {
	node, seen := m.node(), 0
	keep := [2]int{m.IntN(1000), 1000 + m.IntN(1000)}
	n := m.drop(func(e *Event) bool {
		if nodeOf(e.User) != node || e.Verb == "watch" {
			return nodeOf(e.User) == node
		}
		seen++
		return !slices.Contains(keep[:], seen-1)
	})
	return some(n, fmt.Sprintf("%d events of %s, all but two", n, node))
}

func removeIdentity(m *mutator) string {
	n := m.drop(isIdentity)
	return some(n, fmt.Sprintf("%d renewals of identity Leases", n))
}

func removeStarts(m *mutator) string {
	n := m.drop(func(e *Event) bool { return e.rare })
	return some(n, fmt.Sprintf("%d events of kubelets' starts", n))
}

func removeObjectWatches(m *mutator) string {
	node := m.node()
	n := m.drop(func(e *Event) bool {
		return nodeOf(e.User) == node && isRead(e) && e.Ref != nil && (e.Ref.Resource == "secrets" || e.Ref.Resource == "configmaps")
	})
	return some(n, fmt.Sprintf("%d reads of secrets and configmaps by %s", n, node))
}

func removeLeases(m *mutator) string {
	if m.Policy == "" {
		return ""
	}
	n := m.drop(func(e *Event) bool { return e.IsNode() && e.Ref != nil && e.Ref.Resource == "leases" })
	m.Policy = insertRule(m.Policy, "- level: None\n  userGroups: [\"system:nodes\"]\n  resources: [{group: coordination.k8s.io, resources: [\"leases\"]}]\n")
	return some(n, fmt.Sprintf("%d requests of nodes for leases", n))
}

// statePods takes the pods of a namespace out of the journal, in which there are some all day.
func statePods(m *mutator) string {
	namespace := [...]string{"shop", "kube-system"}[m.IntN(2)]
	n := len(m.State)
	m.State = slices.DeleteFunc(m.State, func(e *Entry) bool { return e.Kind == "Pod" && e.Namespace == namespace })
	return some(n-len(m.State), fmt.Sprintf("%d entries of pods in %s", n-len(m.State), namespace))
}

func stateKind(kinds ...string) func(m *mutator) string {
	return func(m *mutator) string {
		n := len(m.State)
		m.State = slices.DeleteFunc(m.State, func(e *Entry) bool { return slices.Contains(kinds, e.Kind) })
		return some(n-len(m.State), fmt.Sprintf("%d entries of %s", n-len(m.State), strings.Join(kinds, " and ")))
	}
}

func stateCut(m *mutator) string {
	end := m.To.Add(-m.To.Sub(m.From) / 3)
	n := len(m.State)
	m.State = slices.DeleteFunc(m.State, func(e *Entry) bool { return e.At.After(end) })
	return some(n-len(m.State), fmt.Sprintf("%d entries after %s", n-len(m.State), stamp(end)))
}
