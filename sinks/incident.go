package sinks

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/wording"
)

// IncidentChange is what has become of an incident.
type IncidentChange string

// The changes, of which each is a type of event.
const (
	IncidentOpened  IncidentChange = "opened"
	IncidentUpdated IncidentChange = "updated"
	IncidentClosed  IncidentChange = "closed"
)

// EventType is the type attribute of such events as CloudEvents.
func (c IncidentChange) EventType() string {
	return "io.github.nodetrail.incident." + string(c) + ".v1"
}

// Bounds of the lists of an Incident. What is beyond is counted in Omitted.
const (
	maxIncidentAddresses = 20
	maxIncidentBindings  = 20
	maxIncidentRotate    = 50
)

// Incident is an incident in short, as events have it. Times are UTC; the lists are never nil.
type Incident struct {
	// ID is the one by which the incident was opened: the same in all of its events.
	ID         string          `json:"id"`
	Cluster    string          `json:"cluster"`
	Credential string          `json:"credential"`
	Kind       incidents.Kind  `json:"kind"`
	State      incidents.State `json:"state"`
	Severity   string          `json:"severity"`
	First      time.Time       `json:"first"`
	Last       time.Time       `json:"last"`
	Requests   int64           `json:"requests"`
	Refused    int64           `json:"refused"`
	Succeeded  int64           `json:"succeeded"`
	Findings   int             `json:"findings"`
	Excepted   int             `json:"excepted"`
	Addresses  []string        `json:"addresses"`
	Rules      []string        `json:"rules"`
	// Timeline has the turning points, with a sentence for each.
	Timeline []incidents.Moment `json:"timeline"`
	// Bindings allowed what succeeded, Rotate was disclosed.
	Bindings []incidents.Binding `json:"bindings"`
	Rotate   []incidents.Object  `json:"rotate"`
	// Omitted counts what the lists leave out.
	Omitted Omitted `json:"omitted"`
}

// Omitted is how much the lists of an Incident leave out.
type Omitted struct {
	Addresses int `json:"addresses"`
	Bindings  int `json:"bindings"`
	Rotate    int `json:"rotate"`
}

// IncidentsURL is the page of the incidents of a credential, below the address of nodetrail's pages. That of one incident would be no good: what comes late
// can make it part of another one.
func IncidentsURL(pages, credential string) string {
	return strings.TrimSuffix(pages, "/") + "/incidents?credential=" + url.QueryEscape(credential)
}

// FromIncident is an incident as events have it. Its sentences are in the words given, English if they are nil.
func FromIncident(cluster string, in *incidents.Incident, w wording.Words) Incident {
	out := Incident{
		ID: in.ID, Cluster: cluster, Credential: strings.ToValidUTF8(in.Credential, "\ufffd"), Kind: in.Kind, State: in.State, Severity: in.Severity,
		First: jsonTime(in.First), Last: jsonTime(in.Last), Requests: in.Requests, Refused: in.Refused, Succeeded: in.Succeeded,
		Findings: in.Findings, Excepted: in.Excepted, Addresses: []string{}, Rules: append([]string{}, in.Rules...), Timeline: []incidents.Moment{},
		Bindings: append([]incidents.Binding{}, in.Bindings[:min(len(in.Bindings), maxIncidentBindings)]...),
		Rotate:   append([]incidents.Object{}, in.Rotate[:min(len(in.Rotate), maxIncidentRotate)]...),
	}
	for i := range in.Addresses[:min(len(in.Addresses), maxIncidentAddresses)] {
		out.Addresses = append(out.Addresses, in.Addresses[i].Value)
	}
	for _, m := range in.Timeline {
		m.At, m.Message = jsonTime(m.At), wording.Or(w).Say(m.Code, m.Params)
		out.Timeline = append(out.Timeline, m)
	}
	out.Omitted = Omitted{len(in.Addresses) - len(out.Addresses), len(in.Bindings) - len(out.Bindings), len(in.Rotate) - len(out.Rotate)}
	return out
}

// turn is what people hear of: how severe the incident is, and whether a request succeeded and disclosed something.
func (in *Incident) turn() string {
	return fmt.Sprint(in.Severity, in.Succeeded > 0, len(in.Rotate) > 0)
}

// reach is how much the incident has come to.
func (in *Incident) reach() [3]int {
	return [3]int{len(in.Addresses) + in.Omitted.Addresses, len(in.Bindings) + in.Omitted.Bindings, len(in.Rotate) + in.Omitted.Rotate}
}

// Turned reports whether the incident is more severe than it was, or has its first success or its first object to rotate; or the opposite, after an exception
// covers a part: the next theft is news only compared with what is left.
func (in *Incident) Turned(was *Incident) bool { return in.turn() != was.turn() }

// Grown reports whether there are more addresses, bindings or objects to rotate than there were, or fewer.
func (in *Incident) Grown(was *Incident) bool { return in.reach() != was.reach() }

// IncidentEvent is a change of an incident.
type IncidentEvent struct {
	// ID is the same in every process that sees the incident change in that way, and when the event is sent again.
	ID       string         `json:"id"`
	Change   IncidentChange `json:"change"`
	Incident Incident       `json:"incident"`
}

// NewIncidentEvent makes the event of a change; was is the event before, nil if there is none.
func NewIncidentEvent(change IncidentChange, in *Incident, was *IncidentEvent) IncidentEvent {
	e := IncidentEvent{ID: in.ID + "-" + string(change), Change: change, Incident: *in}
	if change == IncidentOpened {
		return e
	}
	// What was changed tells the event apart from the others of the incident: a number would depend on when a process looked.
	what := []string{in.Severity, string(in.State), fmt.Sprint(in.Succeeded > 0, in.Excepted > 0, in.reach())}
	if change == IncidentClosed || was != nil && was.Change == IncidentClosed {
		what = append(what, in.Last.Format(time.RFC3339Nano)) // it may be opened again, and closed again
	}
	e.ID += "-" + hexHash(what...)[:16]
	return e
}

// Finding is the event as a Queue takes it.
func (e *IncidentEvent) Finding() Finding {
	in := &e.Incident
	return Finding{ID: e.ID, Cluster: in.Cluster, Node: in.Credential, Severity: in.Severity, First: in.First, Last: in.Last, Count: 1, Incident: e}
}

// IncidentCloudEvent is a change of an incident as CloudEvents 1.0 has it, in structured form.
type IncidentCloudEvent = CloudEventOf[*Incident]

// AsIncidentCloudEvent wraps the incident of the event, which must not change while the result is in use.
func AsIncidentCloudEvent(e *IncidentEvent) IncidentCloudEvent {
	in := &e.Incident
	return IncidentCloudEvent{
		SpecVersion: "1.0", ID: e.ID, Source: cloudEventSource(in.Cluster), Type: e.Change.EventType(), Subject: in.Credential, Time: in.Last,
		DataContentType: "application/json", Data: in,
	}
}

// size estimates the memory of an event, in bytes.
func (e *IncidentEvent) size() int {
	b, err := json.Marshal(e)
	if err != nil {
		return 0 // it cannot be sent either
	}
	return len(b)
}
