package app

import (
	"cmp"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
)

// stateProof is what the checks ask of the state, for the time from From to To. A run stores it as JSON for report; Form is raised when what stands in it
// changes its meaning.
type stateProof struct {
	Form          int
	From, To      time.Time
	NodesKnown    bool
	Nodes         []checks.Node
	NeedsKnown    bool
	Needs         []checks.Need
	Steady        []checks.Steady
	Pods          []checks.PodLife
	Servers       checks.Servers
	BindingsKnown bool
	Bindings      []rbac.BindingInfo
	Grown         []checks.Grown
	// Staying are the bindings that stay in the end, whether they are kept or not.
	Staying []stayingBinding
	// Beyond are the bindings that the owner keeps, with the times in which they gave what they may not give, and do not give any more.
	Beyond []stayingBinding
	// Ended are rights that bindings gave for a part of that time, and that no request shows in use.
	Ended      []checks.EndedRight
	SystemNode []rbacv1.PolicyRule
	// Tokens are the service accounts of pods on nodes that reach beyond their nodes.
	Tokens *checks.Findings
	// Addresses are those that Nodes of a name have or had, in the form of audit.PlainAddress.
	Addresses map[string][]string
	// Impersonators are those who may act as nodes or in their group, Actors those who may act as others to whom a binding that goes is bound.
	Impersonators []*user.DefaultInfo
	Actors        []actors
	// Gaps are what is missing from the state in that time, or from the watch of it now.
	Gaps []codes.Gap
	// Seen are the times in which the state knows all pods.
	Seen []cluster.Interval
}

// stayingBinding is a binding that stays in the end, with the times in which it gave so much that it would have gone.
type stayingBinding struct {
	Binding rbac.BindingRef
	Went    []checks.Span
}

// formOfState is the form that this program reads and writes.
const formOfState = 3

// bindingLag is how long an API server may take to follow a change of bindings and roles.
const bindingLag = time.Minute

// staleAfter is how long after a stored state proof requests may come that it is about.
const staleAfter = 2 * time.Minute

// briefNode is how short a Node's life can be for nothing to be asked of its kubelet.
const briefNode = time.Minute

// newStateProof asks the state.
func newStateProof(setup *judging.Setup, from, to time.Time) *stateProof {
	s, p := setup.State, &stateProof{Form: formOfState, From: from.UTC(), To: to.UTC(), Gaps: setup.State.Gaps(from, to)}
	_, begins := s.Nodes.Known("", from)
	_, ends := s.Nodes.Known("", to)
	p.NodesKnown = begins && ends && s.Nodes.Unseen(from, to) < briefNode
	for _, l := range s.Nodes.Lives(from, to) {
		p.Nodes = withLife(p.Nodes, &l)
	}
	lives, covered := s.Servers.Lives(from, to)
	p.Servers.Known = covered
	p.Servers.Live = serversOf(lives)
	p.SystemNode, _ = s.RBAC.ClusterRoleRules(nodeRole, to)
	for b := range s.RBAC.Bindings(to) {
		p.Bindings = append(p.Bindings, b)
	}
	p.Addresses = make(map[string][]string, len(p.Nodes))
	for i := range p.Nodes {
		name := p.Nodes[i].Name
		for _, a := range slices.Concat(s.Nodes.AddressSets(name, to)...) {
			if plain, ok := audit.PlainAddress(a); ok && !slices.Contains(p.Addresses[name], plain.String()) {
				p.Addresses[name] = append(p.Addresses[name], plain.String())
			}
		}
	}
	rights := slices.Collect(s.RBAC.RightsDuring(from, to))
	p.Ended = checks.EndedDuring(rights, to)
	p.Impersonators = impersonatorsOf(s, p.Bindings, rights, to)
	p.Actors = actorsOf(s, p.Bindings, p.SystemNode, to)
	p.Grown = checks.GrownDuring(rights, p.SystemNode, setup.Judge.Kept, from, to)
	p.Staying, p.Beyond = gaveMore(s.RBAC, p.Bindings, p.SystemNode, setup.Judge.Kept, to)
	p.BindingsKnown = s.RBAC.CoversAll(from, to) && holdsBindings(s.RBAC, p.Bindings, to)
	p.Seen = s.PodsSeen(time.Time{}, p.To) // requests of before From are judged, too
	accounts := p.needs(setup.Auth, s.FinishedPods(), s.EndedAtOnce())
	p.tokens(s.RBAC, rights, accounts)
	return p
}

// tell puts what the state tells into the input. Of a time that it does not cover nothing is known.
func (p *stateProof) tell(in *checks.Input) {
	if p == nil || p.Form != formOfState || in.Log.Until.IsZero() {
		return
	}
	covers := !p.From.After(in.Log.Until.Add(-in.MinWindow)) && !in.Log.Until.After(p.To.Add(staleAfter))
	in.Nodes, in.NodesKnown = p.Nodes, p.NodesKnown && covers
	in.Needs, in.Steady, in.Pods, in.NeedsKnown = p.Needs, p.Steady, p.Pods, p.NeedsKnown && covers
	in.SystemNode = p.SystemNode
	in.Grown, in.Ended = p.Grown, p.Ended
	in.Bindings, in.BindingsKnown = p.Bindings, p.BindingsKnown && covers
	if in.Tokens = p.Tokens; !covers {
		in.Tokens = nil
	}
	in.Servers = p.Servers
	in.Servers.Known = p.Servers.Known && covers
}

// saw reports whether the state knows all pods of a time. What is after To is of the same watch.
func (p *stateProof) saw(t time.Time) bool {
	return p != nil && slices.ContainsFunc(p.Seen, func(x cluster.Interval) bool { return !t.Before(x.From) && (!t.After(x.To) || x.To.Equal(p.To)) })
}

// addressesOf are those that the Nodes of a name had for long enough that somebody with the credential did not write them; none where there is no state.
func (p *stateProof) addressesOf(node string) []string {
	if p == nil {
		return nil
	}
	return p.Addresses[node]
}

// withLife adds a life of a Node object, which come in order of their names.
func withLife(all []checks.Node, l *cluster.NodeLife) []checks.Node {
	if n := len(all); n == 0 || all[n-1].Name != l.Name {
		all = append(all, checks.Node{Name: l.Name, Virtual: true})
	}
	n := &all[len(all)-1]
	n.Virtual = n.Virtual && l.Virtual
	n.Lives = append(n.Lives, checks.Span{From: l.From, To: l.To})
	n.NotReady, n.Silent = withTimes(n.NotReady, l.NotReady, l), withTimes(n.Silent, l.Silent, l)
	return all
}

// withTimes adds times in that life.
func withTimes(all []checks.Span, times []cluster.Interval, l *cluster.NodeLife) []checks.Span {
	for _, x := range times {
		if x.To.IsZero() {
			x.To = l.To // another Node of the name is another's word
		}
		all = append(all, checks.Span{From: x.From, To: x.To})
	}
	return all
}

// serversOf are the API servers as the checks have them.
func serversOf(lives []cluster.ServerLife) (out []checks.Server) {
	var newest time.Time // renewal of any of them
	for i := range lives {
		newest = later(newest, lives[i].Renewed)
	}
	for i := range lives {
		l := &lives[i]
		s := checks.Server{Name: l.Name, Lives: []checks.Span{{From: l.From, To: endOf(l)}}}
		if in, ended := l.Ended(newest); ended {
			s.Ended = checks.Span{From: in.From, To: in.To}
		}
		out = append(out, s)
	}
	return out
}

// endOf is when an API server ended at the latest: its Lease is deleted an hour or two later.
func endOf(l *cluster.ServerLife) time.Time {
	if l.To.IsZero() || l.Renewed.IsZero() {
		return l.To
	}
	if last := l.Renewed.Add(cluster.RenewalStep); last.Before(l.To) {
		return last
	}
	return l.To
}

// rootCA is the ConfigMap that is mounted with the token of a service account.
const rootCA = "kube-root-ca.crt"

// needs are the secrets and configmaps that nodes came to need in the window: when the first pod with one of them was bound. It returns the service accounts of
// pods on the nodes, in the order of nodes.
func (p *stateProof) needs(auth *nodeauthz.Authorizer, finished map[nodeauthz.NamespacedName][]cluster.Finished, atOnce map[nodeauthz.NamespacedName][]time.Time) (accounts []accountOnNodes) {
	place := map[nodeauthz.Step]int{}
	nodes := make([]string, 0, len(p.Nodes))
	for i := range p.Nodes {
		nodes = append(nodes, p.Nodes[i].Name)
	}
	missing := auth.EachReached(nodes, p.From, p.To, func(node string, reached []nodeauthz.Reached) {
		var pods, tokens []*nodeauthz.Path // of those that came or went: from service accounts, and from the ConfigMap that is mounted with a token
		for j := range reached {
			r := &reached[j]
			kind := evidence.ReadSecrets
			switch r.Object.Kind {
			case nodeauthz.KindSecret:
			case nodeauthz.KindConfigMap:
				kind = evidence.ReadConfigMaps
			case nodeauthz.KindServiceAccount:
				at, known := place[r.Object]
				if !known {
					at = len(accounts)
					place[r.Object] = at
					accounts = append(accounts, accountOnNodes{rbac.SubjectRef{Kind: rbacv1.ServiceAccountKind, Namespace: r.Object.Namespace, Name: r.Object.Name}, node, 0})
				}
				accounts[at].nodes++
				pods = p.moved(pods, r.Paths)
				continue
			default:
				continue
			}
			spans := make([]checks.Span, 0, len(r.Paths))
			var direct []checks.Span
			if kind == evidence.ReadConfigMaps && r.Object.Name == rootCA {
				tokens = p.moved(tokens, r.Paths)
			}
			for k := range r.Paths {
				span, needed := neededFor(&r.Paths[k], finished)
				if !needed {
					continue
				}
				if spans = append(spans, span); len(r.Paths[k].Steps) == stepsByPod {
					direct = append(direct, span)
				}
			}
			if len(spans) == 0 {
				continue
			}
			object, first := objectOf(r.Object.Namespace, r.Object.Name), firstOf(spans)
			p.Needs = append(p.Needs, checks.Need{Node: node, Kind: kind, Object: object, At: first.From, Until: first.To})
			if kind == evidence.ReadConfigMaps && r.Object.Name == rootCA {
				p.Steady = append(p.Steady, checks.Steady{Node: node, Kind: kind, Object: object, Spans: spans})
			} else if kind == evidence.ReadSecrets && len(direct) > 0 {
				p.Steady = append(p.Steady, checks.Steady{Node: node, Kind: kind, Object: object, Spans: direct, Once: true})
			}
		}
		p.pods(node, pods, tokens, finished, atOnce)
	})
	p.NeedsKnown = p.NodesKnown && (missing == "" || len(nodes) == 0)
	return accounts
}

// moved adds those of the paths that lead over nothing but a pod which came or went in the window.
func (p *stateProof) moved(to []*nodeauthz.Path, paths []nodeauthz.Path) []*nodeauthz.Path {
	for i := range paths {
		if path := &paths[i]; len(path.Steps) == stepsByPod && (!path.From.Before(p.From) || p.went(path)) {
			to = append(to, path)
		}
	}
	return to
}

func (p *stateProof) went(path *nodeauthz.Path) bool {
	return !path.To.IsZero() && !path.To.Before(p.From)
}

// pods adds the pods of a node that came or went in the window, by the paths from their service accounts.
func (p *stateProof) pods(node string, paths, tokens []*nodeauthz.Path, finished map[nodeauthz.NamespacedName][]cluster.Finished, atOnce map[nodeauthz.NamespacedName][]time.Time) {
	type life struct {
		pod  nodeauthz.Step
		from time.Time
	}
	lifeOf := func(path *nodeauthz.Path) life { return life{path.Steps[len(path.Steps)-2], path.From} }
	mounted := make(map[life]bool, len(tokens))
	for _, path := range tokens {
		mounted[lifeOf(path)] = true
	}
	for _, path := range paths {
		if span, needed := neededFor(path, finished); needed {
			pod := lifeOf(path).pod
			forced := slices.ContainsFunc(atOnce[nodeauthz.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}], func(t time.Time) bool {
				return t.Sub(path.To).Abs() <= nearEnd
			})
			p.Pods = append(p.Pods, checks.PodLife{
				Node: node, Namespace: pod.Namespace, Name: pod.Name, At: span.From, Until: span.To, Gone: p.went(path) && span.To.Equal(path.To) && !forced, Token: mounted[lifeOf(path)],
			})
		}
	}
}

// nearEnd is how far the end of a pod, which the log may tell better, can be from the end that a watch saw.
const nearEnd = 3 * time.Second

// stepsByPod is how long the path of an object is that a pod itself names: the object, the pod, the node.
const stepsByPod = 3

// neededFor is when a kubelet needed an object because of the pod on its path: until the pod had succeeded or failed.
func neededFor(path *nodeauthz.Path, finished map[nodeauthz.NamespacedName][]cluster.Finished) (s checks.Span, needed bool) {
	s = checks.Span{From: path.From, To: path.To}
	if len(path.Steps) < stepsByPod {
		return s, true
	}
	pod := &path.Steps[len(path.Steps)-2]
	if pod.Kind != nodeauthz.KindPod {
		return s, true
	}
	for _, f := range finished[nodeauthz.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] {
		switch {
		case !f.To.IsZero() && !f.To.After(s.From) || !s.To.IsZero() && !f.From.Before(s.To):
		case !f.From.After(s.From):
			return s, false
		default:
			s.To = f.From
		}
	}
	return s, true
}

// firstOf is the earliest of the spans, with all that follow it without a break. It puts them in order.
func firstOf(spans []checks.Span) checks.Span {
	slices.SortFunc(spans, func(a, b checks.Span) int { return a.From.Compare(b.From) })
	first := spans[0]
	for _, s := range spans[1:] {
		switch {
		case first.To.IsZero() || s.From.After(first.To):
			return first
		case s.To.IsZero() || s.To.After(first.To):
			first.To = s.To
		}
	}
	return first
}

// accountOnNodes is a service account with pods on so many nodes, of which one is named.
type accountOnNodes struct {
	account rbac.SubjectRef
	node    string
	nodes   int64
}

// tokens are the accounts with rights that reach beyond a node, at any time of the window: a kubelet may make their tokens. An account is one item for each binding.
// Of two rights that do so together the account need not have had both at one time: a certificate request waits for its approval. What everybody had counts only
// if it ended in the window: the check no-excess-rights looks at what everybody has in the end.
func (p *stateProof) tokens(s *rbac.Store, rights []rbac.Right, accounts []accountOnNodes) {
	p.Tokens = &checks.Findings{Looked: int64(len(accounts))}
	if !p.NeedsKnown || !s.CoversAll(p.From, p.To) {
		p.Tokens.Doubt(checks.Item{Code: checks.CodeBindingsUnknown})
	}
	places := make(map[rbac.SubjectRef]int, len(accounts))
	for i := range accounts {
		places[accounts[i].account] = i
	}
	type pair struct {
		account int
		binding rbac.BindingRef
	}
	seen := map[pair]bool{}
	add := func(x pair, power string) {
		if power == "" || seen[x] {
			return
		}
		seen[x] = true
		a := &accounts[x.account]
		p.Tokens.Wrong = append(p.Tokens.Wrong, checks.Item{
			Code: checks.CodeAccountPower, Node: a.node, Request: power, Object: objectOf(a.account.Namespace, a.account.Name),
			Value: checks.NameOf(x.binding), Count: a.nodes,
		})
	}
	everybody, requests := false, make([]bool, len(accounts)) // who may request certificates
	var approved []pair
	for i := range rights {
		r := &rights[i]
		var powers checks.Powers
		asked := false
		for _, subject := range r.Subjects {
			all, found := subject.Ambient(), subject.Accounts(places)
			if !asked && (all || len(found) > 0) {
				powers, asked = checks.PowersOf(&r.BindingInfo), true
			}
			everybody = everybody || subject.Authenticated() && powers.Requests
			if power := powers.OfEverybody(); all && power != "" && r.Ended(p.To) {
				p.Tokens.Wrong = append(p.Tokens.Wrong, checks.Item{
					Code: checks.CodeEverybodyPower, Request: power, Object: subject.Name, Value: checks.NameOf(r.Binding), From: later(r.From, p.From), To: r.To,
				})
			}
			for _, i := range found {
				x := pair{i, r.Binding}
				add(x, powers.Right)
				requests[i] = requests[i] || powers.Requests
				if powers.Approved {
					approved = append(approved, x)
				}
			}
		}
	}
	for _, x := range approved {
		if everybody || requests[x.account] {
			add(x, checks.Approval())
		}
	}
	slices.SortStableFunc(p.Tokens.Wrong, func(a, b checks.Item) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Object, b.Object))
	})
}

// gaveMore returns the bindings of the end that stay, whether they are kept or not, with the times in which they would have gone; and those that are kept, with
// the times that ended in which they gave more than one that is kept may.
func gaveMore(s *rbac.Store, bindings []rbac.BindingInfo, systemNode []rbacv1.PolicyRule, kept []rbac.BindingRef, to time.Time) (staying, beyond []stayingBinding) {
	fate, places := checks.Fates(systemNode, nil), map[rbac.BindingRef]int{}
	for i := range bindings {
		if fate(&bindings[i]) == checks.Stays {
			places[bindings[i].Binding] = len(staying)
			staying = append(staying, stayingBinding{Binding: bindings[i].Binding})
		}
	}
	for _, ref := range kept {
		beyond = append(beyond, stayingBinding{Binding: ref})
	}
	for r := range s.RightsDuring(time.Time{}, to) {
		span := checks.Span{From: r.From, To: r.To}
		if at, is := places[r.Binding]; is && fate(&r.BindingInfo) == checks.Goes {
			staying[at].Went = append(staying[at].Went, span)
		}
		if at := slices.Index(kept, r.Binding); at >= 0 && r.Ended(to) && checks.BeyondKept(&r.BindingInfo) {
			beyond[at].Went = append(beyond[at].Went, span)
		}
	}
	return staying, beyond
}

// mayHaveGone reports whether a binding may have been one that goes at some time from the first to the last of some requests.
func (p *stateProof) mayHaveGone(b rbac.BindingRef, first, last time.Time) bool {
	if p == nil {
		return true
	}
	during, is := spansOf(p.Staying, b, first, last)
	return during || !is
}

// gaveTooMuch reports whether a binding that is kept may have given more than it may at some time from the first to the last of some requests.
func (p *stateProof) gaveTooMuch(b rbac.BindingRef, first, last time.Time) bool {
	if p == nil {
		return false
	}
	during, _ := spansOf(p.Beyond, b, first, last)
	return during
}

// spansOf reports whether a binding is one of all, and whether one of its spans has a part in a time. An API server may learn late of a change.
func spansOf(all []stayingBinding, b rbac.BindingRef, first, last time.Time) (during, is bool) {
	i := slices.IndexFunc(all, func(x stayingBinding) bool { return x.Binding == b })
	return i >= 0 && slices.ContainsFunc(all[i].Went, func(x checks.Span) bool {
		return !last.Before(x.From.Add(-bindingLag)) && (x.To.IsZero() || !first.After(x.To.Add(bindingLag)))
	}), i >= 0
}
