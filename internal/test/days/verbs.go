package days

import (
	"fmt"
	"strings"
	"time"
)

// verbs are mutations that take out of the log what kubelets do besides renewing Leases and reading: by the verb, as a filter of an exporter may, or by
// the kind of request.
func verbs() []Mutation {
	return []Mutation{
		{
			Name: "remove-verb", Effect: Hides, Description: "no request of nodes with one verb is logged",
			Checks: []string{"reads-logged", "window-covered", "rare-paths-seen"}, apply: func(m *mutator) string {
				return m.without("", [...]string{"get", "create", "update", "patch", "delete"}[m.IntN(5)], "")
			},
		},
		{
			Name: "remove-kind", Effect: Hides, Description: "no request of one kind that kubelets make for their Node and pods is logged",
			Checks: []string{"reads-logged"}, apply: func(m *mutator) string {
				return m.withoutKind("")
			},
		},
		{
			Name: "remove-kind-of-node", Effect: Hides, Description: "no request of one kind that a kubelet makes for its Node and pods is logged of one node",
			Checks: []string{"reads-logged"}, apply: func(m *mutator) string {
				return m.withoutKind(m.node())
			},
		},
		{
			Name: "remove-get-nodes", Effect: Hides, Description: "no get of a Node by a node is logged: the rule of the widely used audit policies, in the pipeline",
			Checks: []string{"reads-logged"}, apply: func(m *mutator) string {
				return m.without("", "get", "nodes")
			},
		},
	}
}

// withoutKind drops one of the kinds of requests that kubelets make, of those that show.
func (m *mutator) withoutKind(node string) string {
	kinds := [...][2]string{{"patch", "nodes/status"}, {"get", "pods"}, {"patch", "pods/status"}, {"create", "serviceaccounts/token"}, {"delete", "pods"}, {"get", "nodes"}}
	for _, i := range m.Perm(len(kinds)) {
		if what := m.without(node, kinds[i][0], kinds[i][1]); what != "" {
			return what
		}
	}
	return ""
}

// getsNode reports whether the kubelet that makes the request gets its Node with it, and that is long enough before the end of the day to be missed.
func (m *mutator) getsNode(e *Event) bool {
	if !strings.HasPrefix(e.UserAgent, "kubelet") || e.Received.Before(m.From.Add(20*minute)) || e.Received.After(m.To.Add(-20*minute)) {
		return false
	}
	minor := 0
	_, version, _ := strings.Cut(e.UserAgent, "/")
	_, _ = fmt.Sscanf(version, "v1.%d.", &minor)
	return e.Code == 409 || e.Ref.Subresource == "status" && e.Code == 200 && getsOwnNode(minor)
}

// enough is how many pods must have come or gone for what is missing of them to show. A pod goes too soon to be looked at, a kubelet is away, or a pod is
// deleted by force; so there must be more than are asked for.
const enough = 5

// without drops the requests of a node, or of all, with a verb and of a kind of resource, or of any. It returns "" where too few pods came or went for that to
// show.
func (m *mutator) without(node, verb, kind string) string {
	of := func(e *Event, verb, kind string) bool {
		if !e.IsNode() || e.Ref == nil || node != "" && nodeOf(e.User) != node || e.Verb != verb {
			return false
		}
		resource := e.Ref.Resource
		if e.Ref.Subresource != "" {
			resource += "/" + e.Ref.Subresource
		}
		return kind == "" || resource == kind
	}
	pods := func(verb, kind string) map[string]bool {
		all := map[string]bool{}
		for _, e := range m.Events {
			if of(e, verb, kind) && e.Code < 300 && strings.HasPrefix(e.UserAgent, "kubelet") && e.Received.After(m.From.Add(20*minute)) && e.Received.Before(m.To.Add(-20*minute)) {
				name, _, _ := strings.Cut(e.Ref.Name, ".") // an event has the name of its pod and more
				all[e.Ref.Namespace+"/"+name] = true
			}
		}
		return all
	}
	gone := pods("delete", "pods")
	for _, e := range m.Events {
		if e.Ref != nil && (strings.HasSuffix(e.User.Username, ":taint-eviction-controller") || strings.HasSuffix(e.User.Username, ":node-controller")) { // its kubelet deletes it before the node is Ready again
			delete(gone, e.Ref.Namespace+"/"+e.Ref.Name)
		}
	}
	switch {
	case verb == "update" || verb == "create" && kind == "" || verb == "patch" && kind != "pods/status": // for the Node
	case kind == "nodes":
		occasions := map[time.Time]bool{} // of one node a single one may be an event that was lost
		for _, e := range m.Events {
			if (of(e, "patch", "nodes/status") || of(e, "create", "nodes")) && m.getsNode(e) {
				occasions[e.Received.Truncate(10*minute)] = true
			}
		}
		if len(occasions) == 0 || node != "" && len(occasions) < enough {
			return ""
		}
	case verb == "delete":
		if len(gone) < enough {
			return ""
		}
	case len(pods("create", "events")) < enough: // as pods start
		return ""
	}
	n := m.filter(func(e *Event) bool { return of(e, verb, kind) })
	what := strings.TrimSpace(verb + " " + kind)
	if node != "" {
		what += " of " + node
	}
	return some(n, fmt.Sprintf("%d requests: %s", n, what))
}
