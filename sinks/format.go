package sinks

import (
	"encoding/json"
	"fmt"

	"github.com/nodetrail/nodetrail/wording"
)

// Format is the form in which a sink writes findings.
type Format string

// The formats.
const (
	// JSON is the finding itself.
	JSON Format = "json"
	// CloudEvents is CloudEvents 1.0 in structured form.
	CloudEvents Format = "cloudevents"
	// OCSF is the class Detection Finding of the Open Cybersecurity Schema Framework.
	OCSF Format = "ocsf"
	// Slack is the message of an incoming webhook. It has incidents alone.
	Slack Format = "slack"
)

// Incidents reports whether the format has changes of incidents.
func (f Format) Incidents() bool { return f == CloudEvents || f == Slack }

// Findings reports whether the format has findings.
func (f Format) Findings() bool { return f != Slack }

// Encode writes one finding, or change of an incident, as JSON without a line end. What is not shown, such as characters that change the direction of text, is escaped.
func (f Format) Encode(x *Finding) ([]byte, error) { return f.EncodeLinked(x, "") }

// EncodeLinked is Encode, where messages for people have a link to nodetrail's pages at the address given, unless it is empty.
func (f Format) EncodeLinked(x *Finding, pages string) ([]byte, error) {
	var v any = x
	switch {
	case x.Incident != nil && !f.Incidents() || x.Incident == nil && !f.Findings():
		return nil, fmt.Errorf("encoding %s: the format %s does not have it", x.ID, f)
	case f == Slack:
		v = AsSlack(x.Incident, pages)
	case x.Incident != nil:
		v = AsIncidentCloudEvent(x.Incident)
	case f == CloudEvents:
		v = AsCloudEvent(x)
	case f == OCSF:
		v = AsOCSF(x)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding a finding: %w", err)
	}
	return wording.EscapeJSON(b), nil
}
