package days

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// missed are mutations that a fourth examiner found to leave a day READY.
func missed() []Mutation {
	return []Mutation{
		{
			Name: "not-ready-by-own-word", Effect: Hides, Checks: []string{"window-covered"},
			Description: "a kubelet says that its node is not Ready, and the log has no more of it", apply: func(m *mutator) string {
				node, from := m.notReady()
				if node == "" {
					return ""
				}
				return some(m.drop(func(e *Event) bool { return nodeOf(e.User) == node && e.Staged.After(from) }), "events of "+node+" from "+stamp(from))
			},
		},
		{
			Name: "not-ready-and-alive", Effect: Harmless, Description: "a kubelet says that its node is not Ready, and does all that it did", apply: func(m *mutator) string {
				node, from := m.notReady()
				return some(len(node), node+" from "+stamp(from))
			},
		},
		{
			Name: "reasons-cut", Effect: Breaks, Checks: []string{"nothing-depends", "bindings-inventoried"},
			Description: "something cuts the API server's reasons, so that the one of a planted request names no binding", apply: func(m *mutator) string {
				p := m.plantAsk(m.moment(), asks[0])
				if p == nil {
					return ""
				}
				m.add(p.e)
				most := 1 + m.IntN(60)
				m.change(func(e *Event) bool { return len(e.DecisionReason) > most }, func(e *Event) { e.DecisionReason = e.DecisionReason[:most] })
				return fmt.Sprintf("%d bytes are left, %s", most, p)
			},
		},
	}
}

// notReady has a node's kubelet say from some time in the second half of the day on that the node is not Ready; "" where the kubelet is not there all that
// time, or is silent for a while.
func (m *mutator) notReady() (node string, from time.Time) {
	from = m.late(minute).from
	if node = m.busy(span{from, m.To}); node == "" {
		return "", from
	}
	last, silent := (*Entry)(nil), false
	ofNode := func(e *Entry) bool { return e.Kind == "Node" && e.Name == node && e.Type != "BOOKMARK" }
	unknown := func(e *Entry) bool { return strings.Contains(fmt.Sprint(e.Object), "Unknown") }
	later := func(e *Entry) bool { return ofNode(e) && e.At.After(from) }
	for _, e := range m.State {
		switch {
		case later(e):
			silent = silent || unknown(e)
		case ofNode(e):
			last = e
		}
	}
	if last == nil || last.Object == nil || silent || unknown(last) {
		return "", from
	}
	m.State = slices.DeleteFunc(m.State, later)
	o := maps.Clone(last.Object)
	status := maps.Clone(o["status"].(map[string]any))
	status["conditions"] = []map[string]any{{"type": "Ready", "status": "False", "lastTransitionTime": from.UTC().Format(time.RFC3339)}}
	o["status"] = status
	m.State = append(m.State, entry(from.Add(5*milli), "MODIFIED", o))
	sortState(m.State)
	return node, from
}
