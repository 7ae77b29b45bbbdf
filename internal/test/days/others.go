package days

import (
	"fmt"
	"strings"
	"time"
)

// others are the mutations that are neither one request of a node nor something missing.
func others() []Mutation {
	breaks := func(name, what string, f func(m *mutator) string, checks ...string) Mutation {
		return Mutation{Name: name, Description: what, Effect: Breaks, Checks: checks, apply: f}
	}
	harmless := func(name, what string, f func(m *mutator) string) Mutation {
		return Mutation{Name: name, Description: what, Effect: Harmless, apply: f}
	}
	return []Mutation{
		breaks("addon-404", "an add-on asks for a configmap that is not there, and would get 403 without the binding", addOn404, "nothing-depends"),
		breaks("proxied-404", "a client reaches a kubelet through nodes/proxy, and the backend answers 404", proxied404, "nothing-depends"),
		breaks("binding-bootstrappers", "system:node is bound to the bootstrap group, and a bootstrap token lives on it", bootstrappers,
			"bindings-inventoried", "nothing-depends"),
		breaks("binding-serviceaccount", "system:node is bound to a service account, which lives on it", serviceAccount, "bindings-inventoried", "nothing-depends"),
		breaks("node-impersonates", "a node impersonates another one, as a binding for nodes allows", nodeImpersonates, "nothing-depends"),
		breaks("impersonates-node", "a service account impersonates a node and reads what only the binding allows", impersonatesNode, "nothing-depends"),
		breaks("reads-in-races", "a client on several nodes reads pods' secrets, each just before the pod is bound", readsInRaces, "nothing-depends", "races-decided"),
		breaks("name-case", "a kubelet's user name differs from its Node's in its letter case", nameCase, "identities-conform", "nothing-depends"),
		breaks("group-missing", "a kubelet is not in the group system:nodes", groupMissing, "identities-conform", "nothing-depends"),
		breaks("shared-name", "a kubelet's user name is kubelet, in the group system:nodes", sharedName, "identities-conform", "nothing-depends"),
		harmless("impersonation-refused", "a node tries to impersonate another one and is refused: the event has no impersonatedUser", impersonationRefused),
		harmless("binding-empty", "system:node has one more binding, without subjects", emptyBinding),
		harmless("just-deleted", "a kubelet asks again for a pod that was on its node until just before, and RBAC lets it find out", justDeleted),
		harmless("probe-plugin", "an administrator probes NodeRestriction as a node", probePlugin),
	}
}

// stray is a planted request without what plant chooses.
func (m *mutator) stray(verb string, r apiResource, namespace, name, sub string, code int, role, subject string) *planted {
	p := m.plantAsk(m.moment(), ask{verb: "get", apiResource: resSecrets, path: "NS/NAME", sub: sub, agents: role == agentsRole})
	if p == nil {
		return nil
	}
	e, inPath := p.e, name
	if verb == "create" && sub == "" {
		inPath = ""
	}
	e.Verb, e.URI = verb, r.path(namespace, inPath, sub)
	e.Ref = &Ref{Group: r.group, Version: r.version, Resource: r.name, Subresource: sub, Namespace: namespace, Name: name}
	e.Code, e.Message, e.Reason = code, "", ""
	if code >= 400 {
		e.fail(code)
	}
	binding := legacyBinding
	if role == agentsRole {
		role = m.bindAgents(sub)
		binding = role
	}
	e.UserAgent, e.DecisionReason = strays[m.IntN(4)], allowedBy("ClusterRoleBinding", binding, "ClusterRole", role, subject)
	return p
}

const toNodes = `Group "system:nodes"`

func addOn404(m *mutator) string {
	p := m.stray("get", resConfigMaps, "kube-system", "calico-config", "", 404, "system:node", toNodes)
	if p == nil {
		return ""
	}
	m.add(p.e)
	return p.String()
}

func proxied404(m *mutator) string {
	node := m.node()
	p := m.stray("get", resNodes, "", node, "proxy", 404, agentsRole, toNodes)
	if p == nil {
		return ""
	}
	p.e.URI += "/pods/none"
	p.e.Message, p.e.Reason = "the server could not find the requested resource", "NotFound"
	m.add(p.e)
	return p.String()
}

func bootstrappers(m *mutator) string {
	const group = "system:bootstrappers:kubeadm:default-node-token"
	name := "bootstrap:system:node"
	m.addState(binding(m.Rand, "", name, "system:node", m.From.Add(-time.Hour), subject("Group", "", group)))
	p := m.stray("get", resSecrets, "kube-system", "agent-token", "", 200, "system:node", "")
	if p == nil {
		return ""
	}
	p.e.User = &User{Username: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers", group, "system:authenticated"}}
	p.e.DecisionReason = allowedBy("ClusterRoleBinding", name, "ClusterRole", "system:node", fmt.Sprintf("Group %q", group))
	m.add(p.e)
	return p.String()
}

func serviceAccount(m *mutator) string {
	name := "agent:system:node"
	m.addState(binding(m.Rand, "", name, "system:node", m.From.Add(-time.Hour), subject("ServiceAccount", "kube-system", "node-agent")))
	p := m.stray("list", resPods, "", "", "", 200, "system:node", "")
	if p == nil {
		return ""
	}
	p.e.User = &User{Username: "system:serviceaccount:kube-system:node-agent", UID: uuid(m.Rand), Groups: []string{
		"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated",
	}}
	p.e.DecisionReason = allowedBy("ClusterRoleBinding", name, "ClusterRole", "system:node", `ServiceAccount "node-agent/kube-system"`)
	m.add(p.e)
	return p.String()
}

// nodeImpersonates lets a node act as another one, which may do by itself what is asked.
func nodeImpersonates(m *mutator) string {
	p := m.stray("list", resServices, "", "", "", 200, agentsRole, toNodes)
	if p == nil {
		return ""
	}
	node := nodeOf(p.e.User)
	for _, other := range m.NodeNames {
		if other != node {
			p.e.Impersonated = &User{Username: "system:node:" + other, Groups: []string{"system:nodes", "system:authenticated"}}
		}
	}
	if p.e.Impersonated == nil {
		return ""
	}
	p.e.DecisionReason = "" // the impersonated node may list services by itself; the impersonation is what needs the binding
	m.add(p.e)
	return p.String() + " as " + p.e.Impersonated.Username
}

func impersonatesNode(m *mutator) string {
	p := m.stray("get", resSecrets, "payments", "stray-"+hexString(m.Rand, 6), "", 200, "system:node", toNodes)
	if p == nil {
		return ""
	}
	p.impersonate()
	account := "system:serviceaccount:kube-system:debugger"
	p.e.User = &User{Username: account, UID: uuid(m.Rand), Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}}
	old := m.From.Add(-time.Hour)
	m.addState(role(m.Rand, "", "debugger", old, rule("impersonate", "", "users,groups")),
		binding(m.Rand, "", "debugger", "debugger", old, subject("ServiceAccount", "kube-system", "debugger")))
	m.add(p.e)
	return p.String() + " as " + p.e.Impersonated.Username
}

func readsInRaces(m *mutator) string {
	var done []string
	for range 3 {
		if what := plantInRace(m); what != "" {
			done = append(done, what)
		}
	}
	return strings.Join(done, "; ")
}

// misname lets one node's kubelet have another identity all day. What it does then is allowed by the binding alone, or by nobody.
func (m *mutator) misname(how func(u *User)) string {
	m.bind()
	m.bindAgents("")
	node := m.node()
	users := map[*User]*User{}
	reason := allowedBy("ClusterRoleBinding", agentsRole, "ClusterRole", agentsRole, toNodes)
	n := m.change(func(e *Event) bool { return nodeOf(e.User) == node && e.Impersonated == nil }, func(e *Event) {
		u := users[e.User]
		if u == nil {
			c := *e.User
			u = &c
			how(u)
			users[e.User] = u
		}
		e.User, e.DecisionReason = u, reason
		if e.Decision == "forbid" {
			e.Decision, e.Code, e.Message, e.Reason = "allow", 200, "", ""
		}
	})
	return some(n, fmt.Sprintf("%d requests of %s", n, node))
}

func nameCase(m *mutator) string {
	return m.misname(func(u *User) { u.Username = "system:node:" + strings.ToUpper(nodeOf(u)[:1]) + nodeOf(u)[1:] })
}

func groupMissing(m *mutator) string {
	node := ""
	what := m.misname(func(u *User) { node, u.Groups = nodeOf(u), []string{"system:authenticated"} })
	name := "user:" + node
	m.addState(binding(m.Rand, "", name, agentsRole, m.From.Add(-time.Hour), subject("User", "", "system:node:"+node)))
	m.change(func(e *Event) bool { return nodeOf(e.User) == node }, func(e *Event) {
		e.DecisionReason = allowedBy("ClusterRoleBinding", name, "ClusterRole", agentsRole, fmt.Sprintf("User %q", "system:node:"+node))
	})
	return what
}

func sharedName(m *mutator) string { return m.misname(func(u *User) { u.Username = "kubelet" }) }

func impersonationRefused(m *mutator) string {
	p := m.stray("list", resServices, "", "", "", 200, "system:node", toNodes)
	if p == nil {
		return ""
	}
	p.e.Decision, p.e.DecisionReason = "", ""
	p.e.Code, p.e.Reason = 403, "Forbidden"
	p.e.Message = fmt.Sprintf(`users "system:node:worker-x" is forbidden: User %q cannot impersonate resource "users" in API group "" at the cluster scope`,
		p.e.User.Username)
	m.add(p.e)
	return p.String() + ", refused to impersonate"
}

func emptyBinding(m *mutator) string {
	m.addState(binding(m.Rand, "", "old:system:node", "system:node", m.From.Add(-time.Hour)))
	return "the ClusterRoleBinding old:system:node"
}

// justDeleted lets a kubelet get a pod 300 ms after its end; the API server's authorizer knows of the end already, and RBAC's answer is 404.
func justDeleted(m *mutator) string {
	if m.Options.NoBinding || !asksForPods(m.Options.Minor) {
		return ""
	}
	for _, i := range m.Perm(len(m.pods)) {
		p := m.pods[i]
		if p.forced || !p.gone.After(m.From) || p.gone.After(m.To.Add(-minute)) {
			continue
		}
		at := p.gone.Add(300 * milli)
		like := m.like(p.node.name, at)
		if like == nil {
			continue
		}
		e := &Event{
			Level: LevelMetadata, AuditID: uuid(m.Rand), Stage: StageComplete, Verb: "get", URI: resPods.path(p.namespace, p.name, ""), User: like.User,
			SourceIPs: like.SourceIPs, UserAgent: like.UserAgent, Server: like.Server, Received: at, Staged: at.Add(2 * milli), Decision: "allow",
			Ref:            &Ref{Version: "v1", Resource: "pods", Namespace: p.namespace, Name: p.name},
			DecisionReason: allowedBy("ClusterRoleBinding", legacyBinding, "ClusterRole", "system:node", toNodes),
		}
		e.fail(404)
		m.add(e)
		return fmt.Sprintf("%s asked for %s", p.node.name, p)
	}
	return ""
}

// probePlugin asks an API server every half-hour whether it has the admission plugin NodeRestriction: an administrator creates a Node as another one,
// in a dry run.
func probePlugin(m *mutator) string {
	node := m.node()
	for at := m.From.Add(minute); at.Before(m.To); at = at.Add(30 * minute) {
		m.add(&Event{
			Level: LevelMetadata, AuditID: uuid(m.Rand), Stage: StageComplete, Verb: "create", URI: resNodes.path("", "", "") + "?dryRun=All",
			User:         &User{Username: "admin", Groups: []string{"system:masters", "system:authenticated"}},
			Impersonated: &User{Username: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}},
			SourceIPs:    []string{"192.0.2.7"}, UserAgent: "kubectl/v1.36.3 (linux/amd64) kubernetes/0123abc", Server: m.IntN(m.Options.Servers),
			Ref:  &Ref{Version: "v1", Resource: resNodes.name, Name: "probe"},
			Code: 403, Reason: "Forbidden", Message: fmt.Sprintf(`nodes "probe" is forbidden: node %q is not allowed to modify node "probe"`, node),
			Received: at, Staged: at.Add(2 * milli), Decision: "allow",
		})
	}
	return "as " + node
}
