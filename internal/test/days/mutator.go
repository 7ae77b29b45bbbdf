package days

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// add puts events into the log, at their places, unless a filter keeps them out.
func (m *mutator) add(events ...*Event) {
	for _, e := range events {
		if slices.ContainsFunc(m.filters, func(out func(*Event) bool) bool { return out(e) }) {
			continue
		}
		i, _ := slices.BinarySearchFunc(m.Events, e, func(a, b *Event) int {
			if !a.Staged.After(b.Staged) {
				return -1
			}
			return 1
		})
		m.Events = slices.Insert(m.Events, i, e)
	}
}

// addState puts objects into the state from its beginning on, or from when they were made.
func (m *mutator) addState(objects ...map[string]any) {
	for _, o := range objects {
		at := m.From.Add(-80 * minute)
		if made, err := time.Parse(time.RFC3339, o["metadata"].(map[string]any)["creationTimestamp"].(string)); err == nil {
			at = later(at, made.Add(second))
		}
		m.State = append(m.State, entry(at, "ADDED", o))
	}
	sortState(m.State)
}

// bind makes sure that the binding for nodes is there.
func (m *mutator) bind() {
	if !slices.ContainsFunc(m.State, func(e *Entry) bool { return e.Kind == "ClusterRoleBinding" && e.Name == legacyBinding }) {
		m.addState(binding(m.Rand, "", legacyBinding, "system:node", m.From.Add(-time.Hour), subject("Group", "", "system:nodes")))
	}
}

// filter removes the events of which out is true, and keeps out those that come later; it returns how many there were.
func (m *mutator) filter(out func(e *Event) bool) int {
	m.filters = append(m.filters, out)
	return m.drop(out)
}

// drop removes the events of which gone is true and returns how many there were.
func (m *mutator) drop(gone func(e *Event) bool) int {
	n := len(m.Events)
	m.Events = slices.DeleteFunc(m.Events, gone)
	return n - len(m.Events)
}

// change replaces the events of which which is true by changed copies.
func (m *mutator) change(which func(e *Event) bool, how func(e *Event)) int {
	n := 0
	for i, e := range m.Events {
		if which(e) {
			c := *e
			how(&c)
			m.Events[i] = &c
			n++
		}
	}
	return n
}

// node is one of the nodes that are there all day.
func (m *mutator) node() string { return m.NodeNames[m.IntN(len(m.NodeNames))] }

// moment is a time in the log, not in its first and last seconds.
func (m *mutator) moment() time.Time {
	return m.From.Add(15*second + time.Duration(m.Int64N(int64(m.To.Sub(m.From)-30*second))))
}

// late is a stretch in the second half of the log, so that it is within what readiness looks at whatever the minimal window; length is cut to what there
// is.
func (m *mutator) late(length time.Duration) span {
	half := m.To.Sub(m.From) / 2
	length = min(length, half-minute)
	from := m.To.Add(-half + time.Duration(m.Int64N(int64(half-length))))
	return span{from, from.Add(length)}
}

// busy is a node whose kubelet is there through a stretch.
func (m *mutator) busy(p span) string {
	first := m.IntN(len(m.NodeNames))
	for i := range m.NodeNames {
		name := m.NodeNames[(first+i)%len(m.NodeNames)]
		beats := 0
		for _, e := range m.Events {
			if isBeat(e) && p.holds(e.Received) && nodeOf(e.User) == name {
				beats++
			}
		}
		if time.Duration(beats)*11*second >= p.to.Sub(p.from)-3*minute {
			return name
		}
	}
	return ""
}

// isBeat says whether the event is a renewal of a node's Lease.
func isBeat(e *Event) bool {
	return e.Verb == "update" && e.Ref != nil && e.Ref.Resource == "leases" && e.Ref.Namespace == "kube-node-lease" && e.IsNode()
}

// isIdentity says whether the event is a renewal of an API server's identity Lease.
func isIdentity(e *Event) bool {
	return e.Ref != nil && e.Ref.Resource == "leases" && strings.HasPrefix(e.Ref.Name, "apiserver-") && e.User.Username == "system:apiserver"
}

func isRead(e *Event) bool { return e.Verb == "get" || e.Verb == "list" || e.Verb == "watch" }

// like is an event of a node's kubelet next to a time: whose credential, address and API server others can use. It is nil if there is none.
func (m *mutator) like(node string, at time.Time) *Event {
	var best *Event
	for _, e := range m.Events {
		if !e.IsNode() || nodeOf(e.User) != node || !strings.HasPrefix(e.UserAgent, "kubelet") || !strings.Contains(e.UserAgent, "/v1.") {
			continue
		}
		if best == nil || e.Received.Sub(at).Abs() < best.Received.Sub(at).Abs() {
			best = e
		}
		if e.Staged.After(at.Add(time.Minute)) {
			break
		}
	}
	return best
}

// claim gives a Node a further address for some time. It reports whether the Node is there.
func (m *mutator) claim(node, address string, at time.Time, within time.Duration) bool {
	var was *Entry
	for _, e := range m.State {
		if e.Kind == "Node" && e.Name == node && !e.At.After(at) {
			was = e
		}
	}
	if was == nil {
		return false
	}
	status := maps.Clone(was.Object["status"].(map[string]any))
	status["addresses"] = append(slices.Clone(status["addresses"].([]map[string]any)), map[string]any{"type": "InternalIP", "address": address})
	claiming, back := *was, *was
	claiming.Object = maps.Clone(was.Object)
	claiming.Object["status"] = status
	claiming.At, claiming.Type = at, "MODIFIED"
	back.At, back.Type = at.Add(within), "MODIFIED"
	m.State = append(m.State, &claiming, &back)
	sortState(m.State)
	return true
}
