package days

import (
	"fmt"
	"time"
)

// client is who the session's requests come from; beats says that it is a heartbeat, which has a connection of its own.
func (x *session) client(beats bool) *client {
	c := &client{user: x.user, agent: x.agent, ips: x.ips, server: x.server}
	if beats {
		c.ips = x.beatIPs
	}
	return c
}

// cut is when a watch ends whose connection breaks with the session: at once, or, where the machine stands still, when the server gives it up.
func (s *sim) cut(x *session) time.Time {
	if x.dies {
		return x.to.Add(s.some(15*second, 45*second))
	}
	return x.to.Add(s.some(milli, 20*milli))
}

// kubelet writes all that a node's kubelet asks for.
func (s *sim) kubelet(n *node) {
	sessions := s.sessions(n)
	var beat time.Time
	for i, x := range sessions {
		if x.to.Before(s.from.Add(-time.Hour)) || x.from.After(s.to) {
			continue
		}
		if x.starts {
			s.start(x)
		}
		if n.renewed(x.to) {
			next := x.user
			if i+1 < len(sessions) {
				next = sessions[i+1].user
			}
			s.certificate(x.client(false), x.to.Add(-second), n, next)
		}
		beat = s.beats(x, beat)
		s.upkeep(x)
		s.standing(x)
	}
	s.objectWatches(n, sessions)
	for _, p := range s.pods {
		if p.node == n {
			s.podStarts(p, sessions)
			s.tokens(p, sessions)
			s.podEnds(p, sessions)
		}
	}
}

// start writes a kubelet's start: it makes its Node, or finds that it is there.
func (s *sim) start(x *session) {
	n, c, beats, at := x.node, x.client(false), x.client(true), x.from
	fresh := !n.created.Before(x.from)
	code := func(found int) int {
		if fresh {
			return 404
		}
		return found
	}
	switch {
	case n.kubeadm && fresh:
		s.bootstrap(x)
	case x.minor > s.opts.Minor && !fresh:
		s.afterUpgrade(x)
	}
	step := func() time.Time { at = at.Add(s.some(4*milli, 40*milli)); return at }
	rare := func(e *Event) { e.rare = true }
	rare(s.request(c, step(), "get", resCSINodes, "", n.name, "", "resourceVersion=0", code(200)))
	rare(s.request(c, step(), "get", resNodes, "", n.name, "", "", code(200)))
	if fresh {
		at = n.created.Add(-5 * milli)
	}
	made := s.request(c, at, "create", resNodes, "", n.name, "", "", 201)
	made.Staged = at.Add(5 * milli)
	if !fresh {
		made.fail(409)
	}
	rare(made)
	at = made.Staged
	rare(s.request(c, step(), "get", resNodes, "", n.name, "", "", 200))
	rare(s.request(beats, step(), "get", resNodes, "", n.name, "", "timeout=10s", 200))
	rare(s.request(beats, step(), "patch", resNodes, "", n.name, "status", "timeout=10s", 200))
	rare(s.request(c, step(), "get", resCSINodes, "", n.name, "", "", code(200)))
	if fresh {
		rare(s.request(c, step(), "create", resCSINodes, "", n.name, "", "", 201))
	}
	if n.kubeadm && fresh {
		s.afterJoin(x, at)
	}
}

// beats renews the node's Lease every ten seconds and up to four per cent more, as the kubelet's lease controller does, from when the last session left
// off; it returns when the next renewal is due.
func (s *sim) beats(x *session, due time.Time) time.Time {
	c, n := x.client(true), x.node
	t := later(due, x.from.Add(s.some(10*milli, 60*milli)))
	switch {
	case x.starts && !n.created.Before(x.from):
		t = n.created.Add(10 * second)
		s.request(c, t, "get", resLeases, "kube-node-lease", n.name, "", "timeout=10s", 404)
		s.request(c, t.Add(2*milli), "create", resLeases, "kube-node-lease", n.name, "", "timeout=10s", 201)
		t = t.Add(s.some(10*second, 10400*milli))
	case x.starts:
		s.request(c, t, "get", resLeases, "kube-node-lease", n.name, "", "timeout=10s", 200)
		t = t.Add(2 * milli)
	}
	if first := s.from.Add(-s.some(0, 10*second)); t.Before(first) {
		t = first
	}
	uri := resLeases.path("kube-node-lease", n.name, "") + "?timeout=10s"
	for ; t.Before(x.to) && t.Before(s.to); t = t.Add(s.some(10*second, 10400*milli)) {
		s.keep(c, t, "update", uri, &Ref{
			Group: resLeases.group, Version: resLeases.version, Resource: resLeases.name, Namespace: "kube-node-lease", Name: n.name,
			UID: n.leaseUID, ResourceVersion: fmt.Sprint(t.Unix() % 10_000_000),
		}, 200)
	}
	return t
}

// upkeep writes what a kubelet does steadily: its status every five minutes, before 1.31 a look at its Node every ten seconds, and the questions
// who it is that reads its metrics.
func (s *sim) upkeep(x *session) {
	c, beats, n := x.client(false), x.client(true), x.node
	every := func(from, period time.Duration, do func(t time.Time)) {
		t := x.from.Add(from)
		if behind := s.from.Sub(t); behind > 0 {
			t = s.from.Add(-behind%period + s.upTo(period))
		}
		for ; t.Before(x.to.Add(-10*milli)) && t.Before(s.to); t = t.Add(period + s.upTo(period/50)) {
			do(t)
		}
	}
	if getsOwnNode(x.minor) {
		every(10*second, 10*second, func(t time.Time) {
			s.request(beats, t, "get", resNodes, "", n.name, "", "resourceVersion=0&timeout=10s", 200)
		})
	}
	every(s.some(10*second, 5*minute), 5*minute, func(t time.Time) {
		s.request(beats, t, "patch", resNodes, "", n.name, "status", "timeout=10s", 200)
	})
	every(s.some(30*second, 5*minute), 5*minute, func(t time.Time) {
		s.request(c, t, "create", resTokenReview, "", "", "", "", 201)
		s.request(c, t.Add(3*milli), "create", resAccess, "", "", "", "", 201)
	})
}

// standing keeps the watches that every kubelet has for all of its life, each made again after five to ten minutes.
func (s *sim) standing(x *session) {
	n := x.node.name
	kinds := []struct {
		apiResource
		name, selector string
	}{
		{resPods, "", "spec.nodeName=" + n}, {resNodes, n, "metadata.name=" + n}, {resServices, "", "spec.clusterIP!=None"},
		{resCSIDrivers, "", ""}, {resClasses, "", ""}, {resPodCerts, "", "spec.nodeName=" + n},
	}
	if !watchesPodCerts(x.minor) {
		kinds = kinds[:len(kinds)-1]
	}
	for _, k := range kinds {
		from := x.from.Add(s.some(5*milli, 900*milli))
		if x.starts && !x.node.created.Before(x.from) && k.name == "pods" {
			from = x.node.created.Add(s.some(5*milli, 15*milli)) // the pods are waited for once the Node is there
		}
		s.reflect(x, span{from, x.to}, k.apiResource, "", k.name, k.selector, 5*minute, x.starts)
	}
}

// reflect keeps one watch going within a session, as a reflector does.
func (s *sim) reflect(x *session, p span, r apiResource, namespace, name, selector string, least time.Duration, initial bool) {
	s.reflectFrom(x, x.client(false), p, r, namespace, name, selector, least, initial)
}

// reflectFrom is reflect with another client for the first attempt: the same one, as the authorizer answers it then.
func (s *sim) reflectFrom(x *session, c *client, p span, r apiResource, namespace, name, selector string, least time.Duration, initial bool) {
	at := p.from
	if initial && listsFirst(x.minor) {
		q := "limit=500&resourceVersion=0"
		if selector != "" {
			q = "fieldSelector=" + query(selector) + "&" + q
		}
		s.request(c, at, "list", r, namespace, name, "", q, 200)
		at = at.Add(s.some(2*milli, 8*milli))
	}
	if early := s.from.Add(-2 * least); at.Before(early) {
		at, initial, c = early.Add(s.upTo(least)), false, x.client(false)
	}
	initial = initial && !listsFirst(x.minor)
	for at.Before(p.to) && at.Before(s.to) {
		timeout := (least + s.upTo(least)).Truncate(second)
		end := at.Add(timeout + s.some(milli, 5*milli))
		if !end.Before(p.to) {
			if end = p.to; p.to.Equal(x.to) {
				end = earlier(s.cut(x), at.Add(timeout+second))
			}
		}
		s.watch(c, at, end, r, namespace, name, selector, timeout, initial)
		initial, c = false, x.client(false)
		at = end.Add(s.some(2*milli, 1200*milli))
	}
}
