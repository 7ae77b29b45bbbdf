package days

import "time"

// unread are the mutations that add a pod whose secret and ConfigMap no kubelet reads, as ordinary clusters have them.
func unread() []Mutation {
	harmless := func(name, what string, f func(m *mutator, p *pod) string) Mutation {
		return Mutation{Name: name, Description: what, Effect: Harmless, apply: func(m *mutator) string {
			p := &pod{
				app: &app{namespace: "shop", name: "unread", daemon: true, secrets: []string{"unread-" + hexString(m.Rand, 6)}}, uid: uuid(m.Rand),
				created: m.late(20 * minute).from.Truncate(second),
			}
			p.name = "unread-" + hexString(m.Rand, 5)
			return f(m, p)
		}}
	}
	on := func(m *mutator, p *pod, name, label, ready string) string {
		old := m.From.Add(-24 * time.Hour)
		p.node = &node{name: name, uid: uuid(m.Rand), created: old}
		m.addState(objectOfNode(p.node, map[string]any{"kubernetes.io/hostname": name, "type": label}, map[string]any{}, map[string]any{
			"conditions": []map[string]any{{"type": "Ready", "status": ready, "lastTransitionTime": old.Add(minute).UTC().Format(time.RFC3339)}},
		}))
		m.addPod(p)
		return p.String() + " on " + name
	}
	return []Mutation{
		harmless("pod-on-virtual-node", "a pod with a secret comes to a node of KWOK, which reads nothing", func(m *mutator, p *pod) string {
			return on(m, p, "kwok-"+hexString(m.Rand, 5), "kwok", "True")
		}),
		harmless("pod-on-dead-node", "a daemon's pod with a secret comes to a node that stands still", func(m *mutator, p *pod) string {
			return on(m, p, "dead-"+hexString(m.Rand, 5), "", "Unknown")
		}),
		harmless("pod-soon-gone", "a pod with a secret is deleted in the moment in which it came to its node", func(m *mutator, p *pod) string {
			p.node = &node{name: m.node()}
			p.gone = p.created.Add(300 * milli)
			m.addPod(p)
			return p.String() + " on " + p.node.name
		}),
		harmless("pod-rejected", "a kubelet rejects a pod with a secret, which then stays there as failed", func(m *mutator, p *pod) string {
			p.app.namespace, p.node = "rejected", &node{name: m.node()} // what else it leads its node to is asked for by nobody
			m.addPod(p)
			m.end(p, "Failed", p.created.Add(second))
			return p.String() + " on " + p.node.name
		}),
		harmless("pod-succeeded", "pods with a secret have succeeded before the log begins, one on each node, and stay there", func(m *mutator, p *pod) string {
			p.app.namespace = "done"
			for _, name := range m.NodeNames {
				q := *p
				q.node, q.created, q.name, q.uid = &node{name: name}, m.From.Add(-80*minute), p.name+"-"+name, uuid(m.Rand)
				m.addPod(&q)
				m.end(&q, "Succeeded", q.created.Add(minute))
			}
			return p.String() + " on each node"
		}),
	}
}

// end gives a pod the phase in which it ends.
func (m *mutator) end(p *pod, phase string, at time.Time) {
	o := object("v1", "Pod", p.namespace, p.name, p.uid, p.created, map[string]any{"spec": p.spec(true), "status": map[string]any{"phase": phase}})
	m.State = append(m.State, entry(at, "MODIFIED", o))
	sortState(m.State)
}

// addPod puts a pod into the state that is bound when it is made.
func (m *mutator) addPod(p *pod) {
	o := object("v1", "Pod", p.namespace, p.name, p.uid, p.created, map[string]any{"spec": p.spec(true), "status": map[string]any{"phase": "Pending"}})
	m.State = append(m.State, entry(p.created, "ADDED", o))
	if !p.gone.IsZero() {
		m.State = append(m.State, entry(p.gone, "DELETED", o))
	}
	sortState(m.State)
}
