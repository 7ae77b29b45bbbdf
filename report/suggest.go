package report

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// The bounds of what a Suggester keeps, whatever a log holds.
const (
	maxClients    = 500
	maxUses       = 20_000
	maxIdentities = 50_000
)

// SuggestOptions say what a suggestion is like. The zero value of each means its default.
type SuggestOptions struct {
	// Namespace is where the service accounts are. Default kube-system.
	Namespace string
	// MaxNames is up to how many names a rule is limited to them, if they are stable. Default 8.
	MaxNames int
	// MaxNamespaces is up to how many namespaces a client gets a role in each rather than a cluster role. Default 20.
	MaxNamespaces int
	// Kubelets are further user agents, without version, that are a kubelet's.
	Kubelets []string
}

// Impersonates has clients do what the Node authorizer allows by impersonating the node of their own pod (KEP-5284), which Kubernetes 1.36 and later can.
func (s *Suggester) Impersonates() { s.impersonates = true }

// Suggester gathers what clients use a node's credential for, to suggest the RBAC that they need without it. Not safe for concurrent
// use.
//
// A client is a user agent without its version. One that is no kubelet's is to get a service account for all it does, since the Node authorizer
// will not know it any more. Of one that calls itself a kubelet only what would break is covered: a kubelet needs nothing else than
// what Node allows, so that is the work of something else, or of an identity with a wrong user or group.
type Suggester struct {
	w       *WhatIf
	opt     SuggestOptions
	clients map[string]*clientUse
	uses    int
	who     int // identities of all clients
	most    int // uses
	// dropped counts requests beyond the bounds.
	dropped int64
	// undecided counts requests of which it is not known whether they would break.
	undecided    int64
	unsuggested  map[leftUse]int64
	impersonates bool
}

// leftUse is who makes requests that break and for which nothing is suggested.
type leftUse struct{ client, user string }

// clientUse is what one client does.
type clientUse struct {
	product          string
	kubelet          bool
	account          string // the service account's name
	user             user.DefaultInfo
	breaks, requests int64
	strangers        int64 // of the breaking requests those of identities that are no node's
	nodes            map[string]bool
	first, last      time.Time
	uses             map[useKey]*use
}

// useKey is a kind of request as a rule sees it.
type useKey struct {
	verb, group, resource, sub, namespace, path string
	node                                        bool // the Node authorizer allows it
}

// use is how often, and on which names.
type use struct {
	count   int64
	unnamed bool // also without a name, or more names than are kept
	names   map[string]*seenName
}

type seenName struct{ first, last time.Time }

// NewSuggester returns an empty one. What goes and the authorizers are w's.
func NewSuggester(w *WhatIf, opt SuggestOptions) *Suggester {
	if opt.Namespace == "" {
		opt.Namespace = "kube-system"
	}
	if opt.MaxNames == 0 {
		opt.MaxNames = 8
	}
	if opt.MaxNamespaces == 0 {
		opt.MaxNamespaces = 20
	}
	return &Suggester{w: w, opt: opt, most: maxUses, clients: map[string]*clientUse{}, unsuggested: map[leftUse]int64{}}
}

// Add takes in a judged request.
func (s *Suggester) Add(j *pipeline.Judgement) {
	if !s.w.Concerns(j) {
		return
	}
	f := s.w.Of(j)
	if f.Outcome == Undecided {
		s.undecided++
	}
	if !moves(j) {
		if f.Outcome == Breaks {
			s.leave(j)
		}
		return
	}
	c := s.client(rules.Product(j.Event.UserAgent))
	if c == nil {
		s.dropped++
		return
	}
	if !c.needs(j, f) {
		return
	}
	later := false
	if f.Outcome == AllowedByNode && !c.kubelet {
		_, later = s.w.Later(j)
	}
	if f.Outcome == Breaks || later {
		c.breaks++
		if !j.IsNode {
			c.strangers++
		}
	}
	if s.w.ambient(c, j) {
		return
	}
	c.requests++
	if c.first.IsZero() || j.Time.Before(c.first) {
		c.first = j.Time.UTC()
	}
	if j.Time.After(c.last) {
		c.last = j.Time.UTC()
	}
	if who := tally.Bounded(j.Event.Effective().Username); s.who < maxIdentities && !c.nodes[who] {
		c.nodes[strings.Clone(who)] = true
		s.who++
	}
	for _, a := range j.Asked() {
		s.use(c, j, a, f.Outcome == AllowedByNode)
	}
}

// moves reports whether the request is one that a service account could make instead: it is made with a node's credential, or with what is taken for one. Who acts
// as another needs a credential of that one, and no role.
func moves(j *pipeline.Judgement) bool { return ConcernsNodes(j) && j.Impersonator == "" }

// leave counts a request that breaks, and for which nothing is suggested.
func (s *Suggester) leave(j *pipeline.Judgement) {
	k := leftUse{rules.Product(j.Event.UserAgent), tally.Bounded(j.Event.User.Username)}
	if _, known := s.unsuggested[k]; !known {
		if len(s.unsuggested) >= maxClients {
			k = leftUse{client: furtherClients}
		}
		k = leftUse{strings.Clone(k.client), strings.Clone(k.user)}
	}
	s.unsuggested[k]++
}

func (s *Suggester) client(product string) *clientUse {
	c := s.clients[product]
	if c == nil && len(s.clients) < maxClients {
		product = strings.Clone(product)
		c = &clientUse{
			product: product, kubelet: rules.IsKubelet(product, s.opt.Kubelets), account: accountName(product),
			nodes: map[string]bool{}, uses: map[useKey]*use{},
		}
		c.user = accountUser(s.opt.Namespace, c.account)
		s.clients[product] = c
	}
	return c
}

// accountUser is the identity of a service account, as the API server makes it of a token.
func accountUser(namespace, name string) user.DefaultInfo {
	return user.DefaultInfo{
		Name:   serviceaccount.MakeUsername(namespace, name),
		Groups: append(serviceaccount.MakeGroupNames(namespace), user.AllAuthenticated),
	}
}

// needs reports whether the client must be able to make the request as somebody else. What failed anyway counts for programs that
// are no kubelets: many take a 404 for an answer and a 403 for a failure, and all ask again after a 429. What admission refused does not.
func (c *clientUse) needs(j *pipeline.Judgement, f Fate) bool {
	if c.kubelet {
		return f.Outcome == Breaks
	}
	return (j.Allowed || j.Unasked()) && f.Outcome != Refused && f.Outcome != Gained && j.Event.Code != http.StatusForbidden
}

// ambient reports whether the client's service account may make the request without any rule of its own: as any authenticated user,
// or because it was given this already.
func (w *WhatIf) ambient(c *clientUse, j *pipeline.Judgement) bool {
	return w.grants(w.Change, &c.user, j)
}

func asUser(a *authorizer.AttributesRecord, u *user.DefaultInfo) authorizer.AttributesRecord {
	out := *a
	out.User = u
	return out
}

// useOf is the kind of the request. That of a namespace itself is not within it, though the API server says so.
func useOf(a *authorizer.AttributesRecord) useKey {
	if !a.ResourceRequest {
		return useKey{verb: a.Verb, path: a.Path}
	}
	k := useKey{verb: a.Verb, group: a.APIGroup, resource: a.Resource, sub: a.Subresource, namespace: a.Namespace}
	if a.Resource == "namespaces" && a.APIGroup == "" {
		k.namespace = ""
	}
	return k
}

func (s *Suggester) use(c *clientUse, j *pipeline.Judgement, a *authorizer.AttributesRecord, byNode bool) {
	k := useOf(a)
	k.node = byNode
	u := c.uses[k]
	if u == nil {
		if s.uses >= s.most {
			s.dropped++
			return
		}
		s.uses++
		u = &use{names: map[string]*seenName{}}
		c.uses[k.own()] = u
	}
	u.count++
	if !a.ResourceRequest {
		return
	}
	name := a.Name
	n := u.names[name]
	switch {
	case u.unnamed:
		return
	case name == "" || n == nil && len(u.names) >= s.opt.MaxNames || !plainText(name, 253) || ofNode(a):
		u.unnamed, u.names = true, nil
		return
	case n == nil:
		n = &seenName{first: j.Time, last: j.Time}
		u.names[strings.Clone(name)] = n
	}
	if j.Time.Before(n.first) {
		n.first = j.Time
	}
	if j.Time.After(n.last) {
		n.last = j.Time
	}
}

// ofNode reports whether the object is named as a node: there are as many such names as nodes, and new ones with each.
func ofNode(a *authorizer.AttributesRecord) bool {
	switch a.Resource {
	case "nodes", "csinodes":
		return true
	case "leases":
		return a.Namespace == "kube-node-lease"
	}
	return false
}

func (k useKey) own() useKey {
	for _, s := range []*string{&k.verb, &k.group, &k.resource, &k.sub, &k.namespace, &k.path} {
		*s = strings.Clone(*s)
	}
	return k
}

// stable returns the names to which a rule can be limited, in order; nil if it cannot. Names are stable when there are few of them and
// each was asked for both in the first and in the second half of the time in which the client was seen.
func (c *clientUse) stable(u *use, most int) []string {
	if u.unnamed || len(u.names) == 0 || len(u.names) > most {
		return nil
	}
	mid := c.first.Add(c.last.Sub(c.first) / 2)
	var names []string
	for name, n := range u.names {
		if n.first.After(mid) || !n.last.After(mid) {
			return nil
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// grants reports whether RBAC with the change lets the client's service account make the request.
func (w *WhatIf) grants(change *rbac.Change, u *user.DefaultInfo, j *pipeline.Judgement) bool {
	for _, attrs := range j.Asked() {
		if a := asUser(attrs, u); !w.RBAC.AuthorizeUnder(change, &a, j.Time).Allowed {
			return false
		}
	}
	return true
}
