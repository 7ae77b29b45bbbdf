package days

import (
	"fmt"
	"slices"
	"time"
)

// planNodes plans the nodes' lives. Each thing that may happen has a share of the day of its own, so that features combine without getting
// in each other's way.
func (s *sim) planNodes() {
	f := s.opts.Features
	for i := range s.opts.Nodes {
		s.addNode(fmt.Sprintf("worker-%d", i+1), s.origin.Add(-time.Duration(24+s.IntN(1000))*time.Hour))
	}
	fixed := s.nodes[:s.opts.Nodes]
	if f.Has(ControlPlane) {
		fixed[0].controlPlane = true
	}
	if f.Has(Windows) {
		fixed[len(fixed)-1].windows = true
	}
	s.outage(fixed[0], s.between(0.20, 0.24), s.some(3*second, 12*second)) // of the kubelet's process: a new configuration
	if f.Has(Drains) {
		n := fixed[1%len(fixed)]
		at := s.between(0.10, 0.14)
		back := at.Add(s.some(5*minute, 8*minute))
		n.cordoned = append(n.cordoned, span{at, back})
		n.changes = append(n.changes, change{at: at, unschedulable: 1}, change{at: back, unschedulable: -1})
	}
	if f.Has(DHCP) {
		n := fixed[2%len(fixed)]
		a := addressFrom{from: s.between(0.27, 0.29), v4: fmt.Sprintf("10.0.2.%d", 10+n.index), v6: n.addresses[0].v6}
		n.addresses = append(n.addresses, a)
		n.changes = append(n.changes, change{at: a.from.Add(10 * second)})
	}
	if f.Has(Rotation) {
		for _, n := range fixed {
			n.certificates = append(n.certificates, certificateFrom{s.between(0.30, 0.33), s.nodeUser(n.name)})
		}
	}
	if f.Has(Join) {
		s.addNode("worker-joined", s.between(0.34, 0.36))
	}
	if f.Has(KubeadmJoin) {
		s.addNode("worker-kubeadm", s.between(0.37, 0.38)).kubeadm = true
	}
	if f.Has(NotReady) {
		s.notReady(fixed[2%len(fixed)])
	}
	s.planPassing()
	if f.Has(Upgrade) {
		at := s.between(0.88, 0.89)
		for _, n := range s.nodes {
			if n.virtual == "" && n.running(at, at.Add(minute)) {
				back := s.outage(n, at, s.some(6*second, 15*second))
				n.runs[len(n.runs)-1].minor++
				n.changes = append(n.changes, change{at: back.Add(2 * second)})
				at = at.Add(s.some(15*second, 25*second))
			}
		}
	}
}

// addNode adds a node whose Node object has the creation time created.
func (s *sim) addNode(name string, created time.Time) *node {
	i := len(s.nodes)
	n := &node{
		name: name, uid: uuid(s.Rand), leaseUID: uuid(s.Rand), index: i, created: created,
		runs:         []run{{span{created.Add(-2 * second), s.to.Add(time.Hour)}, s.opts.Minor}},
		certificates: []certificateFrom{{created.Add(-minute), s.nodeUser(name)}},
	}
	a := addressFrom{from: created.Add(-minute), v4: fmt.Sprintf("10.0.1.%d", 10+i)}
	if i >= 240 {
		a.v4 = fmt.Sprintf("10.1.%d.%d", i/240, 10+i%240)
	}
	if s.opts.Features.Has(DualStack) {
		a.v6 = fmt.Sprintf("fd00:10::%x", 16+i)
	}
	n.addresses = []addressFrom{a}
	n.changes = []change{{at: created.Add(s.some(4*second, 20*second)), ready: "True"}}
	s.nodes = append(s.nodes, n)
	return n
}

// outage ends the run of a node's kubelet and begins another one.
func (s *sim) outage(n *node, at time.Time, length time.Duration) time.Time {
	last := &n.runs[len(n.runs)-1]
	for i := range n.runs {
		if n.runs[i].holds(at) {
			last = &n.runs[i]
		}
	}
	end, back := last.to, at.Add(length)
	last.to = at
	n.runs = append(n.runs, run{span{back, end}, last.minor})
	return back
}

// notReady lets a machine stand still for an hour, or a third of a short day.
func (s *sim) notReady(n *node) {
	at := s.between(0.40, 0.42)
	back := s.outage(n, at, min(time.Hour, s.opts.Span/3))
	n.cordoned = append(n.cordoned, span{at, back.Add(minute)})
	n.changes = append(n.changes,
		change{at: at.Add(s.some(40*second, 50*second)), ready: "Unknown"},
		change{at: back.Add(s.some(4*second, 15*second)), ready: "True"})
}

// planPassing plans the nodes that come or go, and those that are none.
func (s *sim) planPassing() {
	f := s.opts.Features
	if f.Has(Autoscaling) {
		for i := range s.opts.Scaled {
			n := s.addNode(fmt.Sprintf("scaled-%s", hexString(s.Rand, 5)), s.between(0.44, 0.46))
			drain := s.between(0.76, 0.80)
			n.cordoned = append(n.cordoned, span{drain, s.to.Add(time.Hour)})
			n.changes = append(n.changes, change{at: drain, unschedulable: 1})
			n.runs[0].to = drain.Add(s.some(2*minute, 3*minute) + time.Duration(i)*second)
			n.gone = n.runs[0].to.Add(s.some(10*second, 35*second))
		}
	}
	if f.Has(Spot) {
		n := s.addNode("spot-"+hexString(s.Rand, 5), s.origin.Add(-time.Duration(1+s.IntN(10))*time.Hour))
		n.runs[0].to = s.between(0.52, 0.58)
		n.changes = append(n.changes, change{at: n.runs[0].to.Add(s.some(40*second, 50*second)), ready: "Unknown"})
		n.gone = n.runs[0].to.Add(s.some(55*second, 100*second))
	}
	if f.Has(VirtualNodes) {
		for _, kind := range []string{"kwok", "virtual-kubelet"} {
			n := s.addNode(kind+"-node-0", s.origin.Add(-24*time.Hour))
			n.virtual, n.runs, n.certificates = kind, nil, nil
		}
	}
}

func sortChanges(list []change) {
	slices.SortStableFunc(list, func(a, b change) int { return a.at.Compare(b.at) })
}
