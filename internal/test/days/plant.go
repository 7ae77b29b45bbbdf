package days

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// plants are the mutations that plant a request which needs a binding.
func plants() []Mutation {
	plant := func(name, what string, checks []string, f func(m *mutator, p *planted) string) Mutation {
		return Mutation{
			Name: name, Description: what, Effect: Breaks, Checks: checks,
			apply: func(m *mutator) string {
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
			},
		}
	}
	depends := []string{"nothing-depends"}
	judged := []string{"every-event-judged", "nothing-depends"}
	none := func(*mutator, *planted) string { return " " }
	return []Mutation{
		plant("plant-request", "a client on a node does with the kubelet's credential what only a binding allows: any verb, resource and answer",
			depends, none),
		plant("plant-any", "the same, at any place, and padded, torn, impersonated and without annotations at random",
			append(judged, "node-authorizer-on", "agreement", "window-covered"), (*mutator).disguise),
		plant("plant-unannotated", "the same, and the event has no annotations", []string{"nothing-depends", "node-authorizer-on", "agreement"},
			func(m *mutator, p *planted) string {
				p.e.Decision, p.e.DecisionReason = "", ""
				return "without annotations: "
			}),
		plant("plant-first", "the same, as the first event of the log", depends, func(m *mutator, p *planted) string {
			p.moveTo(m.Events[0].Staged.Add(-10 * milli))
			return "first in the log: "
		}),
		plant("plant-last", "the same, as the last event of the log", depends, func(m *mutator, p *planted) string {
			p.moveTo(m.Events[len(m.Events)-1].Staged.Add(10 * milli))
			return "last in the log: "
		}),
		plant("plant-impersonated", "the same, by somebody who impersonates the node", depends, func(m *mutator, p *planted) string {
			p.impersonate()
			return "impersonated by kubernetes-admin: "
		}),
		plant("plant-padded", "the same, with a URI that is padded, below the limit of an event's size", judged, func(m *mutator, p *planted) string {
			return p.pad(1000 + m.IntN(200_000))
		}),
		plant("plant-oversized", "the same, with a URI that makes the event longer than 4 MiB", judged, func(m *mutator, p *planted) string {
			return p.pad(710_000 + m.IntN(100_000))
		}),
		plant("plant-torn", "the same, and the line is torn; what follows it may be glued to it", judged, func(m *mutator, p *planted) string {
			return p.tear(m)
		}),
		plant("plant-torn-last", "the same, as the log's last line, which is torn", append(judged, "window-covered"), func(m *mutator, p *planted) string {
			p.moveTo(m.Events[len(m.Events)-1].Staged.Add(10 * milli))
			how := p.tear(m)
			p.e.Glued = true
			return "last in the log, " + how
		}),
		{
			Name: "plant-in-race", Effect: Breaks, Checks: []string{"nothing-depends", "races-decided"},
			Description: "a client on a node reads a pod's secret in the second before the pod is bound to the node, and RBAC lets it through", apply: plantInRace,
		},
		{
			Name: "plant-refused", Effect: Harmless, Description: "a client does what RBAC allows and admission refuses", apply: plantRefused,
		},
	}
}

// disguise does several of the things to a request that single plants do.
func (m *mutator) disguise(p *planted) string {
	how := []string{"disguised: "}
	switch m.IntN(6) {
	case 0:
		p.moveTo(m.Events[0].Staged.Add(-10 * milli))
	case 1:
		p.moveTo(m.Events[len(m.Events)-1].Staged.Add(10 * milli))
	}
	if m.IntN(4) == 0 {
		p.impersonate()
		how = append(how, "impersonated: ")
	}
	if m.IntN(5) == 0 {
		p.e.Decision, p.e.DecisionReason = "", ""
		how = append(how, "without annotations: ")
	}
	if m.IntN(3) == 0 {
		how = append(how, p.pad(1<<m.IntN(18)))
	}
	if m.IntN(4) == 0 {
		how = append(how, p.tear(m))
	}
	return strings.Join(how, "")
}

// ask is a request that the node authorizer has no opinion on, whatever pods there are.
type ask struct {
	verb, path string // namespace and name: NS, NAME, which nothing has, and OTHER, another node
	apiResource
	sub    string
	since  int  // the minor from which on the authorizer refuses it
	agents bool // the role system:node has no right to it either
}

var asks = []ask{
	{verb: "get", apiResource: resSecrets, path: "NS/NAME"},
	{verb: "watch", apiResource: resSecrets, path: "NS/NAME"},
	{verb: "list", apiResource: resSecrets},
	{verb: "list", apiResource: resConfigMaps, path: "NS/"},
	{verb: "get", apiResource: resConfigMaps, path: "NS/NAME"},
	{verb: "list", apiResource: resPods, since: 32},
	{verb: "list", apiResource: resNodes, since: 32},
	{verb: "watch", apiResource: resNodes, since: 32},
	{verb: "get", apiResource: resNodes, path: "/OTHER", since: 32},
	{verb: "get", apiResource: resVolumes, path: "/NAME"},
	{verb: "get", apiResource: resAttachments, path: "/NAME"},
	{verb: "get", apiResource: resClaims, path: "NS/NAME"},
	{verb: "create", apiResource: resAccounts, path: "NS/NAME", sub: "token"},
	{verb: "get", apiResource: apiResource{"apps", "v1", "deployments"}, path: "NS/NAME", agents: true},
	{verb: "list", apiResource: apiResource{"apps", "v1", "daemonsets"}, agents: true},
	{verb: "watch", apiResource: apiResource{"networking.k8s.io", "v1", "networkpolicies"}, agents: true},
	{verb: "list", apiResource: apiResource{"", "v1", "namespaces"}, agents: true},
	{verb: "get", apiResource: resPods, path: "NS/NAME", sub: "log", agents: true},
	{verb: "create", apiResource: resPods, path: "NS/NAME", sub: "exec", agents: true},
	{verb: "get", apiResource: resNodes, path: "/OTHER", sub: "proxy", agents: true},
	{verb: "patch", apiResource: resSecrets, path: "NS/NAME", agents: true},
	{verb: "delete", apiResource: apiResource{"batch", "v1", "jobs"}, path: "NS/NAME", agents: true},
	{verb: "update", apiResource: resConfigMaps, path: "NS/NAME", agents: true},
}

const (
	agentsRole  = "node-agents"
	proxiesRole = "node-proxies"
)

// agentsResources are those of which clients on nodes might want anything that requests show.
const agentsResources = "configmaps,csidrivers,csinodes,certificatesigningrequests,daemonsets,deployments,events,jobs,leases,namespaces,networkpolicies,nodes,nodes/status," +
	"persistentvolumeclaims,persistentvolumes,podcertificaterequests,pods,pods/exec,pods/log,pods/status,replicasets,resourceslices,runtimeclasses,secrets," +
	"serviceaccounts,serviceaccounts/token,services,subjectaccessreviews,tokenreviews,volumeattachments"

// bindAgents makes a role for clients on nodes, and its binding to the nodes: of all that they might want that requests show, or of the proxy to kubelets, about
// which kubelets ask. It returns the name of both.
func (m *mutator) bindAgents(sub string) string {
	name, given := agentsRole, rule("get,list,watch,create,update,patch,delete,deletecollection", "*", agentsResources)
	if sub == "proxy" {
		name, given = proxiesRole, rule("get,create", "", "nodes/proxy")
	}
	if !slices.ContainsFunc(m.State, func(e *Entry) bool { return e.Kind == "ClusterRoleBinding" && e.Name == name }) {
		old := m.From.Add(-time.Hour)
		m.addState(role(m.Rand, "", name, old, given), binding(m.Rand, "", name, name, old, subject("Group", "", "system:nodes")))
	}
	return name
}

// strays are user agents of programs that live on kubelets' credentials.
var strays = []string{
	"calico-node/v3.27.0 (linux/amd64)", "curl/8.5.0", "node-problem-detector/v0.8.14", "Go-http-client/2.0", "flanneld/v0.25.1 (linux/amd64) kubernetes/$Format",
	"python-requests/2.31.0", "kubectl/v1.30.0 (linux/amd64) kubernetes/7c48c2b", "",
}

// planted is a request that is going to be in the log.
type planted struct{ e *Event }

// plant makes a request that is nowhere yet.
func (m *mutator) plant(at time.Time) *planted {
	as := asks[m.IntN(len(asks))]
	for as.since > m.Options.Minor {
		as = asks[m.IntN(len(asks))]
	}
	return m.plantAsk(at, as)
}

func (m *mutator) plantAsk(at time.Time, as ask) *planted {
	node := m.node()
	like := m.like(node, at)
	if like == nil {
		return nil
	}
	reason := allowedBy("ClusterRoleBinding", legacyBinding, "ClusterRole", "system:node", `Group "system:nodes"`)
	if as.agents {
		name := m.bindAgents(as.sub)
		reason = allowedBy("ClusterRoleBinding", name, "ClusterRole", name, `Group "system:nodes"`)
	} else {
		m.bind()
	}
	other := "worker-elsewhere"
	for _, n := range m.NodeNames {
		if n != node {
			other = n
		}
	}
	namespace, name, _ := strings.Cut(as.path, "/")
	namespace = strings.Replace(namespace, "NS", [...]string{"shop", "payments", "kube-system"}[m.IntN(3)], 1)
	name = strings.NewReplacer("NAME", "stray-"+hexString(m.Rand, 6), "OTHER", other).Replace(name)
	uri := as.apiResource.path(namespace, name, as.sub)
	if as.verb == "watch" {
		if uri = as.apiResource.path(namespace, "", ""); name != "" {
			uri += "?fieldSelector=" + query("metadata.name="+name) + "&watch=true"
		} else {
			uri += "?watch=true"
		}
	}
	e := &Event{
		Level: LevelMetadata, AuditID: uuid(m.Rand), Stage: StageComplete, Verb: as.verb, URI: uri, User: like.User, SourceIPs: like.SourceIPs,
		UserAgent: strays[m.IntN(len(strays))], Decision: "allow", DecisionReason: reason, Server: like.Server, Code: 200,
		Ref: &Ref{Group: as.group, Version: as.version, Resource: as.name, Subresource: as.sub, Namespace: namespace, Name: name},
	}
	switch {
	case as.sub == "exec":
		e.Code = 101
	case as.sub == "token":
		e.Code = 201
	}
	if codes := [...]int{e.Code, e.Code, e.Code, 404, 500, 503, 504}; as.verb != "watch" {
		if e.Code = codes[m.IntN(len(codes))]; e.Code >= 400 {
			e.fail(e.Code)
		}
	}
	if e.Code < 400 && m.IntN(3) == 0 { // one that calls itself a kubelet
		e.UserAgent = like.UserAgent
	}
	p := &planted{e}
	p.moveTo(at)
	return p
}

func (p *planted) moveTo(at time.Time) {
	p.e.Received, p.e.Staged = at.Add(-3*milli), at
}

// events are the events of the request: two of a watch.
func (p *planted) events() []*Event {
	if p.e.Verb != "watch" || p.e.Cut > 0 {
		return []*Event{p.e}
	}
	started := *p.e
	started.Stage, started.Staged = StageStarted, p.e.Received.Add(milli)
	return []*Event{&started, p.e}
}

func (p *planted) String() string {
	uri := p.e.URI
	if len(uri) > 120 {
		uri = uri[:120] + "…"
	}
	return fmt.Sprintf("%s %s by %s with %q at %s, code %d", p.e.Verb, uri, p.e.User.Username, p.e.UserAgent, p.e.Staged.Format(time.RFC3339), p.e.Code)
}

func admin() *User {
	return &User{Username: "kubernetes-admin", Groups: []string{"kubeadm:cluster-admins", "system:authenticated"}}
}

func (p *planted) impersonate() {
	p.e.Impersonated = &User{Username: p.e.User.Username, Groups: p.e.User.Groups}
	p.e.User, p.e.SourceIPs, p.e.UserAgent = admin(), []string{"192.0.2.44"}, "kubectl/v1.36.3 (linux/amd64) kubernetes/7c48c2b"
}

// pad appends a query of n ampersands, each of which takes six bytes in JSON.
func (p *planted) pad(n int) string {
	if strings.Contains(p.e.URI, "?") {
		p.e.URI += "&"
	} else {
		p.e.URI += "?"
	}
	p.e.URI += strings.Repeat("&", n)
	return fmt.Sprintf("padded by %d bytes: ", 6*n)
}

// tear cuts the line somewhere after the beginning of the user's name.
func (p *planted) tear(m *mutator) string {
	line := string(p.e.appendLine(nil))
	least := strings.Index(line, `"username"`)
	p.e.Cut = least + m.IntN(len(line)-least-3)
	p.e.Glued = m.IntN(2) == 0
	return fmt.Sprintf("torn after %d of %d bytes: ", p.e.Cut, len(line))
}

// plantInRace reads the secret of a pod that is about to be bound.
func plantInRace(m *mutator) string {
	m.bind()
	for _, i := range m.Perm(len(m.pods)) {
		p := m.pods[i]
		if len(p.secrets) == 0 || !p.bound.After(m.From.Add(minute)) || p.bound.After(m.To.Add(-minute)) || m.usedBefore(p) {
			continue
		}
		at := p.bound.Add(-time.Duration(60+m.IntN(700)) * milli)
		like := m.like(p.node.name, at)
		if like == nil {
			continue
		}
		name := p.secrets[m.IntN(len(p.secrets))]
		e := m.secretBy(like, p.namespace, name, at)
		e.UserAgent = strays[m.IntN(4)]
		m.add(e)
		return fmt.Sprintf("get secret %s/%s by %s %s before %s was bound to it", p.namespace, name, p.node.name, p.bound.Sub(at), p)
	}
	return ""
}

// secretBy is a get of a secret by the client of another event, which the legacy binding let through.
func (m *mutator) secretBy(like *Event, namespace, name string, at time.Time) *Event {
	return &Event{
		Level: LevelMetadata, AuditID: uuid(m.Rand), Stage: StageComplete, Verb: "get", URI: resSecrets.path(namespace, name, ""), User: like.User,
		SourceIPs: like.SourceIPs, UserAgent: like.UserAgent, Server: like.Server, Code: 200, Received: at, Staged: at.Add(2 * milli), Decision: "allow",
		Ref:            &Ref{Version: "v1", Resource: "secrets", Namespace: namespace, Name: name},
		DecisionReason: allowedBy("ClusterRoleBinding", legacyBinding, "ClusterRole", "system:node", toNodes),
	}
}

// usedBefore reports whether another pod led the node to the same secrets within a minute before.
func (m *mutator) usedBefore(p *pod) bool {
	for _, q := range m.pods {
		if q != p && q.app == p.app && q.node == p.node && q.bound.Before(p.bound) && q.end().After(p.bound.Add(-minute)) {
			return true
		}
	}
	return false
}

// plantRefused lets admission refuse what RBAC has allowed.
func plantRefused(m *mutator) string {
	p := m.stray("create", apiResource{"apps", "v1", "deployments"}, "shop", "planted", "", 403, agentsRole, toNodes)
	if p == nil {
		return ""
	}
	p.e.Message = `deployments.apps "planted" is forbidden: ValidatingAdmissionPolicy 'no-nodes' with binding 'no-nodes' denied request: nodes make no deployments`
	m.add(p.e)
	return p.String() + ", refused by admission"
}
