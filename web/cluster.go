package web

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// nodeCursor is a place in the list of nodes.
type nodeCursor struct {
	N    [3]int64 `json:"n"`
	Name []byte   `json:"s"`
	Back bool     `json:"b,omitempty"`
}

func nodeCursorOf(n *report.Node, back bool) string {
	b, err := json.Marshal(nodeCursor{[3]int64{n.Excess, n.Deny, n.Requests}, []byte(n.Name), back})
	if err != nil {
		return "" // numbers and bytes can always be written
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseNodeCursor(s string) (at report.Node, back bool, err error) {
	bad := badQuery("cursor: this is no cursor of this list: begin again without it")
	if len(s) > maxCursor {
		return at, false, bad
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return at, false, bad
	}
	var c nodeCursor
	if err := json.Unmarshal(b, &c); err != nil {
		return at, false, bad
	}
	return report.Node{Name: string(c.Name), Excess: c.N[0], Deny: c.N[1], Requests: c.N[2]}, c.Back, nil
}

func (d *data) nodes(ctx context.Context, window, cursor string, limit int) (*NodesPage, error) {
	if limit == 0 {
		limit = defaultLimit
	}
	if limit < 1 || limit > maxLimit {
		return nil, badQuery("limit: %d is not between 1 and %d", limit, maxLimit)
	}
	var at report.Node
	back := false
	if cursor != "" {
		var err error
		if at, back, err = parseNodeCursor(cursor); err != nil {
			return nil, err
		}
	}
	s, err := d.snapshot(ctx, window)
	if err != nil {
		return nil, err
	}
	all := byTrouble(s.report.Nodes)
	first, last := 0, min(limit, len(all))
	if cursor != "" {
		i, there := slices.BinarySearchFunc(all, at, func(a, b report.Node) int { return compareNodes(&a, &b) })
		if back {
			first, last = max(0, i-limit), i
		} else {
			if there {
				i++
			}
			first, last = i, min(i+limit, len(all))
		}
	}
	out := &NodesPage{Window: s.report.Window, Nodes: []NodeRow{}, Total: len(all), Unseen: s.report.Readiness.Unseen}
	for i := first; i < last; i++ {
		n := s.worst[all[i].Name]
		out.Nodes = append(out.Nodes, NodeRow{Node: all[i], Findings: n.findings, Severity: n.severity.String()})
	}
	if last < len(all) && last > first {
		out.Next = nodeCursorOf(&all[last-1], false)
	}
	if first > 0 && first < len(all) {
		out.Previous = nodeCursorOf(&all[first], true)
	}
	return out, nil
}

func (d *data) node(ctx context.Context, name, window string) (*NodePage, error) {
	s, err := d.snapshot(ctx, window)
	if err != nil {
		return nil, err
	}
	out := &NodePage{Node: report.Node{Name: name}, Known: "unknown", Window: s.report.Window}
	if s.facts.HasState && s.facts.Nodes != nil {
		out.Known = "no"
		if slices.Contains(s.facts.Nodes, name) {
			out.Known = "yes"
		}
	}
	n := s.nodes[name]
	if n != nil {
		out.Node.Requests, out.Node.Deny, out.Node.Excess = n.Requests, n.Deny, n.Excess
	}
	out.Findings, out.Total = listed(s, func(f *found) bool { return f.Node == name })
	if n == nil && out.Total == 0 && out.Known != "yes" {
		return nil, errNotFound
	}
	steps, err := d.o.Store.NodeSteps(ctx, name, s.from, s.to.Add(1))
	if err != nil {
		return nil, d.unavailable(ctx, err)
	}
	out.Trend = d.trend(s, steps)
	if out.Uses, err = d.uses(ctx, s, name); err != nil {
		return nil, err
	}
	if d.o.Live == nil {
		out.Unreached = d.o.NoLive
	} else if out.Reach, err = d.o.Live.NodeReach(ctx, name, excessOf(s, name), s.from, s.to); err != nil {
		out.Unreached = err.Error()
	}
	return out, nil
}

// excessOf are the uses of a node's credential that only a binding allowed and that were carried out, by the findings.
func excessOf(s *snapshot, node string) []explain.Use {
	var out []explain.Use
	for _, f := range s.all {
		if f.Node != node || f.Rule != rules.ExcessAccess || !f.Allowed {
			continue
		}
		switch f.Reason {
		case rules.ObjectMissing, rules.AdmissionRefused, rules.NameImpossible: // it failed anyway, or got nothing
			continue
		case rules.BindingDuringLag, rules.OwnUntilBefore: // it is among what the node could reach
			continue
		}
		u := explain.Use{
			Verb: f.Verb, APIGroup: f.APIGroup, Resource: f.Resource, Subresource: f.Subresource, Namespace: f.Namespace, Name: f.Name, Verdict: explain.UseDenied,
			Count: f.Count, First: f.First, Last: f.Last, UserAgents: []string{f.UserAgent}, AuditIDs: f.AuditIDs,
		}
		if f.Reason == rules.BindingUnknown {
			u.Verdict = explain.UseUndecided
		}
		if b := f.Binding; b != nil {
			u.Grant = &explain.UseGrant{Binding: explain.Binding{Kind: b.Kind, Namespace: b.Namespace, Name: b.Name}}
		}
		out = append(out, u)
	}
	return out
}

// uses are the addresses and certificates that the rules remember, and the user agents of findings, of which nobody counts all requests.
func (d *data) uses(ctx context.Context, s *snapshot, name string) ([]Use, error) {
	out := []Use{}
	kind, key := rules.UsesOf(name)
	value, err := d.o.Store.Remembered(ctx, kind, key)
	if err != nil {
		return nil, d.unavailable(ctx, err)
	}
	if value != nil {
		all, err := rules.ParseUses(value)
		if err != nil {
			return nil, d.unavailable(ctx, err)
		}
		for _, u := range all {
			kind := "address"
			if u.Certificate {
				kind = "certificate"
			}
			out = append(out, Use{Kind: kind, Value: u.Value, First: u.First.UTC(), Last: u.Last.UTC(), Count: u.Count})
		}
	}
	at := map[string]int{}
	for _, f := range s.all {
		if f.Node != name || f.UserAgent == "" {
			continue
		}
		j, there := at[f.UserAgent]
		if !there {
			if len(at) >= listedAtMost {
				continue
			}
			j = len(out)
			at[f.UserAgent] = j
			out = append(out, Use{Kind: "userAgent", Value: f.UserAgent, First: f.First, Last: f.Last})
		}
		if f.First.Before(out[j].First) {
			out[j].First = f.First
		}
		if f.Last.After(out[j].Last) {
			out[j].Last = f.Last
		}
	}
	slices.SortFunc(out, func(a, b Use) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), b.Last.Compare(a.Last), strings.Compare(a.Value, b.Value))
	})
	return out, nil
}

// users are who uses a binding.
type users struct {
	row     BindingRow
	clients map[string]bool
	nodes   map[string]bool
}

// bindingRows are the bindings that findings blame, and those that the state has for nodes or that the migration deletes.
func bindingRows(s *snapshot) map[report.Binding]*users {
	all := map[report.Binding]*users{}
	of := func(b report.Binding) *users {
		u := all[b]
		if u == nil {
			u = &users{row: BindingRow{Binding: b, Exists: "unknown"}, clients: map[string]bool{}, nodes: map[string]bool{}}
			if s.facts.HasState && s.facts.Bindings != nil {
				u.row.Exists = "no"
			}
			all[b] = u
		}
		return u
	}
	for _, b := range s.facts.Bindings {
		u := of(b.Binding)
		u.row.Role, u.row.Exists = b.Role, "yes"
	}
	for _, f := range s.all {
		n := f.Count - f.low
		if f.Rule != rules.ExcessAccess || f.Binding == nil {
			continue
		}
		u := of(*f.Binding)
		if n == 0 {
			continue
		}
		u.row.Requests += n
		u.clients[f.UserAgent], u.nodes[f.Node] = true, true
		u.row.Clients, u.row.Nodes = len(u.clients), len(u.nodes)
		if u.row.Last == nil || f.Last.After(*u.row.Last) {
			u.row.Last = optional(f.Last)
		}
	}
	return all
}

func (d *data) bindings(ctx context.Context, window string) (*BindingsPage, error) {
	s, err := d.snapshot(ctx, window)
	if err != nil {
		return nil, err
	}
	out := &BindingsPage{Window: s.report.Window, Bindings: []BindingRow{}}
	for _, u := range bindingRows(s) {
		out.Bindings = append(out.Bindings, u.row)
	}
	slices.SortFunc(out.Bindings, func(a, b BindingRow) int {
		x, y := a.Binding, b.Binding
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(x.Kind, y.Kind), strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name))
	})
	for i := range out.Bindings[:min(listedAtMost, len(out.Bindings))] { // those that the page shows
		if b := &out.Bindings[i]; b.Role == "" && d.o.Live != nil {
			state, err := d.o.Live.Binding(ctx, b.Binding) // of one that is gone, too
			if err != nil {
				return nil, d.unavailable(ctx, err)
			}
			b.Role = state.Role
		}
	}
	return out, nil
}

func (d *data) binding(ctx context.Context, b report.Binding, window string) (*BindingPage, error) {
	s, err := d.snapshot(ctx, window)
	if err != nil {
		return nil, err
	}
	out := &BindingPage{
		BindingRow: BindingRow{Binding: b, Exists: "unknown"}, Window: s.report.Window, Subjects: []string{}, Breaks: []report.Client{},
		Commands: report.BindingCommands(b, "binding.yaml", s.facts.Bindings),
	}
	u := bindingRows(s)[b]
	if u != nil {
		out.BindingRow = u.row
	}
	if d.o.Live != nil {
		state, err := d.o.Live.Binding(ctx, b)
		if err != nil {
			return nil, d.unavailable(ctx, err)
		}
		out.Exists, out.Subjects = state.Exists, append(out.Subjects, state.Subjects...)
		out.Role = cmp.Or(state.Role, out.Role)
	}
	if u == nil && out.Exists != "yes" {
		return nil, errNotFound
	}
	name := b.Kind + " " + bindingName(&b)
	for _, c := range s.report.Readiness.Clients {
		if c.Binding == name {
			out.Breaks = append(out.Breaks, c)
		}
	}
	out.Findings, out.Total = listed(s, func(f *found) bool { return f.Binding != nil && *f.Binding == b })
	out.Trend = d.trend(s, excessSteps(s.uses[b]))
	return out, nil
}

func (d *data) object(ctx context.Context, o Object, window string) (*ObjectPage, error) {
	if o.Resource == "" || o.Name == "" {
		return nil, badQuery("an object needs a resource and a name")
	}
	s, err := d.snapshot(ctx, window)
	if err != nil {
		return nil, err
	}
	out := &ObjectPage{Object: o, Window: s.report.Window}
	out.Findings, out.Total = listed(s, func(f *found) bool {
		return f.Name == o.Name && f.Namespace == o.Namespace && f.Resource == o.Resource && f.APIGroup == o.APIGroup
	})
	if d.o.Live == nil {
		out.Unreached = d.o.NoLive
		return out, nil
	}
	if out.Reach, err = d.o.Live.Reach(ctx, o, s.from, s.to); err != nil {
		out.Unreached = err.Error()
	}
	return out, nil
}
