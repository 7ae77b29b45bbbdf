package days

import (
	"fmt"
	"strings"
	"time"
)

// Theft is a secret that somebody read with a node's stolen credential.
type Theft struct {
	// Secret is the secret's name, empty for all that are listed. Where Token is set it is the service account's.
	Node, Namespace, Secret string
	Token                   bool
	// Address is where the request came from.
	Address string
	At      time.Time
	// Unbound says that no finding has to name a binding: the Node authorizer allowed it, or may have.
	Unbound bool
	// Did says what was done to hide it.
	Did []string
}

// attack is a day in which somebody holds the credential of a node.
type attack struct {
	*mutator
	theft *Theft
	like  *Event // a request of the node's kubelet
	id    string // of the theft
	new   []*Event
	most  int // requests of a flood
	// refusal is the reason for which the API server refuses what nothing leads to.
	refusal string
	claims  bool // the Node had the address of the theft for a moment
}

// maxRate is how many requests a second a client gets through an API server.
const maxRate = 1700

// Attack composes a theft by a stolen credential with what may hide it: floods of refused and of fruitless requests, padding, made-up addresses, races,
// other addresses, refused impersonation, audit IDs that were used before, and wrong clocks of API servers and of the recorder of the state. All of it is what
// the holder of the credential can do, but for the clocks. most bounds the requests of each flood. The same seed does the same to the same day.
func Attack(day *Day, seed uint64, most int) (*Day, *Theft) {
	c := day.copyOf()
	m := &mutator{newRand(seed, day.Seed^0xa77ac), c}
	// What was added later has chance of its own, so that a seed does what it did.
	first, more := m.Rand, newRand(seed, day.Seed^0x1ea5e)
	a := &attack{mutator: m, theft: &Theft{Node: m.node(), At: m.moment()}, id: uuid(m.Rand), most: most}
	m.bind()
	if m.IntN(3) == 0 {
		a.atBinding()
	}
	a.like = m.like(a.theft.Node, a.theft.At)
	a.theft.Address = a.like.SourceIPs[0]
	if m.IntN(3) > 0 {
		a.theft.Address = fmt.Sprintf("198.51.100.%d", 1+m.IntN(250))
		if more.IntN(4) == 0 {
			a.theft.Address = fmt.Sprintf("2001:db8::%x", 1+more.IntN(250))
		}
	}
	theft := a.steal()
	for _, hide := range []func(*Event){a.pad, a.forward, a.claim, a.reuse, a.impersonate, a.escalate, a.flood, a.fruitless, a.foreign, a.wander, a.agents, a.others, a.silence} {
		if m.IntN(2) == 0 {
			hide(theft)
		}
	}
	if a.Rand = more; more.IntN(2) == 0 {
		a.renew(theft)
	}
	a.Rand = first
	a.theft.At = theft.Received
	m.Events = append(append(m.Events, theft), a.new...)
	sortEvents(m.Events)
	switch m.IntN(6) {
	case 0:
		a.clocks(theft, 10*minute)
		sortEvents(m.Events) // somebody put several logs together
	case 1:
		a.clocks(theft, 10*minute)
	case 2:
		a.recorder(time.Hour)
	}
	return c, a.theft
}

func (a *attack) did(format string, args ...any) {
	a.theft.Did = append(a.theft.Did, fmt.Sprintf(format, args...))
}

// request is one with the stolen credential.
func (a *attack) request(at time.Time, verb string, of apiResource, namespace, name string, code int) *Event {
	e := &Event{
		Level: LevelMetadata, AuditID: uuid(a.Rand), Stage: StageComplete, Verb: verb, URI: of.path(namespace, name, ""), User: a.like.User,
		SourceIPs: []string{a.theft.Address}, UserAgent: "curl/8.5.0", Server: a.like.Server, Code: code, Received: at, Staged: at.Add(2 * milli), Decision: "allow",
		Ref:            &Ref{Group: of.group, Version: of.version, Resource: of.name, Namespace: namespace, Name: name},
		DecisionReason: allowedBy("ClusterRoleBinding", legacyBinding, "ClusterRole", "system:node", `Group "system:nodes"`),
	}
	if code == 403 {
		if a.refusal == "" {
			a.refusal = a.noRelationship(e)
		}
		e.Decision, e.DecisionReason = "forbid", a.refusal
	}
	if code >= 400 {
		e.fail(code)
	}
	return e
}

// atBinding puts the theft next to the instant at which a pod comes to the node.
func (a *attack) atBinding() {
	for _, i := range a.Perm(len(a.pods)) {
		if p := a.pods[i]; p.bound.After(a.From.Add(minute)) && p.bound.Before(a.To.Add(-minute)) && !strings.HasPrefix(p.node.name, "scaled-") {
			if n := a.mutator.like(p.node.name, p.bound); n != nil {
				a.theft.Node, a.theft.At = p.node.name, p.bound.Add(time.Duration(a.IntN(1000)-500)*milli)
				a.did("as %s is bound", p)
				return
			}
		}
	}
}

func (a *attack) pad(theft *Event) {
	n := 1 << (6 + a.IntN(10))
	if a.IntN(40) == 0 {
		n = 800_000
	}
	if !strings.Contains(theft.URI, "?") {
		theft.URI += "?"
	}
	theft.URI += strings.Repeat("&", n)
	a.did("a URI of %d bytes", len(theft.URI))
}

func (a *attack) forward(theft *Event) {
	n := 1 << a.IntN(12)
	if a.IntN(10) == 0 {
		n = 300_000 // more than an event may have bytes
	}
	ips := make([]string, 0, n+1)
	for i := range n {
		ips = append(ips, fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	ips = append(ips, a.theft.Address)
	theft.SourceIPs = ips
	a.did("%d addresses in X-Forwarded-For", n)
}

// reuse gives the theft the audit ID of another request, of a harmless one of its own, or gives it to requests that are refused.
func (a *attack) reuse(theft *Event) {
	switch a.IntN(3) {
	case 0:
		theft.AuditID = a.Events[a.IntN(len(a.Events))].AuditID
		a.did("the audit ID of another request")
		return
	case 1:
		for i := range 1 + a.IntN(3) {
			e := a.harmless(theft.Received.Add(-time.Duration(i+1) * 50 * milli))
			e.AuditID = theft.AuditID
			a.new = append(a.new, e)
		}
		a.did("the audit ID of a harmless request of its own")
		return
	}
	for i := range 1 + a.IntN(20) {
		e := a.request(theft.Received.Add(time.Duration(i-10)*7*milli), "get", resSecrets, a.theft.Namespace, a.theft.Secret, 403)
		e.AuditID, e.URI, e.UserAgent = theft.AuditID, theft.URI, theft.UserAgent
		a.new = append(a.new, e)
	}
	a.did("the same request with the same audit ID, refused")
}

// harmless is a request that every kubelet makes.
func (a *attack) harmless(at time.Time) *Event {
	e := a.request(at, "get", resNodes, "", a.theft.Node, 200)
	e.DecisionReason = ""
	return e
}

// escalate makes refused requests of many rules and reasons: each has room of its own among the refused ones.
func (a *attack) escalate(theft *Event) {
	for i, of := range []apiResource{
		{"rbac.authorization.k8s.io", "v1", "clusterrolebindings"}, {"rbac.authorization.k8s.io", "v1", "roles"}, resPods, resNodes, resEvents, resLeases, resVolumes,
	} {
		for _, verb := range []string{"create", "delete", "update", "get", "list"} {
			if a.IntN(3) == 0 {
				continue
			}
			e := a.request(theft.Received.Add(-time.Duration(i+1)*milli), verb, of, "kube-system", "made-up-"+fmt.Sprint(i), 403)
			a.new = append(a.new, e)
		}
	}
	a.did("refused escalation")
}

func (a *attack) impersonate(theft *Event) {
	for i := range 1 + a.IntN(5) {
		e := a.request(theft.Received.Add(time.Duration(i)*second), "get", resSecrets, a.theft.Namespace, a.theft.Secret, 403)
		e.Message = fmt.Sprintf(`users "system:node:%s" is forbidden: User %q cannot impersonate resource "users" in API group "" at the cluster scope`,
			a.NodeNames[i%len(a.NodeNames)], a.like.User.Username)
		a.new = append(a.new, e)
	}
	a.did("refused impersonation")
}

// spread calls f with as many times as a flood has, around the theft's.
func (a *attack) spread(theft *Event, f func(i int, at time.Time) *Event) int {
	n := 1 + a.IntN(a.most)
	from := theft.Received.Add(-time.Duration(a.IntN(n)) * second / maxRate)
	for i := range n {
		a.new = append(a.new, f(i, from.Add(time.Duration(i)*second/maxRate+1)))
	}
	return n
}

func (a *attack) flood(theft *Event) {
	kinds := []apiResource{resSecrets, resConfigMaps, resPods, resClaims, {"made.up", "v1", "things"}}
	n := a.spread(theft, func(i int, at time.Time) *Event {
		namespace := a.theft.Namespace
		if i%2 == 0 {
			namespace = "made-up-" + fmt.Sprint(i)
		}
		e := a.request(at, "get", kinds[i%len(kinds)], namespace, strings.Repeat("x", 190)+fmt.Sprint(i), 403)
		if i%3 == 0 {
			e.UserAgent = theft.UserAgent
		}
		return e
	})
	a.did("%d refused reads", n)
}

func (a *attack) fruitless(theft *Event) {
	n := a.spread(theft, func(i int, at time.Time) *Event {
		return a.request(at, "get", resSecrets, a.theft.Namespace, strings.Repeat("y", 190)+fmt.Sprint(i), 404)
	})
	a.did("%d reads of what is not there", n)
}

func (a *attack) foreign(theft *Event) {
	n := a.spread(theft, func(i int, at time.Time) *Event {
		return a.request(at, "patch", resNodes, "", "other-"+fmt.Sprint(i), 403)
	})
	a.did("%d refused writes of other nodes", n)
}

// wander makes harmless requests from many addresses.
func (a *attack) wander(theft *Event) {
	n := a.spread(theft, func(i int, at time.Time) *Event {
		e := a.harmless(at)
		e.UserAgent, e.SourceIPs = a.like.UserAgent, []string{fmt.Sprintf("203.0.113.%d", i%250)}
		return e
	})
	a.did("%d requests from other addresses", n)
}

// claim writes the address of the theft into the status of the node's Node. The kubelet takes it out when it reports next.
func (a *attack) claim(theft *Event) {
	at := theft.Received.Add(-time.Duration(1+a.IntN(1000)) * milli)
	if a.theft.Address == a.like.SourceIPs[0] || !a.mutator.claim(a.theft.Node, a.theft.Address, at, 10*second) {
		return
	}
	e := a.request(at, "patch", resNodes, "", a.theft.Node, 200)
	e.Ref.Subresource, e.URI, e.UserAgent, e.DecisionReason = "status", resNodes.path("", a.theft.Node, "status"), a.like.UserAgent, ""
	a.new = append(a.new, e)
	a.claims = true
	a.did("the Node has the address for a moment")
}

// silence stops the kubelet whose credential was taken, for some time or for good. It does not do so where that has just corrected the Node.
func (a *attack) silence(theft *Event) {
	if a.claims {
		return
	}
	from := theft.Received.Add(-time.Duration(a.IntN(600)) * second)
	to := from.Add(time.Duration(a.IntN(1200)) * second)
	if a.IntN(3) == 0 {
		to = a.To.Add(minute)
	}
	n := a.drop(func(e *Event) bool {
		return nodeOf(e.User) == a.theft.Node && e.Received.After(from) && e.Received.Before(to)
	})
	a.did("%d requests of the kubelet are missing", n)
}

// agents makes harmless requests with many user agents, and gives the theft a long one.
func (a *attack) agents(theft *Event) {
	n := a.spread(theft, func(i int, at time.Time) *Event {
		e := a.harmless(at)
		e.UserAgent = fmt.Sprintf("agent-%d/1.0", i)
		return e
	})
	theft.UserAgent = strings.Repeat("z", 1<<a.IntN(14))
	a.did("%d user agents", n)
}

// others uses the credentials of three other nodes from the same address, as through a gateway.
func (a *attack) others(theft *Event) {
	if a.theft.Address == a.like.SourceIPs[0] {
		return
	}
	n := 0
	for _, i := range a.Perm(len(a.NodeNames)) {
		at := theft.Received.Add(time.Duration(a.IntN(600)-400) * second)
		like := a.mutator.like(a.NodeNames[i], at)
		if n == 3 || like == nil || a.NodeNames[i] == a.theft.Node || at.Before(a.From) || !at.Before(a.To) {
			continue
		}
		e := a.ownLease(like, at)
		e.SourceIPs = []string{a.theft.Address}
		a.new = append(a.new, e)
		n++
	}
	a.did("%d other nodes' credentials from the same address", n)
}

// clocks sets the clock of the API server that wrote the theft, or of another one, wrong by less than most. The events stay in the order in which they were
// written.
func (a *attack) clocks(theft *Event, most time.Duration) {
	server, by := a.IntN(a.Options.Servers), a.wrong(most)
	for i, e := range a.Events {
		if e.Server != server {
			continue
		}
		c := *e
		c.Received, c.Staged = e.Received.Add(by), e.Staged.Add(by)
		if a.Events[i] = &c; e == theft {
			a.theft.At = c.Received
		}
	}
	a.did("the clock of API server %d is wrong by %s", server, by)
}

// recorder sets the clock of the recorder of the state wrong by less than most.
func (a *attack) recorder(most time.Duration) {
	by := a.wrong(most)
	for i, e := range a.State {
		if !e.At.IsZero() {
			c := *e
			c.At = e.At.Add(by)
			a.State[i] = &c
		}
	}
	a.did("the clock of the recorder is wrong by %s", by)
}

// wrong is by how much a clock is wrong.
func (a *attack) wrong(most time.Duration) time.Duration {
	return time.Duration(a.Int64N(2*int64(most/second))-int64(most/second)) * second
}
