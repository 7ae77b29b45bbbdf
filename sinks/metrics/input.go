package metrics

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/sinks"
)

// Input is what the other parts tell when they are scraped. Each function may be nil, must be safe for concurrent use, and must not wait.
type Input struct {
	Sources func() []Source
	Engine  func() Engine
	// Webhook returns nil where there is no webhook, Pages where there are no pages.
	Webhook func() *Webhook
	Pages   func() *Pages
	// DeadLetters counts what was kept of input that could not be read.
	DeadLetters func() int64
	State       func() State
	// StoreBytes is the size of the embedded store.
	StoreBytes func() int64
	Sinks      func() []Sink
	Alerts     func() []Alerts
	Config     func() Config
	Apiservers func() []Apiserver
	// Checks returns nil before the checks were made.
	Checks func() *Checks
}

// Source is a source that is configured.
type Source struct {
	// Name is as the sources of lanes are called, such as "file:audit", "kafka:topic" or "webhook:webhook".
	Name string
	// Up says that it can be read. Why is for people, where it cannot; no metric has it.
	Up    bool
	Why   string
	Lanes []LaneLag
}

// LaneLag is how far one lane lies behind.
type LaneLag struct {
	Lane string
	Lag  time.Duration
}

// Webhook is the endpoint that API servers post to.
type Webhook struct {
	// Requests counts requests by what became of them.
	Requests map[string]int64
	// Handshakes and TooMany count connections that came to nothing.
	Handshakes, TooMany int64
	Credentials
}

// Pages are what people look at.
type Pages struct {
	// Refused counts requests that were not let in, by why.
	Refused map[string]int64
	Credentials
}

// Credentials are the files by which a server is known and knows its clients.
type Credentials struct {
	// Expires is when the certificate ends, zero without one.
	Expires        time.Time
	ReloadFailures int64
}

// Engine is the pipeline's figures.
type Engine struct {
	// Waiting counts requests that wait to be judged, Held the bytes of what is not stored.
	Waiting int
	Held    int64
	// MaxHeld is the bound of Held, 0 if it is not known.
	MaxHeld int64
	// Early counts requests that were judged before the state had caught up, CommitFailures commits that failed.
	Early, CommitFailures int64
	// Late counts requests that came too late for the detectors.
	Late int64
	// Ahead counts requests that were dated ahead of the clock when they came in.
	Ahead int64
}

// State is the cluster's state.
type State struct {
	Kinds []Kind
	// Lag is how long ago the state was last known to be complete; Watched says whether it is watched at all.
	Lag     time.Duration
	Watched bool
}

// Kind is the state of the objects of one kind.
type Kind struct {
	Name    string
	Objects int
	Synced  bool
}

// Sink is the queue of one sink.
type Sink struct {
	Name  string
	Stats sinks.QueueStats
}

// Alerts is a sink of alerts; its peers are sinks.
type Alerts struct {
	Name             string
	Firing, Resolved int
	// Folded and TooOld count findings, StoreFailures readings of the store.
	Folded, TooOld, StoreFailures int64
}

// Apiserver is one address whose metrics are read.
type Apiserver struct {
	// Name is its host and path.
	Name        string
	Up          bool
	LastSuccess time.Time
	Failures    int64
	// Lost counts audit events that it could not write.
	Lost float64
}

// Checks are the answers to both questions, and how their checks came out.
type Checks struct {
	Ready, Confined checks.Verdict
	// Lost reports whether a check fails that passed before.
	Lost func(check string) bool
	// Made is when the checks were made.
	Made time.Time
}

// Config is what became of the versions of the configuration file.
type Config struct {
	Applied, Refused, NeedRestart int64
	LastSuccess                   time.Time
	OK                            bool
}

// Watch adds the figures of the other parts. It is called once.
func (m *Metrics) Watch(in Input) {
	all := described()
	c := &collector{in: in, descs: map[string]*prometheus.Desc{}, metrics: all}
	for _, name := range []string{
		scrapeUp, scrapeSuccess, scrapeFailures, scrapeLost, sourceUp, sourceLag, commitFailures, beforeState, detectorLate, requestsAhead, queueWaiting, queueBytes, queueMaxBytes, webhookRequests, webhookRefused, deadLetters, pagesRefused, certExpiry, certFailures, stateSynced, stateObjects, stateLag,
		storeBytes, sinkLength, sinkMaxLength, sinkBytes, sinkSent, sinkDropped, sinkFailures, sinkSuccess,
		alertsSent, alertsFolded, alertsTooOld, alertsStore, checkState, checkLost, answer, checksMade, configReloads, configSuccess, configSuccessful,
	} {
		c.descs[name] = all[name].desc()
	}
	m.labelled.MustRegister(c)
}

// collector asks the other parts when it is scraped.
type collector struct {
	in      Input
	descs   map[string]*prometheus.Desc
	metrics map[string]Metric
}

// Describe sends what there can be.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect sends the figures of now.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := &scrape{c: c, ch: ch, seen: map[string]bool{}}
	if c.in.Sources != nil {
		s.sources(c.in.Sources())
	}
	if c.in.Engine != nil {
		e := c.in.Engine()
		s.add(queueWaiting, float64(e.Waiting))
		s.add(queueBytes, float64(e.Held))
		if e.MaxHeld > 0 {
			s.add(queueMaxBytes, float64(e.MaxHeld))
		}
		s.add(beforeState, float64(e.Early))
		s.add(detectorLate, float64(e.Late))
		s.add(requestsAhead, float64(e.Ahead))
		s.add(commitFailures, float64(e.CommitFailures))
	}
	if c.in.Webhook != nil {
		if w := c.in.Webhook(); w != nil {
			s.sums(webhookRequests, 32, w.Requests)
			s.add(webhookRefused, float64(w.Handshakes), "handshake")
			s.add(webhookRefused, float64(w.TooMany), "too_many")
			s.credentials("webhook", &w.Credentials)
		}
	}
	if c.in.Pages != nil {
		if p := c.in.Pages(); p != nil {
			s.sums(pagesRefused, 16, p.Refused)
			s.credentials("pages", &p.Credentials)
		}
	}
	if c.in.DeadLetters != nil {
		s.add(deadLetters, float64(c.in.DeadLetters()))
	}
	if c.in.State != nil {
		s.state(c.in.State())
	}
	if c.in.StoreBytes != nil {
		s.add(storeBytes, float64(c.in.StoreBytes()))
	}
	if c.in.Sinks != nil {
		for _, sink := range c.in.Sinks() {
			s.sink(&sink)
		}
	}
	if c.in.Alerts != nil {
		for _, a := range c.in.Alerts() {
			s.add(alertsSent, float64(a.Firing), a.Name, "firing")
			s.add(alertsSent, float64(a.Resolved), a.Name, "resolved")
			s.add(alertsFolded, float64(a.Folded), a.Name)
			s.add(alertsTooOld, float64(a.TooOld), a.Name)
			s.add(alertsStore, float64(a.StoreFailures), a.Name)
		}
	}
	if c.in.Apiservers != nil {
		const most = 64
		all := c.in.Apiservers()
		for _, a := range all[:min(most, len(all))] {
			s.add(scrapeUp, truth(a.Up), a.Name)
			s.add(scrapeSuccess, seconds(a.LastSuccess), a.Name)
			s.add(scrapeFailures, float64(a.Failures), a.Name)
			s.add(scrapeLost, a.Lost, a.Name)
		}
	}
	if c.in.Checks != nil {
		if v := c.in.Checks(); v != nil {
			s.checks(v, &v.Ready)
			s.checks(v, &v.Confined)
			s.add(checksMade, seconds(v.Made))
		}
	}
	if c.in.Config != nil {
		v := c.in.Config()
		s.add(configReloads, float64(v.Applied), "applied")
		s.add(configReloads, float64(v.Refused), "refused")
		s.add(configReloads, float64(v.NeedRestart), "needs_restart")
		s.add(configSuccess, seconds(v.LastSuccess))
		s.add(configSuccessful, truth(v.OK))
	}
}

// scrape is one scrape.
type scrape struct {
	c    *collector
	ch   chan<- prometheus.Metric
	seen map[string]bool
}

// add sends one series, unless there is one with these labels already: two would make the whole scrape fail.
func (s *scrape) add(name string, v float64, labels ...string) {
	key := name
	for i := range labels {
		labels[i] = clean(labels[i])
		key += "\xff" + labels[i]
	}
	if s.seen[key] {
		return
	}
	s.seen[key] = true
	s.ch <- prometheus.MustNewConstMetric(s.c.descs[name], s.c.metrics[name].valueType(), v, labels...)
}

func (s *scrape) sources(all []Source) {
	const mostSources, mostLanes = 64, 256
	others, lanes, worst, up := false, 0, time.Duration(0), true
	for i := range all {
		src := &all[i]
		if i < mostSources {
			s.add(sourceUp, truth(src.Up), src.Name)
		} else {
			others, up = true, up && src.Up
		}
		for _, l := range src.Lanes {
			if lanes++; lanes <= mostLanes {
				s.add(sourceLag, l.Lag.Seconds(), src.Name, l.Lane)
			} else {
				worst = max(worst, l.Lag)
			}
		}
	}
	if others {
		s.add(sourceUp, truth(up), Other)
	}
	if lanes > mostLanes {
		s.add(sourceLag, worst.Seconds(), Other, Other)
	}
}

// sums sends counts by one label; those beyond the bound are added up. The words are the program's own, so that the bound is not met.
func (s *scrape) sums(name string, most int, all map[string]int64) {
	bound, rest := newSet(most), int64(0)
	for _, word := range slices.Sorted(maps.Keys(all)) {
		if l := bound.label(word); l != Other {
			s.add(name, float64(all[word]), l)
		} else {
			rest += all[word]
		}
	}
	if rest > 0 {
		s.add(name, float64(rest), Other)
	}
}

func (s *scrape) credentials(server string, c *Credentials) {
	if !c.Expires.IsZero() {
		s.add(certExpiry, seconds(c.Expires), server)
	}
	s.add(certFailures, float64(c.ReloadFailures), server)
}

func (s *scrape) state(st State) {
	const most = 64
	for _, k := range st.Kinds[:min(most, len(st.Kinds))] {
		if st.Watched {
			s.add(stateSynced, truth(k.Synced), k.Name)
		}
		s.add(stateObjects, float64(k.Objects), k.Name)
	}
	if st.Watched {
		s.add(stateLag, st.Lag.Seconds())
	}
}

func (s *scrape) sink(sink *Sink) {
	st := &sink.Stats
	s.add(sinkLength, float64(st.Length), sink.Name)
	if st.MaxLength > 0 {
		s.add(sinkMaxLength, float64(st.MaxLength), sink.Name)
	}
	s.add(sinkBytes, float64(st.Bytes), sink.Name)
	s.add(sinkSent, float64(st.Sent), sink.Name)
	s.add(sinkDropped, float64(st.Overflowed), sink.Name, "overflow")
	s.add(sinkDropped, float64(st.Refused), sink.Name, "refused")
	s.add(sinkDropped, float64(st.Abandoned), sink.Name, "stopped")
	s.add(sinkFailures, float64(st.Failures), sink.Name)
	s.add(sinkSuccess, seconds(st.LastSuccess), sink.Name)
}

// checks sends one question. A check of both questions has the same state in both.
func (s *scrape) checks(all *Checks, v *checks.Verdict) {
	question := v.Question.String()
	for _, c := range checks.Of(v.Question) {
		for _, state := range checks.States() {
			s.add(checkState, truth(v.State(c.Name) == state), c.Name, state.String())
		}
		s.add(checkLost, truth(all.Lost(c.Name)), c.Name, question)
	}
	for _, a := range v.Question.Answers() {
		s.add(answer, truth(v.Answer == a), question, string(a))
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// seconds is a time as Prometheus has it, 0 for none.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
