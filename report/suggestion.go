package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/wording"
)

// Suggestion is the RBAC by which clients could do without a node's credential.
type Suggestion struct {
	Clients []SuggestedClient `json:"clients"`
	// Dropped counts requests of more clients or kinds than are kept: the suggestion does not cover them.
	Dropped int64 `json:"dropped"`
	// Undecided counts requests of which it is not known whether they would break: the suggestion does not cover them.
	Undecided int64 `json:"undecided"`
	// Unsuggested are those whose requests would break and for whom nothing is suggested, the most frequent first: identities that are no nodes, and nodes that act
	// as somebody else.
	Unsuggested []Unsuggested `json:"unsuggested"`
	// Unread says why the logs were not read to their end; "" if they were.
	Unread string `json:"unread"`
	// Verified is set by the replay.
	Verified *Verification `json:"verified"`
	// Skew is the skew that was measured in the log, nil where it was given.
	Skew *Skew `json:"skew,omitempty"`
	// Audiences are the audiences of tokens that nodes may ask for, nil where that is not known.
	Audiences *Audiences `json:"tokenAudiences,omitempty"`
}

// Unsuggested are requests of a client that would break and for which nothing is suggested.
type Unsuggested struct {
	// Client is the user agent without its version.
	Client string `json:"client"`
	// User is the user whose credential it uses; empty for further clients.
	User     string `json:"user"`
	Requests int64  `json:"requests"`
}

// SuggestedClient is what one client is to get.
type SuggestedClient struct {
	// Client is the user agent without its version; Kubelet says that it is a kubelet's.
	Client  string `json:"client"`
	Kubelet bool   `json:"kubelet"`
	// Breaks is how many of its requests would break; Requests how many are covered, with those that the Node authorizer allows only to
	// nodes.
	Breaks   int64 `json:"breaks"`
	Requests int64 `json:"requests"`
	// Identities is how many it used.
	Identities int `json:"identities"`
	// Impersonates says that the client is to make the requests that the Node authorizer allows as the node of its own pod.
	Impersonates bool `json:"impersonates"`
	// Notes are to be read before the objects are applied.
	Notes []string `json:"notes"`
	// Uncovered are kinds of request for which no safe rule can be written, in words.
	Uncovered []string `json:"uncovered"`

	ServiceAccount      corev1.ServiceAccount       `json:"serviceAccount"`
	ClusterRoles        []rbacv1.ClusterRole        `json:"clusterRoles"`
	Roles               []rbacv1.Role               `json:"roles"`
	ClusterRoleBindings []rbacv1.ClusterRoleBinding `json:"clusterRoleBindings"`
	RoleBindings        []rbacv1.RoleBinding        `json:"roleBindings"`
}

// Suggestion returns what the clients need of which requests would break, the most frequent first.
func (s *Suggester) Suggestion() *Suggestion {
	out := &Suggestion{Clients: []SuggestedClient{}, Dropped: s.dropped, Undecided: s.undecided, Unsuggested: []Unsuggested{}}
	for k, n := range s.unsuggested {
		out.Unsuggested = append(out.Unsuggested, Unsuggested{Client: k.client, User: k.user, Requests: n})
	}
	slices.SortFunc(out.Unsuggested, func(a, b Unsuggested) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Client, b.Client), cmp.Compare(a.User, b.User))
	})
	for _, c := range s.clients {
		if c.breaks > 0 {
			out.Clients = append(out.Clients, s.suggest(c))
		}
	}
	slices.SortFunc(out.Clients, func(a, b SuggestedClient) int {
		return cmp.Or(cmp.Compare(b.Breaks, a.Breaks), cmp.Compare(a.Client, b.Client))
	})
	return out
}

// grant is one right: a verb on a resource or path, on some names or on all.
type grant struct{ verb, group, resource, path, names string }

func (s *Suggester) suggest(of *clientUse) SuggestedClient {
	c := new(clientUse)
	*c = *of
	var asNode bool
	c.uses, asNode = of.formed(s.impersonates && !of.kubelet, s.opt.MaxNames)
	out := SuggestedClient{
		Client: c.product, Kubelet: c.kubelet, Breaks: c.breaks, Requests: c.requests, Identities: len(c.nodes), Notes: []string{},
		Uncovered:      []string{},
		ServiceAccount: corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: s.meta(c, s.opt.Namespace)},
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.opt.Namespace, Name: c.account}}
	scopes := s.scopes(c, &out)
	for _, namespace := range slices.Sorted(maps.Keys(scopes)) {
		rules := rulesFor(scopes[namespace])
		meta := s.meta(c, namespace)
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Name: c.account}
		if namespace == "" {
			ref.Kind = rbac.KindClusterRole
			out.ClusterRoles = append(out.ClusterRoles, rbacv1.ClusterRole{TypeMeta: typeMeta(rbac.KindClusterRole), ObjectMeta: meta, Rules: rules})
			out.ClusterRoleBindings = append(out.ClusterRoleBindings, rbacv1.ClusterRoleBinding{
				TypeMeta: typeMeta(rbac.KindClusterRoleBinding), ObjectMeta: meta, RoleRef: ref, Subjects: subjects,
			})
			continue
		}
		ref.Kind = rbac.KindRole
		out.Roles = append(out.Roles, rbacv1.Role{TypeMeta: typeMeta(rbac.KindRole), ObjectMeta: meta, Rules: rules})
		out.RoleBindings = append(out.RoleBindings, rbacv1.RoleBinding{
			TypeMeta: typeMeta(rbac.KindRoleBinding), ObjectMeta: meta, RoleRef: ref, Subjects: subjects,
		})
	}
	if out.Impersonates = asNode; asNode {
		out.Notes = append(out.Notes, "it does what the Node authorizer allows as the node of its own pod (Kubernetes 1.36 and later): run it in a pod with this "+
			"service account, and send the header Impersonate-User: system:node:<nodeName> with the requests whose verbs begin with "+onVerb)
	}
	out.Notes = append(out.Notes, c.notes(scopes)...)
	return out
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func (s *Suggester) meta(c *clientUse, namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: c.account, Namespace: namespace, Labels: map[string]string{"app.kubernetes.io/managed-by": "nodetrail"},
		Annotations: map[string]string{"nodetrail/client": wording.Visible(strings.ToValidUTF8(c.product, "?"))},
	}
}

// scopes are the rights by namespace, "" for the whole cluster. A client of many namespaces has its rights in all of them.
func (s *Suggester) scopes(c *clientUse, out *SuggestedClient) map[string]map[grant]bool {
	kind := func(k useKey) useKey { k.namespace = ""; return k }
	spread := map[useKey]int{}
	for k := range c.uses {
		if k.namespace != "" {
			spread[kind(k)]++
		}
	}
	scopes := map[string]map[grant]bool{}
	wide := map[useKey]bool{} // without limit of names, everywhere
	add := func(namespace string, k useKey, names []string) {
		if scopes[namespace] == nil {
			scopes[namespace] = map[grant]bool{}
		}
		resource := k.resource
		if k.sub != "" {
			resource += "/" + k.sub
		}
		scopes[namespace][grant{k.verb, k.group, resource, k.path, strings.Join(names, "\n")}] = true
	}
	uncovered := map[string]int64{}
	for k, u := range c.uses {
		switch {
		case !k.writable():
			uncovered[k.words()] += u.count
		case k.namespace == "" || spread[kind(k)] > s.opt.MaxNamespaces:
			var names []string
			if k.namespace == "" {
				names = c.stable(u, s.opt.MaxNames)
			}
			wide[kind(k)] = wide[kind(k)] || names == nil
			add("", kind(k), names)
		}
	}
	for k, u := range c.uses {
		if k.writable() && k.namespace != "" && !wide[kind(k)] {
			add(k.namespace, k, c.stable(u, s.opt.MaxNames))
		}
	}
	for _, words := range slices.Sorted(maps.Keys(uncovered)) {
		out.Uncovered = append(out.Uncovered, fmt.Sprintf("%s (%s)", words, plural(uncovered[words], "request")))
	}
	return scopes
}

// words are the request's, for a person.
func (k useKey) words() string {
	g := WhatIfGroup{Verb: k.verb, APIGroup: k.group, Resource: k.resource, Subresource: k.sub, Path: k.path}
	s := requestWords(&g)
	if k.namespace != "" {
		s += " in " + k.namespace
	}
	return s
}

// rulesFor writes rights as rules, joining only what multiplies out to the same rights: verbs of one resource and names, then resources
// of the same group, verbs and names.
func rulesFor(rights map[grant]bool) []rbacv1.PolicyRule {
	type target struct{ group, resource, path, names string }
	verbs := map[target][]string{}
	for r := range rights {
		t := target{r.group, r.resource, r.path, r.names}
		verbs[t] = append(verbs[t], r.verb)
	}
	type rule struct {
		group, verbs, names string
		path                bool
	}
	things := map[rule][]string{}
	for t, v := range verbs {
		slices.Sort(v)
		r := rule{t.group, strings.Join(v, "\n"), t.names, t.resource == ""}
		things[r] = append(things[r], cmp.Or(t.resource, t.path))
	}
	var out []rbacv1.PolicyRule
	for r, list := range things {
		slices.Sort(list)
		p := rbacv1.PolicyRule{Verbs: strings.Split(r.verbs, "\n")}
		if r.path {
			p.NonResourceURLs = list
		} else {
			p.APIGroups, p.Resources = []string{r.group}, list
			if r.names != "" {
				p.ResourceNames = strings.Split(r.names, "\n")
			}
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(slices.Compare(a.NonResourceURLs, b.NonResourceURLs), slices.Compare(a.APIGroups, b.APIGroups),
			slices.Compare(a.Resources, b.Resources), slices.Compare(a.Verbs, b.Verbs), slices.Compare(a.ResourceNames, b.ResourceNames))
	})
	return out
}

// notes say what to look at before the objects are applied.
func (c *clientUse) notes(scopes map[string]map[grant]bool) []string {
	var out []string
	if c.kubelet {
		out = append(out, "it calls itself a kubelet, and a kubelet needs no more than the Node authorizer allows: find out what it is, "+
			"and apply this only if it is a program of yours")
	}
	if c.strangers > 0 {
		out = append(out, fmt.Sprintf("%s of these came with a wrong user or group: if a kubelet made them, issue it a new certificate "+
			"(O=system:nodes, CN=system:node:<nodeName>)", plural(c.strangers, "request")))
	}
	seen := map[string]bool{}
	for namespace, rights := range scopes {
		for r := range rights {
			if why := sensitive(r, namespace); why != "" {
				seen[why] = true
			}
		}
	}
	return append(out, slices.Sorted(maps.Keys(seen))...)
}

// sensitive says why a right should be looked at twice, empty for most.
func sensitive(r grant, namespace string) string {
	where := "in some namespaces"
	if namespace == "" {
		where = "in the whole cluster"
	}
	switch {
	case r.underNode():
		return ""
	case r.group == "" && r.resource == "secrets" && r.names == "":
		return "it may " + r.verb + " all secrets " + where
	case r.group == "" && r.resource == "serviceaccounts/token":
		return "it may make tokens of service accounts " + where + ", and so act as them"
	case r.group == "" && (r.resource == "pods/exec" || r.resource == "pods/attach" || r.resource == "nodes/proxy" || r.resource == "pods/ephemeralcontainers"):
		return "it may run commands in pods by " + r.resource + " " + where
	case r.group == "" && r.resource == "pods" && (r.verb == "create" || r.verb == "update" || r.verb == "patch"):
		return "it may " + r.verb + " pods " + where + ", and so use what they can mount"
	case r.group == "" && (r.resource == "nodes" || r.resource == "nodes/status") && r.verb != "get" && r.verb != "list" && r.verb != "watch":
		return "it may " + r.verb + " " + r.resource + " of all nodes: the admission plugin NodeRestriction, which keeps a node to its own, does not look at it"
	case r.verb == "impersonate" || r.verb == "escalate" || r.verb == "bind":
		return "it may " + r.verb + " " + r.resource + " " + where
	case r.group == rbacv1.GroupName && r.verb != "get" && r.verb != "list" && r.verb != "watch":
		return "it may change RBAC " + where
	}
	return ""
}

// objects are a client's, in the order in which they are applied.
func (c *SuggestedClient) objects() []any {
	out := []any{&c.ServiceAccount}
	for i := range c.ClusterRoles {
		out = append(out, &c.ClusterRoles[i], &c.ClusterRoleBindings[i])
	}
	for i := range c.Roles {
		out = append(out, &c.Roles[i], &c.RoleBindings[i])
	}
	return out
}

// broken is how many requests would break with the suggestion, too.
func (s *Suggestion) broken() (n int64) {
	for i := range s.Unsuggested {
		n += s.Unsuggested[i].Requests
	}
	return n
}

// maxUnsuggested is how many of them the head of the YAML names.
const maxUnsuggested = 20

// WriteYAML writes the objects as kubectl apply takes them, with what is to be known of each client as comments.
func (s *Suggestion) WriteYAML(w io.Writer) error {
	var b bytes.Buffer
	comment := func(format string, args ...any) {
		fmt.Fprintf(&b, "# %s\n", wording.Visible(fmt.Sprintf(format, args...)))
	}
	switch whole := s.Undecided == 0 && s.Dropped == 0 && s.Unread == ""; {
	case len(s.Clients) > 0 || len(s.Unsuggested) > 0:
	case whole:
		comment("nothing breaks, so nothing is suggested")
	default:
		comment("nothing is known to break, so nothing is suggested")
	}
	if s.Unread != "" {
		comment("WARNING: clients and rights may be missing: %s", wording.English{}.Say(codes.LogUnread, codes.Params{codes.Text(codes.ParamTrouble, s.Unread)}))
	}
	if s.Undecided > 0 {
		comment("WARNING: clients and rights may be missing: %s", wording.English{}.Say(codes.OutcomeUnknown, codes.Params{codes.Int(codes.ParamCount, s.Undecided)}))
	}
	if n := s.broken(); n > 0 {
		comment("WARNING: %s would break, and nothing is suggested for them: they are made with no node's credential, or a node acts as somebody else", plural(n, "request"))
		for _, u := range s.Unsuggested[:min(len(s.Unsuggested), maxUnsuggested)] {
			comment("  client %q as %q: %s", u.Client, u.User, plural(u.Requests, "request"))
		}
		if more := len(s.Unsuggested) - maxUnsuggested; more > 0 {
			comment("  and %d more, see -o json", more)
		}
	}
	if s.Verified != nil {
		for _, line := range s.Verified.Lines() {
			comment("%s", line)
		}
	}
	if s.Skew != nil {
		comment("skew: %s", s.Skew.Words())
	}
	for _, line := range s.Audiences.Lines() {
		comment("token audiences: %s", line)
	}
	if s.Dropped > 0 {
		comment("%s not covered: more clients or kinds of request than are looked at", plural(s.Dropped, "request"))
	}
	for i := range s.Clients {
		c := &s.Clients[i]
		if i > 0 {
			b.WriteString("---\n")
		}
		comment("client %q: %s would break; covered: %s by %s", c.Client, plural(c.Breaks, "request"), plural(c.Requests, "request"),
			plural(int64(c.Identities), "identity"))
		for _, n := range c.Notes {
			comment("WARNING: %s", n)
		}
		for _, u := range c.Uncovered {
			comment("not covered, for no rule can say it and nothing else: %s", u)
		}
		for n, o := range c.objects() {
			text, err := marshalYAML(o)
			if err != nil {
				return fmt.Errorf("writing the objects of client %q: %w", c.Client, err)
			}
			if n > 0 {
				b.WriteString("---\n")
			}
			b.Write(text)
		}
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("writing the suggestion: %w", err)
	}
	return nil
}

// WriteJSON writes the suggestion as indented JSON with a line end.
func (s *Suggestion) WriteJSON(w io.Writer) error { return writeJSON(w, s, "the suggestion") }

func writeJSON(w io.Writer, v any, what string) error {
	if err := wording.WriteJSON(w, v); err != nil {
		return fmt.Errorf("writing %s: %w", what, err)
	}
	return nil
}
