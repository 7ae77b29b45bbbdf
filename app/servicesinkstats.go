package app

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/sinks/metrics"
)

// leaver is a sink that is no more in force, and is being closed.
type leaver struct {
	close  func(ctx context.Context) error
	stats  func() []metrics.Sink
	alerts func() *metrics.Alerts // nil if it has none
}

// pastSinks is what closed sinks have come to, by name: counters must not go back while the process runs, and what was given up must be seen.
type pastSinks struct {
	sinks  map[string]metrics.Sink
	alerts map[string]metrics.Alerts
}

func (p *pastSinks) clone() pastSinks { return pastSinks{maps.Clone(p.sinks), maps.Clone(p.alerts)} }

// add takes a sink in.
func (p *pastSinks) add(l *leaver) {
	if p.sinks == nil {
		p.sinks, p.alerts = map[string]metrics.Sink{}, map[string]metrics.Alerts{}
	}
	for _, of := range l.stats() {
		p.sinks[of.Name] = sumSinks(of, p.sinks[of.Name])
	}
	if l.alerts != nil {
		of := l.alerts()
		p.alerts[of.Name] = sumAlerts(*of, p.alerts[of.Name])
	}
}

// left takes in that a sink was closed.
func (s *sinkSet) left(l *leaver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = slices.DeleteFunc(s.leaving, func(o *leaver) bool { return o == l })
	s.past.add(l)
	for name, of := range s.past.sinks {
		of.Stats.FailingSince, of.Stats.MaxLength = time.Time{}, 0
		of.Stats.Length, of.Stats.Bytes = 0, 0 // of a sink of alerts, whose successor has them
		s.past.sinks[name] = of
	}
	for name, of := range s.past.alerts {
		of.Firing, of.Resolved = 0, 0
		s.past.alerts[name] = of
	}
}

// before is what the sinks that are not in force have come to.
func (s *sinkSet) before() pastSinks {
	p := s.past.clone()
	for _, l := range s.leaving {
		p.add(l)
	}
	return p
}

// sumSinks is a sink's figures with those of one of its name before.
func sumSinks(now, was metrics.Sink) metrics.Sink {
	a, b := &now.Stats, &was.Stats
	a.Length, a.Bytes, a.MaxLength = a.Length+b.Length, a.Bytes+b.Bytes, max(a.MaxLength, b.MaxLength)
	a.Sent, a.Merged, a.Failures = a.Sent+b.Sent, a.Merged+b.Merged, a.Failures+b.Failures
	a.Overflowed, a.Refused, a.Abandoned = a.Overflowed+b.Overflowed, a.Refused+b.Refused, a.Abandoned+b.Abandoned
	if b.LastSuccess.After(a.LastSuccess) {
		a.LastSuccess = b.LastSuccess
	}
	return now
}

func sumAlerts(now, was metrics.Alerts) metrics.Alerts {
	now.Firing, now.Resolved = now.Firing+was.Firing, now.Resolved+was.Resolved
	now.Folded, now.TooOld, now.StoreFailures = now.Folded+was.Folded, now.TooOld+was.TooOld, now.StoreFailures+was.StoreFailures
	return now
}

// stats are the sinks' figures: of those in force, and then of others.
func (s *sinkSet) stats() []metrics.Sink {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []metrics.Sink
	for _, p := range s.parts {
		out = append(out, p.stats()...)
	}
	for _, a := range s.alerts {
		out = append(out, a.stats()...)
	}
	before := s.before().sinks
	for i := range out {
		out[i] = sumSinks(out[i], before[out[i].Name])
		delete(before, out[i].Name)
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		out = append(out, before[name])
	}
	return out
}

// alertStats are the figures of the sinks of alerts.
func (s *sinkSet) alertStats() []metrics.Alerts {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []metrics.Alerts
	before := s.before().alerts
	for _, a := range s.alerts {
		of := a.alertStats()
		out = append(out, sumAlerts(*of, before[of.Name]))
		delete(before, of.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		out = append(out, before[name])
	}
	return out
}
