package checks

import "slices"

// OfOthers returns the Node objects that Only leaves out: the nodes of the state that it does not name. What their kubelets ask for is left out with
// them. A name that no Node object has is nobody's kubelet, so that its requests stay, as those of all other clients do.
func (in *Input) OfOthers() map[string]bool {
	out := map[string]bool{}
	if len(in.Only) == 0 {
		return out
	}
	for i := range in.Nodes {
		if name := in.Nodes[i].Name; !slices.Contains(in.Only, name) {
			out[name] = true
		}
	}
	return out
}

// LeavesOut reports whether a use is left out with the Node objects that OfOthers returned: the request of a kubelet identity for itself. A request to act
// as somebody stays, whoever makes it.
func (u *Use) LeavesOut(others map[string]bool) bool {
	return others[u.Node] && u.User == nodeRole+":"+u.Node && !u.Impersonation
}

// narrow leaves out what is about other nodes than Only names. The slices of the input are left as they are.
func (in *Input) narrow() {
	others := in.OfOthers()
	if len(others) == 0 {
		return
	}
	in.Nodes = rest(in.Nodes, func(x *Node) bool { return others[x.Name] })
	in.Needs = rest(in.Needs, func(x *Need) bool { return others[x.Node] })
	in.Steady = rest(in.Steady, func(x *Steady) bool { return others[x.Node] })
	in.Uses = rest(in.Uses, func(x *Use) bool { return x.LeavesOut(others) })
	in.Races = rest(in.Races, func(x *Races) bool { return others[x.Node] })
	in.Agreement.Disagreements = rest(in.Agreement.Disagreements, func(x *Disagreement) bool { return others[x.Node] })
}

func rest[T any](all []T, gone func(*T) bool) []T {
	var out []T
	for i := range all {
		if !gone(&all[i]) {
			out = append(out, all[i])
		}
	}
	return out
}
