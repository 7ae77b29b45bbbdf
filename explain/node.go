package explain

import (
	"cmp"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
)

// MaxPaths bounds NodeObject.Paths.
const MaxPaths = 20

// NodeReach says what a holder of a node's credential could do in a span of time, what the credential did beyond that, and what to rotate.
type NodeReach struct {
	Node string `json:"node"`
	// From and To bound the span, both included; nil where it is open.
	From *time.Time `json:"from"`
	To   *time.Time `json:"to"`
	// StateEnd is when the state ends, if that is before the end of the span; nil otherwise. What came after that is missing.
	StateEnd *time.Time `json:"stateEnd"`
	// KubernetesVersion is by which the Node authorizer was asked.
	KubernetesVersion string `json:"kubernetesVersion"`
	// Known is false when there may be more objects, as the state does not know all of the span; Notes say why.
	Known bool `json:"known"`
	// Objects are what pods and volumes on the node led to: secrets and service accounts first, each kind by namespace and name.
	Objects []NodeObject `json:"objects"`
	// Accounts are the service accounts whose tokens the credential could make, or did by the log, with their rights. Rights of all service accounts, but not
	// those that every authenticated user has, are among them.
	Accounts []Account `json:"accounts"`
	// RightsKnown is false when accounts may have had more rights, as the state does not know all roles and bindings of the span.
	RightsKnown bool `json:"rightsKnown"`
	// Beyond is what the credential did that the objects do not explain; nil where no audit log was read.
	Beyond *Beyond `json:"beyond"`
	// Rotate is what to rotate if the credential was stolen, the credential itself first.
	Rotate []Rotation `json:"rotate"`
	// Notes are what is to be known about the answer.
	Notes []string `json:"notes"`
}

// NodeObject is an object that the node's credential could get.
type NodeObject struct {
	Object Step `json:"object"`
	// Access is what the Node authorizer let the node do: get, create token.
	Access []string `json:"access"`
	// Paths lead from the object to the node, those that lasted longest first; at most [MaxPaths].
	Paths []Path `json:"paths"`
	// More is how many paths are not listed.
	More int `json:"more"`
}

// Account is a service account with what RBAC let it do.
type Account struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Rights are in the order of bindings and then of time, at most [MaxGrants].
	Rights []AccountRight `json:"rights"`
	// More is how many are not listed.
	More int `json:"more"`
}

// AccountRight is what one binding gave an account.
type AccountRight struct {
	Binding Binding `json:"binding"`
	Role    Role    `json:"role"`
	Subject Subject `json:"subject"`
	// From is nil when no beginning is known, To when it has not ended.
	From  *time.Time `json:"from"`
	To    *time.Time `json:"to"`
	Rules []Rule     `json:"rules"`
}

// Rule is a rule of a role.
type Rule struct {
	Verbs           []string `json:"verbs"`
	APIGroups       []string `json:"apiGroups"`
	Resources       []string `json:"resources"`
	ResourceNames   []string `json:"resourceNames"`
	NonResourceURLs []string `json:"nonResourceURLs"`
}

// Rotation is something to rotate.
type Rotation struct {
	// Kind is credential (the node's own), secret, secrets (all of Namespace, or of all namespaces where it is empty), or tokens (of a service account).
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Why says in a sentence what made it reachable, or that it was read.
	Why string `json:"why"`
}

// Node says what the credential of a node could reach at any instant from `from` to `to`, both included, and what to rotate. A zero time bounds nothing.
// beyond is what audit logs tell, nil without any. The Node authorizer is asked for each object, so what the version and its gates do not have is left out.
// It looks at all of the state once.
func (x *Explainer) Node(node string, from, to time.Time, beyond *Beyond) *NodeReach {
	out := &NodeReach{
		Node: node, From: optional(from), To: optional(to), KubernetesVersion: x.o.Node.Features().Version(),
		Objects: []NodeObject{}, Accounts: []Account{}, Beyond: beyond, Notes: []string{},
	}
	if out.StateEnd = optional(x.o.StateEnd); out.StateEnd != nil {
		out.Notes = append(out.Notes, "The state ends at "+clock(*out.StateEnd)+": objects that came after that are missing.")
	}
	objects, _ := x.o.Node.ReachedBy(node, from, to)
	begin, end := x.covered(from, to)
	missing := x.o.Node.EachReached(nil, begin, end, func(string, []nodeauthz.Reached) {})
	if missing != "" {
		out.Notes = append(out.Notes, "Objects may be missing: "+missing+".")
	}
	out.Known = missing == "" && out.StateEnd == nil
	for i := range objects {
		if o := x.nodeObject(node, from, &objects[i]); len(o.Access) > 0 {
			out.Objects = append(out.Objects, o)
		}
	}
	slices.SortStableFunc(out.Objects, func(a, b NodeObject) int { return cmp.Compare(rankOf(a.Object.Kind), rankOf(b.Object.Kind)) })
	accounts := map[rbac.SubjectRef]int{} // places in out.Accounts
	account := func(namespace, name string) {
		ref := rbac.SubjectRef{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
		if _, known := accounts[ref]; !known {
			accounts[ref] = len(out.Accounts)
			out.Accounts = append(out.Accounts, Account{Namespace: namespace, Name: name, Rights: []AccountRight{}})
		}
	}
	for i := range out.Objects {
		if o := &out.Objects[i]; slices.Contains(o.Access, accessToken) {
			account(o.Object.Namespace, o.Object.Name)
		}
	}
	for t := range beyond.takings() {
		if t.kind == rotateTokens {
			account(t.namespace, t.name)
		}
	}
	x.rights(out, accounts, from, to)
	x.everyNode(out, from, to)
	out.rotations()
	return out
}

// covered is the part of a span of which the state has to tell: to the end of what is known at all, and no further than the state goes.
func (x *Explainer) covered(from, to time.Time) (begin, end time.Time) {
	if to.IsZero() {
		to = x.o.Until
	}
	if end := x.o.StateEnd; !end.IsZero() && (to.IsZero() || to.After(end)) {
		to = end
	}
	if !to.IsZero() && from.After(to) {
		from = to
	}
	return from, to
}

const (
	accessGet   = "get"
	accessToken = "create token"
)

// rankOf is in which order kinds are listed: what matters most first.
func rankOf(kind string) int {
	order := []string{
		nodeauthz.KindSecret.String(), nodeauthz.KindServiceAccount.String(), nodeauthz.KindConfigMap.String(), nodeauthz.KindPersistentVolumeClaim.String(),
		nodeauthz.KindPersistentVolume.String(), nodeauthz.KindPod.String(),
	}
	if i := slices.Index(order, kind); i >= 0 {
		return i
	}
	return len(order)
}

// nodeObject asks the authorizer what the node could do with an object, at an instant at which it led to the node. After the end of the state nobody knows whether it
// still did: that is to be rotated, too.
func (x *Explainer) nodeObject(node string, from time.Time, r *nodeauthz.Reached) NodeObject {
	o := NodeObject{Object: stepOf(r.Object), Access: []string{}, Paths: []Path{}}
	group, resource := nodeauthz.ResourceOfKind(r.Object.Kind)
	q := Request{Node: node, Verb: "get", APIGroup: group, Resource: resource, Namespace: r.Object.Namespace, Name: r.Object.Name}
	at := r.Paths[0].From
	if at.Before(from) {
		at = from
	}
	if x.o.Node.Decide(q.Attributes(), at).Verdict != nodeauthz.Deny {
		o.Access = append(o.Access, accessGet)
	}
	if r.Object.Kind == nodeauthz.KindServiceAccount {
		q.Verb, q.Subresource = "create", "token"
		if x.o.Node.Decide(q.Attributes(), at).Verdict != nodeauthz.Deny {
			o.Access = append(o.Access, accessToken)
		}
	}
	for i := range r.Paths {
		if i == MaxPaths {
			o.More = len(r.Paths) - i
			break
		}
		o.Paths = append(o.Paths, *pathOf(&r.Paths[i]))
	}
	return o
}

// rights adds what RBAC gave to the accounts.
func (x *Explainer) rights(out *NodeReach, accounts map[rbac.SubjectRef]int, from, to time.Time) {
	if x.o.RBAC == nil {
		return
	}
	out.RightsKnown = out.StateEnd == nil && x.o.RBAC.CoversAll(x.covered(from, to))
	if !out.RightsKnown && len(accounts) > 0 {
		out.Notes = append(out.Notes, "Rights of service accounts may be missing: the state does not know all roles and bindings of the time.")
	}
	for r := range x.o.RBAC.RightsDuring(from, to) {
		given := map[int]bool{}
		for _, s := range r.Subjects {
			for _, i := range s.Accounts(accounts) {
				if given[i] {
					continue
				}
				given[i] = true
				a := &out.Accounts[i]
				if len(a.Rights) == MaxGrants {
					a.More++
					continue
				}
				a.Rights = append(a.Rights, AccountRight{
					Binding: bindingOf(r.Binding), Role: Role(r.Role), Subject: Subject(s), From: optional(r.From), To: optional(r.To), Rules: rulesOf(r.Rules),
				})
			}
		}
	}
}

func rulesOf(list []rbacv1.PolicyRule) []Rule {
	out := make([]Rule, 0, len(list))
	all := func(s []string) []string { return append([]string{}, s...) }
	for i := range list {
		r := &list[i]
		out = append(out, Rule{all(r.Verbs), all(r.APIGroups), all(r.Resources), all(r.ResourceNames), all(r.NonResourceURLs)})
	}
	return out
}

// everyNode notes what the authorizer lets every node read, whatever the graph says.
func (x *Explainer) everyNode(out *NodeReach, from, to time.Time) {
	at := to
	if at.IsZero() {
		at = from
	}
	for _, resource := range []string{"pods", "nodes"} {
		q := Request{Node: out.Node, Verb: "get", Resource: resource, Name: "\x00"}
		if resource == "pods" {
			q.Namespace = "\x00"
		}
		if a := x.o.Node.Decide(q.Attributes(), at); a.Verdict == nodeauthz.Allow && a.Static {
			out.Notes = append(out.Notes, "In this version the Node authorizer lets every node read all "+resource+".")
		}
	}
}
