package app

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/sinks/alertmanager"
)

// sinkSet is the sinks in force, which can be replaced while they are in use. The zero value has none.
type sinkSet struct {
	mu      sync.RWMutex
	parts   []*part
	alerts  []*alerting
	grouper *sinks.Grouper
	every   config.Findings // of the grouper
	// targets are the queues of findings, for the grouper.
	targets atomic.Pointer[[]*sinks.Queue]
	// leaving are sinks that are being closed, past is what those that were closed have come to.
	leaving []*leaver
	past    pastSinks
	// announced is called with the events of incidents that a sink has.
	announced func(sink string, events []*sinks.IncidentEvent)
	closing   sync.WaitGroup
	// recent and keeper read and write the store, for alerts.
	recent func(ctx context.Context, since time.Time) ([]sinks.Finding, error)
	keeper alertmanager.Keeper
	// since is when the cluster began to be watched.
	since time.Time
}

// replace puts the sinks of the configuration in place of those before. Sinks are the same by kind and name: one whose configuration is unchanged stays, of
// one that is changed the queue stays and gets a new sender, and one that is no more gets a while to deliver what it has. After an error nothing has changed.
func (s *sinkSet) replace(c *config.Config, log zerolog.Logger) error {
	change := &sinkChange{set: s, config: c, log: log, commit: make(chan struct{})}
	if err := change.plan(); err != nil {
		return errors.Join(err, change.undo())
	}
	s.mu.Lock()
	gone := change.apply()
	s.mu.Unlock()
	close(change.commit)
	for _, l := range gone {
		s.closing.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := l.close(ctx); err != nil {
				log.Warn().Err(err).Msg("not all findings reached the sinks that were removed; the store has them")
			}
			s.left(l)
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
	for _, p := range s.parts {
		if p.lines != nil {
			p.lines.Add(st.Lines)
		}
	}
}

// give hands findings to the queues.
func (s *sinkSet) give(f []sinks.Finding) {
	for _, q := range *s.targets.Load() {
		q.Add(f)
	}
}

// line makes a verdict line if any sink wants them.
func (s *sinkSet) line(j *pipeline.Judgement, b []byte) []byte {
	s.mu.RLock()
	wanted := slices.ContainsFunc(s.parts, func(p *part) bool { return p.lines != nil })
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
	var out []incidentSink
	for _, p := range s.parts {
		if p.queue != nil && p.format.Incidents() && s.announced != nil {
			out = append(out, incidentSink{p.queue, p.format})
		}
	}
	return out
}

func (s *sinkSet) reopen(log zerolog.Logger) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, p := range s.parts {
		if p.file == nil {
			continue
		}
		if err := p.file.Reopen(); err != nil {
			log.Warn().Err(err).Msg("cannot open a sink's file again")
		}
	}
}

// close ends the sinks for good, all at once, each with what it has until ctx ends.
func (s *sinkSet) close(ctx context.Context) error {
	s.mu.Lock()
	gone := (&sinkChange{set: s, config: &config.Config{}}).apply()
	s.mu.Unlock()
	errs := make([]error, len(gone))
	var wg sync.WaitGroup
	for i, l := range gone {
		wg.Go(func() { errs[i] = l.close(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
