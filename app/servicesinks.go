package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/sinks/alertmanager"
	"github.com/nodetrail/nodetrail/sinks/http"
	"github.com/nodetrail/nodetrail/sinks/jsonl"
	"github.com/nodetrail/nodetrail/sinks/metrics"
)

// sinkSet is the sinks in force, which can be replaced while they are in use. The zero value has none.
type sinkSet struct {
	mu      sync.RWMutex
	grouper *sinks.Grouper
	queues  []*sinks.Queue
	lines   []*jsonl.Lines
	files   []*jsonl.File
	alerts  []alerting
	// incidents are those of the queues that get events of incidents; announced is called with those that a sink has.
	incidents []incidentSink
	announced func(sink string, events []*sinks.IncidentEvent)
	closing   sync.WaitGroup
	// recent and keeper read and write the store, for alerts.
	recent func(ctx context.Context, since time.Time) ([]sinks.Finding, error)
	keeper alertmanager.Keeper
	// since is when the cluster began to be watched.
	since time.Time
}

// replace makes the sinks of the configuration and puts them in place of those before, which get a while to deliver what they have.
// After an error nothing has changed.
func (s *sinkSet) replace(c *config.Config, log zerolog.Logger) error {
	fresh := &sinkSet{recent: s.recent, keeper: s.keeper, announced: s.announced, since: s.since}
	if err := fresh.make(c, log); err != nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return errors.Join(err, fresh.shut(ctx))
	}
	s.mu.Lock()
	old := &sinkSet{grouper: s.grouper, queues: s.queues, lines: s.lines, alerts: s.alerts}
	s.grouper, s.queues, s.lines, s.files, s.alerts, s.incidents = fresh.grouper, fresh.queues, fresh.lines, fresh.files, fresh.alerts, fresh.incidents
	s.mu.Unlock()
	s.closing.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := old.shut(ctx); err != nil {
			log.Warn().Err(err).Msg("not all findings reached the sinks that were replaced; the store has them")
		}
	})
	return nil
}

func (s *sinkSet) make(c *config.Config, log zerolog.Logger) error {
	q := c.Sinks.Queue
	var queues []*sinks.Queue // of findings
	queue := func(sender sinks.Sender, format sinks.Format, batch int, timeout time.Duration) {
		if format.Incidents() && s.announced != nil {
			sender = &announcingSender{sender, s.announced}
		}
		made := sinks.NewQueue(sender, sinks.QueueOptions{
			MaxFindings: q.MaxFindings, MaxBytes: int64(q.MaxBytes), MaxBackoff: q.MaxBackoff.D(), MaxBatch: batch, Timeout: timeout, Log: log,
		})
		s.queues = append(s.queues, made)
		if format.Findings() {
			queues = append(queues, made)
		}
		if format.Incidents() && s.announced != nil {
			s.incidents = append(s.incidents, incidentSink{made, format})
		}
	}
	for i := range c.Sinks.JSONL {
		j := &c.Sinks.JSONL[i]
		f, err := jsonl.OpenFile(j.Path)
		if err != nil {
			return fmt.Errorf("sinks.jsonl[%d]: %w", i, err)
		}
		s.files = append(s.files, f)
		name := "jsonl:" + j.Path
		if j.Verdicts {
			s.lines = append(s.lines, jsonl.NewLines(name, f, int64(q.MaxBytes), log))
			continue
		}
		queue(jsonl.NewSender(name, f, sinks.Format(j.Format)), sinks.Format(j.Format), 0, 0)
	}
	for i := range c.Sinks.HTTP {
		h := &c.Sinks.HTTP[i]
		headers := map[string]string{}
		for k, v := range h.Headers {
			headers[k] = v.Reveal()
		}
		sender, err := http.New(http.Options{
			Name: h.Name, URL: h.URL, Format: sinks.Format(h.Format), Pages: cmp.Or(h.ExternalURL, pagesURL(c)), Headers: headers, Username: h.Username,
			Password: h.Password.Reveal(), PasswordFile: h.PasswordFile, BearerToken: h.BearerToken.Reveal(), BearerTokenFile: h.BearerTokenFile,
			CAFile: h.TLS.CAFile, ServerName: h.TLS.ServerName, CertFile: h.TLS.CertFile, KeyFile: h.TLS.KeyFile, Timeout: h.Timeout.D(),
		})
		if err != nil {
			return fmt.Errorf("sinks.http[%d]: %w", i, err)
		}
		batch := h.MaxBatch
		if sinks.Format(h.Format) == sinks.Slack {
			batch = 1 // what was taken of a batch would come again with what was not
		}
		queue(sender, sinks.Format(h.Format), batch, 2*h.Timeout.D())
	}
	for i := range c.Sinks.Kafka {
		sender, err := kafkaSink(&c.Sinks.Kafka[i], log)
		if err != nil {
			return fmt.Errorf("sinks.kafka[%d]: %w", i, err)
		}
		queue(sender, sinks.Format(c.Sinks.Kafka[i].Format), 0, 0)
	}
	for i := range c.Sinks.Alertmanager {
		if err := s.alertmanager(c, &c.Sinks.Alertmanager[i], log); err != nil {
			return fmt.Errorf("sinks.alertmanager[%d]: %w", i, err)
		}
	}
	if len(queues) > 0 {
		s.grouper = sinks.NewGrouper(sinks.GrouperOptions{
			Cluster: c.Cluster, Every: c.Sinks.Findings.Every.D(), MaxGroups: c.Sinks.Findings.MaxGroups,
		}, func(f []sinks.Finding) {
			for _, q := range queues {
				q.Add(f)
			}
		})
	}
	return nil
}

// add hands a stored commit to the sinks.
func (s *sinkSet) add(st *pipeline.Stored) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.grouper != nil {
		s.grouper.Add(st.Entries)
	}
	for _, a := range s.alerts {
		a.grouper.Add(st.Entries)
	}
	for _, l := range s.lines {
		l.Add(st.Lines)
	}
}

// line makes a verdict line if any sink wants them.
func (s *sinkSet) line(j *pipeline.Judgement, b []byte) []byte {
	s.mu.RLock()
	wanted := len(s.lines) > 0
	s.mu.RUnlock()
	if !wanted {
		return nil
	}
	v := VerdictLine(j)
	return v.AppendLine(b)
}

// ofIncidents are the sinks that get events of incidents.
func (s *sinkSet) ofIncidents() []incidentSink {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.incidents
}

func (s *sinkSet) reopen(log zerolog.Logger) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, f := range s.files {
		if err := f.Reopen(); err != nil {
			log.Warn().Err(err).Msg("cannot open a sink's file again")
		}
	}
}

// stats are the sinks' figures.
func (s *sinkSet) stats() []metrics.Sink {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []metrics.Sink
	for _, q := range s.queues {
		out = append(out, metrics.Sink{Name: q.Name(), Stats: q.Stats()})
	}
	for _, l := range s.lines {
		out = append(out, metrics.Sink{Name: l.Name(), Stats: l.Stats()})
	}
	for _, a := range s.alerts {
		for _, p := range a.sink.Stats().Peers {
			out = append(out, metrics.Sink{Name: p.Name, Stats: p.QueueStats})
		}
	}
	return out
}

// shut ends all sinks at once, each with what it has until ctx ends.
func (s *sinkSet) shut(ctx context.Context) error {
	if s.grouper != nil {
		s.grouper.Close()
	}
	for _, a := range s.alerts {
		a.grouper.Close()
	}
	errs := make([]error, len(s.queues)+len(s.lines)+len(s.alerts))
	var wg sync.WaitGroup
	for i, q := range s.queues {
		wg.Go(func() { errs[i] = q.Close(ctx) })
	}
	for i, l := range s.lines {
		wg.Go(func() { errs[len(s.queues)+i] = l.Close(ctx) })
	}
	for i, a := range s.alerts {
		wg.Go(func() { errs[len(s.queues)+len(s.lines)+i] = a.sink.Close(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// close ends the sinks for good.
func (s *sinkSet) close(ctx context.Context) error {
	s.mu.Lock()
	last := &sinkSet{grouper: s.grouper, queues: s.queues, lines: s.lines, alerts: s.alerts}
	s.grouper, s.queues, s.lines, s.files, s.alerts, s.incidents = nil, nil, nil, nil, nil, nil
	s.mu.Unlock()
	return last.shut(ctx)
}
