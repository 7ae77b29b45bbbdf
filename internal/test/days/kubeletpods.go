package days

import (
	"fmt"
	"net/url"
	"slices"
	"time"
)

func query(selector string) string { return url.QueryEscape(selector) }

// connected is the session in which a kubelet can do at t, or as soon as it can, what it has to, and when that is.
func connected(sessions []*session, t time.Time) (*session, time.Time) {
	for _, x := range sessions {
		if t.Before(x.to.Add(-50 * milli)) {
			return x, later(t, x.from.Add(300*milli))
		}
	}
	return nil, t
}

// status looks at a pod and writes its status, as the kubelet's status manager does.
func (s *sim) status(c *client, p *pod, at time.Time) time.Time {
	s.request(c, at, "get", resPods, p.namespace, p.name, "", "", 200)
	at = at.Add(s.some(4*milli, 7*milli))
	s.request(c, at, "patch", resPods, p.namespace, p.name, "status", "", 200)
	return at.Add(5 * milli)
}

// podStarts writes a pod's start.
func (s *sim) podStarts(p *pod, sessions []*session) {
	x, at := connected(sessions, p.bound.Add(s.some(21*milli, 45*milli)))
	if x == nil || at.After(s.to) || p.ready.Before(s.from) || !at.Before(p.end()) {
		return
	}
	c := x.client(false)
	at = s.status(c, p, at)
	if p.claim != "" {
		s.request(c, at, "get", resClaims, p.namespace, p.claim, "", "", 200)
		s.request(c, at.Add(5*milli), "get", resVolumes, "", "pv-"+p.claim, "", "", 200)
		s.request(c, at.Add(400*milli), "get", resAttachments, "", attachment(p), "", "", 200)
	}
	ready := later(p.ready, at.Add(500*milli))
	for i := range 3 { // Pulled, Created, Started
		s.request(c, ready.Add(time.Duration(i-4)*30*milli), "create", resEvents, p.namespace, p.name+"."+hexString(s.Rand, 16), "", "", 201)
	}
	if p.ready = ready; ready.Before(x.to) {
		s.status(c, p, ready)
	}
}

// attachment is the name of the VolumeAttachment of a pod's claim.
func attachment(p *pod) string { return "csi-" + p.uid[:8] + p.node.uid[:8] }

// tokens asks for the pod's token when it starts, when its kubelet starts, and when four fifths of its hour are over.
func (s *sim) tokens(p *pod, sessions []*session) {
	for _, x := range sessions {
		at := later(p.bound.Add(s.some(45*milli, 80*milli)), x.from.Add(s.some(400*milli, 2*second)))
		if !x.starts {
			at = later(at, x.from.Add(s.some(0, 40*minute)))
			if p.bound.After(x.from) {
				at = p.bound.Add(s.some(45*milli, 80*milli))
			}
		}
		for ; at.Before(x.to.Add(-10*milli)) && at.Before(s.to) && at.Add(3*second).Before(p.end()); at = at.Add(s.some(48*minute, 52*minute)) {
			if at.Before(s.from.Add(-minute)) {
				continue
			}
			e := s.request(x.client(false), at, "create", resAccounts, p.namespace, p.account(), "token", "", 201)
			if logsToken(s.servers[x.server].minorAt(at)) {
				e.Issued = "JTI=" + uuid(s.Rand)
			}
		}
	}
}

// podEnds writes what a kubelet does when a pod of its is to go: it reports, deletes it, and looks whether it is gone.
func (s *sim) podEnds(p *pod, sessions []*session) {
	if p.gone.IsZero() || p.forced || p.gone.Before(s.from) {
		return
	}
	x, at := connected(sessions, p.gone.Add(-120*milli))
	if x == nil || at.After(p.gone) {
		return
	}
	c := x.client(false)
	s.status(c, p, at)
	e := s.request(c, p.gone.Add(-4*milli), "delete", resPods, p.namespace, p.name, "", "", 200)
	e.Staged = p.gone
	// The authorizer hears of the deletion by a watch, some milliseconds later.
	again := *c
	code := 404
	if s.IntN(2) == 0 && asksForPods(s.servers[x.server].minorAt(p.gone)) {
		again, code = s.unrelated(x, again)
		if code == 200 {
			code = 404
		}
	}
	if code == 403 {
		s.request(&again, p.gone.Add(s.some(3*milli, 9*milli)), "get", resPods, p.namespace, p.name, "", "", code).Decision = "forbid"
		return
	}
	s.request(&again, p.gone.Add(s.some(3*milli, 9*milli)), "get", resPods, p.namespace, p.name, "", "", code)
	if s.IntN(3) == 0 {
		s.request(c, p.gone.Add(s.some(9*milli, 12*milli)), "patch", resPods, p.namespace, p.name, "status", "", 404)
	}
}

const legacyBinding = "legacy:system:node"

// unrelated is the client as the node authorizer has no opinion on it: RBAC allows what it asks, or nobody does, with code 403.
func (s *sim) unrelated(x *session, c client) (client, int) {
	if s.opts.NoBinding {
		c.reason = fmt.Sprintf("no relationship found between node '%s' and this object", x.node.name)
		if namesAuthorizer(s.servers[x.server].minor) {
			c.reason = "node: " + c.reason
		}
		return c, 403
	}
	c.reason = allowedBy("ClusterRoleBinding", legacyBinding, "ClusterRole", "system:node", `Group "system:nodes"`)
	return c, 200
}

// allowedBy is RBAC's reason for allowing a request.
func allowedBy(kind, binding, roleKind, role, subject string) string {
	return fmt.Sprintf("RBAC: allowed by %s %q of %s %q to %s", kind, binding, roleKind, role, subject)
}

// watched is a secret or configmap that pods on a node use, and when.
type watched struct {
	apiResource
	namespace, name string
	frozen          bool
	spans           []span
}

// objectWatches watches the secrets and configmaps that a node's pods use: as long as one of them needs it, and one that is immutable only once.
func (s *sim) objectWatches(n *node, sessions []*session) {
	for _, w := range s.uses(n) {
		least := 5 * minute
		for _, p := range w.spans {
			for _, x := range sessions {
				if watchesLong(x.minor) {
					least = 30 * minute
				}
				in := span{later(p.from, x.from.Add(s.some(300*milli, 900*milli))), earlier(p.to, x.to)}
				if !in.from.Before(in.to) || in.to.Before(s.from.Add(-2*least)) {
					continue
				}
				s.objectWatch(x, w, in, least, p)
			}
		}
	}
}

// objectWatch is objectWatches within one session, of an object that the node needs throughout need.
func (s *sim) objectWatch(x *session, w *watched, in span, least time.Duration, need span) {
	isNew := !need.from.Before(x.from)
	c, initial, selector := x.client(false), x.starts || isNew, "metadata.name="+w.name
	if isNew {
		c, in.from = s.tooEarly(x, w, in.from, least)
	}
	for _, lag := range s.servers[x.server].lag {
		if !w.frozen && lag.holds(in.from) && !isNew && s.asksAgain(x, need, lag.to, 2*least) {
			c, in.from = s.lagging(x, w, span{in.from, lag.to}, least)
		}
	}
	switch {
	case !w.frozen:
		s.reflectFrom(x, c, in, w.apiResource, w.namespace, w.name, selector, least, initial)
	case initial:
		s.watch(c, in.from, in.from.Add(s.some(5*milli, 20*milli)), w.apiResource, w.namespace, w.name, selector, (least + s.upTo(least)).Truncate(second),
			!listsFirst(x.minor))
	}
}

// asksAgain reports whether a watch that begins before t, and lasts for so long at most, is made again after t.
func (s *sim) asksAgain(x *session, need span, t time.Time, atMost time.Duration) bool {
	const soon = minute // after a session's end
	end := t.Add(atMost + soon)
	again := end.Before(need.to) || x.to.After(t) && x.to.Add(soon).Before(need.to) && !x.dies
	return again && (end.Before(s.to) || x.to.After(t) && x.to.Add(soon).Before(s.to) && !x.dies)
}

// uses collects what the pods of a node use, in the order in which they came.
func (s *sim) uses(n *node) []*watched {
	var out []*watched
	add := func(p *pod, r apiResource, name string, frozen bool) {
		in := span{p.bound.Add(s.some(25*milli, 60*milli)), p.end().Add(-300 * milli)}
		for _, w := range out {
			if w.apiResource == r && w.namespace == p.namespace && w.name == name {
				if last := &w.spans[len(w.spans)-1]; in.from.Before(last.to) {
					last.to = later(last.to, in.to)
				} else {
					w.spans = append(w.spans, in)
				}
				return
			}
		}
		out = append(out, &watched{r, p.namespace, name, frozen, []span{in}})
	}
	pods := slices.Clone(s.pods)
	slices.SortStableFunc(pods, func(a, b *pod) int { return a.bound.Compare(b.bound) })
	for _, p := range pods {
		if p.node != n {
			continue
		}
		add(p, resConfigMaps, "kube-root-ca.crt", false)
		for _, name := range p.secrets {
			add(p, resSecrets, name, p.frozen)
		}
		for _, name := range p.configMaps {
			add(p, resConfigMaps, name, false)
		}
	}
	return out
}

// tooEarly lets one watch in eight come before the authorizer has heard of the pod, a few milliseconds after its binding: RBAC allows it, or it is
// refused and tried again. It returns the client and the time of the watch that goes through.
func (s *sim) tooEarly(x *session, w *watched, at time.Time, least time.Duration) (*client, time.Time) {
	if s.IntN(8) != 0 {
		return x.client(false), at
	}
	for _, p := range s.pods {
		if p.node == x.node && p.namespace == w.namespace && at.Sub(p.bound) < 70*milli && p.bound.Before(at) {
			return s.attempt(x, w, p.bound.Add(s.some(2*milli, 6*milli)), at.Add(s.some(800*milli, 1100*milli)), least)
		}
	}
	return x.client(false), at
}

// attempt is a watch on which the authorizer has no opinion. It returns the client and the time of the watch that goes through: now by RBAC, or again
// at a later time.
func (s *sim) attempt(x *session, w *watched, at, again time.Time, least time.Duration) (*client, time.Time) {
	c, code := s.unrelated(x, *x.client(false))
	if code == 200 {
		return &c, at
	}
	if listsFirst(x.minor) {
		e := s.request(&c, at, "list", w.apiResource, w.namespace, w.name, "", "fieldSelector="+query("metadata.name="+w.name)+"&limit=500&resourceVersion=0", 403)
		e.Decision = "forbid"
		return x.client(false), again
	}
	e := s.watch(&c, at, at.Add(100*time.Microsecond), w.apiResource, w.namespace, w.name, "metadata.name="+w.name, (least + s.upTo(least)).Truncate(second), true)
	s.refuse(e)
	return x.client(false), again
}

// refuse turns the watch that was made last, of which e is the first event, into one that is refused.
func (s *sim) refuse(e *Event) {
	for i := len(s.events) - 1; i >= max(0, len(s.events)-2); i-- {
		if d := s.events[i]; d.AuditID == e.AuditID {
			d.Decision = "forbid"
			d.fail(403)
		}
	}
}

// lagging is what becomes of a watch of an object that a server has not in its graph yet, though it should: RBAC allows it, or the kubelet tries again
// until the graph is complete.
func (s *sim) lagging(x *session, w *watched, lag span, least time.Duration) (c *client, at time.Time) {
	c, at = x.client(false), lag.from
	for lag.holds(at) {
		next := earlier(at.Add(s.some(8*second, 25*second)), lag.to.Add(s.some(second, 3*second)))
		if c, at = s.attempt(x, w, at, next, least); c.reason != "" {
			break
		}
	}
	return c, at
}
