package days

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// slipped are mutations that a sixth and a seventh examiner found to leave a day READY or CONFINED.
func slipped() []Mutation {
	return []Mutation{
		{
			Name: "always-allow", Effect: Hides, Checks: []string{"node-authorizer-on"},
			Description: "the API server allows everything, without a reason, from some time on, as with its default authorization mode", apply: func(m *mutator) string {
				from := m.late(minute).from
				// A service account has requests, which RBAC would have allowed as well.
				account := m.controller(from.Add(second))
				account.Verb, account.Ref, account.URI = "list", &Ref{Version: "v1", Resource: "services"}, resServices.path("", "", "")
				m.add(account)
				old := m.From.Add(-time.Hour)
				m.addState(role(m.Rand, "", "lists-services", old, rule("list", "", "services")),
					binding(m.Rand, "", "lists-services", "lists-services", old, subject("ServiceAccount", "kube-system", "certificate-controller")))
				n := m.change(func(e *Event) bool {
					return e.Received.After(from) && (e.Decision == "forbid" || strings.HasPrefix(e.DecisionReason, "RBAC: "))
				}, func(e *Event) {
					if e.Decision == "forbid" {
						e.Code, e.Message, e.Reason = 200, "", ""
					}
					e.Decision, e.DecisionReason = "allow", ""
				})
				return some(n, "all requests since "+stamp(from))
			},
		},
		{Name: "forced-watch", Effect: Harmless, Description: "a pod is deleted by force, and its kubelet, which does not know it yet, renews the watch of its secret", apply: forcedWatch},
		{
			Name: "some-annotations", Effect: Hides, Checks: []string{"node-authorizer-on"},
			Description: "the events of one API server of several have no annotations, or those of some minutes of each hour, or most events", apply: someAnnotations,
		},
		{Name: "moved-pod", Effect: Harmless, Description: "a pod is made again on another node, and the kubelet that had it asks for it", apply: movedPod},
		{
			Name: "forced-get", Effect: Breaks, Checks: []string{"nothing-depends"},
			Description: "a pod is deleted by force, and another client reads its secret, or one that calls itself a kubelet", apply: func(m *mutator) string {
				e := m.afterPod()
				if e == nil {
					return ""
				}
				if m.IntN(2) == 0 {
					e.UserAgent = strays[m.IntN(4)]
				}
				m.add(e)
				return e.URI + " at " + e.Received.Format(time.RFC3339)
			},
		},
		{
			Name: "gives-rights", Effect: Hides, Checks: []string{"nothing-depends"},
			Description: "a service account to which system:node is bound writes a role, a binding or an admission policy by another right, which the API server lets it do only if it has what it gives", apply: givesRights,
		},
		{
			Name: "may-ask-for-group", Effect: Hides, Checks: []string{"nothing-depends"},
			Description: "a service account acts as a user in a group that the API server adds itself, and only a binding that is for nodes, too, lets it ask for that", apply: mayAskForGroup,
		},
		{
			Name: "account-reaches", Effect: Harmless, Confined: []string{"tokens-on-node"},
			Description: "the service account of pods on all nodes has a right that leads to other nodes, or two that do so together", apply: func(m *mutator) string {
				agent := subject("ServiceAccount", "kube-system", "node-agent")
				if m.IntN(2) == 0 {
					return m.given(agent, reaching(m))
				}
				requests := agent
				if m.IntN(2) == 0 {
					requests = subject("Group", "", "system:authenticated")
				}
				return m.given(requests, rule("create", resCSRs.group, resCSRs.name)) + ", " + m.given(agent, rule("create", resCSRs.group, resCSRs.name+"/nodeclient"))
			},
		},
		{
			Name: "everybody-reaches", Effect: Harmless, Confined: []string{"no-excess-rights"},
			Description: "every authenticated user has a right that leads to other nodes", apply: func(m *mutator) string {
				given := reaching(m)
				if m.IntN(4) == 0 {
					given = rule("create", resCSRs.group, resCSRs.name+"/nodeclient")
				}
				return m.given(subject("Group", "", "system:authenticated"), given)
			},
		},
	}
}

// reaching is a right by which whoever has it gets to what is on other nodes.
func reaching(m *mutator) map[string]any {
	return [...]map[string]any{
		rule("create", "", "secrets"), rule("get", "", "pods/proxy"), rule("create", "", "services/proxy"), rule("delete", "", "pods"), rule("deletecollection", "", "pods"),
		rule("create", "", "pods/eviction"), rule("delete", "", "nodes"),
	}[m.IntN(7)]
}

// given gives a subject a right from before the day on.
func (m *mutator) given(to, right map[string]any) string {
	name, old := "given-"+uuid(m.Rand), m.From.Add(-time.Hour)
	m.addState(role(m.Rand, "", name, old, right), binding(m.Rand, "", name, name, old, to))
	return fmt.Sprint(right, " to ", to["name"])
}

func givesRights(m *mutator) string {
	const writer = "writes-roles"
	account, old := subject("ServiceAccount", "kube-system", "certificate-controller"), m.From.Add(-time.Hour)
	of := [...]apiResource{
		{"rbac.authorization.k8s.io", "v1", "clusterroles"}, {"rbac.authorization.k8s.io", "v1", "clusterrolebindings"},
		{"admissionregistration.k8s.io", "v1", "validatingadmissionpolicies"}, {"admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings"},
		{"admissionregistration.k8s.io", "v1beta1", "mutatingadmissionpolicies"}, {"admissionregistration.k8s.io", "v1beta1", "mutatingadmissionpolicybindings"},
	}[m.IntN(6)]
	e := m.controller(m.late(minute).from.Add(second))
	e.Verb = [...]string{"create", "update", "patch"}[m.IntN(3)]
	e.Ref, e.URI = &Ref{Group: of.group, Version: of.version, Resource: of.name, Name: "of-nodes"}, of.path("", "of-nodes", "")
	if e.Verb == "create" {
		e.URI, e.Code = of.path("", "", ""), 201
	}
	e.DecisionReason = allowedBy("ClusterRoleBinding", writer, "ClusterRole", writer, `ServiceAccount "certificate-controller/kube-system"`)
	m.add(e)
	m.addState(role(m.Rand, "", writer, old, rule(e.Verb, of.group, of.name)), binding(m.Rand, "", writer, writer, old, account),
		binding(m.Rand, "", "extra:system:node", "system:node", old, account))
	if of.group == rbacGroup && m.IntN(2) == 0 {
		return e.Verb + " " + e.URI + ", with " + m.spared(e, account)
	}
	return e.Verb + " " + e.URI
}

func mayAskForGroup(m *mutator) string {
	account, group := subject("ServiceAccount", "kube-system", "certificate-controller"), "system:authenticated"
	as := &User{Username: "jane", Groups: []string{group}}
	switch m.IntN(3) {
	case 1:
		as.Groups = []string{"devs", group}
	case 2:
		as = &User{Username: "system:serviceaccount:shop:agent", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:shop", group}}
		group = as.Groups[m.IntN(3)]
	}
	e := m.controller(m.late(minute).from.Add(second))
	e.Verb, e.URI, e.Impersonated = "list", resServices.path("", "", ""), as
	e.Ref = &Ref{Version: resServices.version, Resource: resServices.name}
	e.DecisionReason = allowedBy("ClusterRoleBinding", "services", "ClusterRole", "services", `Group "system:authenticated"`)
	m.logs("system:serviceaccount:kube-system:certificate-controller")
	m.add(e)
	m.addState(role(m.Rand, "", "services", m.old(), rule("list", "", "services")), binding(m.Rand, "", "services", "services", m.old(), subject("Group", "", "system:authenticated")),
		role(m.Rand, "", "acts", m.old(), rule("impersonate", "", "users,serviceaccounts"), rule("impersonate", "", "groups", "devs")), binding(m.Rand, "", "acts", "acts", m.old(), account),
		role(m.Rand, "", "of-nodes", m.old(), rule("impersonate", "", "groups", group)), binding(m.Rand, "", "of-nodes", "of-nodes", m.old(), account, subject("Group", "", "system:nodes")))
	ends := m.IntN(2) == 0
	if ends {
		b := binding(m.Rand, "", "asks", "asks", m.old(), account)
		m.addState(role(m.Rand, "", "asks", m.old(), rule("impersonate", "", "groups", group)), b)
		m.endLater(&planted{e}, "DELETED", b)
	}
	return fmt.Sprintf("as %s in %v, asked for %s, by another binding that ends: %t", as.Username, as.Groups, group, ends)
}

// spared gives who wrote a role or a binding the right by which it needs none that it gives, and takes it away later; or one that is of other roles.
func (m *mutator) spared(e *Event, account map[string]any) string {
	const spares = "spares"
	verb, resource := "escalate", e.Ref.Resource
	if strings.HasSuffix(resource, "bindings") {
		verb, resource = "bind", "clusterroles"
	}
	ends := m.IntN(2) == 0
	if !ends {
		resource = map[string]string{"clusterroles": "roles", "roles": "clusterroles"}[resource]
	}
	b := binding(m.Rand, "", spares, spares, m.old(), account)
	m.addState(role(m.Rand, "", spares, m.old(), rule(verb, rbacGroup, resource)), b)
	if ends {
		m.endLater(&planted{e}, "DELETED", b)
	}
	return fmt.Sprintf("%s on %s, which ends: %t", verb, resource, ends)
}

func forcedWatch(m *mutator) string {
	e := m.afterPod()
	if e == nil {
		return ""
	}
	p := planted{e}
	e.Verb, e.URI = "watch", resSecrets.path(e.Ref.Namespace, "", "")+"?fieldSelector="+query("metadata.name="+e.Ref.Name)+"&watch=true"
	for _, e := range p.events() {
		m.add(e)
	}
	return e.URI + " at " + e.Received.Format(time.RFC3339)
}

func someAnnotations(m *mutator) string {
	server, from, one := m.Events[m.IntN(len(m.Events))].Server, m.IntN(50), 2+m.IntN(200)
	several := slices.ContainsFunc(m.Events, func(e *Event) bool { return e.Server != server })
	what, lost := fmt.Sprintf("of all but one event in %d", one), func(*Event) bool { return m.IntN(one) > 0 }
	switch m.IntN(3) {
	case 0:
		what, lost = fmt.Sprintf("of ten minutes of each hour, from the minute %d on", from), func(e *Event) bool { at := e.Received.Minute() - from; return at >= 0 && at < 10 }
	case 1:
		if several {
			what, lost = fmt.Sprintf("of API server %d", server), func(e *Event) bool { return e.Server == server }
		}
	}
	n := m.change(func(e *Event) bool { return e.Decision != "" && lost(e) }, func(e *Event) { e.Decision, e.DecisionReason, e.Issued = "", "", "" })
	return some(n, "the annotations "+what)
}

func movedPod(m *mutator) string {
	for _, i := range m.Perm(len(m.pods)) {
		p := m.pods[i]
		if p.node == nil || p.gone.IsZero() || p.gone.Before(m.From.Add(minute)) || p.gone.After(m.To.Add(-10*minute)) {
			continue
		}
		at := p.gone.Add(time.Duration(5+m.IntN(500)) * second)
		like := m.settled(p.node.name, at)
		again := slices.ContainsFunc(m.pods, func(q *pod) bool {
			return q != p && q.namespace == p.namespace && q.name == p.name && q.end().After(p.gone)
		})
		if like == nil || again {
			continue
		}
		q := &pod{app: &app{namespace: p.namespace}, name: p.name, uid: uuid(m.Rand), node: &node{name: m.node()}, created: p.gone.Add(second), bare: true}
		if q.node.name == p.node.name {
			continue
		}
		m.addPod(q)
		m.bind()
		e := m.secretBy(like, p.namespace, p.name, at)
		e.Ref.Resource, e.URI = "pods", resPods.path(p.namespace, p.name, "")
		e.ownAddress = true
		m.add(e)
		return e.URI + " at " + e.Received.Format(time.RFC3339)
	}
	return ""
}

// settled is an event of a node's kubelet within a minute of a time, from an address of its Node that it has had for ten minutes; nil if there is none.
func (m *mutator) settled(node string, at time.Time) *Event {
	like, before := m.like(node, at), m.like(node, at.Add(-11*minute))
	if like == nil || like.Received.Sub(at).Abs() > minute || !slices.Equal(like.SourceIPs, before.SourceIPs) || !m.ofNode(node, like.SourceIPs) {
		return nil
	}
	return like
}

// ofNode reports whether the state has a Node with all of the addresses.
func (m *mutator) ofNode(name string, addresses []string) bool {
	return slices.ContainsFunc(m.State, func(e *Entry) bool {
		if e.Kind != "Node" || e.Name != name {
			return false
		}
		text, err := json.Marshal(e.Object)
		return err == nil && !slices.ContainsFunc(addresses, func(a string) bool { return !bytes.Contains(text, []byte(`"address":"`+a+`"`)) })
	})
}

// afterPod is a get of the secret of a pod by its kubelet, seconds after the pod was gone, that a binding let through; nil where there is none.
func (m *mutator) afterPod() *Event {
	for _, i := range m.Perm(len(m.pods)) {
		p := m.pods[i]
		if p.node == nil || p.gone.IsZero() || len(p.secrets) == 0 || p.gone.Before(m.From.Add(minute)) || p.gone.After(m.To.Add(-2*minute)) {
			continue
		}
		at := p.gone.Add(time.Duration(4+m.IntN(40)) * second)
		like := m.settled(p.node.name, at)
		name := p.secrets[m.IntN(len(p.secrets))]
		if like == nil || m.used(p, name, at) {
			continue
		}
		m.bind()
		return m.secretBy(like, p.namespace, name, at)
	}
	return nil
}

// used reports whether another pod leads the node to the same secret at about a time.
func (m *mutator) used(p *pod, secret string, at time.Time) bool {
	for _, q := range m.pods {
		if q != p && q.node != nil && q.namespace == p.namespace && slices.Contains(q.secrets, secret) && q.node.name == p.node.name && q.bound.Before(at.Add(minute)) && q.end().After(at.Add(-minute)) {
			return true
		}
	}
	return false
}
