package app

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/store"
)

const (
	// newsEvery is how often a sink gets an event of one incident at most.
	newsEvery = time.Minute
	// newsWithin is how old an incident is at most of which a sink has no event yet: a log that is read late is no news.
	newsWithin = 7 * 24 * time.Hour
	// spanEvery is how much longer an incident must last than it is stored to be stored anew.
	spanEvery = incidents.Pause / 2
)

// announcement is the last event of an incident that a sink was given.
type announcement struct {
	Sink  string              `json:"sink"`
	Event sinks.IncidentEvent `json:"event"`
	// At is when the event was given to the sink, and then when the sink had it, which Delivered says.
	At        time.Time `json:"at"`
	Delivered bool      `json:"delivered"`

	first, last time.Time // of the incident, as far as it is known
	send        bool
}

func (t *announcement) key() string { return eventPrefix + t.Event.Incident.ID + " " + t.Sink }

func (t *announcement) alert() (store.Alert, error) {
	b, err := json.Marshal(t)
	if err != nil {
		return store.Alert{}, fmt.Errorf("writing an event of an incident: %w", err)
	}
	return store.Alert{Key: t.key(), First: t.first, Last: t.last, Payload: b}, nil
}

// is reports whether the incident is the one that was announced, which may have another ID by now: requests before its first came late, or the store
// has forgotten its first.
func (t *announcement) is(in *sinks.Incident) bool {
	return in.Credential == t.Event.Incident.Credential && in.First.Sub(t.last) < incidents.Pause && t.first.Sub(in.Last) < incidents.Pause
}

// announcer decides which events a sink gets.
type announcer struct {
	sink   string
	format sinks.Format
	since  time.Time // when the sink was new
	now    time.Time
	holds  func(event string) bool
}

// tell returns what is to be stored of the events of the sink, some of which are to be sent, and the keys of what is over.
func (s *announcer) tell(before []announcement, current []sinks.Incident) (due []announcement, over []string) {
	whose := match(before, current)
	for i := range current {
		in, t := current[i], whose[i]
		if t == nil {
			if s.news(&in) {
				due = append(due, announcement{Sink: s.sink, Event: sinks.NewIncidentEvent(sinks.IncidentOpened, &in, nil), At: s.now, first: in.First, last: in.Last, send: true})
			}
			continue
		}
		in.ID = t.Event.Incident.ID
		next, stale := *t, !t.first.Equal(in.First) || in.Last.Sub(t.last) > spanEvery
		next.first, next.last = in.First, in.Last
		if s.next(&next, &in) || stale {
			due = append(due, next)
		}
		t.Sink = "" // it is there still
	}
	for i := range before {
		t := &before[i]
		if t.Sink == "" {
			continue
		}
		// The store has forgotten it, or it has become part of another.
		in := t.Event.Incident
		in.State = incidents.Quiet
		switch {
		case s.next(t, &in):
			due = append(due, *t)
		case t.Delivered && t.Event.Change == sinks.IncidentClosed:
			over = append(over, t.key())
		}
	}
	return due, over
}

// match finds the announcement of each incident: by its ID, or else by its credential and time.
func match(before []announcement, current []sinks.Incident) []*announcement {
	out, taken := make([]*announcement, len(current)), map[int]bool{}
	byID := map[string]int{}
	for i := range before {
		byID[before[i].Event.Incident.ID] = i
	}
	for i := range current {
		if j, is := byID[current[i].ID]; is {
			out[i], taken[j] = &before[j], true
		}
	}
	for i := range current {
		for j := range before {
			if out[i] == nil && !taken[j] && before[j].is(&current[i]) {
				out[i], taken[j] = &before[j], true
			}
		}
	}
	return out
}

// news reports whether the sink is to hear of an incident of which it never did.
func (s *announcer) news(in *sinks.Incident) bool {
	switch {
	case in.State == incidents.Closed || s.now.Sub(in.Last) > newsWithin:
		return false
	case in.State == incidents.Open:
		return true
	}
	return s.since.Sub(in.Last) < incidents.Pause // else it was over before the sink was there
}

// next makes t the next event of the sink, and reports whether it is to be sent.
func (s *announcer) next(t *announcement, in *sinks.Incident) bool {
	if s.holds(t.Event.ID) || s.now.Sub(t.At) < newsEvery {
		return false
	}
	if t.Delivered {
		change, is := s.change(&t.Event, in)
		if !is {
			return false
		}
		t.Event = sinks.NewIncidentEvent(change, in, &t.Event)
	}
	t.Delivered, t.At, t.send = false, s.now, true
	return true
}

// change is what has become of an incident since the event.
func (s *announcer) change(was *sinks.IncidentEvent, in *sinks.Incident) (sinks.IncidentChange, bool) {
	switch closed := was.Change == sinks.IncidentClosed; {
	case in.State != incidents.Open:
		return sinks.IncidentClosed, !closed
	case closed, in.Turned(&was.Incident), s.format != sinks.Slack && in.Grown(&was.Incident):
		return sinks.IncidentUpdated, true
	}
	return "", false
}
