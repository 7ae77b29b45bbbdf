package coverage

import (
	"slices"
	"strings"

	internal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// who makes the requests of a need.
type who uint8

const (
	nodes who = iota
	apiServers
	anybody
	people // anybody but Kubernetes' own programs, which do not act as others
)

// need is a set of requests, and the checks that need them in the log.
type need struct {
	checks []string
	who    who
	level  internal.Level
	// some says that one kind of these requests is enough for the checks. Another need has these requests, too: Fix leaves them to that.
	some bool
	// weak says that the checks can pass without, but see less; with some, that they can where the policy logs any request of nodes.
	weak bool
	// whole says that the checks need them however they end: also those that last, or panic. The checks need them in any version of the API server.
	whole     bool
	questions []question
}

// needs is what checks need of the log. Beyond it the check policy-known needs all requests of nodes: see [Policy.Hides].
func needs() []need {
	const leases = "leases.coordination.k8s.io"
	return []need{
		// Without requests of nodes no check has anything to look at.
		{checks: logChecks(), weak: true, level: internal.LevelMetadata, some: true, questions: reads()},
		{checks: []string{"window-covered", "node-authorizer-on"}, level: internal.LevelMetadata, some: true, questions: []question{
			{verbs: "update", resource: leases, namespace: "kube-node-lease"},
		}},
		{checks: []string{"window-covered", "identities-conform"}, who: anybody, weak: true, level: internal.LevelMetadata, questions: []question{
			{verbs: "create update patch", resource: leases, namespace: "kube-node-lease"},
		}},
		// Who may act as a node, by RBAC, makes the requests of a node. The API server evaluates its policy for the user that authenticated.
		{checks: []string{"policy-known"}, who: people, weak: true, whole: true, level: internal.LevelMetadata, questions: slices.DeleteFunc(nodeQuestions(), func(q question) bool {
			return q.minor || q.resource == leases
		})},
		{checks: []string{"reads-logged", "rare-paths-seen"}, level: internal.LevelMetadata, questions: []question{
			{verbs: "watch", resource: "pods"},
			{verbs: "watch", resource: "nodes"},
			{verbs: "watch", resource: "services"},
			{verbs: "watch", resource: "csidrivers.storage.k8s.io"},
			{verbs: "watch", resource: "runtimeclasses.node.k8s.io"},
		}},
		{checks: []string{"reads-logged"}, level: internal.LevelMetadata, some: true, questions: []question{
			{verbs: "get list watch", resource: "secrets", namespace: "*"},
		}},
		{checks: []string{"reads-logged"}, level: internal.LevelMetadata, some: true, questions: []question{
			{verbs: "get list watch", resource: "configmaps", namespace: "*"},
		}},
		{checks: []string{"reads-logged"}, weak: true, level: internal.LevelMetadata, questions: []question{
			{verbs: "get list watch", resource: "secrets", namespace: "*"},
			{verbs: "get list watch", resource: "configmaps", namespace: "*"},
		}},
		{checks: []string{"servers-seen"}, who: apiServers, level: internal.LevelMetadata, some: true, questions: []question{
			{verbs: "update", resource: leases, namespace: systemNamespace},
		}},
		// When a server starts, and which release it is.
		{checks: []string{"servers-seen", "version-known"}, who: apiServers, weak: true, level: internal.LevelMetadata, questions: []question{
			{verbs: "get create update patch", resource: leases, namespace: systemNamespace},
		}},
		{checks: []string{"rare-paths-seen"}, level: internal.LevelMetadata, some: true, questions: []question{{verbs: "create", resource: "nodes"}}},
		{checks: []string{"node-restriction-on"}, level: internal.LevelMetadata, some: true, questions: writeQuestions()},
		{checks: []string{"node-restriction-on"}, weak: true, level: internal.LevelRequest, questions: writeQuestions()},
		{checks: []string{"birth-guarded"}, who: anybody, whole: true, level: internal.LevelRequest, questions: []question{
			{verbs: "create", resource: "certificatesigningrequests.certificates.k8s.io"},
			{verbs: "update patch", resource: "certificatesigningrequests/approval.certificates.k8s.io"},
			{verbs: "update patch", resource: "certificatesigningrequests/status.certificates.k8s.io"},
		}},
	}
}

// logChecks are the checks that look at requests of nodes of any kind.
func logChecks() []string {
	return []string{"every-event-judged", "version-known", "nothing-depends", "identities-conform", "races-decided", "agreement", "no-excess-use", "one-holder"}
}

// reads are the reads of nodes that every node may not make.
func reads() []question {
	return slices.DeleteFunc(nodeQuestions(), func(q question) bool { return q.minor || !strings.Contains(q.verbs, "list") && q.verbs != "get" })
}

// Lack is what a policy keeps from a check.
type Lack struct {
	// Check is the check's name. It cannot pass with this policy, or, if Weak, what it says is worth less.
	Check string
	Weak  bool
	// Code is PolicyLacks, PolicyLacksDecision, PolicyLacksStart, PolicyLacksPanic or PolicyLacksBody of package codes. Params name the rule and the requests.
	Code   codes.Code
	Params codes.Params
}

// Lacks returns what the policy keeps from the checks: of each check and each rule one entry, those of one check together, in the order of the rules. Of a
// policy that every check can pass with, none is returned but weak ones. harmless says which requests of nodes need not be logged for the check
// policy-known.
func (p *Policy) Lacks(harmless Harmless) []Lack {
	var c lacking
	hidden, unclear := p.hidesOfNodes(harmless)
	for _, h := range hidden {
		c.add("policy-known", false, h.Lost, h.Rule, h.kind())
	}
	for _, n := range needs() {
		p.lacks(&c, &n)
	}
	out := c.all(p)
	if unclear {
		out = append([]Lack{{Check: "policy-known", Code: codes.PolicyUnclear}}, out...)
	}
	return out
}

// lacks adds what the policy keeps from the checks of one need.
func (p *Policy) lacks(c *lacking, n *need) {
	type missing struct {
		code codes.Code
		rule int
		what string
	}
	var all []missing
	met := false
	namespaces := []string{anyNamespace}
	if !n.some {
		_, named, _ := p.named()
		namespaces = append(append(namespaces, systemNamespace), named...)
	}
	versions := p.versions()
	if !n.whole {
		versions = versions[:1]
	}
	try := func(a *asked, by audit.PolicyRuleEvaluator) {
		rule, lost := p.decidedBy(by, &a.attrs)
		if n.who == people && slices.Contains(a.attrs.User.GetGroups(), user.NodesGroup) && (rule < 0 || !slices.Contains(p.rules[rule].Users, a.user)) {
			return // the rule hides it of nodes, too
		}
		m := missing{lost, rule, a.verb + " " + a.resource}
		switch {
		case always(lost), n.whole && lost != "":
		case p.rules[rule].Level.Less(n.level):
			m.code = codes.PolicyLacksBody
		default:
			met = true
			return
		}
		all = append(all, m)
	}
	ask(n.questions, p.askers(n.who), namespaces, func(a *asked) {
		for _, by := range versions {
			try(a, by)
		}
	})
	if met && n.some {
		return
	}
	weak := n.weak && (!n.some || p.logsSome(nodeUser(anyNode)))
	for _, check := range n.checks {
		for _, m := range all {
			c.add(check, weak, m.code, m.rule, m.what)
		}
	}
}

// LogsOfNodes reports whether every request of nodes with that verb, for that kind of resource in the form of an audit policy, such as "pods/status", is in the
// log with its decision once it has ended, whatever its level.
func (p *Policy) LogsOfNodes(verb, resource string) bool {
	q := question{verbs: verb, resource: resource}
	if !strings.HasPrefix(resource, "nodes") {
		q.namespace = "*"
	}
	return p.logs(q, p.askers(nodes))
}

// LogsOfOthers is LogsOfNodes for everybody but nodes: any user, and each user and group that the policy names.
func (p *Policy) LogsOfOthers(verb, resource string) bool {
	who := slices.DeleteFunc(p.anybody(), func(u user.Info) bool {
		return nodeid.Resembles(u.GetName(), u.GetGroups())
	})
	return p.logs(question{verbs: verb, resource: resource, namespace: "*"}, who)
}

// LogsReviews reports whether the policy logs each review of what a user may do, whoever asks for it, but for programs of the control plane.
func (p *Policy) LogsReviews() bool {
	who := slices.DeleteFunc(p.anybody(), func(u user.Info) bool {
		return u.GetName() == user.APIServerUser || strings.HasPrefix(u.GetName(), nodeid.ComponentPrefix)
	})
	return p.logs(question{verbs: "create", resource: "subjectaccessreviews.authorization.k8s.io"}, who) &&
		p.logs(question{verbs: "create", resource: "localsubjectaccessreviews.authorization.k8s.io", namespace: "*"}, who)
}

// logs reports whether each request of the question is in the log with its decision once it has ended, whoever of the users makes it.
func (p *Policy) logs(q question, who []user.Info) bool {
	_, named, all := p.named()
	ask([]question{q}, who, append([]string{anyNamespace, systemNamespace}, named...), func(a *asked) {
		_, lost := p.decided(&a.attrs)
		all = all && !always(lost)
	})
	return all
}

// logsSome is whether any request of the user may be in the log.
func (p *Policy) logsSome(who user.Info) bool {
	for i := range p.rules {
		switch r := &p.rules[i]; {
		case !matchesUser(r, who):
		case !r.Level.Less(internal.LevelMetadata) && !always(loses(r.OmitStages, false)):
			return true
		case matchesAll(r):
			return false
		}
	}
	return false
}

// hidesOfNodes is what the policy hides of the requests of nodes, of any and of those that it names, and whether that may not be all because it names too
// much.
func (p *Policy) hidesOfNodes(harmless Harmless) (out []HiddenRequest, unclear bool) {
	users, _ := p.Subjects()
	for _, name := range append([]string{anyNode}, users...) {
		if !strings.HasPrefix(name, nodeid.UserPrefix) {
			continue
		}
		h := p.Hides(nodeUser(name), harmless)
		unclear = unclear || h.TooMany
		for _, r := range h.Requests {
			if !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out, unclear
}

// askers are users who make the requests of a need.
func (p *Policy) askers(w who) []user.Info {
	switch w {
	case nodes:
		return []user.Info{nodeUser(anyNode)}
	case apiServers:
		return []user.Info{apiServer()}
	}
	all := p.anybody()
	if w == people {
		all = slices.DeleteFunc(all, func(u user.Info) bool {
			return strings.HasPrefix(u.GetName(), "system:") || slices.ContainsFunc(u.GetGroups(), func(g string) bool {
				return strings.HasPrefix(g, "system:") && g != user.AllAuthenticated
			})
		})
		for i := range p.rules { // who is in the group of nodes, and none
			for _, name := range p.rules[i].Users {
				if !strings.HasPrefix(name, "system:") {
					all = append(all, nodeUser(name))
				}
			}
		}
	}
	return all
}

func apiServer() user.Info {
	return &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
}

// kind is what is hidden as one writes it: "get pods/log", with AnyOther for what no rule names.
func (h *HiddenRequest) kind() string {
	out := h.Verb + " "
	if h.Path != "" {
		return out + strings.ReplaceAll(h.Path, anyNamespace, AnyOther)
	}
	out += h.Resource
	if h.Subresource != "" {
		out += "/" + h.Subresource
	}
	if h.APIGroup != "" {
		out += "." + h.APIGroup
	}
	return out
}

// lacking collects lacks.
type lacking struct{ of []*lackOf }

type lackOf struct {
	check string
	weak  bool
	code  codes.Code
	rule  int
	verbs []string // by what
	what  []string
}

// add notes a request, "verb what", that a rule keeps from a check.
func (c *lacking) add(check string, weak bool, code codes.Code, rule int, request string) {
	i := slices.IndexFunc(c.of, func(l *lackOf) bool { return l.check == check && l.weak == weak && l.code == code && l.rule == rule })
	if i < 0 {
		i = len(c.of)
		c.of = append(c.of, &lackOf{check: check, weak: weak, code: code, rule: rule})
	}
	l := c.of[i]
	verb, what, _ := strings.Cut(request, " ")
	j := slices.Index(l.what, what)
	switch {
	case j < 0:
		l.what, l.verbs = append(l.what, what), append(l.verbs, verb)
	case !slices.Contains(strings.Split(l.verbs[j], "/"), verb):
		l.verbs[j] += "/" + verb
	}
}

// all returns what was added. What weakens a check that cannot pass is left out.
func (c *lacking) all(p *Policy) []Lack {
	var order []string
	fails := map[string]bool{}
	for _, l := range c.of {
		if !slices.Contains(order, l.check) {
			order = append(order, l.check)
		}
		fails[l.check] = fails[l.check] || !l.weak
	}
	last := func(rule int) int {
		if rule < 0 {
			return len(p.rules)
		}
		return rule
	}
	slices.SortStableFunc(c.of, func(a, b *lackOf) int {
		if d := slices.Index(order, a.check) - slices.Index(order, b.check); d != 0 {
			return d
		}
		return last(a.rule) - last(b.rule)
	})
	var out []Lack
	for _, l := range c.of {
		if l.weak && fails[l.check] {
			continue
		}
		requests := make([]string, 0, len(l.what))
		for i := range l.what {
			requests = append(requests, l.verbs[i]+" "+l.what[i])
		}
		params := codes.Params{codes.Text(codes.ParamWhere, p.where(l.rule))}
		params = append(params, codes.List(codes.ParamRequest, requests[:min(maxNamed, len(requests))])...)
		if more := len(requests) - maxNamed; more > 0 {
			params = append(params, codes.Int(codes.ParamMore, more))
		}
		out = append(out, Lack{Check: l.check, Weak: l.weak, Code: l.code, Params: params})
	}
	return out
}
