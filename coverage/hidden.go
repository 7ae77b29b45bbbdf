package coverage

import (
	"fmt"
	"slices"
	"strings"

	internal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// PolicyOptions say what the log is used for.
type PolicyOptions struct {
	// StateFromAudit says that state is learned from the log alone, for which it must hold bodies.
	StateFromAudit bool
}

const (
	anyNode         = nodeid.UserPrefix + AnyName
	anyNamespace    = AnyName
	maxNamed        = 8
	systemNamespace = "kube-system"
)

// Gaps returns what the policy keeps out of the log: for each rule of it and each way in which it does, one gap, in the order of the rules.
// Every request that nodes make is put to the API server's own evaluation of policies, as some node and as each node that the policy
// names, in some namespace, in kube-system, and in each namespace that the policy names.
func (p *Policy) Gaps(o PolicyOptions) []codes.Gap {
	names, spaces, _ := p.named()
	nodes := []user.Info{nodeUser(anyNode)}
	for _, n := range names {
		nodes = append(nodes, nodeUser(n))
	}
	namespaces := []string{anyNamespace}
	for _, ns := range append([]string{systemNamespace}, spaces...) {
		if !slices.Contains(namespaces, ns) {
			namespaces = append(namespaces, ns)
		}
	}
	c := collector{p: p, nodes: len(nodes), namespaces: len(namespaces)}
	ask(nodeQuestions(), nodes, namespaces, func(a *asked) { c.node(a) })
	ask(writeQuestions(), nodes, namespaces, func(a *asked) { c.write(a) })
	if o.StateFromAudit {
		others := []user.Info{
			&user.DefaultInfo{Name: AnyName, Groups: []string{user.AllAuthenticated}},
			&user.DefaultInfo{Name: "system:kube-scheduler", Groups: []string{user.AllAuthenticated}},
			&user.DefaultInfo{
				Name:   "system:serviceaccount:kube-system:replicaset-controller",
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", user.AllAuthenticated},
			},
		}
		c.nodes = len(others)
		ask(stateQuestions(), others, namespaces, func(a *asked) { c.body(a) })
	}
	return c.gaps()
}

// collector puts what is hidden together by rule and cause.
type collector struct {
	p                 *Policy
	nodes, namespaces int
	groups            []*hiddenGroup
}

type hiddenGroup struct {
	code  codes.Code
	rule  int
	minor bool
	what  []*hiddenRequest
}

// hiddenRequest is a verb on a resource, with the users and namespaces for which it is hidden.
type hiddenRequest struct {
	verb              string
	q                 *question
	users, namespaces []string
}

// node looks at a request of a node.
func (c *collector) node(a *asked) {
	got := c.p.levels.EvaluatePolicyRule(&a.attrs)
	if got.Level.Less(internal.LevelMetadata) {
		c.add(codes.PolicyHidden, a)
		return
	}
	switch loses(got.OmitStages, isLong(&a.attrs)) {
	case codes.PolicyLacks:
		c.add(codes.PolicyHidden, a)
	case codes.PolicyLacksDecision:
		c.add(codes.PolicyNoDecision, a)
	case codes.PolicyLacksStart:
		c.add(codes.PolicyLateDecision, a)
	}
}

// write looks at a write whose body NodeRestriction reads. What is not logged at all the other questions ask for.
func (c *collector) write(a *asked) {
	if got := c.p.levels.EvaluatePolicyRule(&a.attrs); got.Level == internal.LevelMetadata {
		c.add(codes.PolicyNoWrites, a)
	}
}

// body looks at a request that tells state.
func (c *collector) body(a *asked) {
	got := c.p.levels.EvaluatePolicyRule(&a.attrs)
	if got.Level.Less(internal.LevelRequest) || slices.Contains(got.OmitStages, internal.StageResponseComplete) {
		c.add(codes.PolicyNoBodies, a)
	}
}

func (c *collector) add(code codes.Code, a *asked) {
	rule := -1
	if _, err := fmt.Sscan(string(c.p.indices.EvaluatePolicyRule(&a.attrs).Level), &rule); err != nil {
		rule = -1 // no rule: the level is None
	}
	var g *hiddenGroup
	for _, other := range c.groups {
		if other.code == code && other.rule == rule && other.minor == a.minor {
			g = other
		}
	}
	if g == nil {
		g = &hiddenGroup{code: code, rule: rule, minor: a.minor}
		c.groups = append(c.groups, g)
	}
	var r *hiddenRequest
	for _, other := range g.what {
		if other.verb == a.verb && other.q == a.question {
			r = other
		}
	}
	if r == nil {
		r = &hiddenRequest{verb: a.verb, q: a.question}
		g.what = append(g.what, r)
	}
	if !slices.Contains(r.users, a.user) {
		r.users = append(r.users, a.user)
	}
	if !slices.Contains(r.namespaces, a.namespace) {
		r.namespaces = append(r.namespaces, a.namespace)
	}
}

func (c *collector) gaps() []codes.Gap {
	last := func(rule int) int {
		if rule < 0 {
			return len(c.p.rules)
		}
		return rule
	}
	slices.SortStableFunc(c.groups, func(a, b *hiddenGroup) int { return last(a.rule) - last(b.rule) })
	out := make([]codes.Gap, 0, len(c.groups))
	for _, g := range c.groups {
		gap := codes.Gap{Kind: codes.Policy, Code: g.code, Params: codes.Params{codes.Text(codes.ParamWhere, c.p.where(g.rule))}}
		switch {
		case g.code == codes.PolicyNoWrites:
			gap.Kind = codes.Doubt
		case g.minor:
			gap.Kind, gap.Params = codes.Doubt, append(gap.Params, codes.Text(codes.ParamMinor, "true"))
		}
		requests := c.list(g)
		gap.Params = append(gap.Params, codes.List(codes.ParamRequest, requests[:min(maxNamed, len(requests))])...)
		if n := len(requests) - maxNamed; n > 0 {
			gap.Params = append(gap.Params, codes.Int(codes.ParamMore, n))
		}
		out = append(out, gap)
	}
	return out
}

// list are the requests of a group, those of one resource together.
func (c *collector) list(g *hiddenGroup) []string {
	var parts []string
	index := map[string]int{}
	for _, r := range g.what {
		rest := r.q.resource + c.limits(r)
		if i, ok := index[rest]; ok {
			if verbs, _, _ := strings.Cut(parts[i], " "); !slices.Contains(strings.Split(verbs, "/"), r.verb) {
				parts[i] = verbs + "/" + r.verb + " " + rest
			}
			continue
		}
		index[rest] = len(parts)
		parts = append(parts, r.verb+" "+rest)
	}
	return parts
}

// limits says for which users or namespaces alone a request is hidden.
func (c *collector) limits(r *hiddenRequest) string {
	out := ""
	if len(r.users) < c.nodes && !slices.Contains(r.users, anyNode) {
		out += " by " + some(r.users)
	}
	if len(r.namespaces) < c.namespaces && r.q.namespace == "*" {
		if slices.Contains(r.namespaces, anyNamespace) {
			out += " in most namespaces"
		} else {
			out += " in " + some(r.namespaces)
		}
	}
	return out
}

func some(names []string) string {
	const most = 3
	short := make([]string, 0, most)
	for _, n := range names[:min(most, len(names))] {
		const longest = 80
		if len(n) > longest {
			n = strings.ToValidUTF8(n[:longest], "") + "..."
		}
		short = append(short, n)
	}
	s := strings.Join(short, ", ")
	if n := len(names) - most; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}
