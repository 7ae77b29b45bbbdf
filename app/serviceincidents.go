package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/store"
)

const (
	// incidentsEvery is how often the incidents are looked at, if that does not take long.
	incidentsEvery = 15 * time.Second
	// eventPrefix and sincePrefix begin the keys of what is stored by this watch.
	eventPrefix = "incident event "
	sincePrefix = "incidents since "
)

// incidentSink is a sink of changes of incidents.
type incidentSink struct {
	queue  *sinks.Queue
	format sinks.Format
}

// incidentWatch tells the sinks what becomes of the incidents of the store. An event is stored before it is sent, and again when the sink has it: after a
// restart events that a sink does not have are sent again, with the same ID. Safe for concurrent use.
type incidentWatch struct {
	store  *store.Store
	turns  turns
	sinks  func() []incidentSink
	config func() *config.Config
	clock  func() time.Time
	log    zerolog.Logger

	mu sync.Mutex // of the events in the store
}

// run looks until ctx ends. What goes wrong is logged once.
func (w *incidentWatch) run(ctx context.Context) error {
	failing := false
	for {
		took, err := w.look(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			w.log.Warn().Err(err).Msg("cannot read the incidents; sinks hear of them later")
		}
		failing = err != nil
		const share = 20 // of the time
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(incidentsEvery, share*took)):
		}
	}
}

// look compares the incidents with the events of each sink, when it is its turn. It returns how long that took.
func (w *incidentWatch) look(ctx context.Context) (took time.Duration, err error) {
	all := w.sinks()
	if len(all) == 0 {
		return 0, nil
	}
	ctx, end, err := w.turns.take(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	begin := time.Now()
	err = w.compare(ctx, all)
	return time.Since(begin), err
}

func (w *incidentWatch) compare(ctx context.Context, all []incidentSink) error {
	now := w.clock()
	c := w.config()
	found, err := storedIncidents(ctx, w.store, c.Cluster, exceptionsOf(c, nil), now)
	if err != nil {
		return err
	}
	current := make([]sinks.Incident, len(found))
	for i := range found {
		current[i] = sinks.FromIncident(c.Cluster, &found[i], nil)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	kept, err := w.kept(ctx)
	if err != nil {
		return err
	}
	var put []store.Alert
	var gone []string
	add := make([][]sinks.Finding, len(all))
	for i, s := range all {
		name := s.queue.Name()
		since, known := kept.since[name]
		if !known {
			since = now
			put = append(put, store.Alert{Key: sincePrefix + name, First: now, Last: now, Payload: json.RawMessage("{}")})
		}
		decides := announcer{sink: name, format: s.format, since: since, now: now, holds: s.queue.Holds}
		due, over := decides.tell(kept.of[name], current)
		delete(kept.of, name)
		for j := range due {
			a, err := due[j].alert()
			if err != nil {
				return err
			}
			put = append(put, a)
			if due[j].send {
				add[i] = append(add[i], due[j].Event.Finding())
			}
		}
		gone = append(gone, over...)
	}
	for _, left := range kept.of { // of sinks that are no more
		for i := range left {
			if now.Sub(left[i].At) > newsWithin {
				gone = append(gone, left[i].key())
			}
		}
	}
	if len(put)+len(gone) > 0 {
		if err := w.store.PutAlerts(ctx, put, gone); err != nil {
			return err
		}
	}
	for i := range add {
		all[i].queue.Add(add[i])
	}
	return nil
}

// keptEvents is what the store has of events, by the sink.
type keptEvents struct {
	of    map[string][]announcement
	since map[string]time.Time
}

func (w *incidentWatch) kept(ctx context.Context) (keptEvents, error) {
	out := keptEvents{of: map[string][]announcement{}, since: map[string]time.Time{}}
	all, err := w.store.Alerts(ctx)
	if err != nil {
		return out, err
	}
	for i := range all {
		a := &all[i]
		if name, is := strings.CutPrefix(a.Key, sincePrefix); is {
			out.since[name] = a.First
		}
		if !strings.HasPrefix(a.Key, eventPrefix) {
			continue
		}
		t := announcement{first: a.First, last: a.Last}
		if err := json.Unmarshal(a.Payload, &t); err != nil {
			return out, fmt.Errorf("reading an event of an incident: %w", err)
		}
		out.of[t.Sink] = append(out.of[t.Sink], t)
	}
	return out, nil
}

// delivered takes in that a sink has events, or will never have them. If it cannot be stored they are sent again.
func (w *incidentWatch) delivered(sink string, events []*sinks.IncidentEvent) {
	const most = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	put := make([]store.Alert, 0, len(events))
	for _, e := range events {
		t := announcement{Sink: sink, Event: *e, At: w.clock(), Delivered: true, first: e.Incident.First, last: e.Incident.Last}
		a, err := t.alert()
		if err == nil {
			put = append(put, a)
		}
	}
	if err := w.store.PutAlerts(ctx, put, nil); err != nil {
		w.log.Warn().Err(err).Str("sink", sink).Msg("cannot store that the sink has events of incidents; they are sent again")
	}
}

// announcingSender says which changes of incidents its sink has.
type announcingSender struct {
	sinks.Sender
	delivered func(sink string, events []*sinks.IncidentEvent)
}

// Send implements sinks.Sender.
func (s *announcingSender) Send(ctx context.Context, findings []sinks.Finding) error {
	err := s.Sender.Send(ctx, findings)
	if err != nil && !sinks.IsPermanent(err) {
		return err
	}
	var events []*sinks.IncidentEvent
	for i := range findings {
		if e := findings[i].Incident; e != nil {
			events = append(events, e)
		}
	}
	if len(events) > 0 {
		s.delivered(s.Name(), events)
	}
	return err
}

// Close closes the Sender, if it can be closed.
func (s *announcingSender) Close() error {
	if c, is := s.Sender.(io.Closer); is {
		return c.Close()
	}
	return nil
}
