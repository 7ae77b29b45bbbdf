package sinks

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// Finding is what is sent: a group of a rule's findings that have all but their time in common. All keys are always in its JSON.
type Finding struct {
	// ID is the group's: the same for the same cluster, rule, node, object, binding and client, in every process.
	ID      string `json:"id"`
	Cluster string `json:"cluster"`
	Rule    string `json:"rule"`
	// Reason is the rule's code of why, and Params are what it is about: of the finding with the highest severity.
	Reason      rules.Reason `json:"reason"`
	Params      codes.Params `json:"params"`
	Severity    string       `json:"severity"`
	Node        string       `json:"node"`
	Verb        string       `json:"verb"`
	APIGroup    string       `json:"apiGroup"`
	Resource    string       `json:"resource"`
	Subresource string       `json:"subresource"`
	Namespace   string       `json:"namespace"`
	Name        string       `json:"name"`
	UserAgent   string       `json:"userAgent"`
	Binding     Binding      `json:"binding"`
	// Users made the requests, from Addresses, and were given Answers.
	tally.Origins
	// Allowed says that one of the requests succeeded, Authorized that one passed authorization.
	Allowed    bool   `json:"allowed"`
	Authorized bool   `json:"authorized"`
	Message    string `json:"message"`
	// Detail tells groups of one reason apart, such as the second address. It is no text for people.
	Detail string `json:"detail"`
	// Count is how many requests since the group was sent last.
	Count int64 `json:"count"`
	// First and Last bound the times of those requests, UTC.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// AuditIDs are of those requests, at most tally.MaxAuditIDs.
	AuditIDs []string `json:"auditIDs"`
	// Runbook is the path of the rule's page in the repository.
	Runbook string `json:"runbook"`
	// Continued says that the group was sent before, as far as this process remembers.
	Continued bool `json:"-"`
	// Incident is the change of an incident that is sent in place of a finding; nil for findings.
	Incident *IncidentEvent `json:"-"`
}

// Binding names the RBAC binding to blame; its parts are empty where there is none.
type Binding struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Sender delivers findings to one sink. A Queue calls its methods, one Send at a time; Name may be called at any time.
type Sender interface {
	// Name is the sink's, for metrics and logs: unique in the process, and free of secrets.
	Name() string
	// Send delivers the findings in their order and returns nil once the receiver has them all. After an error the whole batch comes again,
	// indefinitely, unless the error is a PermanentError; a RetryError says when. The findings may be read until Send returns and must not be
	// changed. A Sender that is an io.Closer is closed once, after its last Send.
	Send(ctx context.Context, findings []Finding) error
}

// PermanentError is the error of findings that the receiver will never take: they are dropped and counted.
type PermanentError struct {
	Err error
	// Refused is how many of the batch it means, while the receiver has the others; 0 is all.
	Refused int
}

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent makes err permanent.
func Permanent(err error) error { return &PermanentError{Err: err} }

// RetryError is an error after which the receiver asked to be left alone for a while.
type RetryError struct {
	Err   error
	After time.Duration
}

func (e *RetryError) Error() string { return e.Err.Error() }
func (e *RetryError) Unwrap() error { return e.Err }

// EventType is the type attribute of findings as CloudEvents.
const EventType = "io.github.nodetrail.finding.v1"

// CloudEvent is a finding as CloudEvents 1.0 has it, in structured form.
type CloudEvent = CloudEventOf[*Finding]

// CloudEventOf is an event with data of a type.
type CloudEventOf[D any] struct {
	SpecVersion string `json:"specversion"`
	// ID and Source together name one sending: the same when it is tried again.
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject,omitempty"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            D         `json:"data"`
}

// AsCloudEvent wraps the finding, which must not change while the event is in use.
func AsCloudEvent(f *Finding) CloudEvent {
	var first string
	if len(f.AuditIDs) > 0 {
		first = f.AuditIDs[0]
	}
	return CloudEvent{
		SpecVersion: "1.0", ID: f.ID + "-" + hexHash(first)[:16], Source: cloudEventSource(f.Cluster), Type: EventType, Subject: f.Node,
		Time: f.Last, DataContentType: "application/json", Data: f,
	}
}

func cloudEventSource(cluster string) string {
	if cluster == "" {
		return "/nodetrail"
	}
	return "/nodetrail/" + hexHash(cluster)[:16] // a URI reference: the name itself may hold anything
}

// hexHash is a hash of strings that keeps them apart.
func hexHash(parts ...string) string {
	h := sha256.New()
	var n [8]byte
	for _, s := range parts {
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		_, _ = h.Write(n[:]) // never fails
		_, _ = h.Write([]byte(s))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// ID is the identity of a group of findings: the same in every process, and whatever the words.
func ID(cluster string, k *tally.Key) string {
	return hexHash(append([]string{cluster}, k.Strings()...)...)
}

// newFinding is an empty group of the key, which must own its strings.
func newFinding(cluster string, k *tally.Key) Finding {
	return Finding{
		ID:      ID(cluster, k),
		Cluster: cluster, Rule: k.Rule, Node: k.Node, Verb: k.Verb, APIGroup: k.APIGroup, Resource: k.Resource, Subresource: k.Subresource,
		Namespace: k.Namespace, Name: k.Name, UserAgent: k.Product, Detail: k.Apart, Binding: bindingOf(k.Binding),
		Params: codes.Params{}, Origins: (&tally.Origins{}).Filled(), AuditIDs: []string{}, Runbook: (&rules.Rule{Name: k.Rule}).Runbook(),
	}
}

// FromGroup is a group as a store has it, with the ID that the same group has when it is sent as it occurs. Its message is in the words given,
// English if they are nil.
func FromGroup(cluster string, k *tally.Key, g *tally.Group, w wording.Words) Finding {
	f := newFinding(cluster, k)
	f.Severity, f.Message, f.Allowed, f.Authorized, f.Count = g.Severity.String(), wording.Or(w).Finding(k, g), g.Succeeded, g.Allowed, g.Count
	f.Origins = g.Origins.Filled()
	f.Reason = g.Reason
	if g.Params != nil {
		f.Params = g.Params
	}
	f.First, f.Last = jsonTime(g.First), jsonTime(g.Last)
	f.AuditIDs = append(f.AuditIDs, g.AuditIDs...)
	return f
}

func bindingOf(b rbac.BindingRef) Binding {
	return Binding{Kind: b.Kind, Namespace: b.Namespace, Name: b.Name}
}

// merge adds a later sending of the same group. The slices of both stay as they are.
func (f *Finding) merge(o *Finding) {
	if f.Incident != nil {
		return // it is the same event
	}
	f.Count += o.Count
	f.Continued = f.Continued && o.Continued
	f.Allowed, f.Authorized = f.Allowed || o.Allowed, f.Authorized || o.Authorized
	f.Origins = f.Origins.Filled()
	f.Origins.Merge(&o.Origins)
	if severityOf(o.Severity) > severityOf(f.Severity) {
		f.Severity, f.Reason, f.Params, f.Message = o.Severity, o.Reason, o.Params, o.Message
	}
	if o.First.Before(f.First) {
		f.First = o.First
	}
	if o.Last.After(f.Last) {
		f.Last = o.Last
	}
	if room := tally.MaxAuditIDs - len(f.AuditIDs); room > 0 {
		f.AuditIDs = append(slices.Clip(f.AuditIDs), o.AuditIDs[:min(room, len(o.AuditIDs))]...)
	}
}

func severityOf(s string) rules.Severity {
	v, err := rules.ParseSeverity(s)
	if err != nil {
		return rules.None
	}
	return v
}

// size estimates the memory of a finding, in bytes.
func (f *Finding) size() int64 {
	const fixed = 512
	n := fixed
	if f.Incident != nil {
		n += f.Incident.size()
	}
	for _, s := range []string{f.Node, f.Verb, f.APIGroup, f.Resource, f.Subresource, f.Namespace, f.Name, f.UserAgent, f.Message, f.Detail,
		f.Binding.Kind, f.Binding.Namespace, f.Binding.Name} {
		n += len(s)
	}
	for _, p := range f.Params {
		n += len(p.Key) + len(p.Value) + 32
	}
	for _, list := range [][]string{f.AuditIDs, f.Users, f.Groups, f.Impersonated} {
		for _, s := range list {
			n += len(s) + 16
		}
	}
	for _, a := range f.Addresses {
		n += len(a.Address) + len(a.Node) + 32
	}
	return int64(n)
}

// jsonTime keeps a time within the years that RFC 3339 has: an offset can carry the year 9999 beyond it.
func jsonTime(t time.Time) time.Time {
	t = t.UTC()
	switch y := t.Year(); {
	case y > 9999:
		return time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	case y < 0:
		return time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return t
}

// IsPermanent reports whether a batch is not worth trying again.
func IsPermanent(err error) bool {
	var p *PermanentError
	return errors.As(err, &p)
}
