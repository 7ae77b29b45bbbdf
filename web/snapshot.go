package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/tally"
)

// Bounds of what is kept to be shown again.
const (
	// maxWindows is how many windows are kept. Of those with many findings fewer are: together they have at most maxKept, if it is not one alone.
	maxWindows = 4
	maxKept    = 100_000
	// loadWithin is how long reading a window may take.
	loadWithin = 5 * time.Minute
	// staleFor is for how long what was read is shown while it is read anew, if that takes more than cache.slow, by default slow.
	staleFor = 2 * time.Minute
	slow     = 500 * time.Millisecond
	// maxTrends bounds the bindings of which a trend is kept.
	maxTrends = 1000
)

// snapshot is what the store held of a window at one instant. Nothing in it changes.
type snapshot struct {
	// from and to bound the window that was read; both are zero where the store is empty.
	from, to time.Time
	report   *report.Report
	facts    report.Facts
	steps    []tally.Step
	nodes    map[string]*tally.Node
	// all are the findings, in the order of severity; byID are their places.
	all     []*found
	byID    map[string]int
	facets  Facets
	worst   map[string]nodeFindings
	uses    map[report.Binding]map[int64]int64 // requests that would break without it, by the second in which a step begins
	old     *part                              // what of it is over, nil where all was read at once
	version string
	took    time.Duration
}

// nodeFindings counts the findings of a node.
type nodeFindings struct {
	findings int
	severity rules.Severity
}

// found is a finding with what it is looked up and put in order by.
type found struct {
	Finding
	key      tally.Key
	severity rules.Severity
	rule     int   // its place among the rules
	low      int64 // how many of Count are of low severity
}

// cache keeps a few snapshots. One reader reads a window, the others wait for it.
type cache struct {
	store     Store
	facts     func(context.Context) (report.Facts, error)
	prove     func(context.Context, *tally.Tally, time.Duration, *report.Facts) error
	incidents func(context.Context, time.Time, func(*incidents.Incident) bool, int) ([]incidents.Incident, map[incidents.State]int, error)
	turn      func(context.Context) (context.Context, func(), error)
	cluster   string
	step      time.Duration
	// fresh is for how long nothing is asked of the store, or times as long as reading took.
	fresh time.Duration
	times int
	now   func() time.Time
	// clock is what the requests' times are compared with.
	clock func() time.Time
	loads chan struct{} // one window is read at a time
	slow  time.Duration
	most  int // maxKept, but in tests
	keep  int // incidents.ReportMost, but in tests
	// worth is how long reading must have taken for what is over to be kept.
	worth time.Duration

	mu      sync.Mutex
	windows map[time.Duration]*cached
	tick    int64
}

// cached is a window, and who reads it now.
type cached struct {
	snap    *snapshot
	checked time.Time // when snap was read, or found to be what the store holds
	used    int64
	loading *loading
}

// loading is a reading of a window. It is given up when all have left who waited for it, unless it has begun, or is to replace what is shown meanwhile.
type loading struct {
	done    chan struct{}
	waiting int  // guarded by cache.mu, as is kept
	kept    bool // whether it is done even if nobody waits
	snap    *snapshot
	err     error
}

func newCache(o *Options) *cache {
	return &cache{
		store: o.Store, facts: o.Facts, prove: o.Prove, incidents: o.Incidents, cluster: o.Cluster, step: o.Step, fresh: time.Second, times: 4, slow: slow, worth: slow / 5, now: time.Now, clock: o.Now, loads: make(chan struct{}, 1), turn: o.Turn, most: maxKept, keep: incidents.ReportMost,
		windows: map[time.Duration]*cached{},
	}
}

// get returns a snapshot of the window. Its error is errUnavailable, or that of ctx.
func (c *cache) get(ctx context.Context, window time.Duration) (*snapshot, error) {
	c.mu.Lock()
	w := c.windows[window]
	if w == nil {
		w = &cached{}
		c.windows[window] = w
	}
	c.tick++
	w.used = c.tick
	age := c.now().Sub(w.checked)
	if w.snap != nil && age < max(c.fresh, min(time.Duration(c.times)*w.snap.took, staleFor/2)) {
		defer c.mu.Unlock()
		return w.snap, nil
	}
	l := w.loading
	if l == nil {
		l = &loading{done: make(chan struct{})}
		w.loading = l
		go c.load(context.WithoutCancel(ctx), window, w, l)
	}
	c.shrink()
	if w.snap != nil && age < staleFor && w.snap.took > c.slow {
		defer c.mu.Unlock()
		l.kept = true
		return w.snap, nil
	}
	l.waiting++
	c.mu.Unlock()
	select {
	case <-l.done:
		return l.snap, l.err
	case <-ctx.Done():
		c.leave(window, w, l)
		return nil, ctx.Err()
	}
}

// leave counts one less that waits. Otherwise somebody who asks for window after window, and waits for none, would make everybody wait for all of them.
func (c *cache) leave(window time.Duration, w *cached, l *loading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.waiting--; l.waiting > 0 || l.kept {
		return
	}
	close(l.done)
	w.loading = nil
	if w.snap == nil {
		delete(c.windows, window)
	}
}

// begin reports whether it is this reading's turn, and not given up.
func (c *cache) begin(w *cached, l *loading) bool {
	select {
	case c.loads <- struct{}{}:
	case <-l.done:
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l.kept = w.loading == l
	if !l.kept {
		<-c.loads
	}
	return l.kept
}

// inTurn reads the window when it is its turn.
func (c *cache) inTurn(ctx context.Context, window time.Duration, w *cached) (*snapshot, error) {
	if c.turn != nil {
		held, end, err := c.turn(ctx)
		if err != nil {
			return nil, err
		}
		defer end()
		ctx = held
	}
	ctx, stop := context.WithTimeout(ctx, loadWithin)
	defer stop()
	c.mu.Lock()
	c.shrink()
	old := w.snap
	c.mu.Unlock()
	return c.read(ctx, window, old)
}

// forget drops a snapshot.
func (c *cache) forget(s *snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.windows {
		if w.snap == s {
			w.snap = nil
		}
	}
}

// heavy reports whether the windows that are kept have too many findings together.
func (c *cache) heavy() bool {
	n := 0
	for _, w := range c.windows {
		if w.snap != nil {
			n += len(w.snap.all)
		}
	}
	return n > c.most
}

// shrink forgets the windows that were not asked for for longest.
func (c *cache) shrink() {
	for len(c.windows) > maxWindows || len(c.windows) > 1 && c.heavy() {
		oldest, found := time.Duration(0), false
		for k, w := range c.windows {
			if w.loading == nil && (!found || w.used < c.windows[oldest].used) {
				oldest, found = k, true
			}
		}
		if !found {
			return // all are being read
		}
		delete(c.windows, oldest)
	}
}

func (c *cache) load(ctx context.Context, window time.Duration, w *cached, l *loading) {
	if !c.begin(w, l) {
		return
	}
	defer func() { <-c.loads }()
	l.snap, l.err = c.inTurn(ctx, window, w)
	if l.err != nil {
		l.err = fmt.Errorf("%w: %w", errUnavailable, l.err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.err == nil {
		w.snap, w.checked = l.snap, c.now() // what took long is good for a while
	}
	w.loading = nil
	close(l.done)
	c.shrink()
}

// read reads the window, unless nothing has changed.
func (c *cache) read(ctx context.Context, window time.Duration, old *snapshot) (*snapshot, error) {
	version, err := c.store.Version(ctx)
	if err != nil {
		return nil, err
	}
	if old != nil && old.version == version {
		return old, nil
	}
	if old != nil && len(old.all) > c.most {
		c.forget(old) // there is no room for two
		old = nil
	}
	began := c.now()
	facts, err := c.facts(ctx)
	if err != nil {
		return nil, err
	}
	var from, newest time.Time
	if newest, err = c.store.Newest(ctx, c.clock()); err != nil {
		return nil, err
	}
	if window > 0 && !newest.IsZero() {
		from = newest.Add(-window)
	}
	facts.StoreVersion = version
	s := &snapshot{facts: facts, version: version}
	t, err := c.gather(ctx, s, from, old)
	if err != nil {
		return nil, err
	}
	t.EndBy(newest)
	s.nodes, s.from, s.to = t.Nodes, t.From, t.To
	t.Events.Judged = t.Sums.Allow + t.Sums.Deny + t.Sums.Unknown
	facts.Events = report.EventsOf(&t.Events)
	facts.Lacks = append(slices.Clip(facts.Lacks), report.Uncovered(facts.Since(t.From), newest, window)...)
	facts.Lacks = append(facts.Lacks, report.Together(t)...)
	if facts.Cluster == "" {
		facts.Cluster = c.cluster
	}
	if c.prove != nil {
		if err := c.prove(ctx, t, window, &facts); err != nil {
			return nil, err
		}
		if facts.Outdated {
			s.version = "" // it is read again although the store may not change any more
		}
	}
	if c.incidents != nil {
		if facts.Incidents, facts.IncidentsMore, err = c.incidents(ctx, from, nil, c.keep); err != nil {
			return nil, err
		}
	}
	s.report = report.Make(t, facts)
	s.index(t, cmp.Or(c.cluster, facts.Cluster))
	s.took = c.now().Sub(began)
	return s, nil
}

// index makes the findings of the tally's groups, and what they are looked up by.
func (s *snapshot) index(t *tally.Tally, cluster string) {
	places := map[string]int{}
	for i, r := range rules.All() {
		places[r.Name] = i
	}
	s.all = make([]*found, 0, len(t.Groups))
	for k, f := range s.report.Groups() { // what they hold is shared
		place, known := places[k.Rule]
		if !known {
			place = len(places)
		}
		g := t.Groups[*k]
		s.all = append(s.all, &found{
			Finding: Finding{ID: sinks.ID(cluster, k), Finding: *f}, key: *k, severity: g.Severity, rule: place, low: g.Low,
		})
	}
	ordering("severity").sort(s.all)
	s.byID = make(map[string]int, len(s.all))
	s.worst = map[string]nodeFindings{}
	for i, f := range s.all {
		s.byID[f.ID] = i
		n := s.worst[f.Node]
		n.findings++
		n.severity = max(n.severity, f.severity)
		s.worst[f.Node] = n
	}
	s.facets = facetsOf(s.all)
}

// facetsOf counts values.
func facetsOf(all []*found) Facets {
	counts := make([]map[string]int64, 6)
	for i := range counts {
		counts[i] = map[string]int64{}
	}
	for _, f := range all {
		binding := ""
		if f.Binding != nil {
			binding = bindingName(f.Binding)
		}
		for j, v := range []string{f.Rule, f.Severity, f.Node, f.UserAgent, binding, f.Namespace} {
			if v != "" {
				counts[j][v]++
			}
		}
	}
	out := Facets{
		Rules: most(counts[0]), Severities: most(counts[1]), Nodes: most(counts[2]), UserAgents: most(counts[3]), Bindings: most(counts[4]),
		Namespaces: most(counts[5]),
	}
	slices.SortFunc(out.Severities, func(a, b Count) int { return cmp.Compare(severityOf(b.Name), severityOf(a.Name)) })
	return out
}

func severityOf(name string) rules.Severity {
	s, err := rules.ParseSeverity(name)
	if err != nil {
		return rules.None
	}
	return s
}

// most are the most frequent, at most 100.
func most(counts map[string]int64) []Count {
	out := make([]Count, 0, len(counts))
	for name, n := range counts {
		out = append(out, Count{name, n})
	}
	slices.SortFunc(out, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Name, b.Name))
	})
	return slices.Clip(out[:min(len(out), 100)])
}

// bindingName is [namespace/]name.
func bindingName(b *report.Binding) string { return qualified(b.Namespace, b.Name) }

// qualified is [namespace/]name.
func qualified(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
