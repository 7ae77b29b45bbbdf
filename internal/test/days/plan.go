package days

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// sim makes one day. It first plans the lives of servers, nodes and pods, then writes what each of them makes the API servers log.
type sim struct {
	*rand.Rand
	opts             Options
	day              *Day
	origin, from, to time.Time // the journal begins at origin, the log at from
	servers          []*server
	nodes            []*node
	pods             []*pod
	named            map[string]bool  // pods, by namespace and name
	users            map[string]*User // but for nodes
	events           []*Event
	state            []*Entry
}

// span is a stretch of time, its end excluded.
type span struct{ from, to time.Time }

func (p span) holds(t time.Time) bool { return !t.Before(p.from) && t.Before(p.to) }

// server is an API server.
type server struct {
	index      int
	lease, uid string // of its identity Lease
	address    string
	user       *User
	down       []span
	lag        []span    // its node authorizer does not know all pods
	upgraded   time.Time // to the next minor; zero: never
	minor      int
}

func (v *server) minorAt(t time.Time) int {
	if !v.upgraded.IsZero() && !t.Before(v.upgraded) {
		return v.minor + 1
	}
	return v.minor
}

func (v *server) isDown(t time.Time) (span, bool) {
	for _, d := range v.down {
		if d.holds(t) {
			return d, true
		}
	}
	return span{}, false
}

// wentDown is when it went down after the first time and until the second: it may be back before that.
func (v *server) wentDown(from, to time.Time) (span, bool) {
	for _, d := range v.down {
		if d.from.After(from) && !d.from.After(to) {
			return d, true
		}
	}
	return span{}, false
}

// node is a Node with what runs its kubelet.
type node struct {
	name, uid             string
	index                 int
	windows, controlPlane bool
	created, gone         time.Time // of the Node object; gone is zero if it stays
	runs                  []run     // of its kubelet; none: a virtual node
	addresses             []addressFrom
	changes               []change // of the Node object
	certificates          []certificateFrom
	kubeadm               bool // how it joined
	virtual               string
	cordoned              []span
	leaseUID              string
}

// run is a life of a kubelet's process.
type run struct {
	span
	minor int
}

type addressFrom struct {
	from   time.Time
	v4, v6 string
}

type certificateFrom struct {
	from time.Time
	user *User
}

// change is a change of a Node object.
type change struct {
	at            time.Time
	ready         string // the Ready condition; empty: as before
	unschedulable int    // 1 or -1; 0: as before
}

// Clean makes a clean day: one on which every check of readiness passes. The same seed and options give the same day.
func Clean(seed uint64, opts Options) (*Day, error) {
	opts, err := opts.complete()
	if err != nil {
		return nil, err
	}
	s := &sim{Rand: newRand(seed, 0), opts: opts, users: map[string]*User{}, named: map[string]bool{}}
	s.from = opts.From.UTC()
	if s.from.IsZero() {
		s.from = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC).Add(time.Duration(s.IntN(14*24*60)) * time.Minute)
	}
	s.to = s.from.Add(opts.Span)
	s.origin = s.from.Add(-90 * time.Minute)
	s.day = &Day{Seed: seed, Options: opts, From: s.from, To: s.to}
	s.planServers()
	s.planNodes()
	s.planPods()
	if err := s.writeState(); err != nil {
		return nil, err
	}
	for _, n := range s.nodes {
		s.kubelet(n)
	}
	s.controlPlane()
	return s.finish()
}

func (s *sim) finish() (*Day, error) {
	sortEvents(s.events)
	sortState(s.state)
	d := s.day
	d.Policy = cmp.Or(s.opts.Policy, Profiles()[s.opts.Profile])
	var err error
	if d.Events, err = logged(d.Policy, s.events); err != nil {
		return nil, err
	}
	d.State, d.pods = s.state, s.pods
	for _, n := range s.nodes {
		switch {
		case n.virtual != "":
			d.Virtual = append(d.Virtual, n.name)
		case n.gone.IsZero() && n.created.Before(s.from):
			d.NodeNames = append(d.NodeNames, n.name)
		}
	}
	return d, nil
}

// between is a moment in the day, between two shares of its span.
func (s *sim) between(lo, hi float64) time.Time {
	return s.from.Add(time.Duration((lo + (hi-lo)*s.Float64()) * float64(s.opts.Span)))
}

// upTo is a duration below d.
func (s *sim) upTo(d time.Duration) time.Duration { return time.Duration(s.Int64N(int64(d))) }

// some is a duration between two.
func (s *sim) some(lo, hi time.Duration) time.Duration { return lo + s.upTo(hi-lo) }

const (
	milli  = time.Millisecond
	second = time.Second
	minute = time.Minute
)

func (s *sim) planServers() {
	for i := range s.opts.Servers {
		s.servers = append(s.servers, &server{
			index: i, lease: "apiserver-" + hexString(s.Rand, 26), uid: uuid(s.Rand), address: fmt.Sprintf("10.0.0.%d", 2+i), minor: s.opts.Minor,
			user: &User{Username: "system:apiserver", UID: uuid(s.Rand), Groups: []string{"system:authenticated", "system:masters"}},
		})
	}
	if s.opts.Features.Has(ServerRestart) {
		v := s.servers[s.IntN(len(s.servers))]
		at := s.between(0.04, 0.06)
		back := at.Add(s.some(8*second, 20*second))
		v.down = append(v.down, span{at, back})
		if s.opts.Features.Has(GraphLag) {
			v.lag = append(v.lag, span{back, back.Add(minute)})
		}
	}
	if s.opts.Features.Has(Upgrade) {
		at := s.between(0.84, 0.86)
		for _, v := range s.servers {
			back := at.Add(s.some(8*second, 20*second))
			v.down = append(v.down, span{at, back})
			v.upgraded = back
			at = back.Add(s.some(40*second, 60*second))
		}
	}
}

// other is a server that is up at t, the given one if it is.
func (s *sim) other(server int, t time.Time) (int, bool) {
	for i := range s.servers {
		j := (server + i) % len(s.servers)
		if _, down := s.servers[j].isDown(t); !down {
			return j, true
		}
	}
	return 0, false
}

// session is a stretch of a kubelet's run with unbroken connections.
type session struct {
	span
	node          *node
	server, minor int
	starts        bool // it is the kubelet's start
	dies          bool // it ends with the machine
	user          *User
	ips, beatIPs  []string // of watches and reads, and of heartbeats
	agent         string
}

// sessions cuts a kubelet's runs where its connections break.
func (s *sim) sessions(n *node) []*session {
	var out []*session
	home := n.index % len(s.servers)
	for i, r := range n.runs {
		starts := i > 0 || !r.from.Before(s.origin)
		for t := r.from; t.Before(r.to); {
			at, ok := s.other(home, t)
			if !ok {
				d, _ := s.servers[home].isDown(t)
				t = d.to.Add(s.some(second, 4*second))
				continue
			}
			end, pause := r.to, time.Duration(0)
			until := func(b time.Time, p time.Duration) {
				if b.After(t) && b.Before(end) {
					end, pause = b, p
				}
			}
			for _, d := range s.servers[at].down {
				until(d.from, s.some(500*milli, 2*second))
			}
			if d, _ := s.servers[home].isDown(t); at != home { // the load balancer brings it back
				until(d.to.Add(s.some(5*second, 15*second)), s.some(20*milli, 90*milli))
			}
			for _, a := range n.addresses {
				until(a.from, s.some(2*second, 8*second))
			}
			for _, c := range n.certificates {
				until(c.from, s.some(200*milli, 400*milli))
			}
			out = append(out, s.session(n, r, span{t, end}, at, starts))
			starts = false
			t = end.Add(pause)
		}
		standstill := i+1 < len(n.runs) && n.runs[i+1].from.Sub(r.to) > minute
		if len(out) > 0 && (standstill || i+1 == len(n.runs) && !n.gone.IsZero()) {
			out[len(out)-1].dies = true
		}
	}
	return out
}

func (s *sim) session(n *node, r run, p span, at int, starts bool) *session {
	x := &session{span: p, node: n, server: at, minor: r.minor, starts: starts}
	for _, c := range n.certificates {
		if !p.from.Before(c.from) {
			x.user = c.user
		}
	}
	var a addressFrom
	for _, b := range n.addresses {
		if !p.from.Before(b.from) {
			a = b
		}
	}
	x.ips, x.beatIPs = []string{a.v4}, []string{a.v4}
	switch {
	case n.controlPlane:
		x.ips = []string{"127.0.0.1"}
	case a.v6 != "":
		x.ips = []string{a.v6}
	}
	x.agent = agent("kubelet", r.minor, "linux/amd64", "")
	if n.windows {
		x.agent = agent("kubelet.exe", r.minor, "windows/amd64", "")
	}
	return x
}

// nodeUser is a node's identity with a new certificate.
func (s *sim) nodeUser(name string) *User {
	u := &User{Username: "system:node:" + name, Groups: []string{"system:nodes", "system:authenticated"}}
	if logsCertificate(s.opts.Minor) {
		u.certificate = []byte(hexString(s.Rand, 64))
		u.CredentialID = fmt.Sprintf("X509SHA256=%x", sha256.Sum256(u.certificate))
	}
	return u
}

// usable reports whether a pod can start on the node at t and live for a while.
func (n *node) usable(t time.Time) bool {
	for _, c := range n.cordoned {
		if c.holds(t) {
			return false
		}
	}
	return n.running(t.Add(-40*second), t.Add(3*minute)) && n.created.Before(t.Add(-40*second))
}

func (n *node) running(from, to time.Time) bool {
	return slices.ContainsFunc(n.runs, func(r run) bool { return !from.Before(r.from) && to.Before(r.to) })
}

// renewed reports whether the node gets a new certificate at t.
func (n *node) renewed(t time.Time) bool {
	return slices.ContainsFunc(n.certificates[1:], func(c certificateFrom) bool { return c.from.Equal(t) })
}
