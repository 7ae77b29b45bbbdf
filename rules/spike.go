package rules

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/internal/floor"
)

// What makes a spike, in addition to the test of baseline. A rolled-out pod that goes wrong is denied a few objects a few times a minute on each
// node; 20 in a minute of a node and 60 of the cluster are what somebody should look at.
const (
	spikeNode    = 20
	spikeCluster = 60
	// spikeYoung multiplies them in the first hour of a node or the cluster: a kubelet that starts, and agents that start with it, ask for all
	// they need at once, and nothing is known of the node.
	spikeYoung    = 5
	spikeYoungFor = time.Hour
	// spikeBlind is how long nothing is judged after the very first request: a steady rate is no spike.
	spikeBlind = 10 * time.Minute
	// spikeQuiet is how long the rate has to be usual again for the spike to be over.
	spikeQuiet = 5 * time.Minute
	// spikeHistory is how many hours make the baseline; spikeHabit by how much what came at the same hour of both days before has to be
	// exceeded: a nightly job is given twice.
	spikeHistory = 24
	spikeHabit   = 1.5
	// spikeShare is the part of the cluster's denials that makes a spike that of one node.
	spikeShare = 0.5
)

// DenySpike is the name of the rule on denials that are far more than usual.
const DenySpike = "node-deny-spike"

func nodeDenySpike() *Rule {
	rule := &Rule{
		Name:     DenySpike,
		Severity: High,
		Reasons: []ReasonDoc{
			{Reason: SpikeOfNode, Doc: "one node is denied far more than usual"},
			{Reason: SpikeOfCluster, Doc: "the nodes of the cluster together are denied far more than usual"},
		},
		Doc: `Far more is denied to nodes than usual

## What
In one minute, the Node authorizer denied far more requests than the past makes likely. The finding is about one node, or, if it has no
node, about all nodes of the cluster together. Each spike is a finding of its own. It is found again in each minute of the spike, with the
beginning, the peak and the most frequent reasons, and once more when the rate has been usual for 5 minutes.

The test compares the denials of a minute with those of the past 24 hours. It assumes a Poisson process whose rate is uncertain, and divides
the counts by their dispersion index, which is at least 3. The probability of so many denials must be below one in a million. The rate has a
Gamma prior with the weight of one hour. The mean of the prior is the largest of these: 0.2 denials for each minute and node, the average of
the cluster's nodes, and the average of the node or of the cluster itself.

These conditions must hold, too:

- There are at least 20 denials for a node, or 60 for the cluster. In the first hour in which the node or the cluster is seen, and in the
  first hour after the node was created again, it must be five times as many.
- The first request in the log was at least ten minutes before.
- The denials are more than 1.5 times as many as those at the same hour of both days before. Otherwise they are a habit.

Minutes in a spike count for later comparisons only as far as they would be usual.

The severity is low if in each minute all but a usual number of the denials are of requests that the state had long allowed. The API
server's graph is then behind, for example after a restart (see authorizer-lag).

A node that has at least half of all denials is judged on its own, and is not counted for the cluster. If the cluster has a spike from at
least two nodes, the other nodes are not reported on their own. The message says how many there are.

These denials do not count:

- races, which are denials near a change of the state;
- denials after which the same node was allowed the same object within 10 to 20 seconds;
- denials of a pod that was the node's own in the ten minutes before. Kubelets ask for such pods after somebody has deleted them;
- denials of a kubelet's watch of an object that the kubelet could reach in the ten minutes before.

For a node that was cut off, the ten minutes are those before it fell silent.

## Why
A spike of one node means that a program is out of control, or that somebody tries out a credential. A spike of many nodes has one cause:
for example a new agent, a deleted binding, or an API server whose graph is empty after a restart or a restore.

## What to do
Look at the reasons and the user agent in the message. For one node, check whether the rule
secret-enumeration names it, too. For the cluster, check what was rolled out or deleted just before, and
whether the rule authorizer-lag names the requests. If it does, the cause is the API server, and the spike
ends without your help.

## False positives
An API server that restarts, or etcd restored from a backup, causes a real but harmless spike of the cluster. It is reported once for all
nodes. A load test also causes a spike.

## How to silence it
Run with '--disable node-deny-spike', or add the rule to 'rules.disable' in the configuration.`,
	}
	rule.NewDetector = func(o DetectorOptions) Detector {
		return &spike{rule: rule, kubeletNames: kubeletNames{o.Kubelets}, nodes: map[string]*spikeSubject{}, active: map[string]struct{}{}, changed: map[string]struct{}{}}
	}
	return rule
}

// asksAfterOwn reports whether the node asked for a pod that it had until lately. Kubelets do when pods are deleted under them, and a job or a
// namespace that is deleted has hundreds.
func asksAfterOwn(d *denial, s State) bool {
	o := d.Object
	return s != nil && !d.Wide && o.getsPod() && s.HadPod(o.Namespace, o.Name, d.Node, d.First)
}

// getsPod reports whether what was denied is to get a pod.
func (o *deniedObject) getsPod() bool {
	return o.Verb == "get" && o.Resource == "pods" && o.APIGroup == "" && o.Subresource == "" && o.Name != ""
}

// spike compares the denials of each minute with those before.
type spike struct {
	rule    *Rule
	cluster spikeSubject
	nodes   map[string]*spikeSubject
	active  map[string]struct{} // those with a spike that is not over
	changed map[string]struct{} // "" is the cluster
	seenAt  int64               // how many nodes there were, for the prior, is counted as of this hour
	known   int
	swept   int64 // the hour in which nodes that are gone were forgotten
	dropping
	kubeletNames
}

// spikeSubject is a node, or the cluster. Times are in minutes since 1970.
type spikeSubject struct {
	Seen int64       `json:"seen"` // the first request, since there was none for maxSpikeHours
	Last int64       `json:"last"` // the last one, by the hour
	Past []spikeHour `json:"past,omitempty"`
	Now  *spikeState `json:"now,omitempty"` // nil while the rate is usual
}

// spikeHour sums up the minutes of an hour that had denials.
type spikeHour struct {
	Hour int64 `json:"h"`
	// Sum and Sq are of the denials of each minute, as far as they are usual, and of their squares; Most is the most in a minute.
	Sum  float64 `json:"s"`
	Sq   float64 `json:"q"`
	Most int64   `json:"m"`
}

// spikeState is a spike that is not over.
type spikeState struct {
	Onset int64 `json:"onset"`
	Last  int64 `json:"last"`
	// Peak is the most denials in a minute, PeakAt when, Nodes how many nodes then had denials, and Usual what had been usual at most.
	Peak   int64 `json:"peak"`
	PeakAt int64 `json:"peakAt"`
	Nodes  int   `json:"nodes"`
	Usual  int64 `json:"usual"`
	Total  int64 `json:"total"`
	// First and LastAt are the times of the first request and the last, Reasons are those that came most, AuditIDs of requests.
	First    time.Time     `json:"first"`
	LastAt   time.Time     `json:"lastAt"`
	Reasons  []spikeReason `json:"reasons"`
	AuditIDs []string      `json:"ids,omitempty"`
	Products []spikeReason `json:"products"`
	Worst    []spikeReason `json:"worst,omitempty"` // the nodes of the peak
	Passed   bool          `json:"passed,omitzero"`
	// Lag says that in no minute more was denied than usual, but for what the state had long allowed: the API server's graph is behind.
	Lag bool `json:"lag,omitzero"`
}

type spikeReason struct {
	Text  string `json:"t"`
	Count int64  `json:"c"`
}

// maxSpikeReasons is how many are counted of each list; three are reported.
const maxSpikeReasons = 16

// maxSpikeHours is how long a node is remembered.
const maxSpikeHours = 50

func minuteOf(t time.Time) int64 { return floor.Div(t.Unix(), 60) }

func timeOfMinute(m int64) time.Time { return time.Unix(m*60, 0).UTC() }

// follow implements follower: it learns which nodes there are, and since when.
func (s *spike) follow(r *Request, f *followed, step int64, _ State) {
	m := floor.Div(step, stepsPerMinute)
	n := f.spike
	if n == nil {
		if n = s.nodes[r.Node]; n == nil {
			if len(s.nodes) >= MaxNodes {
				return
			}
			n = &spikeSubject{Seen: m, Last: m}
			name := strings.Clone(r.Node)
			s.nodes[name] = n
			s.changed[name] = struct{}{}
		}
		f.spike = n
	}
	if n.saw(m) {
		s.changed[strings.Clone(r.Node)] = struct{}{}
	}
	if c := &s.cluster; c.Last == 0 {
		c.Seen, c.Last = m, m
		s.changed[""] = struct{}{}
	} else if c.saw(m) {
		s.changed[""] = struct{}{}
	}
}

// saw reports whether the request is news that has to be stored.
func (n *spikeSubject) saw(m int64) (news bool) {
	switch {
	case m-n.Last > maxSpikeHours*60:
		*n = spikeSubject{Seen: m, Last: m, Now: n.Now}
		return true
	case m < n.Seen && n.Seen-m < maxSpikeHours*60:
		n.Seen, news = m, true
	}
	if hour := floor.Div(m, 60) * 60; hour > n.Last {
		n.Last, news = hour, true
	}
	return news
}

// spikeMinute is what a subject was denied in a minute.
type spikeMinute struct {
	name  string
	count int64
	nodes int
	worst []spikeReason
	in    *denialMinute
	nth   int32 // the node's number; of the cluster that of the node which is left out, or -1
}

// denials yields those of the node; of the cluster all.
func (m *spikeMinute) denials(yield func(*denial) bool) {
	for _, step := range m.in.steps {
		for _, d := range step.denied {
			if (d.nth == m.nth) == (m.name != "") && !d.own && !yield(d) {
				return
			}
		}
	}
}

// without is the cluster's minute without one of its nodes, the one with the most denials.
func (m *spikeMinute) without(n *spikeMinute) spikeMinute {
	return spikeMinute{count: m.count - n.count, nodes: m.nodes - 1, worst: m.worst[1:], in: m.in, nth: n.nth}
}

// sumMinute sums up what was denied in a minute, but for what nodes ask after pods of theirs that are gone: in all and by node, of which nodes are in
// the order of their counts.
func sumMinute(m *denialMinute, st State) (all spikeMinute, nodes []*spikeMinute) {
	all.in, all.nth = m, -1
	sums := make([]spikeMinute, len(m.nodes))
	for _, step := range m.steps {
		for _, d := range step.denied {
			if d.own = asksAfterOwn(d, st); !d.own {
				sums[d.nth].count += d.Count
				all.count += d.Count
			}
		}
	}
	for nth := range sums {
		if n := &sums[nth]; n.count > 0 {
			n.name, n.nodes, n.in, n.nth = m.nodes[nth], 1, m, int32(nth)
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b *spikeMinute) int {
		if c := cmp.Compare(b.count, a.count); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	all.nodes = len(nodes)
	for _, n := range nodes[:min(3, len(nodes))] {
		all.worst = append(all.worst, spikeReason{n.name, n.count})
	}
	return all, nodes
}

// minute judges a minute that is over.
func (s *spike) minute(m *denialMinute, st State, found func(*Detection)) {
	at := minuteOf(m.start)
	s.end(at, found)
	all, nodes := sumMinute(m, st)
	if all.count == 0 {
		return
	}
	if at-s.cluster.Seen < int64(spikeBlind/time.Minute) {
		s.take(at, nodes, all.count, nil)
		return
	}
	prior := s.prior(at)
	// Each is judged by what was before, and only then counted.
	least := map[string]int64{} // of those that are beyond it
	hot := func(n *spikeSubject, of *spikeMinute, atLeast int64, prior float64) (is, lost bool) {
		l, is := n.judge(at, of.count, atLeast, prior)
		if is && !s.notLost(of, l, st) {
			return false, true
		}
		if is {
			least[of.name] = l
		}
		return is, false
	}
	var told []*spikeMinute
	rest := all
	for i, of := range nodes {
		if i == 0 && float64(of.count) >= spikeShare*float64(all.count) {
			rest = all.without(of)
		}
		if of.count < spikeNode {
			break // and so have all further ones
		}
		n := s.nodes[of.name]
		if n == nil {
			continue
		}
		is, lost := hot(n, of, s.atLeast(n, of.name, at, st), prior)
		if is {
			told = append(told, of)
		}
		if lost { // it is no habit either: nothing is counted of it
			if rest.nth != of.nth {
				rest.count -= of.count
			}
			all.count -= of.count
			of.count = 0
		}
	}
	clusterLeast := int64(spikeCluster)
	if at-s.cluster.Seen < int64(spikeYoungFor/time.Minute) {
		clusterLeast *= spikeYoung
	}
	is, lost := false, false
	if rest.nodes > 1 {
		is, lost = hot(&s.cluster, &rest, clusterLeast, prior*float64(max(1, s.nodesSeen(at))))
	}
	if lost {
		all.count -= rest.count
	}
	if is {
		told = slices.DeleteFunc(told, func(of *spikeMinute) bool { return rest.nodes == all.nodes || of != nodes[0] })
		s.found(&s.cluster, &rest, at, least[""], found)
	}
	slices.SortFunc(told, func(a, b *spikeMinute) int { return strings.Compare(a.name, b.name) })
	for _, of := range told {
		s.found(s.nodes[of.name], of, at, least[of.name], found)
	}
	s.take(at, nodes, all.count, least)
}

// notLost reports whether at least so many denials are of what the node could not reach just before.
func (s *spike) notLost(of *spikeMinute, least int64, st State) bool {
	for d := range of.denials {
		if !d.lost(st, s.kubelets) {
			least -= d.Count
		}
		if least <= 0 {
			return true
		}
	}
	return false
}

// take counts the minute.
func (s *spike) take(at int64, nodes []*spikeMinute, all int64, least map[string]int64) {
	for _, of := range nodes {
		if n := s.nodes[of.name]; n != nil {
			n.count(at, of.count, least[of.name])
			s.changed[of.name] = struct{}{}
		}
	}
	s.cluster.count(at, all, least[""])
	s.changed[""] = struct{}{}
}

// prior is what a node is denied in a minute, on average over the cluster.
func (s *spike) prior(at int64) float64 {
	b := s.cluster.baseline(at, 0)
	return max(spikeRate, b.sum/(b.minutes+spikePrior)/float64(max(1, s.nodesSeen(at))))
}

// nodesSeen is how many nodes there were by the last whole hour.
func (s *spike) nodesSeen(at int64) int {
	if hour := floor.Div(at, 60); hour != s.seenAt || s.known == 0 {
		s.seenAt, s.known = hour, 0
		for _, n := range s.nodes {
			if n.Seen < hour*60 && n.Last >= (hour-maxSpikeHours)*60 {
				s.known++
			}
		}
	}
	return s.known
}

// atLeast is the least effect for the node.
func (s *spike) atLeast(n *spikeSubject, name string, at int64, st State) int64 {
	const young = int64(spikeYoungFor / time.Minute)
	if at-n.Seen < young || st != nil && st.NodeCreatedBetween(name, timeOfMinute(at-young), timeOfMinute(at+1)) {
		return spikeNode * spikeYoung
	}
	return spikeNode
}

// baseline is that of the day before the minute.
func (n *spikeSubject) baseline(at int64, prior float64) baseline {
	b := baseline{prior: prior, minutes: float64(max(0, min(at-n.Seen, spikeHistory*60)))}
	for i := range n.Past {
		if h := &n.Past[i]; h.Hour > floor.Div(at, 60)-spikeHistory {
			b.sum += h.Sum
			b.sq += h.Sq
		}
	}
	return b
}

// judge returns what is usual at most, and whether the count is beyond it.
func (n *spikeSubject) judge(at, count, atLeast int64, prior float64) (least int64, beyond bool) {
	if count < atLeast {
		return 0, false
	}
	b := n.baseline(at, prior)
	if b.tail(float64(count)) >= spikeP || float64(count) <= spikeHabit*float64(n.habit(at)) {
		return 0, false
	}
	return b.least(atLeast), true
}

// habit is the most in a minute that came at about the same hour of both days before.
func (n *spikeSubject) habit(at int64) int64 {
	var days [2]int64
	for i := range n.Past {
		h := &n.Past[i]
		for day := range days {
			if ago := floor.Div(at, 60) - h.Hour - 24*int64(day+1); ago >= -1 && ago <= 1 {
				days[day] = max(days[day], h.Most)
			}
		}
	}
	return min(days[0], days[1])
}

// count takes the minute into the past, as far as it is usual.
func (n *spikeSubject) count(at, count, least int64) {
	hour := floor.Div(at, 60)
	last := func() bool { return len(n.Past) > 0 && n.Past[len(n.Past)-1].Hour == hour }
	if !last() {
		n.Past = slices.DeleteFunc(n.Past, func(h spikeHour) bool { return h.Hour <= hour-maxSpikeHours || h.Hour > hour })
	}
	if !last() {
		n.Past = append(n.Past, spikeHour{Hour: hour})
	}
	h := &n.Past[len(n.Past)-1]
	usual := float64(count)
	if least > 0 {
		usual = min(usual, float64(least))
	}
	h.Sum += usual
	h.Sq += usual * usual
	h.Most = max(h.Most, count)
}
