package alertmanager

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/sinks/http"
)

// Options set a Sink up. URLs and Recent are needed; the zero value of each other is its default.
type Options struct {
	// Name is the sink's, alertmanager by default. Its peers are called by it and their host.
	Name string
	// URLs are the addresses of all peers, without /api/v2/alerts.
	URLs []string
	// HTTP has the credentials, TLS and timeout of the requests to each peer; its Name and URL are not used.
	HTTP http.Options
	// Resend is how often an alert is sent, 1 min by default and a second at least.
	Resend time.Duration
	// ResolveAfter is how long after its last finding an alert is over, 15 min by default.
	ResolveAfter time.Duration
	// ExternalURL is where people reach nodetrail, for links to findings; without it there are none.
	ExternalURL string
	// Runbooks is what the path of a rule's page follows, the project's own repository by default.
	Runbooks string
	// MinSeverity is that of findings which make alerts, all by default.
	MinSeverity rules.Severity
	// Labels are put on each alert.
	Labels map[string]string
	// MaxAlerts bounds what is distinguished, 10,000 by default, and half of it for refused requests; what is beyond is one alert for each rule, severity and
	// node, and then for each rule and severity. So is what is too much of one node.
	MaxAlerts int
	// Incidents makes one alert of all findings about a credential that an incident is made of; without it each has an alert of its own.
	Incidents bool
	// MaxBackoff bounds how long to wait before a peer is tried again, 1 min by default.
	MaxBackoff time.Duration
	// Recent reads from the store what the hours from that of since on hold of each group, whichever process found it. The times of one finding
	// lie in one hour.
	Recent func(ctx context.Context, since time.Time) ([]sinks.Finding, error)
	// Since is when the cluster began to be watched. Findings of before that are over when they are found make no alert: somebody reads an old log. Later ones
	// do however late they are found.
	Since time.Time
	// Keeper keeps alerts that their findings alone would not bring back. Without one they are in memory only.
	Keeper Keeper
	// Before is nil, or ends the sink of the same name that this one replaces, and returns its alerts. It is called once.
	Before func(ctx context.Context) []Kept
	// Clock is the system's if it is nil.
	Clock Clock
	Log   zerolog.Logger
}

// Clock tells the time. Its methods are safe for concurrent use.
type Clock interface {
	Now() time.Time
	// At gives a channel that has a value once it is t; stop ends that.
	At(t time.Time) (c <-chan time.Time, stop func())
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) At(t time.Time) (<-chan time.Time, func()) {
	timer := time.NewTimer(time.Until(t))
	return timer.C, func() { timer.Stop() }
}

const (
	path = "/api/v2/alerts"
	// DefaultRunbooks is where the rules' pages are.
	DefaultRunbooks = "https://github.com/nodetrail/nodetrail/blob/main/"
	// resolvedFor is how long what is over is sent, as Prometheus does.
	resolvedFor = 15 * time.Minute
	// untaken is how long an alert is kept that no peer takes.
	untaken = 24 * time.Hour
)

// isLabelName reports whether Alertmanager of any version takes s as the name of a label.
func isLabelName(s string) bool {
	for i, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_' && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// Reserved lists the labels that the sink sets itself.
func Reserved() []string {
	return []string{"alertname", "cluster", "severity", "level", "rule", "node", "namespace", "resource"}
}

// Stats is what a Sink has come to.
type Stats struct {
	Name string
	// Firing and Resolved are the alerts that are sent as such.
	Firing, Resolved int
	// Folded counts findings that came when too many alerts were distinguished, TooOld those that were older than Since and too old to make any.
	Folded, TooOld int64
	// StoreFailures counts readings of the store that failed.
	StoreFailures int64
	Peers         []PeerStats
}

// PeerStats is what one peer has come to, counted in alerts: its Length is those whose beginning or end the peer has not taken yet.
type PeerStats struct {
	Name string
	sinks.QueueStats
}

// Sink is a running sink. Its methods are safe for concurrent use.
type Sink struct {
	o     Options
	peers []*peer

	mu      sync.Mutex
	book    *book
	stats   Stats
	failing bool // the store could not be read last time
	closing bool
	keeping bool   // something is being kept
	before  []Kept // what the sink before had, until it is resumed

	stop    context.CancelFunc
	hurry   chan struct{} // says that something is to be kept at once
	begun   chan struct{} // closed when the store was read first, or could not be
	stopped chan struct{} // closed when Close is called
	wg      sync.WaitGroup
	keeper  sync.WaitGroup
	once    sync.Once // of the goroutines' end
	counted sync.Once // of what was not sent
	end     error
}

func (o Options) withDefaults() (Options, error) {
	if o.Name == "" {
		o.Name = "alertmanager"
	}
	for _, d := range []struct {
		of   *time.Duration
		want time.Duration
	}{{&o.Resend, time.Minute}, {&o.ResolveAfter, 15 * time.Minute}, {&o.MaxBackoff, time.Minute}} {
		if *d.of <= 0 {
			*d.of = d.want
		}
	}
	o.Resend = max(o.Resend, time.Second)
	if o.MaxAlerts <= 0 {
		o.MaxAlerts = 10_000
	}
	if o.Runbooks == "" {
		o.Runbooks = DefaultRunbooks
	}
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	o.ExternalURL = strings.TrimRight(o.ExternalURL, "/")
	switch {
	case o.Recent == nil:
		return o, errors.New("it cannot read the store")
	case len(o.URLs) == 0:
		return o, errors.New("it has no peer")
	}
	for name := range o.Labels {
		if !isLabelName(name) || slices.Contains(Reserved(), name) {
			return o, fmt.Errorf("%q cannot be a label of its own", name)
		}
	}
	return o, nil
}

// New returns a running Sink; Close ends it. It does not fail because a peer is down or the store cannot be read.
func New(o Options) (*Sink, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", o.Name, err)
	}
	s := &Sink{o: o, book: newBook(&o), hurry: make(chan struct{}, 1), begun: make(chan struct{}), stopped: make(chan struct{})}
	s.o.Log = o.Log.With().Str("sink", o.Name).Logger()
	for i, u := range o.URLs {
		p, err := newPeer(s, i, u)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(s.peers, func(other *peer) bool { return other.name == p.name }) {
			p.name = fmt.Sprintf("%s#%d", p.name, i)
		}
		s.peers = append(s.peers, p)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.keeper.Go(func() { s.keep(ctx) })
	for _, p := range s.peers {
		s.wg.Go(func() { p.run(ctx) })
	}
	return s, nil
}

// hostOf names a peer by what of its address is no secret.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// Add takes findings in, which may have been given before. It waits for nobody.
func (s *Sink) Add(findings []sinks.Finding) {
	now := s.o.Clock.Now()
	findings = s.o.actsFirst(findings)
	s.mu.Lock()
	news := false
	for i := range findings {
		f := &findings[i]
		switch s.book.fold(f, now, live) {
		case began:
			news = true
		case old:
			s.stats.TooOld += f.Count
		case crowded:
			news = true
			s.stats.Folded += f.Count
		case unchanged:
		}
	}
	hurry := s.book.hurry
	s.mu.Unlock()
	s.hasten(hurry)
	if news {
		s.wake()
	}
}

func (s *Sink) hasten(hurry bool) {
	if !hurry {
		return
	}
	select {
	case s.hurry <- struct{}{}:
	default: // it knows
	}
}

// awaitStart waits until the alerts of the process before are known, but not for long.
func (s *Sink) awaitStart(ctx context.Context) {
	const most = 5 * time.Second
	c, stop := s.o.Clock.At(s.o.Clock.Now().Add(most))
	defer stop()
	select {
	case <-s.begun:
	case <-c:
	case <-s.stopped:
	case <-ctx.Done():
	}
}

func (s *Sink) wake() {
	for _, p := range s.peers {
		p.signal()
	}
}

// Stats returns the figures of now.
func (s *Sink) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Name = s.o.Name
	out.Firing, out.Resolved = s.book.count()
	for _, p := range s.peers {
		st := p.stats
		st.Length, st.Bytes = s.book.waiting(p.index)
		st.MaxLength = s.o.MaxAlerts
		out.Peers = append(out.Peers, PeerStats{Name: p.name, QueueStats: st})
	}
	return out
}

// keep reads the store as often as it has to and ends what is over, until ctx ends.
func (s *Sink) keep(ctx context.Context) {
	if s.o.Before != nil {
		s.before = s.o.Before(ctx)
	}
	begun := sync.OnceFunc(func() { close(s.begun) })
	for first := true; ; {
		if s.reconcile(ctx, first) {
			first = false
		}
		begun()
		s.mu.Lock()
		next := s.book.nextEnd()
		s.mu.Unlock()
		// The store is read before anything is called over: another process may have found it again.
		now := s.o.Clock.Now()
		if soon := now.Add(s.o.Resend / 4); next.Before(soon) || first {
			next = soon
		}
		if latest := now.Add(s.o.Resend); next.After(latest) {
			next = latest
		}
		if !s.waitUntil(ctx, next) {
			return
		}
	}
}

// waitUntil keeps what has to be kept at once until it is t. False says that the sink ends.
func (s *Sink) waitUntil(ctx context.Context, t time.Time) bool {
	c, stop := s.o.Clock.At(t)
	defer stop()
	for {
		select {
		case <-c:
			return true
		case <-s.hurry:
			s.keepFound(ctx)
		case <-s.stopped:
			s.keepFound(ctx)
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// reconcile takes in what the store has, and then ends what is over. False says that the store could not be read; then nothing ends.
func (s *Sink) reconcile(ctx context.Context, first bool) bool {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	begun := s.o.Clock.Now()
	since := begun.Add(-s.o.longest())
	if first {
		since = since.Add(-resolvedFor) // for when exactly what ended meanwhile did
	}
	kept, err := s.kept(ctx)
	var found []sinks.Finding
	if err == nil {
		found, err = s.o.Recent(ctx, since)
		found = s.o.actsFirst(found)
	}
	s.mu.Lock()
	if err != nil {
		failed, closing := s.failing, s.closing
		s.failing = true
		s.stats.StoreFailures++
		s.mu.Unlock()
		level := zerolog.DebugLevel
		if !failed && !closing {
			level = zerolog.WarnLevel
		}
		s.o.Log.WithLevel(level).Err(err).Msg("cannot read findings from the store; no alert is resolved meanwhile")
		return false
	}
	s.failing = false
	now := s.o.Clock.Now()
	kept = s.withBefore(kept)
	s.book.resume(kept, now, first)
	for i := range found {
		if i%1000 == 999 { // so that Add hardly waits
			s.mu.Unlock()
			s.mu.Lock()
		}
		s.book.fold(&found[i], now, stored)
	}
	if first {
		s.book.resumeIncidents(kept, now)
		s.book.giveUp(now)
	}
	s.book.counted()
	s.book.settle(begun, now)
	put, gone := s.book.toKeep(now)
	s.mu.Unlock()
	s.wake()
	s.store(ctx, put, gone)
	return true
}

// Close gives each peer one more try at what it does not know yet, until ctx ends. Alerts stay as they are: the next process resumes with
// them. It returns an error if a peer does not know of something.
func (s *Sink) Close(ctx context.Context) error {
	s.finish(ctx)
	s.counted.Do(func() {
		var errs []error
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, p := range s.peers {
			if n, _ := s.book.waiting(p.index); n > 0 {
				p.stats.Abandoned += int64(n)
				errs = append(errs, fmt.Errorf("sink %s: %d alerts were not sent", p.name, n))
			}
		}
		s.end = errors.Join(errs...)
	})
	return s.end
}

// HandOver closes the sink within a short time for one that takes its place, and returns its alerts.
func (s *Sink) HandOver() []Kept {
	const most = 2 * time.Second // a peer may hang
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	s.finish(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.book.all()
}

// finish ends the goroutines, and keeps what has to be kept.
func (s *Sink) finish(ctx context.Context) {
	s.once.Do(func() {
		s.mu.Lock()
		s.closing = true
		s.mu.Unlock()
		close(s.stopped)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.keeper.Wait()
			s.wg.Wait()
		}()
		select {
		case <-ended:
		case <-ctx.Done():
		}
		s.stop()
		<-ended
		if ctx.Err() == nil {
			s.keepFound(ctx) // of the last try
		}
		for _, p := range s.peers {
			_ = p.sender.Close() // it drops idle connections only
		}
	})
}
