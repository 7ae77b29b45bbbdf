package days

import (
	"fmt"
	"slices"
	"time"
)

// app is a workload.
type app struct {
	namespace, name, owner string
	replicas               int
	secrets, configMaps    []string // the first secret is immutable if frozen
	frozen                 bool
	claim                  string
	daemon                 bool
}

var apps = []app{
	{namespace: "kube-system", name: "kube-proxy", owner: "daemon-set-controller", daemon: true, configMaps: []string{"kube-proxy"}},
	{namespace: "kube-system", name: "node-agent", owner: "daemon-set-controller", daemon: true, secrets: []string{"agent-token"}},
	{namespace: "shop", name: "web", owner: "replicaset-controller", replicas: 2, secrets: []string{"web-tls", "registry"}, configMaps: []string{"web"}},
	{namespace: "payments", name: "api", owner: "replicaset-controller", replicas: 2, secrets: []string{"api-key"}, frozen: true},
	{namespace: "shop", name: "db", owner: "statefulset-controller", replicas: 1, secrets: []string{"db-root"}, configMaps: []string{"db"}, claim: "data"},
	{namespace: "batch", name: "worker", owner: "replicaset-controller", replicas: 1, configMaps: []string{"queue"}},
}

// pod is a Pod's life. Times are when the API server had done it.
type pod struct {
	*app
	name, uid      string
	node           *node
	created, bound time.Time
	ready          time.Time // its containers run
	deleting, gone time.Time // zero: not
	evicted        bool      // by the Eviction API
	forced         bool      // gone without its kubelet's word
	deletedBy      string    // the controller that deletes it
	bare           bool      // without the token that nearly every pod mounts, and the configmap that comes with it
}

// never is later than everything.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a value that only a call can make

// end is when the Pod object goes.
func (p *pod) end() time.Time {
	if p.gone.IsZero() {
		return never
	}
	return p.gone
}

// place makes a pod of an application; it is nil where no node can take it.
func (s *sim) place(a *app, at time.Time, n *node) *pod {
	if n == nil {
		n = s.pick(at)
	}
	if n == nil {
		return nil
	}
	p := &pod{app: a, uid: uuid(s.Rand), node: n, created: at}
	for p.name == "" || a.owner != "statefulset-controller" && s.named[a.namespace+"/"+p.name] {
		switch {
		case a.owner == "statefulset-controller":
			p.name = a.name + "-0"
		case a.daemon:
			p.name = a.name + "-" + hexString(s.Rand, 5)
		default:
			p.name = a.name + "-" + hexString(s.Rand, 9) + "-" + hexString(s.Rand, 5)
		}
	}
	s.named[a.namespace+"/"+p.name] = true
	p.bound = at.Add(s.some(5*milli, 40*milli))
	p.ready = p.bound.Add(s.some(1500*milli, 4*second))
	s.pods = append(s.pods, p)
	return p
}

// pick is a node on which a pod can start.
func (s *sim) pick(at time.Time) *node {
	first := s.IntN(len(s.nodes))
	for i := range s.nodes {
		if n := s.nodes[(first+i)%len(s.nodes)]; n.usable(at) && (n.gone.IsZero() || at.Before(n.gone.Add(-10*minute))) {
			return n
		}
	}
	return nil
}

// stop lets a pod be deleted and its kubelet finish it.
func (s *sim) stop(p *pod, at time.Time, by string) {
	p.deleting, p.deletedBy = at, by
	p.gone = at.Add(s.some(1500*milli, 6*second))
}

// planPods plans the pods that are there from the beginning, then what happens to them.
func (s *sim) planPods() {
	before := s.origin.Add(-10 * time.Hour)
	for i := range apps {
		a := &apps[i]
		if !a.daemon {
			for range a.replicas {
				s.place(a, before, nil)
			}
			continue
		}
		for _, n := range s.nodes {
			if n.virtual == "" {
				at := before
				if n.created.After(before) {
					at = n.created.Add(s.some(20*milli, 60*milli))
				}
				s.place(a, at, n)
			}
		}
	}
	acts := s.nodeActs()
	rollouts := 1
	if s.opts.Features.Has(Deployments) {
		rollouts = 3 + int(s.opts.Span/time.Hour)
	}
	for i := range rollouts {
		at := s.between(0.02, 0.98)
		acts = append(acts, act{at, func() { s.rollout(&apps[2+(i+s.IntN(2)*2)%4], at) }})
	}
	if s.opts.Features.Has(Autoscaling) { // what the nodes are for
		for range 2 {
			at := s.between(0.5, 0.6)
			acts = append(acts, act{at, func() { s.place(&apps[5], at, nil) }})
		}
	}
	slices.SortStableFunc(acts, func(a, b act) int { return a.at.Compare(b.at) })
	for _, a := range acts {
		a.do()
	}
}

// act is something that happens to pods at a time. Acts are planned in the order of their times, as each depends on the pods that are there.
type act struct {
	at time.Time
	do func()
}

// nodeActs are what becomes of pods when nodes are emptied or die.
func (s *sim) nodeActs() []act {
	var out []act
	for _, n := range s.nodes {
		for _, c := range n.cordoned {
			if n.running(c.from, c.from.Add(minute)) && c.from.Before(s.to) {
				out = append(out, act{c.from, func() { s.drain(n, c.from) }})
			}
		}
		for i := range n.runs[:max(len(n.runs)-1, 0)] {
			if down, back := n.runs[i].to, n.runs[i+1].from; back.Sub(down) > 10*minute {
				out = append(out, act{down.Add(6 * minute), func() { s.lose(n, down, back) }})
			}
		}
		if !n.gone.IsZero() {
			out = append(out, act{n.gone, func() { s.vanish(n) }})
		}
	}
	return out
}

// alive are the pods on a node that nothing has ended yet at t.
func (s *sim) alive(n *node, t time.Time) []*pod {
	var out []*pod
	for _, p := range s.pods {
		if p.node == n && p.bound.Before(t) && p.gone.IsZero() {
			out = append(out, p)
		}
	}
	return out
}

// drain evicts a node's pods but for those of daemons.
func (s *sim) drain(n *node, from time.Time) {
	at := from.Add(s.some(200*milli, 900*milli))
	for _, p := range s.alive(n, from) {
		if p.daemon {
			continue
		}
		s.stop(p, at, "")
		p.evicted = true
		s.replace(p, at.Add(s.some(10*milli, 50*milli)))
		at = at.Add(s.some(500*milli, 2*second))
	}
}

// replace makes the pod that takes another one's place.
func (s *sim) replace(p *pod, at time.Time) {
	if p.owner == "statefulset-controller" {
		at = p.gone.Add(s.some(800*milli, 1500*milli))
	}
	s.place(p.app, at, nil)
}

// lose plans what becomes of pods whose node stands still: after five minutes their deletion is asked for, which their kubelet does when it is
// back.
func (s *sim) lose(n *node, down, back time.Time) {
	at := down.Add(45*second + 5*minute + s.some(0, 2*second))
	for _, p := range s.alive(n, down) {
		if !p.daemon {
			p.deleting, p.gone, p.deletedBy = at, back.Add(s.some(3*second, 8*second)), "taint-eviction-controller"
			s.replace(p, at.Add(s.some(10*milli, 50*milli)))
		}
	}
}

// vanish plans what becomes of pods whose Node goes: they go with it.
func (s *sim) vanish(n *node) {
	for _, p := range s.alive(n, n.gone) {
		p.deleting, p.forced, p.deletedBy = n.gone.Add(s.some(20*second, 40*second)), true, "pod-garbage-collector"
		p.gone = p.deleting.Add(s.some(2*milli, 5*milli))
		if !p.daemon {
			s.replace(p, p.gone.Add(s.some(10*milli, 50*milli)))
		}
	}
}

// disturbed reports whether the pod's node is not there to end it at t.
func (s *sim) disturbed(p *pod, t time.Time) bool {
	if !p.gone.IsZero() || p.ready.After(t.Add(-minute)) || !p.node.running(t.Add(-minute), t.Add(3*minute)) {
		return true
	}
	return s.broken(p.node, t)
}

// broken reports whether a server of the node stops about then.
func (s *sim) broken(n *node, t time.Time) bool {
	for _, v := range s.servers {
		for _, d := range v.down {
			if t.After(d.from.Add(-2*minute)) && t.Before(d.to.Add(2*minute)) {
				return true
			}
		}
	}
	for _, a := range n.addresses[1:] {
		if t.After(a.from.Add(-2*minute)) && t.Before(a.from.Add(2*minute)) {
			return true
		}
	}
	return false
}

// rollout replaces an application's pods, a new one first.
func (s *sim) rollout(a *app, at time.Time) {
	for _, p := range s.pods {
		if p.app != a || p.created.After(at) || s.disturbed(p, at.Add(10*second)) {
			continue
		}
		if a.owner == "statefulset-controller" {
			s.stop(p, at, p.owner)
			s.replace(p, at)
			return
		}
		if n := s.pick(at); n != nil && !s.broken(n, at) {
			s.stop(p, s.place(a, at, n).ready.Add(s.some(100*milli, 400*milli)), p.owner)
		}
		at = at.Add(s.some(12*second, 20*second))
	}
}

// account is the service account that a pod runs as.
func (p *pod) account() string {
	if p.daemon {
		return p.app.name
	}
	return "default"
}

func (p *pod) String() string { return fmt.Sprintf("%s/%s", p.namespace, p.name) }
