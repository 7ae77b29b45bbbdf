package nodeauthz

import (
	"context"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// Verdict is what the Node authorizer says of a request. The reference never denies, it has no opinion; here that is Deny, as in
// its own log line "NODE DENY".
type Verdict uint8

const (
	// NotNode means that the request is not a node's: the authorizer has nothing to say of it.
	NotNode Verdict = iota
	// Allow means that a path led from the object to the node, or that a static rule allows the request to any node.
	Allow
	// Deny means that nothing did, and that the graph covers the instant.
	Deny
	// Unknown means that the answer depends on state that the graph does not have.
	Unknown
)

// String returns the verdict as the contract writes it.
func (v Verdict) String() string {
	return [...]string{"", "allow", "deny", "unknown"}[v&3]
}

// Answer is the authorizer's answer for one instant.
type Answer struct {
	Verdict Verdict
	// Race is true when the answer would be another one somewhere within the skew of the instant.
	Race bool
	// Static is true when the answer does not depend on the graph.
	Static bool
	// Reason is the reference's reason, byte for byte; empty for Allow. For Unknown it is the one that a Deny would have.
	// Since Kubernetes 1.37 it begins with the authorizer's name, "node: ": an API server that is configured with another name
	// (AuthorizationConfiguration) has that one, see [CutAuthorizer].
	Reason string
}

// Authorizer answers for any instant over a Graph. It holds no state of its own and may be used concurrently.
type Authorizer struct {
	graph *Graph
	f     Features
	skew  int64
	of    gens // of the reference's handling of pods
	rules staticRules
}

// NewAuthorizer returns an authorizer over g with the features of one Kubernetes version. Answers that would differ within skew of
// a request's time are races; a skew of 0 leaves as races only those inside a change's own uncertainty.
func NewAuthorizer(g *Graph, f Features, skew time.Duration) *Authorizer {
	return &Authorizer{graph: g, f: f, skew: int64(max(skew, 0)), of: gensOf(f.Minor), rules: newStaticRules(f)}
}

// Anew returns the authorizer of an API server that has just started. Its graph holds each pod as it is, whatever changes of the pod an API server of
// the version passes over that saw it before: up to 1.32 an ephemeral container, up to 1.36 the status of an extended claim.
func (a *Authorizer) Anew() *Authorizer {
	b := *a
	b.of = genExtended
	return &b
}

// Limited returns the authorizer with the feature gate AuthorizeNodeWithSelectors on, as it is by default since Kubernetes 1.32: a node may read only its
// own Node and pods, and lists only with a field selector for them. It is nil where the gate makes no difference to the request.
func (a *Authorizer) Limited(attrs authorizer.Attributes) *Authorizer {
	node, isNode := NodeIdentity(attrs.GetUser())
	if !isNode || node == "" || a.f.AuthorizeNodeWithSelectors {
		return nil
	}
	b := *a
	b.f.AuthorizeNodeWithSelectors = true
	if b.question(node, attrs) == a.question(node, attrs) {
		return nil
	}
	limited := b // most requests do not come here, and then nothing is allocated
	return &limited
}

// Skew is how far around a request's time a change makes its answer a race.
func (a *Authorizer) Skew() time.Duration { return time.Duration(a.skew) }

// Features returns what the authorizer was made with.
func (a *Authorizer) Features() Features { return a.f }

// At returns the authorizer as it was at t, for anything that takes a k8s.io/apiserver authorizer. It allows or has no opinion, and
// never errs; where the answer is Unknown it has no opinion, as the reference over the same graph.
func (a *Authorizer) At(t time.Time) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(_ context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
		switch ans := a.Decide(attrs, t); ans.Verdict {
		case Allow:
			return authorizer.DecisionAllow, "", nil
		default:
			return authorizer.DecisionNoOpinion, ans.Reason, nil
		}
	})
}

// NodeIdentity returns the node that a user is, by upstream's default node identifier: the user name system:node:<nodeName> and the
// group system:nodes. The name may be empty.
func NodeIdentity(u user.Info) (node string, isNode bool) {
	if u == nil {
		return "", false
	}
	return nodeid.Of(u.GetName(), u.GetGroups())
}

// Decide answers for the request as of t. An allow takes a few hundred nanoseconds and allocates nothing.
func (a *Authorizer) Decide(attrs authorizer.Attributes, t time.Time) Answer {
	node, isNode := NodeIdentity(attrs.GetUser())
	if !isNode {
		return Answer{Verdict: NotNode}
	}
	if node == "" {
		return Answer{Verdict: Deny, Static: true, Reason: a.reasonOf(prefix + "unknown node for user " + quote(attrs.GetUser().GetName()))}
	}
	q := a.question(node, attrs)
	if q.kind == KindNone {
		return Answer{Verdict: q.verdict, Reason: a.reasonOf(q.reason), Static: true}
	}
	return a.reach(&q, node, t, t)
}

// Others reports whether the answer would be another one than as of t, or is unknown, at some instant from the skew before t through the skew after to.
func (a *Authorizer) Others(attrs authorizer.Attributes, t, to time.Time) bool {
	node, isNode := NodeIdentity(attrs.GetUser())
	if !isNode || node == "" {
		return false
	}
	q := a.question(node, attrs)
	if q.kind == KindNone {
		return false
	}
	ans := a.reach(&q, node, t, to)
	return ans.Race || ans.Verdict == Unknown
}

func (a *Authorizer) reach(q *question, node string, t, to time.Time) Answer {
	a.graph.mu.RLock()
	defer a.graph.mu.RUnlock()
	return a.reachedUntil(q, node, unixNano(t), unixNano(to))
}

// MayAllow reports whether the answer may have been allow at some instant from from through to. It looks at the paths once, however long that is, and
// allocates nothing. What was not observed counts as not there.
func (a *Authorizer) MayAllow(attrs authorizer.Attributes, from, to time.Time) bool {
	node, isNode := NodeIdentity(attrs.GetUser())
	if !isNode || node == "" {
		return false
	}
	q := a.question(node, attrs)
	if q.kind == KindNone {
		return q.verdict == Allow
	}
	g := a.graph
	g.mu.RLock()
	defer g.mu.RUnlock()
	id, known := g.nodes[node]
	if !known {
		return false
	}
	w := window{lo: unixNano(from), hi: unixNano(to), of: a.of}
	if vid := g.lookup(q.kind, q.namespace, q.name); vid != 0 {
		g.scan(vid, id, &w)
	}
	return w.touched
}

// reached is reach for a caller that holds the lock.
func (a *Authorizer) reached(q *question, node string, at int64) Answer {
	return a.reachedUntil(q, node, at, at)
}

// reachedUntil is the answer as of at, and a race if it would be another one up to an instant not before that.
func (a *Authorizer) reachedUntil(q *question, node string, at, to int64) Answer {
	w := window{lo: satAdd(at, -a.skew), t: at, hi: satAdd(to, a.skew), of: a.of}
	g := a.graph
	id, known := g.nodes[node]
	vid := vertexID(0)
	if known {
		if vid = g.lookup(q.kind, q.namespace, q.name); vid != 0 {
			g.scan(vid, id, &w)
		}
	}
	if w.covered && !g.ends {
		return Answer{Verdict: Allow}
	}
	race := false
	if w.touched {
		spans := g.spans(vid, id, &w)
		now, throughout := reachAt(spans, &w)
		if now && !g.doubted(q.kind, spans, &w) {
			return Answer{Verdict: Allow, Race: !throughout}
		}
		race = !now
	}
	ans := Answer{Verdict: Deny, Race: race, Reason: g.nodeRecs[id].reason}
	if !known {
		ans.Reason = noRelationship(node)
	}
	ans.Reason = a.reasonOf(ans.Reason)
	if at < g.coveredFrom || at < g.prunedTo || (known && g.open > 0 && g.mayLead(id, q, &w)) {
		ans.Verdict = Unknown
	} else if g.holed {
		if _, _, unseen := g.hole(q.kind, &w); unseen {
			ans.Verdict = Unknown
		}
	}
	return ans
}

// mayLead reports whether a pod of which only the binding is known may lead to the object.
func (g *Graph) mayLead(node nodeID, q *question, w *window) bool {
	switch q.kind {
	case KindPod, KindVolumeAttachment, KindResourceSlice, KindPodCertificateRequest:
		return false
	}
	ns, inUse := g.namespaces[q.namespace]
	for _, id := range g.nodeRecs[node].open {
		r := g.tenure(id)
		lo, hi := r.possible()
		anyNamespace := q.kind == KindPersistentVolume || q.kind == KindSecret
		if lo <= w.hi && hi > w.lo && (anyNamespace || inUse && g.vertex(r.vertex).namespace == ns) {
			return true
		}
	}
	return false
}

// CutAuthorizer takes the name of the authorizer off a reason, or a line of several, as Kubernetes has it since 1.37: "node" and "no
// relationship …". Without a name it is empty. The names are those of AuthorizationConfiguration, by default the mode in lower case.
func CutAuthorizer(reason string) (name, rest string) {
	name, rest, ok := strings.Cut(reason, ": ")
	if !ok || name == "" {
		return "", reason
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return "", reason
		}
	}
	return name, rest
}

func noRelationship(node string) string {
	return prefix + "no relationship found between node '" + node + "' and this object"
}
