package rules

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/internal/test/lent"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
)

// at is an instant, so many seconds after the tests' beginning of time.
func at(seconds int) time.Time {
	return time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
}

// with changes a request.
type with func(*Request)

// request is a kubelet's: node worker-1 gets the secret shop/db, which the Node authorizer denies, and is refused with 403 by an
// API server that writes no annotations. Changes are applied in order.
func request(changes ...with) *Request {
	r := &Request{
		Event: &audit.Event{
			AuditID: "a", Verb: "get", UserAgent: "kubelet/v1.36.3 (linux/amd64) kubernetes/0000000", SourceIPs: []string{"10.0.0.1"}, Code: 403,
		},
		Attrs:  &authorizer.AttributesRecord{Verb: "get", APIVersion: "v1", Resource: "secrets", Namespace: "shop", Name: "db", ResourceRequest: true},
		Time:   at(0),
		Answer: nodeauthz.Answer{Verdict: nodeauthz.Deny, Reason: "no relationship found between node 'worker-1' and this object"},
	}
	as("system:node:worker-1", "system:nodes", "system:authenticated")(r)
	for _, c := range changes {
		c(r)
	}
	return r
}

func as(name string, groups ...string) with {
	return func(r *Request) {
		r.Event.User.Username, r.Event.User.Groups = name, groups
		r.Node, r.IsNode = nodeid.Of(name, groups)
	}
}

// does sets what is requested: "get secrets shop/db", "create serviceaccounts/token shop/web", "patch nodes worker-1",
// "update leases.coordination.k8s.io kube-node-lease/worker-1", "list secrets shop/", "list secrets", "get /metrics".
func does(what string) with {
	return func(r *Request) {
		verb, rest, _ := strings.Cut(what, " ")
		if rest == "" || rest[0] == '/' {
			path(rest)(r)
			r.Attrs.Verb = verb
			return
		}
		resource, name, _ := strings.Cut(rest, " ")
		a := r.Attrs
		resource, a.APIGroup, _ = strings.Cut(resource, ".")
		a.Resource, a.Subresource, _ = strings.Cut(resource, "/")
		a.Verb, a.Namespace, a.Name = verb, "", name
		if namespace, name, ok := strings.Cut(name, "/"); ok {
			a.Namespace, a.Name = namespace, name
		}
	}
}

func path(p string) with {
	return func(r *Request) { *r.Attrs = authorizer.AttributesRecord{Verb: "get", Path: p} }
}

func verdict(v nodeauthz.Verdict) with { return func(r *Request) { r.Answer.Verdict = v } }

// selecting has the request select objects by a field, or the objects of a node.
func selecting(field, value string) with {
	return func(r *Request) {
		r.Attrs.FieldSelectorRequirements = fields.Requirements{{Field: field, Operator: selection.Equals, Value: value}}
	}
}

func selectsNode(node string) with { return selecting("spec.nodeName", node) }

// misused expects a finding of medium severity, or none, on a request whose URI is known.
func misused(t *testing.T, s State, name string, want Reason, what string, changes ...with) {
	t.Helper()
	uri := func(r *Request) { r.Event.RequestURI = "/apis" }
	found, _ := nodeCredentialMisuse().Find(request(append([]with{does(what), uri}, changes...)...), s, NewMemory())
	if found.Reason != want || want != "" && found.Severity != Medium {
		t.Errorf("%s, %s: %+v, want %q", what, name, found, want)
	}
}

// expects returns what holds a rule to its finding on a request, without a state.
func expects(t *testing.T, rule *Rule, m *Memory) func(name, want string, changes ...with) {
	return func(name, want string, changes ...with) {
		t.Helper()
		if got := check(t, rule, nil, m, request(changes...)); got != want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
}

func race(r *Request) { r.Answer.Race = true }

// code is the response's; without annotations it says whether authorization was passed.
func code(c int32) with {
	return func(r *Request) { r.Event.Code, r.Allowed = c, c != 401 && c != 403 }
}

// annotated is the API server's own decision, with what it implies of the Node authorizer.
func annotated(decision string, node nodeauthz.Verdict) with {
	return func(r *Request) {
		r.Observed.Decision, r.Observed.NodeVerdict, r.Allowed = decision, node, decision == "allow"
	}
}

// granted is a grant through the ClusterRoleBinding legacy to a subject such as "Group system:nodes".
func granted(subject string) with {
	return func(r *Request) {
		kind, name, _ := strings.Cut(subject, " ")
		r.HasGrant = true
		r.Grant = rbac.Grant{
			Binding: rbac.BindingRef{Kind: "ClusterRoleBinding", Name: "legacy"}, Role: rbac.RoleRef{Kind: "ClusterRole", Name: "system:node"},
			Subject: rbac.SubjectRef{Kind: kind, Name: name},
		}
	}
}

// byRBAC is a request that RBAC let through by a binding for all nodes, with the API server's word for it.
func byRBAC(c int32) with {
	return func(r *Request) {
		code(c)(r)
		granted("Group system:nodes")(r)
		annotated("allow", nodeauthz.Deny)(r)
		r.Observed.Authorizer = ByRBAC
	}
}

func agent(ua string) with { return func(r *Request) { r.Event.UserAgent = ua } }

func from(ips ...string) with { return func(r *Request) { r.Event.SourceIPs = ips } }

func when(seconds int) with { return func(r *Request) { r.Time = at(seconds) } }

func certificate(id string) with { return func(r *Request) { r.Event.User.CredentialID = id } }

// impersonated makes the request's node identity one that admin has put on.
func impersonated(r *Request) {
	r.Event.Impersonated, r.Event.IsImpersonated = r.Event.User, true
	r.Event.User = audit.User{Username: "admin", Groups: []string{"system:authenticated"}, CredentialID: "X509SHA256=admin"}
}

// world is a cluster that does not change, but that nodes are created anew.
type world struct {
	nodes     []string          // registered
	similar   map[string]string // name -> "other how"
	created   map[string]int    // when a node was created anew, in seconds
	pods      map[string]string // namespace/name -> node
	left      map[string]string // namespace/name -> the node that it has just left
	ended     map[string]int    // namespace/name of a pod -> when it was deleted, in seconds
	addresses map[string][]string
	sets      map[string][][]string // of addresses
	stays     map[string][]stay     // of pods, by namespace/name
	pulls     map[string]bool       // namespace/name of secrets that pods name for their images alone
	blind     bool                  // knows nothing for sure
	until     int                   // when the state ended, in seconds; 0 if it did not
	gone      map[string]int        // when a Node was deleted, in seconds
	silent    map[string][2]int     // from when until when the control plane heard nothing of a node, in seconds
	fresh     map[string]string     // namespace/name of a pod -> "secret seconds": what it alone led to, and when it was bound
}

func (w *world) NodeRegistered(name string, _ time.Time) (registered, known bool) {
	for _, n := range w.nodes {
		registered = registered || n == name
	}
	return registered, !w.blind
}

func (w *world) SimilarNode(name string, _ time.Time) (similar string, how Reason) {
	similar, what, _ := strings.Cut(w.similar[name], " ")
	return similar, map[string]Reason{"letter case": NameLetterCase, "domain": NameDomain}[what]
}

func (w *world) NodeCreatedBetween(name string, from, to time.Time) bool {
	s, ok := w.created[name]
	return ok && at(s).After(from) && !at(s).After(to)
}

func (w *world) PodNode(namespace, name string, _ time.Time) (string, bool) {
	node, ok := w.pods[namespace+"/"+name]
	return node, ok
}

func (w *world) PodWasOn(namespace, name, node string, from, _ time.Time) bool {
	s, ended := w.ended[namespace+"/"+name]
	return w.pods[namespace+"/"+name] == node && (!ended || !from.After(at(s)))
}

func (w *world) PodStays(namespace, name, uid string, from, to time.Time, f func(*nodeauthz.Stay)) {
	for _, s := range w.stays[namespace+"/"+name] {
		if (s.Begin.IsZero() || !s.Begin.After(to)) && (s.End.IsZero() || from.Before(s.End)) {
			stay := nodeauthz.Stay{Node: s.node, Begin: s.Begin, End: s.End, UIDKnown: s.uid != "", Is: s.uid != "" && s.uid == uid}
			f(&stay)
		}
	}
}

// stay is when a pod was on a node.
type stay struct {
	node, uid  string
	Begin, End time.Time
}

func (w *world) PodOnNode(namespace, name, node string, _ time.Time) nodeauthz.Answer {
	switch pod := namespace + "/" + name; {
	case w.pods[pod] == node:
		return nodeauthz.Answer{Verdict: nodeauthz.Allow}
	case w.blind:
		return nodeauthz.Answer{Verdict: nodeauthz.Unknown}
	default:
		return nodeauthz.Answer{Verdict: nodeauthz.Deny, Race: w.left[pod] == node}
	}
}

// check asks one rule about one request and returns "" or the finding as "severity: message".
func check(t *testing.T, rule *Rule, s State, m *Memory, r *Request) string {
	t.Helper()
	f, found := rule.Find(r, s, m)
	if !found {
		if !reflect.DeepEqual(f, Finding{}) {
			t.Errorf("%s: no finding, but %+v", rule.Name, f)
		}
		return ""
	}
	if f.Rule != rule.Name || f.Severity == None || f.Severity > rule.Severity || !reasonOfRule(rule, f.Reason) || f.Allowed != r.Allowed {
		t.Errorf("%s: finding %+v", rule.Name, f)
	}
	return f.Severity.String() + ": " + say(r, &f)
}

// reasonOfRule reports whether the rule lists the reason.
func reasonOfRule(rule *Rule, reason Reason) bool {
	return slices.ContainsFunc(rule.Reasons, func(d ReasonDoc) bool { return d.Reason == reason })
}

// SilentSince follows [State.SilentSince], with what the control plane heard of a node.
func (w *world) SilentSince(node string, t time.Time) time.Time {
	if s, ok := w.silent[node]; ok && !t.Before(at(s[0])) && !t.Add(-ClockDoubt).After(at(s[1])) {
		return at(s[0])
	}
	return time.Time{}
}

func (w *world) PodsWatched(time.Time) bool { return true }

func (w *world) NodeExists(name string, t time.Time) (exists, known bool) {
	exists, known = w.NodeRegistered(name, t)
	if s, ok := w.gone[name]; ok && !t.Before(at(s)) {
		exists = false
	}
	return exists, known
}

func (w *world) AddressesKnown(t time.Time) bool {
	return !w.blind && (w.until == 0 || !t.After(at(w.until)))
}

func (w *world) Leads(a *authorizer.AttributesRecord, node string, t time.Time) bool {
	return w.PodWasOn(a.Namespace, a.Name, node, t.Add(-ClockDoubt), t) // of a secret with a pod's name
}

func (w *world) Had(a *authorizer.AttributesRecord, node string, t time.Time) bool {
	return w.Leads(a, node, t)
}

func (w *world) HadPod(namespace, name, node string, t time.Time) bool {
	return w.PodWasOn(namespace, name, node, t.Add(-ClockDoubt), t)
}

func (w *world) HadPodIn(namespace, node string, _ time.Time) bool {
	for pod, on := range w.pods {
		if strings.HasPrefix(pod, namespace+"/") && on == node {
			return true
		}
	}
	return false
}

func (w *world) NodeAddresses(name string) []string {
	return slices.Concat(w.addresses[name], slices.Concat(w.sets[name]...))
}
func (w *world) NodeAddressSets(name string, _ time.Time) [][]string { return w.sets[name] }

func (w *world) NodeAt(address string) (node string) {
	for name, all := range w.sets {
		if slices.ContainsFunc(all, func(set []string) bool { return hasAddress(set, address) }) {
			if node != "" {
				return ""
			}
			node = name
		}
	}
	return node
}

func (w *world) NodesWith(address string, _ time.Time) (nodes []string) {
	for _, name := range w.nodes {
		if sets := w.sets[name]; len(sets) > 0 && hasName(sets[len(sets)-1], address) {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

func (w *world) OnlyPulls(namespace, name string) bool { return w.pulls[namespace+"/"+name] }

func (w *world) FreshSecret(namespace, pod, node string, t time.Time) (secret string, bound time.Time, ok bool) {
	secret, seconds, ok := strings.Cut(w.fresh[namespace+"/"+pod], " ")
	n, _ := strconv.Atoi(seconds)
	return secret, at(n), ok && w.pods[namespace+"/"+pod] == node && !t.Before(at(n))
}

// follow gives a request to a detector by itself.
func follow(d Detector, r *Request, s State) { d.(follower).follow(r, &followed{}, stepOf(r.Time), s) }

// observeLent shows a request to detectors, and overwrites it when they have seen it: they must keep nothing of it.
func observeLent(d *Detectors, r *Request, s State) {
	of, takeBack := lent.Copy(r)
	d.Observe(of, s)
	takeBack()
}
