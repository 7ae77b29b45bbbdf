package days

import (
	"fmt"
	"strings"
	"time"
)

// Setting changes how the nodes of a clean day reach their API servers, or what their Node objects say. The day stays an ordinary one.
type Setting struct {
	Name  string
	apply func(m *mutator)
}

// Apply makes the changed day, and leaves the given one as it is.
func (s Setting) Apply(day *Day, seed uint64) *Day {
	c := day.copyOf()
	s.apply(&mutator{newRand(seed, day.Seed^0x5e77), c})
	return c
}

// Settings are all of them.
func Settings() []Setting {
	gateways := []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}
	return []Setting{
		{"one gateway", func(m *mutator) {
			m.come(func(*Event) string { return gateways[0] })
		}},
		{"a gateway with three addresses, another one for each request", func(m *mutator) {
			m.come(func(*Event) string { return gateways[m.IntN(3)] })
		}},
		{"two load balancers, one after the other", func(m *mutator) {
			at := m.moment()
			m.come(func(e *Event) string {
				if e.Received.Before(at) {
					return gateways[0]
				}
				return gateways[1]
			})
		}},
		{"load balancers for some minutes, and the nodes' addresses before and after", func(m *mutator) {
			at := m.moment()
			m.come(func(e *Event) string {
				if e.Received.Before(at) || e.Received.After(at.Add(5*minute)) {
					return ""
				}
				return gateways[0]
			})
		}},
		{"nodes with two addresses, which they use in turn", func(m *mutator) {
			m.locate(func(i int) string { return fmt.Sprintf("172.16.0.%d", 1+i) })
			second := map[string]string{}
			for i, name := range m.NodeNames {
				second[name] = fmt.Sprintf("172.16.0.%d", 1+i)
			}
			m.come(func(e *Event) string {
				if m.IntN(2) == 0 {
					return second[nodeOf(e.User)]
				}
				return ""
			})
		}},
		{"nodes behind addresses that they have as ExternalIP", func(m *mutator) {
			m.locate(func(i int) string { return fmt.Sprintf("198.51.100.%d", 1+i) })
			for i, name := range m.NodeNames {
				external := fmt.Sprintf("198.51.100.%d", 1+i)
				m.come(func(e *Event) string {
					if nodeOf(e.User) == name {
						return external
					}
					return ""
				})
			}
		}},
		{"IPv6 with addresses that change within the node's network", func(m *mutator) {
			m.locate(func(i int) string { return fmt.Sprintf("2001:db8:0:%x::10", 1+i) })
			network := map[string]string{}
			for i, name := range m.NodeNames {
				network[name] = fmt.Sprintf("2001:db8:0:%x::", 1+i)
			}
			m.come(func(e *Event) string {
				if n := network[nodeOf(e.User)]; n != "" && !isBeat(e) {
					return n + fmt.Sprintf("%x", 0xf000+e.Received.Unix()/3600%16)
				}
				return ""
			})
		}},
		{"a virtual address that moves to a control-plane node and away again", func(m *mutator) {
			at := m.moment()
			m.come(func(e *Event) string {
				if nodeOf(e.User) != m.NodeNames[0] || e.Received.Before(at) || e.Received.After(at.Add(4*minute)) {
					return ""
				}
				return "10.0.0.100"
			})
		}},
		{"addresses of IPv4 written as those of IPv6", func(m *mutator) {
			m.come(func(e *Event) string {
				if a := e.SourceIPs[0]; !strings.Contains(a, ":") && m.IntN(2) == 0 {
					return "::ffff:" + a
				}
				return ""
			})
		}},
		{"no addresses", func(m *mutator) {
			m.change((*Event).IsNode, func(e *Event) { e.SourceIPs = nil })
		}},
		{"an API server whose clock is two minutes ahead", func(m *mutator) { m.clock(2 * minute) }},
		{"an API server whose clock is two minutes behind", func(m *mutator) { m.clock(-2 * minute) }},
		{"a recorder whose clock is two minutes behind", func(m *mutator) { m.recorder(-2 * minute) }},
		{"a recorder whose clock is two minutes ahead", func(m *mutator) { m.recorder(2 * minute) }},
	}
}

// come has the requests of nodes come from an address, "" for where they come from.
func (m *mutator) come(from func(e *Event) string) {
	m.change(func(e *Event) bool { return e.IsNode() && len(e.SourceIPs) > 0 }, func(e *Event) {
		if a := from(e); a != "" {
			e.SourceIPs = []string{a}
		}
	})
}

// locate gives each Node that is there all day a further address.
func (m *mutator) locate(address func(i int) string) {
	for i, name := range m.NodeNames {
		for j, e := range m.State {
			if e.Kind != "Node" || e.Name != name {
				continue
			}
			c := *e
			o := map[string]any{}
			for k, v := range e.Object {
				o[k] = v
			}
			status := map[string]any{}
			for k, v := range o["status"].(map[string]any) {
				status[k] = v
			}
			was := status["addresses"].([]map[string]any)
			status["addresses"] = append(was[:len(was):len(was)], map[string]any{"type": "ExternalIP", "address": address(i)})
			o["status"], c.Object = status, o
			m.State[j] = &c
		}
	}
}

// clock sets the clock of the last API server. What is logged then is out of order.
func (m *mutator) clock(by time.Duration) {
	m.change(func(e *Event) bool { return e.Server == m.Options.Servers-1 }, func(e *Event) {
		e.Received, e.Staged = e.Received.Add(by), e.Staged.Add(by)
	})
}

// recorder sets the clock of who records the state.
func (m *mutator) recorder(by time.Duration) {
	for i, e := range m.State {
		c := *e
		c.At = e.At.Add(by)
		m.State[i] = &c
	}
}
