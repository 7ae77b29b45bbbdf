package days

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// networks are the kinds of networks between kubelets and API servers, each with the address from which a connection comes that a kubelet opens.
// A kubelet has a connection for its Lease and one for all else, each of which is opened anew at times.
func networks() map[string]func(n *network) {
	return map[string]func(n *network){
		"balancer": func(n *network) { // one address at a time; another one takes over
			n.failover(n.NodeNames, "10.9.0.1", "10.9.0.2")
		},
		"balancers": func(n *network) { // each connection goes through one of a few
			n.pool(n.NodeNames, 2+n.IntN(4))
		},
		"gateways": func(n *network) { // each zone has one, and another zone's takes over
			zones := n.zones(2 + n.IntN(2))
			for i, z := range zones {
				n.failover(z, fmt.Sprintf("10.9.0.%d", 1+i), fmt.Sprintf("10.9.0.%d", 1+(i+1)%len(zones)))
			}
		},
		"replaced gateways": func(n *network) { // a zone's gateway is replaced by a new one
			for i, z := range n.zones(2 + n.IntN(2)) {
				at := n.moment()
				n.place(z, fmt.Sprintf("10.9.0.%d", 1+i), time.Time{})
				n.place(z, fmt.Sprintf("10.9.1.%d", 1+i), at)
				n.breaks(z, at)
			}
		},
		"privacy": func(n *network) { // IPv6 addresses that are made anew after some time, for new connections
			lasts := time.Duration(10+n.IntN(600)) * minute
			for i, node := range n.NodeNames {
				n.reports(node, fmt.Sprintf("2001:db8:0:%x::1", i), time.Time{})
				for at := n.From.Add(-2*time.Hour - time.Duration(n.Int64N(int64(lasts)))); at.Before(n.To); at = at.Add(lasts) {
					n.place([]string{node}, fmt.Sprintf("2001:db8:0:%x:%x:%x:%x:%x", i, n.IntN(1<<16), n.IntN(1<<16), n.IntN(1<<16), n.IntN(1<<16)), at)
				}
			}
		},
		"families": func(n *network) { // a name has addresses of both families, and each connection takes one
			for i, node := range n.NodeNames {
				n.of[node] = []place{{addresses: []string{fmt.Sprintf("10.0.1.%d", 10+i), fmt.Sprintf("fd00:10::%x", 16+i)}}}
			}
		},
		"sites": func(n *network) { // one or two nodes behind an address of a provider, which changes
			names := n.NodeNames
			for i := 0; len(names) > 0; i++ {
				k := min(1+n.IntN(2), len(names))
				site := names[:k]
				names = names[k:]
				n.place(site, fmt.Sprintf("203.0.113.%d", 1+10*i), time.Time{})
				for j := range n.IntN(3) {
					at := n.moment()
					n.place(site, fmt.Sprintf("203.0.113.%d", 2+10*i+j), at)
					n.breaks(site, at)
				}
			}
		},
		"virtual address": func(n *network) { // of the control plane: the kubelet on its machine comes from there
			for i, node := range n.NodeNames {
				n.place([]string{node}, fmt.Sprintf("10.0.1.%d", 10+i), time.Time{})
			}
			holders := n.NodeNames[:1+n.IntN(min(3, len(n.NodeNames)))]
			at, holder := n.From.Add(-time.Hour), 0
			for at.Before(n.To) {
				until := at.Add(n.length())
				if !until.After(n.From.Add(10 * minute)) {
					until = n.From.Add(10*minute + n.length())
				}
				n.place(holders[holder:holder+1], "10.0.1.200", at)
				n.breaks(holders[holder:holder+1], at)
				n.place(holders[holder:holder+1], fmt.Sprintf("10.0.1.%d", 10+holder), until)
				n.breaks(holders[holder:holder+1], until)
				at, holder = until, (holder+1)%len(holders)
				if len(holders) == 1 {
					at = at.Add(time.Duration(30+n.IntN(30)) * second)
				}
			}
		},
		"lease of addresses": func(n *network) { // DHCP: a node gets another address, and its kubelet reports it
			for i, node := range n.NodeNames {
				n.place([]string{node}, fmt.Sprintf("10.0.1.%d", 10+i), time.Time{})
			}
			var moments []time.Time
			for range 1 + n.IntN(3) {
				moments = append(moments, n.moment())
			}
			slices.SortFunc(moments, time.Time.Compare)
			for _, at := range moments {
				i, j := n.IntN(len(n.NodeNames)), n.IntN(200)
				node := n.NodeNames[i]
				address := fmt.Sprintf("10.0.2.%d", 1+j)
				n.place([]string{node}, address, at)
				n.breaks([]string{node}, at)
				n.reports(node, address, at.Add(time.Duration(1+n.IntN(12))*second))
			}
		},
	}
}

// reports has the kubelet write its address into its Node.
func (n *network) reports(node, address string, at time.Time) {
	var was *Entry
	for _, e := range n.State {
		if e.Kind == "Node" && e.Name == node && !e.At.After(at) {
			was = e
		}
	}
	fix := func(o map[string]any) map[string]any {
		o = maps.Clone(o)
		status := maps.Clone(o["status"].(map[string]any))
		var all []map[string]any
		for _, a := range status["addresses"].([]map[string]any) {
			if a["type"] == "InternalIP" {
				a = map[string]any{"type": "InternalIP", "address": address}
			}
			all = append(all, a)
		}
		status["addresses"] = all
		o["status"] = status
		return o
	}
	for i, e := range n.State {
		if e.Kind == "Node" && e.Name == node && e.At.After(at) && e.Object != nil {
			n.State[i] = &Entry{At: e.At, Type: e.Type, Kind: e.Kind, Name: e.Name, Object: fix(e.Object)}
		}
	}
	if was == nil {
		return
	}
	n.State = append(n.State, &Entry{At: at, Type: "MODIFIED", Kind: "Node", Name: node, Object: fix(was.Object)})
	sortState(n.State)
}

// place is from where new connections come from a time on.
type place struct {
	from      time.Time
	addresses []string
}

// network rewrites from where requests of kubelets come.
type network struct {
	*mutator
	of     map[string][]place     // by node
	broken map[string][]time.Time // when the connections of a node break
	apart  bool                   // Leases have connections of their own
	did    []string
}

// zones divides the nodes.
func (n *network) zones(k int) [][]string {
	out := make([][]string, k)
	for i, node := range n.NodeNames {
		out[i%k] = append(out[i%k], node)
	}
	return slices.DeleteFunc(out, func(z []string) bool { return len(z) == 0 })
}

// length is that of a failover: seconds, minutes or hours.
func (n *network) length() time.Duration {
	return time.Duration(30+n.IntN(30)) * [...]time.Duration{second, 10 * second, minute, 2 * minute}[n.IntN(4)]
}

func (n *network) place(nodes []string, address string, from time.Time) {
	for _, node := range nodes {
		n.of[node] = append(n.of[node], place{from, []string{address}})
	}
	if !from.IsZero() && from.After(n.From) {
		n.did = append(n.did, fmt.Sprintf("%s: %s at %s", strings.Join(nodes, " "), address, stamp(from)))
	}
}

func (n *network) pool(nodes []string, k int) {
	var all []string
	for i := range k {
		all = append(all, fmt.Sprintf("10.9.0.%d", 1+i))
	}
	for _, node := range nodes {
		n.of[node] = []place{{addresses: all}}
	}
}

// failover has nodes come from a second address for some time, or for good, at times twice.
func (n *network) failover(nodes []string, first, second string) {
	n.place(nodes, first, time.Time{})
	for range n.IntN(3) {
		at := n.moment()
		back := at.Add(n.length())
		n.place(nodes, second, at)
		n.breaks(nodes, at)
		if n.IntN(4) > 0 {
			n.place(nodes, first, back)
			n.breaks(nodes, back)
		}
	}
}

func (n *network) breaks(nodes []string, at time.Time) {
	for _, node := range nodes {
		n.broken[node] = append(n.broken[node], at)
	}
}

// at is the address of new connections of a node.
func (n *network) at(node string, at time.Time) string {
	all := n.of[node]
	slices.SortStableFunc(all, func(a, b place) int { return a.from.Compare(b.from) })
	address := ""
	for _, p := range all {
		if !p.from.After(at) {
			address = p.addresses[n.IntN(len(p.addresses))]
		}
	}
	return address
}

// connection is one of a kubelet, and when it is opened.
type connection struct {
	opened  time.Time
	address string
}

// connections of a client of a kubelet. Those that break are opened anew within two seconds, others after hours.
func (n *network) connections(node string, restarts []time.Time) []connection {
	opened := []time.Time{n.From.Add(-2 * time.Hour)}
	opened = append(opened, restarts...)
	for at := n.From; n.IntN(3) > 0 && at.Before(n.To); {
		at = at.Add(time.Duration(n.Int64N(int64(2 * time.Hour))))
		opened = append(opened, at)
	}
	for _, at := range n.broken[node] {
		opened = append(opened, at.Add(time.Duration(n.Int64N(int64(2*second)))))
	}
	slices.SortFunc(opened, time.Time.Compare)
	var out []connection
	for _, at := range opened {
		out = append(out, connection{at, n.at(node, at)})
	}
	return out
}

// through has all kubelets come through a network.
func (m *mutator) through(kind string) *network {
	n := &network{mutator: m, of: map[string][]place{}, broken: map[string][]time.Time{}}
	n.apart = m.IntN(2) == 0
	networks()[kind](n)
	starts, last := map[string][]time.Time{}, map[string]time.Time{}
	for _, e := range m.Events {
		if isBeat(e) {
			node := nodeOf(e.User)
			if was, ok := last[node]; ok && e.Received.Sub(was) > 15*second {
				starts[node] = append(starts[node], was.Add(2*second))
			}
			last[node] = e.Received
		}
	}
	open := map[string][2][]connection{}
	for _, node := range m.NodeNames {
		all := n.connections(node, starts[node])
		open[node] = [2][]connection{all, all}
		if n.apart {
			open[node] = [2][]connection{all, n.connections(node, starts[node])}
		}
	}
	m.change(func(e *Event) bool {
		_, ok := open[nodeOf(e.User)]
		return ok && e.IsNode() && len(e.SourceIPs) > 0
	}, func(e *Event) {
		client := 0
		if isBeat(e) {
			client = 1
		}
		for _, c := range open[nodeOf(e.User)][client] {
			if !c.opened.After(e.Received) {
				e.SourceIPs = []string{c.address}
			}
		}
	})
	return n
}
