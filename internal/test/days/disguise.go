package days

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// disguises are mutations that plant a request which needs a binding, in a shape that the other plants do not have.
func disguises() []Mutation {
	plant := func(name, what string, f func(m *mutator, p *planted) string, checks ...string) Mutation {
		return Mutation{Name: name, Description: what, Effect: Breaks, Checks: checks, apply: func(m *mutator) string {
			p := m.plant(m.moment())
			if p == nil {
				return ""
			}
			how := f(m, p)
			if how == "" {
				return ""
			}
			m.add(p.events()...)
			return how + p.String()
		}}
	}
	const depends, judged = "nothing-depends", "every-event-judged"
	return []Mutation{
		plant("plant-path", "a client on a node asks for a path that is no resource", func(_ *mutator, p *planted) string {
			p.e.Verb, p.e.Ref, p.e.URI = "get", nil, "/logs/kube-apiserver.log"
			p.e.Message, p.e.Reason, p.e.Code = "", "", 200
			p.e.DecisionReason = allowedBy("ClusterRoleBinding", agentsRole, "ClusterRole", agentsRole, toNodes)
			return "a path: "
		}, depends),
		plant("plant-panic", "a planted request makes the API server panic", func(_ *mutator, p *planted) string {
			p.e.Stage = "Panic"
			p.e.fail(500)
			return "panic: "
		}, depends, judged),
		plant("plant-open-watch", "a planted watch is still open when the log ends", func(m *mutator, p *planted) string {
			p.e.Verb, p.e.Ref = "watch", &Ref{Version: "v1", Resource: "secrets"}
			p.e.URI, p.e.Stage = resSecrets.path("", "", "")+"?watch=true", StageStarted
			p.e.Message, p.e.Reason, p.e.Code = "", "", 200
			p.e.DecisionReason = allowedBy("ClusterRoleBinding", legacyBinding, "ClusterRole", "system:node", toNodes)
			m.bind()
			return "open: "
		}, depends),
		plant("plant-received", "of a planted request only the beginning is in the log", func(_ *mutator, p *planted) string {
			p.e.Stage, p.e.Decision, p.e.DecisionReason, p.e.Code, p.e.Message, p.e.Reason = "RequestReceived", "", "", 0, "", ""
			p.e.Staged = p.e.Received
			return "only received: "
		}, depends, judged),
		plant("plant-same-id", "a planted request has the audit ID of a kubelet's request just before, which a client can choose", func(m *mutator, p *planted) string {
			for _, i := range m.Perm(len(m.Events)) {
				if e := m.Events[i]; e.IsNode() && e.Verb == "update" {
					p.e.AuditID = e.AuditID
					p.moveTo(e.Staged.Add(milli))
					return "with the ID of another request: "
				}
			}
			return ""
		}, depends, judged),
		plant("plant-id-of-watch", "a planted request has the audit ID of a kubelet's watch that is open", func(m *mutator, p *planted) string {
			for _, i := range m.Perm(len(m.Events)) {
				e := m.Events[i]
				if !e.IsNode() || e.Verb != "watch" || e.Stage != StageStarted || e.Decision != "allow" || e.DecisionReason != "" {
					continue
				}
				for _, end := range m.Events[i+1:] {
					if end.AuditID == e.AuditID && end.Staged.Sub(e.Staged) > minute {
						p.e.AuditID = e.AuditID
						p.moveTo(e.Staged.Add(30 * second))
						return "with the ID of a watch: "
					}
				}
			}
			return ""
		}, depends, judged),
		plant("plant-as-group", "somebody impersonates the group of nodes by another name", func(m *mutator, p *planted) string {
			p.impersonate()
			p.e.Impersonated = &User{Username: "debug", Groups: []string{"system:nodes", "system:authenticated"}}
			m.bind()
			p.e.Verb, p.e.Ref, p.e.URI = "list", &Ref{Version: "v1", Resource: "pods"}, resPods.path("", "", "")
			p.e.Message, p.e.Reason, p.e.Code = "", "", 200
			p.e.DecisionReason = allowedBy("ClusterRoleBinding", legacyBinding, "ClusterRole", "system:node", toNodes)
			return "as a group: "
		}, depends, "identities-conform"),
		plant("plant-proxied-403", "a client reaches a kubelet through nodes/proxy, and the backend answers 403", func(m *mutator, p *planted) string {
			name, node := m.bindAgents("proxy"), m.node()
			p.e.Verb, p.e.Ref, p.e.URI = "get", &Ref{Version: "v1", Resource: "nodes", Subresource: "proxy", Name: node}, resNodes.path("", node, "proxy")+"/pods"
			p.e.Code, p.e.Reason, p.e.Message = 403, "Forbidden", "Forbidden"
			p.e.DecisionReason = allowedBy("ClusterRoleBinding", name, "ClusterRole", name, toNodes)
			return "refused by the backend: "
		}, depends),
		plant("plant-other-name", "a client uses a certificate of a node that is not there", func(m *mutator, p *planted) string {
			u := *p.e.User
			u.Username = "system:node:gone-" + hexString(m.Rand, 4)
			p.e.User = &u
			return "of no node: "
		}, depends, "identities-conform"),
		plant("plant-early", "a planted request is older than the time that is asked about", func(m *mutator, p *planted) string {
			p.moveTo(m.From.Add(second))
			return "early: "
		}, depends),
		{
			Name: "plant-many", Effect: Breaks, Checks: []string{depends, judged}, Description: "ten thousand harmless requests of one client hide one that needs a binding",
			apply: func(m *mutator) string {
				p := m.plant(m.moment())
				if p == nil {
					return ""
				}
				m.bindAgents("")
				all := p.events()
				for i := range 10_000 {
					c := *p.e
					c.AuditID, c.Stage, c.Verb, c.Impersonated = uuid(m.Rand), StageComplete, "create", nil
					c.Ref = &Ref{Group: "apps", Version: "v1", Resource: "deployments", Namespace: "shop", Name: fmt.Sprintf("planted-%d", i)}
					c.URI = "/apis/apps/v1/namespaces/shop/deployments"
					c.Code, c.Reason, c.Decision = 403, "Forbidden", "allow"
					c.DecisionReason = allowedBy("ClusterRoleBinding", agentsRole, "ClusterRole", agentsRole, toNodes)
					c.Message = fmt.Sprintf("deployments.apps %q is forbidden: ValidatingAdmissionPolicy 'no-nodes' with binding 'no-nodes' denied request: none", c.Ref.Name)
					c.Received, c.Staged = p.e.Received.Add(time.Duration(i-5000)*milli), p.e.Staged.Add(time.Duration(i-5000)*milli)
					all = append(all, &c)
				}
				m.Events = append(m.Events, all...)
				sortEvents(m.Events)
				return p.String()
			},
		},
		{
			Name: "policy-hides", Effect: Hides, Checks: []string{"policy-known"},
			Description: "a rule of the audit policy keeps a kind of request that needs a binding out of the log", apply: policyHides,
		},
	}
}

// policyHides puts a rule anywhere into the policy that hides a planted request, as broad or as narrow as chance has it. It is moved to the front where
// another rule decides before it.
func policyHides(m *mutator) string {
	p := m.plant(m.moment())
	if p == nil || m.Policy == "" {
		return ""
	}
	e := p.e
	list := func(key string, words ...string) string {
		for i, w := range words {
			words[i] = fmt.Sprintf("%q", w)
		}
		return "  " + key + ": [" + strings.Join(words, ", ") + "]\n"
	}
	text := "- level: None\n"
	if m.IntN(4) == 0 {
		text = "- level: Metadata\n" + list("omitStages", "ResponseComplete", "ResponseStarted", "Panic")
	}
	switch m.IntN(4) {
	case 0:
		text += list("users", e.User.Username, "somebody")
	case 1:
		text += list("userGroups", "system:nodes")
	case 2:
		text += list("userGroups", "staff", "system:authenticated")
	}
	if m.IntN(2) == 0 {
		text += list("verbs", e.Verb, "deletecollection")
	}
	resource := e.Ref.Resource
	if e.Ref.Subresource != "" {
		resource = [...]string{resource + "/" + e.Ref.Subresource, resource + "/*", "*/" + e.Ref.Subresource, "*"}[m.IntN(4)]
	} else if m.IntN(4) == 0 {
		resource = "*"
	}
	switch names := ""; m.IntN(4) {
	case 0:
		text += fmt.Sprintf("  resources: [{group: %q}]\n", e.Ref.Group)
	case 1, 2:
		if e.Ref.Name != "" && m.IntN(2) == 0 && !strings.Contains(resource, "*") {
			names = fmt.Sprintf(", resourceNames: [%q]", e.Ref.Name)
		}
		text += fmt.Sprintf("  resources: [{group: %q, resources: [%q]%s}]\n", e.Ref.Group, resource, names)
	}
	if m.IntN(3) == 0 {
		text += list("namespaces", e.Ref.Namespace)
	}
	rules := strings.Split(m.Policy, "\n- level")
	at := 1 + m.IntN(len(rules)-1)
	head, tail := strings.Join(rules[:at], "\n- level")+"\n", "- level"+strings.Join(rules[at:], "\n- level")
	was := m.Policy
	for _, changed := range []string{head + text + tail, insertRule(was, text)} {
		all := slices.Clone(m.Events)
		kept, err := logged(changed, []*Event{e})
		if err != nil {
			return ""
		}
		m.Policy = changed
		if len(kept) > 0 {
			continue
		}
		if m.Events, err = logged(changed, all); err != nil {
			return ""
		}
		return strings.ReplaceAll(text, "\n", " ") + "hides " + p.String()
	}
	m.Policy = was
	return ""
}
