package metrics

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// Options set Metrics up; the zero value of each is its default.
type Options struct {
	// MaxNodes and MaxBindings bound labels, as the page of metrics says: 6,000 and 200 by default.
	MaxNodes, MaxBindings int
	// Cluster is the value of the label cluster of all series; "" for no such label.
	Cluster string
	// Version and Revision are for nodetrail_build_info.
	Version, Revision, GoVersion string
	// Since is when the cluster began to be watched: what an old log shows of before is no news.
	Since time.Time
	// Now is the clock, time.Now if nil.
	Now func() time.Time
}

// Commit is what was stored at once.
type Commit struct {
	// Entries are what was judged; those with Duplicate set were counted before.
	Entries []tally.Entry
	// Received are the times at which the entries' requests came in; it may be nil.
	Received []time.Time
	Lanes    []Lane
	// At is when the commit was done, Took how long it took.
	At   time.Time
	Took time.Duration
}

// Lane is what the completed batches of one lane held.
type Lane struct {
	// Lane is named as package source says: "kafka:topic/3" is of the source "kafka:topic".
	Lane   string
	Events tally.Events
	// Latest is the time of the newest event, zero if there is none.
	Latest time.Time
	// Envelopes counts events by the envelope around them.
	Envelopes map[string]int64
}

// Metrics counts what is stored. Its methods may be called concurrently.
type Metrics struct {
	o   Options
	reg *prometheus.Registry
	// labelled is reg, with the cluster's label for what is registered.
	labelled prometheus.Registerer

	requests, nodeRequests, admission, nodeExcess, findings, excess, agreement, events, envelopes, gaps *prometheus.CounterVec
	judgeDelay, commit, distance                                                                        prometheus.Histogram
	findingsLast, sourceLast                                                                            *prometheus.GaugeVec

	mu                          sync.Mutex
	nodes                       map[string]*node
	others                      *node
	swept                       time.Time
	pairs                       map[pair]prometheus.Counter
	bindings                    map[rbac.BindingRef]prometheus.Counter
	sources, envelopeSet, cause set
	latest                      map[string]time.Time // of each source, as a label
	missing                     set
	ruleNames                   map[string]bool
	own                         int // of ruleNames those that users wrote
	reasons                     map[ruleReason]bool
}

// ruleReason is a rule with one of its reasons.
type ruleReason struct {
	rule   string
	reason rules.Reason
}

type pair struct {
	binding rbac.BindingRef
	product string
}

// node is the counters of one node, by verdict.
type node struct {
	counters [3]prometheus.Counter
	excess   prometheus.Counter
	seen     time.Time
}

// New returns Metrics with a registry of their own.
func New(o Options) *Metrics {
	if o.MaxNodes <= 0 {
		o.MaxNodes = 6000
	}
	if o.MaxBindings <= 0 {
		o.MaxBindings = 200
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	all := described()
	m := &Metrics{
		o: o, reg: prometheus.NewRegistry(),
		requests: all[requests].counter(), nodeRequests: all[nodeRequests].counter(), admission: all[admission].counter(), nodeExcess: all[nodeExcess].counter(), findings: all[findings].counter(),
		excess: all[excessRequests].counter(), agreement: all[agreement].counter(), events: all[events].counter(),
		envelopes: all[envelopes].counter(), gaps: all[coverageGaps].counter(), findingsLast: all[findingsLast].gauge(), sourceLast: all[sourceLast].gauge(),
		judgeDelay: all[judgeDelay].histogram([]float64{.05, .1, .2, .3, .5, .75, 1, 2, 5, 10, 30, 60, 300}),
		commit:     all[commitSeconds].histogram([]float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10}),
		distance:   all[raceDistance].histogram([]float64{.05, .1, .15, .2, .3, .4, .5, .75, 1, 2, 5, 10}),
		nodes:      map[string]*node{}, pairs: map[pair]prometheus.Counter{}, bindings: map[rbac.BindingRef]prometheus.Counter{},
		sources: newSet(64), envelopeSet: newSet(32), cause: newSet(16), missing: newSet(16), ruleNames: map[string]bool{},
		reasons: map[ruleReason]bool{}, latest: map[string]time.Time{},
	}
	m.labelled = m.reg
	if o.Cluster != "" {
		m.labelled = prometheus.WrapRegistererWith(prometheus.Labels{"cluster": clean(o.Cluster)}, m.reg)
	}
	for _, r := range rules.All() {
		m.ruleNames[r.Name] = true
		for _, d := range r.Reasons {
			m.reasons[ruleReason{r.Name, d.Reason}] = true
		}
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: buildInfo, Help: all[buildInfo].Help}, all[buildInfo].Labels)
	build.WithLabelValues(clean(o.Version), clean(o.Revision), clean(o.GoVersion)).Set(1)
	m.labelled.MustRegister(m.requests, m.nodeRequests, m.admission, m.nodeExcess, m.findings, m.excess, m.agreement, m.events, m.envelopes, m.gaps, m.judgeDelay, m.commit, m.distance, m.findingsLast, m.sourceLast, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.others = m.newNode(Other)
	// Series with few values are there from the start: an increase from nothing is none for Prometheus.
	for _, v := range verdicts {
		for _, race := range []string{"false", "true"} {
			if v != nodeauthz.Unknown || race == "false" {
				m.requests.WithLabelValues(v.String(), race)
			}
		}
	}
	for _, r := range rules.All() {
		for sev := rules.Low; sev <= r.Severity; sev++ {
			for _, allowed := range []string{"false", "true"} {
				for _, d := range r.Reasons {
					m.findings.WithLabelValues(r.Name, string(d.Reason), sev.String(), allowed)
				}
			}
		}
	}
	for _, o := range rules.Outcomes() {
		if o != rules.OutcomeUnknown {
			m.admission.WithLabelValues(string(o), "")
		}
	}
	for _, cause := range causes() {
		m.gaps.WithLabelValues(m.cause.label(cause))
	}
	for _, outcome := range []string{"agree", "disagree"} {
		for _, race := range []string{"false", "true"} {
			m.agreement.WithLabelValues(outcome, race)
		}
	}
	return m
}

var verdicts = [3]nodeauthz.Verdict{nodeauthz.Allow, nodeauthz.Deny, nodeauthz.Unknown}

// causes are the words by which the program calls gaps, of its sources and as package coverage has them. Others are counted as well.
func causes() []string {
	return []string{
		"delayed", "store-full", "state-full", "log-lost", "messages-lost", "apiserver-dropped", "apiserver-rejected", "apiserver-unaudited", "policy-hidden", "policy-no-bodies",
		"policy-no-decision", "policy-late-decision",
	}
}

// Handler serves the metrics, with exemplars to those who ask for OpenMetrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.InstrumentMetricHandler(m.labelled, promhttp.HandlerFor(m.reg, promhttp.HandlerOpts{
		Registry: m.labelled, EnableOpenMetrics: true, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, Timeout: 30 * time.Second,
	}))
}

// Gatherer gives the metrics to tests and other readers.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.reg }

// Gap counts that part of the input may be missing. The cause is one of a few words.
func (m *Metrics) Gap(cause string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gaps.WithLabelValues(m.cause.label(cause)).Inc()
}

// Stored counts a commit. It keeps nothing of the entries' memory.
func (m *Metrics) Stored(c *Commit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.o.Now()
	for i := range c.Entries {
		e := &c.Entries[i]
		if e.Duplicate {
			continue
		}
		if e.IsNode {
			m.request(e, now)
		}
		for j := range e.Findings {
			m.finding(e, &e.Findings[j], now)
		}
		if i < len(c.Received) && !c.Received[i].IsZero() {
			m.judgeDelay.Observe(max(0, c.At.Sub(c.Received[i]).Seconds()))
		}
	}
	for i := range c.Lanes {
		m.lane(&c.Lanes[i], now)
	}
	m.commit.Observe(c.Took.Seconds())
}

func (m *Metrics) request(e *tally.Entry, now time.Time) {
	v := e.Verdict
	if v != nodeauthz.Allow && v != nodeauthz.Deny {
		v = nodeauthz.Unknown
	}
	m.requests.WithLabelValues(v.String(), strconv.FormatBool(e.Race)).Inc()
	n := m.node(e.Node, now)
	for i, of := range verdicts {
		if of == v {
			n.counters[i].Inc()
		}
	}
	if slices.ContainsFunc(e.Findings, func(f tally.Finding) bool { return f.Key.Rule == rules.ExcessAccess }) {
		n.excess.Inc()
	}
	if a := e.Admission; a != nil {
		m.admission.WithLabelValues(string(a.Outcome), m.missing.label(a.Missing)).Inc()
	}
	if v == nodeauthz.Unknown || e.Observed == nodeauthz.NotNode {
		return
	}
	if e.Verdict == e.Observed {
		m.agreement.WithLabelValues("agree", strconv.FormatBool(e.Race)).Inc()
		return
	}
	if e.HasDistance {
		m.distance.Observe(e.Distance.Seconds())
	}
	id := ""
	if e.Disagreement != nil {
		id = e.Disagreement.AuditID
	}
	inc(m.agreement.WithLabelValues("disagree", strconv.FormatBool(e.Race)), id)
}

// inc counts one, with the request as exemplar.
func inc(c prometheus.Counter, auditID string) {
	adder, ok := c.(prometheus.ExemplarAdder)
	x := exemplar(auditID)
	if !ok || x == nil {
		c.Inc()
		return
	}
	adder.AddWithExemplar(1, x)
}

// node returns the counters of a node, or of all others where the name is none or there are too many.
func (m *Metrics) node(name string, now time.Time) *node {
	if n := m.nodes[name]; n != nil {
		n.seen = now
		return n
	}
	if !nodeid.CanBeName(name) {
		return m.others
	}
	if len(m.nodes) >= m.o.MaxNodes {
		m.sweep(now)
	}
	if len(m.nodes) >= m.o.MaxNodes {
		return m.others
	}
	name = strings.Clone(name)
	n := m.newNode(name)
	n.seen = now
	m.nodes[name] = n
	return n
}

func (m *Metrics) newNode(name string) *node {
	n := &node{excess: m.nodeExcess.WithLabelValues(name)}
	for i, v := range verdicts {
		n.counters[i] = m.nodeRequests.WithLabelValues(name, v.String())
	}
	return n
}

// sweep makes room: the series of nodes that were not seen for long end. It looks at most once a minute.
func (m *Metrics) sweep(now time.Time) {
	if now.Sub(m.swept) < time.Minute {
		return
	}
	m.swept = now
	for name, n := range m.nodes {
		if now.Sub(n.seen) < idle || name == Other {
			continue
		}
		delete(m.nodes, name)
		m.nodeExcess.DeleteLabelValues(name)
		for _, v := range verdicts {
			m.nodeRequests.DeleteLabelValues(name, v.String())
		}
	}
}

// maxOwn bounds the names of users' rules that are labels, those of before a reload included.
const maxOwn = 400

// Own makes the names of rules that the user wrote labels. Those beyond a bound are counted as other.
func (m *Metrics) Own(all []*rules.Rule) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range all {
		if m.ruleNames[r.Name] || m.own >= maxOwn {
			continue
		}
		m.own++
		m.ruleNames[r.Name] = true
		for _, d := range r.Reasons {
			m.reasons[ruleReason{r.Name, d.Reason}] = true
		}
		for _, allowed := range []string{"false", "true"} {
			m.findings.WithLabelValues(r.Name, string(rules.OwnMatch), r.Severity.String(), allowed)
		}
	}
}

// fresh is how old a request is at most whose findings are news also if it is of before the watch.
const fresh = 15 * time.Minute

func (m *Metrics) finding(e *tally.Entry, f *tally.Finding, now time.Time) {
	rule := f.Key.Rule
	if !m.ruleNames[rule] {
		rule = Other // rules of other versions
	}
	reason := string(f.Reason)
	if !m.reasons[ruleReason{rule, f.Reason}] {
		reason = Other
	}
	labels := []string{rule, reason, f.Severity.String(), strconv.FormatBool(e.Succeeded(f))}
	inc(m.findings.WithLabelValues(labels...), f.AuditID)
	if !e.Time.Before(m.o.Since) || now.Sub(e.Time) < fresh {
		m.findingsLast.WithLabelValues(labels...).Set(seconds(now))
	}
	if f.Key.Rule == rules.ExcessAccess && e.IsNode {
		m.excessOf(f.Key.Binding, f.Key.Product).Inc()
	}
}

// excessOf returns the counter of a binding and a user agent; where there are too many the user agent is Other, and then the binding too.
func (m *Metrics) excessOf(b rbac.BindingRef, client string) prometheus.Counter {
	p := pair{b, product(client)}
	if c := m.pairs[p]; c != nil {
		return c
	}
	wide := len(m.pairs) >= m.o.MaxBindings
	if wide {
		if c := m.bindings[b]; c != nil {
			return c
		}
		if len(m.bindings) >= m.o.MaxBindings {
			return m.excess.WithLabelValues(Other, Other)
		}
	}
	b = rbac.BindingRef{Kind: strings.Clone(b.Kind), Namespace: strings.Clone(b.Namespace), Name: strings.Clone(b.Name)}
	p = pair{b, strings.Clone(p.product)}
	if wide {
		p.product = Other
	}
	c := m.excess.WithLabelValues(clean(bindingName(b)), p.product)
	if wide {
		m.bindings[b] = c
	} else {
		m.pairs[p] = c
	}
	return c
}

// bindingName is a binding as a label: ClusterRoleBinding/name, RoleBinding/namespace/name.
func bindingName(b rbac.BindingRef) string {
	if b.Namespace == "" {
		return b.Kind + "/" + b.Name
	}
	return b.Kind + "/" + b.Namespace + "/" + b.Name
}

func (m *Metrics) lane(l *Lane, now time.Time) {
	source := m.sources.label(sourceOf(l.Lane))
	for outcome, n := range map[string]int64{
		"read": l.Events.Read, "skipped": l.Events.Skipped, "malformed": l.Events.Malformed, "duplicate": l.Events.Duplicates,
	} {
		m.events.WithLabelValues(source, outcome).Add(float64(max(0, n)))
	}
	latest := l.Latest
	if latest.After(now) {
		latest = now
	}
	if latest.After(m.latest[source]) {
		m.latest[source] = latest
		m.sourceLast.WithLabelValues(source).Set(seconds(latest))
	}
	for name, n := range l.Envelopes {
		if n > 0 {
			m.envelopes.WithLabelValues(m.envelopeSet.label(name)).Add(float64(n))
		}
	}
}

// sourceOf is the source of a lane: of Kafka the topic, of the others the lane itself.
func sourceOf(lane string) string {
	if strings.HasPrefix(lane, "kafka:") {
		if i := strings.LastIndexByte(lane, '/'); i > 0 {
			return lane[:i]
		}
	}
	return lane
}
