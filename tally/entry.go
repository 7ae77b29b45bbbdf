package tally

import (
	"cmp"
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

// ID identifies a request, in 16 bytes.
type ID [16]byte

// IDOf returns the ID of what tells a request from every other, a hash of it.
func IDOf[T string | []byte](what T) ID {
	sum := sha256.Sum256([]byte(what))
	return ID(sum[:16])
}

// Seen is what tells a request from every other one. A client chooses the audit ID, and many a log has times in whole seconds: several requests may
// have one ID, and only their answers tell them apart.
type Seen struct {
	ID ID
	// Answer is a hash of the answer, zero if none was logged.
	Answer ID
}

// Other is an ID of its own for the request, where another one with its ID was there before.
func (s Seen) Other() ID { return IDOf(append(s.ID[:], s.Answer[:]...)) }

// Entry is what one judged request adds. Its strings may alias memory that is used again: [Entry.Own] makes it own them.
type Entry struct {
	// ID and Answer are those of [Seen].
	ID, Answer ID
	// Time is the request's, UTC.
	Time time.Time
	// IsNode says that it is a node's request; only those count for anything but Findings.
	IsNode bool
	Node   string
	// Verdict is the re-evaluated one; Observed the API server's Node authorizer's, NotNode if that is not known.
	Verdict, Observed nodeauthz.Verdict
	Race              bool
	// Distance is how far from the request the change is that makes the verdict a race, where the API server decided otherwise; if HasDistance.
	Distance    time.Duration
	HasDistance bool
	// ReasonCompared says that both denied and gave a reason; ReasonEqual that it is the same.
	ReasonCompared, ReasonEqual bool
	// Ambient is the access that any authenticated user has, nil if it is none.
	Ambient *AmbientKey
	// Admission is the write that NodeRestriction was asked about, nil if it was not.
	Admission *AdmissionKey
	// Disagreement is set where the verdicts differ outside of a race.
	Disagreement *Disagreement
	Findings     []Finding
	// Origin is the request's; it is needed where there are Findings.
	Origin Origin

	// Observation is what detectors look at of the request, as rules.AppendObservation writes it; nil if they have no use for it. It is stored unless
	// the request is a duplicate. Of what is no node's and has no findings nothing else counts.
	Observation []byte

	// Duplicate is set by the store where the request was counted before.
	Duplicate bool
}

// IsCounted reports whether the entry counts, so that the store keeps it in mind: of what is no node's and has no findings only the observation is
// of use.
func (e *Entry) IsCounted() bool { return e.IsNode || len(e.Findings) > 0 }

// Finding is a rule's finding, on its way to a group.
type Finding struct {
	Key      Key
	Reason   rules.Reason
	Severity rules.Severity
	// Allowed says that the request passed authorization; see [Entry.Succeeded].
	Allowed bool
	Params  codes.Params
	AuditID string
}

// Succeeded reports whether the request of a finding succeeded: it passed authorization and, as far as the log tells, was carried out.
func (e *Entry) Succeeded(f *Finding) bool {
	if e.Origin.Code == 0 { // the log does not tell
		return f.Allowed && !rules.Fruitless(f.Reason)
	}
	return f.Allowed && e.Origin.Code < http.StatusMultipleChoices
}

// Key is by what findings are grouped.
type Key struct {
	Rule, Node, Verb, APIGroup, Resource, Subresource, Namespace, Name string
	// Product is the user agent's.
	Product string
	// Reason is set for rules whose groups are distinguished by it ([rules.ByReason]).
	Reason rules.Reason
	// Apart tells groups apart that have all else in common, such as the second address. It is no text for people.
	Apart   string
	Binding rbac.BindingRef
}

// Strings are the key's parts in a fixed order, by which IDs are made: two keys with the same strings are the same.
func (k *Key) Strings() []string {
	what := string(k.Reason)
	if k.Apart != "" {
		what += " " + k.Apart // no reason has a space
	}
	return []string{
		k.Rule, k.Node, k.Verb, k.APIGroup, k.Resource, k.Subresource, k.Namespace, k.Name, k.Product, what,
		k.Binding.Kind, k.Binding.Namespace, k.Binding.Name,
	}
}

// Compare puts keys in the order of their Strings.
func (k *Key) Compare(o *Key) int {
	return cmp.Or(
		strings.Compare(k.Rule, o.Rule), strings.Compare(k.Node, o.Node), strings.Compare(k.Verb, o.Verb), strings.Compare(k.APIGroup, o.APIGroup),
		strings.Compare(k.Resource, o.Resource), strings.Compare(k.Subresource, o.Subresource), strings.Compare(k.Namespace, o.Namespace),
		strings.Compare(k.Name, o.Name), strings.Compare(k.Product, o.Product), strings.Compare(string(k.Reason), string(o.Reason)),
		strings.Compare(k.Apart, o.Apart), strings.Compare(k.Binding.Kind, o.Binding.Kind), strings.Compare(k.Binding.Namespace, o.Binding.Namespace),
		strings.Compare(k.Binding.Name, o.Binding.Name),
	)
}

// AmbientKey is by what access of any authenticated user is grouped.
type AmbientKey struct {
	Binding rbac.BindingRef
	Verb    string
	// Resource is the resource with its group, or the path of a request for none.
	Resource string
}

// AdmissionKey is by what writes are counted that NodeRestriction was asked about. There are only so many: see nodeadmission.KindOf.
type AdmissionKey struct {
	Outcome rules.Outcome
	// Missing is what the answer lacks, for rules.OutcomeUnknown only.
	Missing                     string
	Verb, Resource, Subresource string
}

// Disagreement is one request on which nodetrail and the API server differ, outside of races.
type Disagreement struct {
	AuditID     string    `json:"auditID"`
	Time        time.Time `json:"time"`
	Node        string    `json:"node"`
	Verb        string    `json:"verb"`
	APIGroup    string    `json:"apiGroup"`
	Resource    string    `json:"resource"`
	Subresource string    `json:"subresource"`
	Namespace   string    `json:"namespace"`
	Name        string    `json:"name"`
	Verdict     string    `json:"verdict"`
	Observed    string    `json:"observed"`
	Reason      string    `json:"reason"`
	// Unordered says that the time is a whole second, and that the verdict could be the observed one a second before or after.
	Unordered bool `json:"unordered,omitempty"`
}

// MaxText bounds the strings from the log that are kept, in bytes: names in Kubernetes have at most 253.
const MaxText = codes.MaxValue

// Bounded cuts what no real name is as long as.
func Bounded(s string) string { return codes.Bound(s, MaxText) }

// own copies each string, bounded.
func own(all ...*string) {
	for _, s := range all {
		*s = strings.Clone(Bounded(*s))
	}
}

// Own makes the key own its strings, bounded.
func (k *Key) Own() { own(k.texts()...) }

func (k *Key) texts() []*string {
	return []*string{
		&k.Rule, &k.Node, &k.Verb, &k.APIGroup, &k.Resource, &k.Subresource, &k.Namespace, &k.Name, &k.Product, &k.Apart,
		&k.Binding.Kind, &k.Binding.Namespace, &k.Binding.Name,
	}
}

// Names are strings of keys that several tallies share. The zero value is ready. Not safe for concurrent use.
type Names struct{ all map[string]string }

// maxNames bounds how many strings are looked for. A hostile client can make names without end.
const maxNames = 1 << 16

// own makes the key own its strings, bounded, each of which is there once; without names, each is a copy.
func (n *Names) own(k *Key) {
	if n == nil {
		k.Own()
		return
	}
	for _, s := range k.texts() {
		one, there := n.all[Bounded(*s)]
		if !there {
			if n.all == nil || len(n.all) >= maxNames {
				n.all = map[string]string{}
			}
			own(s)
			one = *s
			n.all[one] = one
		}
		*s = one
	}
}

func (k *AmbientKey) own() {
	own(&k.Binding.Kind, &k.Binding.Namespace, &k.Binding.Name, &k.Verb, &k.Resource)
}

func (k *AdmissionKey) own() {
	own(&k.Missing, &k.Verb, &k.Resource, &k.Subresource)
}

func (d *Disagreement) own() {
	own(&d.AuditID, &d.Node, &d.Verb, &d.APIGroup, &d.Resource, &d.Subresource, &d.Namespace, &d.Name, &d.Verdict, &d.Observed, &d.Reason)
}

// Own returns a copy that shares no memory with the event.
func (e *Entry) Own() Entry {
	out := *e
	own(&out.Node)
	if e.Ambient != nil {
		a := *e.Ambient
		a.own()
		out.Ambient = &a
	}
	if e.Admission != nil {
		a := *e.Admission
		a.own()
		out.Admission = &a
	}
	if e.Disagreement != nil {
		d := *e.Disagreement
		d.own()
		out.Disagreement = &d
	}
	if len(e.Findings) > 0 {
		out.Origin.own()
		out.Findings = make([]Finding, len(e.Findings))
		for i := range e.Findings {
			f := e.Findings[i]
			f.Key.Own()
			own(&f.AuditID)
			f.Params = f.Params.Own()
			out.Findings[i] = f
		}
	} else {
		out.Findings, out.Origin = nil, Origin{}
	}
	return out
}
