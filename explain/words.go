package explain

import (
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/wording"
)

// visible makes text of names that may hold anything.
func visible(s string) string { return wording.Visible(s) }

// String returns the step as "secret shop/db", or "node worker-2".
func (s Step) String() string {
	if s.Namespace == "" {
		return s.Kind + " " + s.Name
	}
	return s.Kind + " " + s.Namespace + "/" + s.Name
}

// String returns the path as "secret shop/db -> pod shop/web-1 -> node worker-2".
func (p *Path) String() string {
	words := make([]string, len(p.Steps))
	for i, s := range p.Steps {
		words[i] = s.String()
	}
	return strings.Join(words, " -> ")
}

// String returns the binding as "ClusterRoleBinding legacy", or "RoleBinding shop/readers".
func (b Binding) String() string {
	if b.Namespace == "" {
		return b.Kind + " " + b.Name
	}
	return b.Kind + " " + b.Namespace + "/" + b.Name
}

// String returns the subject as "Group system:nodes", or "ServiceAccount shop/web".
func (s Subject) String() string {
	if s.Namespace == "" {
		return s.Kind + " " + s.Name
	}
	return s.Kind + " " + s.Namespace + "/" + s.Name
}

// String returns the role as "ClusterRole view".
func (r Role) String() string { return r.Kind + " " + r.Name }

// String returns the grant as "ClusterRoleBinding legacy of ClusterRole view to Group system:nodes".
func (g *Grant) String() string {
	return g.Binding.String() + " of " + g.Role.String() + " to " + g.Subject.String()
}

// What returns what is asked for as "get secrets shop/db", or "get /healthz".
func (r *Request) What() string {
	if r.Resource == "" {
		return r.Verb + " " + r.Path
	}
	s := r.Verb + " " + r.Resource
	if r.APIGroup != "" {
		s += "." + r.APIGroup
	}
	if r.Subresource != "" {
		s += "/" + r.Subresource
	}
	switch {
	case r.Namespace != "":
		s += " " + r.Namespace + "/" + r.Name
	case r.Name != "":
		s += " " + r.Name
	}
	return s
}

// Who returns who asks, as "node worker-1" or "user jane".
func (r *Request) Who() string {
	if r.Node != "" {
		return "node " + r.Node
	}
	return "user " + r.User
}

// lifetime puts the time of a path or a grant into words.
func lifetime(from, to *time.Time) string {
	a, b := "from before the state begins", "to the state's end"
	if from != nil {
		a = "from " + clock(*from)
	}
	if to != nil {
		b = "until " + clock(*to)
	}
	return a + " " + b
}

// when is the time of a grant in words.
func (g *Grant) when() string {
	if g.Named && g.From == nil && g.To == nil {
		return "as the API server said"
	}
	return lifetime(g.From, g.To)
}

func clock(t time.Time) string { return t.Format(time.RFC3339Nano) }

// moment is a time in a column of times.
func moment(t time.Time) string { return t.Format("2006-01-02T15:04:05.000000Z") }

// summary says who lets the request through.
func (x *Explainer) summary(ex *Explanation) string {
	byRBAC := ""
	if len(ex.RBAC.Grants) > 0 {
		byRBAC = ex.RBAC.Grants[0].Binding.String()
	}
	var s string
	switch asked := slices.Contains(x.o.Authorizers, "Node"); {
	case ex.Verdict == "none" && byRBAC != "":
		s = "Allowed by RBAC, by " + byRBAC + "."
	case ex.Verdict == "none" && ex.RBAC.Known:
		s = "Not allowed by RBAC."
	case ex.Verdict == "none":
		s = "Whether RBAC allows it is not known."
	case !asked && byRBAC != "":
		s = "Allowed by RBAC, by " + byRBAC + "; Node is not asked, and would say " + ex.Verdict + "."
	case !asked && ex.RBAC.Known:
		s = "Refused by RBAC; Node is not asked, and would say " + ex.Verdict + "."
	case ex.Verdict == "allow" && byRBAC != "":
		s = "Allowed by Node, and by RBAC too, by " + byRBAC + "."
	case ex.Verdict == "allow":
		s = "Allowed by Node."
	case ex.Verdict == "deny" && byRBAC != "":
		s = "Allowed only by RBAC, by " + byRBAC + "."
	case ex.Verdict == "deny" && ex.RBAC.Known:
		s = "Refused: neither Node nor RBAC allows it."
	case ex.Verdict == "deny":
		s = "Not allowed by Node; what RBAC says is not known."
	case byRBAC != "":
		s = "Allowed by RBAC, by " + byRBAC + "; what Node says is not known."
	default:
		s = "What Node says is not known."
	}
	return visible(s)
}

// untold says why the verdict is unknown.
func (ex *Explanation) untold() string {
	if ex.Detail == "" {
		return "It was not known when the request was judged."
	}
	return "It is not known: " + ex.Detail + "."
}

// words say why the verdict is what it is.
func (ex *Explanation) words() []string {
	out := []string{}
	add := func(s string) { out = append(out, visible(s)) }
	if ex.Verdict == "none" {
		add("The Node authorizer has no say: " + ex.Request.Who() + " is no node.")
		return out
	}
	if ex.Object == nil {
		switch {
		case ex.Verdict == "allow":
			add("A static rule of the Node authorizer allows it, whatever the graph says.")
		case ex.Verdict == "unknown":
			add(ex.untold())
		case ex.Reason == "":
			add("No static rule for nodes allows it.")
		default:
			add("The Node authorizer refuses it whatever the graph says: " + ex.Reason + ".")
		}
		return out
	}
	node := "Node " + ex.Request.Node
	by := func(p *Path) string { return p.String() + ", " + lifetime(p.From, p.To) + "." }
	switch {
	case ex.Verdict == "unknown":
		add(ex.untold())
	case ex.Verdict == "allow" && ex.Path != nil:
		add(node + " may: " + by(ex.Path))
	case ex.Verdict == "allow":
		add("The path that allowed it is not known any more.")
	case ex.Path != nil:
	case len(ex.Others.Nodes) == 0:
		add("No path connected " + ex.Object.String() + " with any node then.")
	default:
		add("No path connected " + ex.Object.String() + " with node " + ex.Request.Node + " then.")
	}
	if ex.Race && ex.Detail != "" {
		add("It is a race: " + ex.Detail + ".")
	}
	if ex.Verdict != "allow" && ex.Path != nil {
		add("As the state knows now, the object did lead to the node: " + by(ex.Path))
	}
	if ex.Last != nil {
		add(node + " could last reach it by " + by(ex.Last))
	}
	if ex.Next != nil {
		add(node + " could reach it later by " + by(ex.Next))
	}
	if ex.Verdict == "deny" && ex.Path == nil && ex.Last == nil && ex.Next == nil {
		add("The state shows no time when node " + ex.Request.Node + " could reach it.")
	}
	return out
}
