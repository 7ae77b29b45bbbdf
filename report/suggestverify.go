package report

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// Verification is the proof of a suggestion: every request of the window once more, with the suggestion in force and what is to go gone.
type Verification struct {
	// Requests is how many requests were looked at, those of nodes and those that what goes let through. Moved is how many of them were made as a suggested
	// service account instead.
	Requests int64 `json:"requests"`
	Moved    int64 `json:"moved"`
	// Broken is how many break, Examples some of them.
	Broken   int64    `json:"broken"`
	Examples []string `json:"examples"`
	// Rights counts what the suggestion gives: verbs on resources or paths of each client. Beyond are those that were never used.
	Rights int      `json:"rights"`
	Beyond []string `json:"beyond"`
	// AnyName and AnyNamespace are rights that hold for more names, or in more namespaces, than were used.
	AnyName      []string `json:"anyName"`
	AnyNamespace []string `json:"anyNamespace"`
}

// OK reports whether nothing breaks and nothing is given beyond what was used, in verbs and resources.
func (v *Verification) OK() bool { return v.Broken == 0 && len(v.Beyond) == 0 }

// Verifier replays requests against a suggestion, read back from its own YAML. Not safe for concurrent use.
type Verifier struct {
	w       *WhatIf
	change  *rbac.Change
	given   *rbac.Objects
	clients map[string]*verified
	of      map[string]string // client by service account
	kubelet []string
	v       Verification
}

// verified is a client that moves to a service account.
type verified struct {
	user user.DefaultInfo
	// impersonates says that it makes what the Node authorizer allows as its node.
	impersonates bool
	use          clientUse
	used         map[right]*usedRight
}

// usedRight is where a right was used.
type usedRight struct {
	in      map[string]bool // the namespaces, "" for none
	unnamed bool            // also without a name
}

// right is a verb on a resource with its subresource, or on a path, of one client.
type right struct{ client, verb, group, resource, path string }

func (r right) words() string {
	what := r.path
	if r.resource != "" {
		what = r.resource
		if r.group != "" {
			what += "." + r.group
		}
	}
	return r.verb + " " + what
}

// NewVerifier returns a Verifier of the suggestion that s made. extra are objects that are added anyway; without is what goes.
func (s *Suggester) NewVerifier(w *WhatIf, of *Suggestion, without func(rbac.Grant) bool, extra *rbac.Objects) (*Verifier, error) {
	var text bytes.Buffer
	if err := of.WriteYAML(&text); err != nil {
		return nil, err
	}
	given, _, err := ReadManifest(&text)
	if err != nil {
		return nil, fmt.Errorf("reading the suggestion back: %w", err)
	}
	all := *given
	if extra != nil {
		all.ClusterRoles = slices.Concat(extra.ClusterRoles, given.ClusterRoles)
		all.Roles = slices.Concat(extra.Roles, given.Roles)
		all.ClusterRoleBindings = slices.Concat(extra.ClusterRoleBindings, given.ClusterRoleBindings)
		all.RoleBindings = slices.Concat(extra.RoleBindings, given.RoleBindings)
	}
	x := &Verifier{w: w, change: w.RBAC.Change(without, &all), given: given, clients: map[string]*verified{}, of: map[string]string{}, kubelet: s.opt.Kubelets}
	for i := range of.Clients {
		c := &of.Clients[i]
		a := &c.ServiceAccount
		x.clients[c.Client] = &verified{
			user: accountUser(a.Namespace, a.Name), use: clientUse{kubelet: rules.IsKubelet(c.Client, s.opt.Kubelets)},
			used: map[right]*usedRight{}, impersonates: c.Impersonates,
		}
		x.of[a.Namespace+"/"+a.Name] = c.Client
	}
	return x, nil
}

// Add takes in a judged request.
func (x *Verifier) Add(j *pipeline.Judgement) {
	if !x.w.Concerns(j) {
		return
	}
	x.v.Requests++
	f := x.w.Of(j)
	if !moves(j) {
		if f.Outcome == Breaks {
			x.broken(j, "is made as "+tally.Bounded(j.Event.User.Username)+", to which nothing is suggested")
		}
		return
	}
	client := rules.Product(j.Event.UserAgent)
	c := x.clients[client]
	if c == nil || !c.use.needs(j, f) {
		if f.Outcome == Breaks {
			x.broken(j, "has no service account")
		}
		return
	}
	x.v.Moved++
	if c.impersonates && f.Outcome == AllowedByNode {
		asks := asksToImpersonate(j.Attrs, &c.user)
		if !slices.ContainsFunc(asks[:], func(a authorizer.AttributesRecord) bool {
			return !x.w.RBAC.AuthorizeUnder(x.change, &a, j.Time).Allowed
		}) {
			for i := range asks {
				c.uses(client, &asks[i])
			}
			return
		}
	}
	if !x.w.grants(x.change, &c.user, j) {
		x.broken(j, "is refused to "+c.user.Name)
		return
	}
	for _, a := range j.Asked() {
		c.uses(client, a)
	}
}

// uses takes in that the client needed a right.
func (c *verified) uses(client string, a *authorizer.AttributesRecord) {
	k := useOf(a)
	r := right{client: client, verb: k.verb, group: k.group, resource: k.resource, path: k.path}
	if k.sub != "" {
		r.resource += "/" + k.sub
	}
	u := c.used[r]
	if u == nil {
		if len(c.used) >= maxUses {
			return
		}
		u = &usedRight{in: map[string]bool{}}
		c.used[right{strings.Clone(r.client), strings.Clone(r.verb), strings.Clone(r.group), strings.Clone(r.resource), strings.Clone(r.path)}] = u
	}
	u.unnamed = u.unnamed || a.Name == "" || a.Verb == impersonateVerb
	if !u.in[k.namespace] && len(u.in) < maxUses {
		u.in[strings.Clone(k.namespace)] = true
	}
}

func (x *Verifier) broken(j *pipeline.Judgement, why string) {
	x.v.Broken++
	if len(x.v.Examples) < maxWhatIfExamples {
		x.v.Examples = append(x.v.Examples, fmt.Sprintf("%s of client %q %s (auditID %s)", tally.Bounded(useOf(j.Attrs).words()),
			rules.Product(j.Event.UserAgent), why, tally.Bounded(j.Event.AuditID)))
	}
}

// Verification returns the proof, after all requests.
func (x *Verifier) Verification() *Verification {
	v := x.v
	v.Examples = append([]string{}, v.Examples...)
	names, places, beyond, rights := map[right]bool{}, map[right]bool{}, map[string]bool{}, map[right]bool{}
	check := func(r right, namespace string, limited bool) {
		rights[r] = true
		u := &usedRight{}
		if c := x.clients[r.client]; c != nil && c.used[r] != nil {
			u = c.used[r]
		}
		switch {
		case len(u.in) == 0 || namespace != "" && !u.in[namespace]:
			s := fmt.Sprintf("%q may %s", r.client, r.words())
			if namespace != "" {
				s += " in " + namespace
			}
			beyond[s] = true
			return
		case namespace == "" && r.path == "" && !u.in[""]:
			places[r] = true
		}
		if r.path == "" && !limited && !u.unnamed {
			names[r] = true
		}
	}
	each := func(account []rbacv1.Subject, namespace string, list []rbacv1.PolicyRule) {
		for _, s := range account {
			eachRight(x.of[s.Namespace+"/"+s.Name], list, func(r right, limited bool) { check(r, namespace, limited) })
		}
	}
	for i := range x.given.ClusterRoleBindings {
		b := &x.given.ClusterRoleBindings[i]
		for j := range x.given.ClusterRoles {
			if r := &x.given.ClusterRoles[j]; r.Name == b.RoleRef.Name {
				each(b.Subjects, "", r.Rules)
			}
		}
	}
	for i := range x.given.RoleBindings {
		b := &x.given.RoleBindings[i]
		for j := range x.given.Roles {
			if r := &x.given.Roles[j]; r.Name == b.RoleRef.Name && r.Namespace == b.Namespace {
				each(b.Subjects, b.Namespace, r.Rules)
			}
		}
	}
	v.Rights = len(rights)
	v.Beyond = append([]string{}, slices.Sorted(maps.Keys(beyond))...)
	v.AnyName, v.AnyNamespace = byClient(names), byClient(places)
	return &v
}

// byClient lists rights, a line for each client.
func byClient(set map[right]bool) []string {
	words := map[string][]string{}
	for r := range set {
		words[r.client] = append(words[r.client], r.words())
	}
	out := []string{}
	for _, client := range slices.Sorted(maps.Keys(words)) {
		slices.Sort(words[client])
		out = append(out, fmt.Sprintf("%q may %s", client, strings.Join(words[client], ", ")))
	}
	return out
}

// eachRight multiplies rules out.
func eachRight(client string, list []rbacv1.PolicyRule, f func(r right, limited bool)) {
	for i := range list {
		rule := &list[i]
		for _, verb := range rule.Verbs {
			for _, path := range rule.NonResourceURLs {
				f(right{client: client, verb: verb, path: path}, true)
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					f(right{client: client, verb: verb, group: group, resource: resource}, len(rule.ResourceNames) > 0)
				}
			}
		}
	}
}

// Lines are the proof in words.
func (v *Verification) Lines() []string {
	var out []string
	head := "verified: nothing breaks"
	if v.Broken > 0 {
		head = fmt.Sprintf("verified: %s would break", plural(v.Broken, "request"))
	}
	out = append(out, fmt.Sprintf("%s, of %s in the window, %d of them made as the service accounts below", head, plural(v.Requests, "request"), v.Moved))
	for _, x := range v.Examples {
		out = append(out, "  breaks: "+x)
	}
	if v.Moved > 0 {
		out = append(out, "review: apply a role only for a program that you know; what an attacker asked for with a node's credential is in the roles, too")
	}
	if len(v.Beyond) == 0 {
		out = append(out, fmt.Sprintf("verified: of the %s given (a verb on a resource) all were used", plural(int64(v.Rights), "right")))
	}
	for _, l := range []struct {
		title string
		list  []string
	}{
		{"allowed and never used", v.Beyond}, {"allowed on every name, because the program used many names or changing names", v.AnyName},
		{"allowed in all namespaces, because the program used many namespaces", v.AnyNamespace},
	} {
		for _, x := range l.list {
			out = append(out, "  "+l.title+": "+x)
		}
	}
	return out
}
