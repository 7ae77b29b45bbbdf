package rules

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// coverageDetector finds what a log cannot contain by what it does contain: silences, reads that must have been, decisions.
//
// Requests are collected by steps of DetectStep, as sets and sums. When time has passed a step, it is taken in; at the end of each minute
// what has not come is judged. Nothing depends on the order within a step, nor on how far one call of Advance goes.
type coverageDetector struct {
	nodes   map[string]*nodeTrack // MaxNodes at most
	pending map[int64]*coverStep
	at      *coverStep // the one that the last request was in, of atStep
	atStep  int64
	done    int64 // steps before it were taken in
	log     logSilence

	day, answered, decided int64 // of requests with an answer on that day, those with the API server's decision
	undecided              bool  // reported on that day
	openDay, unjudgedDay   int64 // the days for which requests without an answer, and without a verdict, were reported
	lateOpen, lateUnjudged int64 // the same of requests that came too late, until time moves on
	unreadDay              int64 // the day for which missing reads were reported of all nodes together
	watches                watchCounts

	changed bool
	dropping
	kubeletNames
}

// coverStep is what there was in one step.
type coverStep struct {
	prompt            bool // an event was written when its request came
	answered, decided int64
	open              int64 // requests that Node denies and of which it is not known whether RBAC let them through
	unjudged          int64 // requests of programs, let through, of which nothing tells whether Node allows them
	watches           watchCount
	nodes, readers    []*nodeTrack
	tested            []*nodeTrack // those that read a secret lately and have a pod
	pods              map[podUse]struct{}
}

// mostPods bounds the pods that are noted in one step, of all nodes.
const mostPods = 20_000

// leastAnswers is how many answers of a day there must be, all without a decision, to say that there are none.
const leastAnswers = 500

const (
	rememberedCoverage  = "coverage"
	rememberedCoverNode = "coverage-node"
	// rememberedCoverRecent is of the nodes of which something newer is known than what is stored of each by itself.
	rememberedCoverRecent = "coverage-recent"
)

func newCoverageDetector(o DetectorOptions) Detector {
	return &coverageDetector{kubeletNames: kubeletNames{o.Kubelets}, nodes: map[string]*nodeTrack{}, pending: map[int64]*coverStep{}}
}

// follow implements follower.
func (d *coverageDetector) follow(r *Request, f *followed, step int64, s State) {
	if r.Event.IsImpersonated {
		return
	}
	at := d.at
	if at == nil || d.atStep != step {
		if at = d.pending[step]; at == nil {
			at = &coverStep{pods: map[podUse]struct{}{}}
			d.pending[step] = at
		}
		d.at, d.atStep = at, step
	}
	// The end of a watch comes long after its beginning, which the log may not reach back to.
	at.prompt = at.prompt || r.Event.StageTime.Sub(r.Time) < time.Minute
	if r.Event.Code != 0 && r.Event.Stage != audit.StageRequestReceived && !r.Event.Derived {
		at.answered++
		if r.Observed.Decision != "" {
			at.decided++
		}
	}
	d.untold(r, &at.open, &at.unjudged)
	n := f.track
	if n == nil {
		if n = d.track(r.Node); n == nil {
			return
		}
		f.track = n
	}
	if n.seen.first(step) {
		at.nodes = append(at.nodes, n)
	}
	a := r.Attrs
	at.watches.add(r)
	if !a.ResourceRequest || a.APIGroup != "" {
		return
	}
	switch {
	case a.Resource == "secrets":
		if n.readSeen.first(step) {
			at.readers = append(at.readers, n)
		}
	case a.Resource != "pods" || a.Subresource != "status" || s == nil:
	case n.secrets > step-stepsPerHour && n.secrets > 0: // its reads are there, whatever the pod needs
		if n.testSeen.first(step) {
			at.tested = append(at.tested, n)
		}
	case len(at.pods) < mostPods && len(a.Namespace)+len(a.Name) <= 2*maxRemembered:
		use := podUse{node: n, namespace: a.Namespace, name: a.Name}
		if _, known := at.pods[use]; !known {
			use.namespace, use.name = strings.Clone(a.Namespace), strings.Clone(a.Name)
			at.pods[use] = struct{}{}
		}
	}
}

// straggle implements straggler. A request whose answer is waited for comes late as a rule; and of several logs that are read from their
// beginnings one may be far behind, whose nodes are not silent.
func (d *coverageDetector) straggle(r *Request, step int64) {
	if r.Event.IsImpersonated {
		return
	}
	d.untold(r, &d.lateOpen, &d.lateUnjudged)
	if at := stepOf(r.Time); d.log.first > 0 && at > d.log.first {
		d.watches.Now.add(r) // the end of a watch comes late, always
	}
	if n := d.track(r.Node); n != nil {
		n.dirty = n.dirty || n.late == 0
		n.late = max(n.late, step)
	}
}

// track is what is known of a node, nil if there are too many.
func (d *coverageDetector) track(node string) *nodeTrack {
	n := d.nodes[node]
	if n == nil && len(d.nodes) < MaxNodes {
		n = &nodeTrack{name: strings.Clone(node)}
		d.nodes[n.name] = n
	}
	return n
}

// untold counts the request where the log does not hold its answer, and where nothing tells its verdict.
func (d *coverageDetector) untold(r *Request, open, unjudged *int64) {
	if r.Open && r.NodeDenies() {
		*open++
	}
	if d.unjudges(r) {
		*unjudged++
	}
}

// unjudges reports whether the request may need a binding and nothing tells. Kubelets' are the bulk of all requests: of them a few may be
// unknown, and that is counted elsewhere. All that another program does may be among the unknown ones, and they few.
func (d *coverageDetector) unjudges(r *Request) bool {
	return r.Answer.Verdict == nodeauthz.Unknown && r.Observed.NodeVerdict == nodeauthz.NotNode && (r.Allowed || r.Open) &&
		(!r.HasGrant || r.Grant.ForNodes()) && r.Observed.Authorizer != ByOther && !IsKubelet(r.product(), d.kubelets)
}

// Advance implements Detector.
func (d *coverageDetector) Advance(t time.Time, s State, found func(*Detection)) {
	end := stepOf(t)
	var steps []int64
	for step := range d.pending {
		if step < end {
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	for _, step := range steps {
		d.pass(step, s, found)
		d.take(step, d.pending[step], s, found)
		delete(d.pending, step)
		d.at = nil
	}
	d.pass(end, s, found)
	d.unknown(end, d.lateOpen, d.lateUnjudged, found)
	d.lateOpen, d.lateUnjudged = 0, 0
	d.changed = true
}

// pass moves time on to the beginning of a step, and judges the ends of the minutes up to it.
func (d *coverageDetector) pass(end int64, s State, found func(*Detection)) {
	if d.done == 0 || d.done > end {
		d.done = max(d.done, end)
		return
	}
	const longest = (retellFor + 1) * stepsPerMinute
	for step := (d.done/stepsPerMinute + 1) * stepsPerMinute; step <= end; step += stepsPerMinute {
		if step-d.log.last > longest {
			break // nothing has come for more than a day, and there is nothing left to report
		}
		d.minute(step, s, found)
	}
	d.done = end
}

// minute judges what has not come by the end of a minute.
func (d *coverageDetector) minute(step int64, s State, found func(*Detection)) {
	d.unread(step, found)
	if step-d.log.last > stepsPerMinute {
		d.log.silent(step, func() int { return d.lately(step, s) }, found)
		return
	}
	d.nodesSilent(step, s, found)
	if step%stepsPerHour == 0 {
		d.forget(step)
	}
}

// lately counts the nodes that spoke in the hour before the log's last step, and that are not known to be gone: a cluster can be without nodes.
func (d *coverageDetector) lately(step int64, s State) (n int) {
	for name, t := range d.nodes {
		if t.last <= d.log.last-stepsPerHour {
			continue
		}
		if s != nil {
			was, _ := s.NodeExists(name, stepTime(t.last))
			if is, known := s.NodeExists(name, stepTime(step)); was && known && !is {
				continue
			}
		}
		n++
	}
	return n
}

// forget drops the nodes that have not spoken for two days.
func (d *coverageDetector) forget(step int64) {
	for name, n := range d.nodes {
		if max(n.last, n.seen.step, n.late) < step-2*stepsPerDay {
			delete(d.nodes, name)
			d.dropped = true
		}
	}
}

// take takes in a step.
func (d *coverageDetector) take(step int64, at *coverStep, s State, found func(*Detection)) {
	if !at.prompt && d.log.last == 0 {
		d.before(step, at, found)
		return
	}
	d.log.spoke(step, found)
	for _, n := range at.nodes {
		if n.last == 0 && n.late == 0 {
			d.came(n, step, s, found)
		}
		n.spoke(step)
	}
	for _, n := range at.readers {
		n.secrets = max(n.secrets, step)
	}
	for _, n := range at.tested {
		n.test(step)
	}
	d.watches.take(step, &at.watches)
	d.started(step, at.pods, s)
	if day := step / stepsPerDay; day != d.day {
		d.day, d.answered, d.decided, d.undecided = day, 0, 0, false
	}
	d.answered += at.answered
	d.decided += at.decided
	d.unknown(step, at.open, at.unjudged, found)
	if d.answered >= leastAnswers && d.decided == 0 && !d.undecided {
		d.undecided = true
		found(&Detection{
			Finding: Finding{
				Rule: CoverageGap, Reason: DecisionsMissing, Severity: Low, Params: codes.Params{codes.Int(ParamCount, d.answered)},
			},
			Time: stepTime(step), First: stepTime(step), Last: stepTime(step), Count: d.answered,
		})
	}
}

// before takes in a step from before the log, of which it has nothing but the ends of watches and of other requests that lasted. They count like requests that come
// too late, as which they come where the log is read while it is written.
func (d *coverageDetector) before(step int64, at *coverStep, found func(*Detection)) {
	for _, n := range at.nodes {
		n.dirty = n.dirty || n.late == 0
		n.late = max(n.late, step)
	}
	d.unknown(step, at.open, at.unjudged, found)
}

// unknown tells, once a day each, of requests without an answer and of those without a verdict.
func (d *coverageDetector) unknown(step, open, unjudged int64, found func(*Detection)) {
	day := step / stepsPerDay
	tell := func(n int64, told *int64, reason Reason) {
		if n == 0 || *told >= day {
			return
		}
		*told = day
		found(&Detection{
			Finding: Finding{Rule: CoverageGap, Reason: reason, Severity: Medium},
			Time:    stepTime(step), First: stepTime(step), Last: stepTime(step), Count: n,
		})
	}
	tell(open, &d.openDay, AnswersMissing)
	tell(unjudged, &d.unjudgedDay, VerdictsMissing)
}

// storedCoverage is what is remembered of the whole log.
type storedCoverage struct {
	Done, First, Last, Resumed      int64
	Hour                            busy
	Nodes                           int
	Told                            bool
	Day, Answered, Decided          int64
	Undecided                       bool
	UnreadDay, OpenDay, UnjudgedDay int64
	Watches                         watchCounts
}

// storedTrack is what is remembered of a node.
type storedTrack struct {
	Minutes                              uint64
	First, Last, Secrets, Unread, Tested int64
	Late                                 int64
	Told, Group                          bool
}

// Changes implements Detector.
func (d *coverageDetector) Changes() []Remembered {
	if !d.changed {
		return nil
	}
	d.changed = false
	l := &d.log
	out := remember(nil, rememberedCoverage, "", &storedCoverage{
		Done: d.done, First: l.first, Last: l.last, Resumed: l.resumed, Hour: l.hour, Nodes: l.nodes, Told: l.told,
		Day: d.day, Answered: d.answered, Decided: d.decided, Undecided: d.undecided, UnreadDay: d.unreadDay, OpenDay: d.openDay, UnjudgedDay: d.unjudgedDay, Watches: d.watches,
	})
	var dirty []*nodeTrack
	recent := recentTracks{}
	for _, n := range d.nodes {
		switch {
		case n.last == 0 && n.late == 0:
		case n.dirty:
			dirty = append(dirty, n)
		case n.last != n.stored || n.fresh != nil:
			recent[n.name] = n.recent()
		}
	}
	slices.SortFunc(dirty, func(a, b *nodeTrack) int { return strings.Compare(a.name, b.name) })
	for _, n := range dirty {
		n.dirty, n.stored = false, n.last
		if n.fresh != nil { // of which a row by itself says nothing
			recent[n.name] = n.recent()
		}
		out = remember(out, rememberedCoverNode, n.name, &storedTrack{
			Minutes: n.minutes, First: n.first, Last: n.last, Secrets: n.secrets, Unread: n.unread, Tested: n.tested, Late: n.late, Told: n.told, Group: n.group,
		})
	}
	return remember(out, rememberedCoverRecent, "", recent)
}

// Restore implements Detector.
func (d *coverageDetector) Restore(r *Remembered) (own bool, err error) {
	switch r.Kind {
	case rememberedCoverage:
		var c storedCoverage
		if err := json.Unmarshal(r.Value, &c); err != nil {
			return true, err
		}
		if d.done == 0 {
			d.done, d.day, d.answered, d.decided = c.Done, c.Day, c.Answered, c.Decided
			d.undecided, d.unreadDay, d.openDay, d.unjudgedDay, d.watches = c.Undecided, c.UnreadDay, c.OpenDay, c.UnjudgedDay, c.Watches
			d.log = logSilence{first: c.First, last: c.Last, resumed: c.Resumed, hour: c.Hour, nodes: c.Nodes, told: c.Told}
		}
		return true, nil
	case rememberedCoverNode:
		var c storedTrack
		if err := json.Unmarshal(r.Value, &c); err != nil {
			return true, err
		}
		if d.nodes[r.Key] == nil && len(d.nodes) < MaxNodes {
			name := strings.Clone(r.Key)
			d.nodes[name] = &nodeTrack{
				name: name, minutes: c.Minutes & hourBits, first: c.First, last: c.Last, stored: c.Last, secrets: c.Secrets,
				unread: c.Unread, tested: c.Tested, late: c.Late, told: c.Told, group: c.Group,
			}
		}
		return true, nil
	case rememberedCoverRecent:
		var all recentTracks
		if err := json.Unmarshal(r.Value, &all); err != nil {
			return true, err
		}
		for name, of := range all {
			if len(name) <= maxRemembered && (d.nodes[name] != nil || len(d.nodes) < MaxNodes) {
				d.nodes[name] = of.track(name)
			}
		}
		return true, nil
	}
	return false, nil
}
