package coverage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/codes"
)

// ScrapeOptions say where API servers tell of themselves. URLs is needed; the zero value of the others means the default.
type ScrapeOptions struct {
	// URLs are of the metrics of API servers, such as https://10.0.0.10:6443/metrics: best one for each API server. Behind a load balancer
	// each answer is of some one of them; they are distinguished by when their process began.
	URLs []string
	// Client asks; it holds certificates and bearer tokens. Default http.DefaultClient.
	Client *http.Client
	// Authorize adds credentials to a request; nil for none.
	Authorize func(*http.Request) error
	// Every is how often to ask. Default 30s.
	Every time.Duration
	// Timeout bounds one answer. Default 10s.
	Timeout time.Duration
	// MaxBytes bounds one answer. Default 64 MiB.
	MaxBytes int64
	// Gap is called for each gap that is found, from the goroutine of Run, which waits for it. The address is its parameter where.
	Gap func(codes.Gap)
	// Now is the clock, time.Now if nil.
	Now func() time.Time
}

// Scraper reads the counters by which API servers tell of audit events that they dropped.
type Scraper struct {
	o       ScrapeOptions
	log     zerolog.Logger
	targets []*target

	mu    sync.Mutex
	stats []ScrapeStats
}

// ScrapeStats are the figures of one API server's address.
type ScrapeStats struct {
	// URL is the address without anything secret: host and path.
	URL string
	// Up says that the last answer was good, LastSuccess when the last good one was.
	Up          bool
	LastSuccess time.Time
	Failures    int64
	// Lost is how many audit events API servers said they lost since the first answer.
	Lost float64
}

const (
	// unauditedAfter is how many requests an API server serves between two answers without one audit event before that is a gap.
	unauditedAfter = 200
	// mostProcesses bounds the processes that are distinguished behind one address.
	mostProcesses = 16
)

// target is one address.
type target struct {
	url, shown string
	processes  []*process // the one that answered last comes last
	down       bool
}

// process is the last answer of one process of an API server.
type process struct {
	start  float64
	totals totals
	at     time.Time
}

// NewScraper returns a scraper that asks nobody yet.
func NewScraper(o ScrapeOptions, log zerolog.Logger) (*Scraper, error) {
	if len(o.URLs) == 0 {
		return nil, errors.New("there is no address to ask")
	}
	if o.Client == nil {
		o.Client = http.DefaultClient
	}
	if o.Every <= 0 {
		o.Every = 30 * time.Second
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 64 << 20
	}
	if o.Gap == nil {
		o.Gap = func(codes.Gap) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Scraper{o: o, log: log}
	for _, text := range o.URLs {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, errors.New("an address is not a URL of http or https")
		}
		t := &target{url: text, shown: u.Host + u.Path}
		s.targets = append(s.targets, t)
		s.stats = append(s.stats, ScrapeStats{URL: t.shown})
	}
	return s, nil
}

// Stats returns the figures of each address. It may be called concurrently.
func (s *Scraper) Stats() []ScrapeStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.stats)
}

// Run asks every API server again and again until ctx ends, and returns nil.
func (s *Scraper) Run(ctx context.Context) error {
	tick := time.NewTicker(s.o.Every)
	defer tick.Stop()
	for {
		s.Scrape(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Scrape asks every API server once, all at a time. It must not be called concurrently.
func (s *Scraper) Scrape(ctx context.Context) {
	answers := make([]*totals, len(s.targets))
	errs := make([]error, len(s.targets))
	var all sync.WaitGroup
	for i, t := range s.targets {
		all.Go(func() { answers[i], errs[i] = s.ask(ctx, t) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return
	}
	for i, t := range s.targets {
		s.answered(i, t, answers[i], errs[i])
	}
}

func (s *Scraper) ask(ctx context.Context, t *target) (*totals, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url, http.NoBody)
	if err != nil {
		return nil, errors.New("the address cannot be asked")
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	if s.o.Authorize != nil {
		if err := s.o.Authorize(req); err != nil {
			return nil, err
		}
	}
	resp, err := s.o.Client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the address may hold what is not to be logged
		}
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %d: who asks needs the right to get the path /metrics", resp.StatusCode)
	}
	return parseTotals(resp.Body, s.o.MaxBytes)
}

// answered compares an API server's answer with the one before.
func (s *Scraper) answered(i int, t *target, got *totals, err error) {
	now := s.o.Now()
	lost := 0.0
	if err == nil {
		lost = s.compare(t, got, now)
	}
	s.mu.Lock()
	st := &s.stats[i]
	st.Up = err == nil
	if err != nil {
		st.Failures++
	} else {
		st.LastSuccess = now
		st.Lost += lost
	}
	s.mu.Unlock()
	switch {
	case err != nil && !t.down:
		s.log.Warn().Err(err).Str("apiserver", t.shown).Msg("cannot read the API server's metrics: audit events that it drops go unnoticed")
	case err == nil && t.down:
		s.log.Info().Str("apiserver", t.shown).Msg("the API server's metrics can be read again")
	}
	t.down = err != nil
}

// compare finds what rose since the last answer of the same process. A process that began after the last answer of the address counts from nothing;
// of one that was there before and is seen for the first time, it is not known when it rose.
func (s *Scraper) compare(t *target, got *totals, now time.Time) (lost float64) {
	var last time.Time
	for _, p := range t.processes {
		if p.at.After(last) {
			last = p.at
		}
	}
	at := slices.IndexFunc(t.processes, func(p *process) bool { return p.start == got.start })
	before := totals{}
	known := at >= 0
	switch {
	case known:
		before = t.processes[at].totals
		t.processes = slices.Delete(t.processes, at, at+1)
	case !last.IsZero() && got.start > float64(last.UnixNano())/1e9:
		known = true
	}
	if len(t.processes) >= mostProcesses {
		t.processes = slices.Delete(t.processes, 0, 1)
	}
	t.processes = append(t.processes, &process{start: got.start, totals: *got, at: now})
	if !known {
		return 0
	}
	tell := func(kind codes.Kind, code codes.Code, p ...codes.Param) {
		s.o.Gap(codes.Gap{Kind: kind, Code: code, Params: append(codes.Params{codes.Text(codes.ParamWhere, t.shown)}, p...)})
	}
	count := func(n float64) codes.Param { return codes.Text(codes.ParamCount, fmt.Sprintf("%.0f", n)) }
	var by codes.Params
	for _, plugin := range sortedKeys(got.errors) {
		if n := rise(before.errors[plugin], got.errors[plugin]); n > 0 {
			lost += n
			by = append(by, codes.Text(codes.ParamPlugin, fmt.Sprintf("%.0f %s", n, plugin)))
		}
	}
	if lost > 0 {
		tell(codes.Log, codes.ApiserverDropped, append(codes.Params{count(lost), codes.Text(codes.ParamMetric, metricErrors)}, by...)...)
	}
	if n := rise(before.rejected, got.rejected); n > 0 {
		tell(codes.Doubt, codes.ApiserverRejected, count(n), codes.Text(codes.ParamMetric, metricRejected))
	}
	if n := rise(before.requests, got.requests); n >= unauditedAfter && rise(before.events, got.events) == 0 {
		tell(codes.Log, codes.ApiserverUnaudited, count(n))
	}
	return lost
}

// rise is by how much a counter rose, from nothing if it was reset.
func rise(before, now float64) float64 {
	if now < before {
		return now
	}
	return now - before
}

func sortedKeys(m map[string]float64) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
