// Package audit turns the bytes of a Kubernetes audit log into events.
//
// In: audit.k8s.io Events as JSON, one a line or several, EventLists, arrays, with the damage that logs suffer (NUL runs, torn lines,
// byte-order marks, CRLF), bare or in the envelopes of those who ship them (Envelope). Out: Event, with only the fields that nodetrail uses, and the
// attributes that kube-apiserver's authorizer saw (Attributes). What no rule and no state can need is counted and not handed on.
//
// A field means what k8s.io/apiserver/pkg/apis/audit/v1 decoded with sigs.k8s.io/json would hold: keys are case-sensitive, the last of
// duplicate keys wins, objects that come twice are merged, a null changes nothing in a plain field and clears the rest.
//
// # Memory
//
// Strings and bodies of an Event alias the bytes that they were read from. They are good as long as the caller leaves those bytes alone;
// Clone makes an Event that owns all it holds. Strings with escapes, slices, what a Decoder has seen in earlier events, and all of an event that was a string or compressed in an envelope
// live in memory that is never written again; it lies in blocks, so that one small event may hold on to 64 KiB, or to all that was
// compressed with it.
//
// It imports internal/jscan, decompressors and, of Kubernetes, apimachinery and the authorizer's interfaces.
package audit

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// A Stage is the stage of request handling at which an event was made.
type Stage uint8

// The stages of audit.k8s.io/v1.
const (
	StageUnknown Stage = iota
	StageRequestReceived
	StageResponseStarted
	StageResponseComplete
	StagePanic
)

// String returns the stage as audit.k8s.io spells it.
func (s Stage) String() string {
	switch s {
	case StageRequestReceived:
		return "RequestReceived"
	case StageResponseStarted:
		return "ResponseStarted"
	case StageResponseComplete:
		return "ResponseComplete"
	case StagePanic:
		return "Panic"
	default:
		return "Unknown"
	}
}

func stageOf(name string) Stage {
	switch name {
	case "RequestReceived":
		return StageRequestReceived
	case "ResponseStarted":
		return StageResponseStarted
	case "ResponseComplete":
		return StageResponseComplete
	case "Panic":
		return StagePanic
	default:
		return StageUnknown
	}
}

// A Level says how much of a request an event holds.
type Level uint8

// The levels of audit.k8s.io/v1. A forwarder may have overwritten the field: then it is LevelUnknown.
const (
	LevelUnknown Level = iota
	LevelNone
	LevelMetadata
	LevelRequest
	LevelRequestResponse
)

// String returns the level as audit.k8s.io spells it.
func (l Level) String() string {
	switch l {
	case LevelNone:
		return "None"
	case LevelMetadata:
		return "Metadata"
	case LevelRequest:
		return "Request"
	case LevelRequestResponse:
		return "RequestResponse"
	default:
		return "Unknown"
	}
}

func levelOf(name string) Level {
	switch name {
	case "None":
		return LevelNone
	case "Metadata":
		return LevelMetadata
	case "Request":
		return LevelRequest
	case "RequestResponse":
		return LevelRequestResponse
	default:
		return LevelUnknown
	}
}

// A User is who made a request, or as whom.
type User struct {
	Username, UID string
	Groups        []string
	// CredentialID is the first value of extra["authentication.kubernetes.io/credential-id"].
	CredentialID string
	// Extra is all of extra, in the order of its keys, of an impersonated user: a client needs a right for each value. Of other users it is nil.
	Extra []Extra
}

// An Extra is one value of a user's extra.
type Extra struct{ Key, Value string }

// sortExtra puts the keys in order. The values of a key stay in theirs.
func sortExtra(all []Extra) {
	slices.SortStableFunc(all, func(a, b Extra) int { return strings.Compare(a.Key, b.Key) })
}

// An ObjectRef is the object of a request. For a create kube-apiserver may have filled Namespace and Name from the body: the
// authorizer did not see those (see Attributes).
type ObjectRef struct {
	Resource, Namespace, Name, UID, APIGroup, APIVersion, Subresource string
}

// An Event is what nodetrail uses of one audit event. See the package comment for who owns its memory.
type Event struct {
	AuditID    string
	Stage      Stage
	Level      Level
	RequestURI string
	// Verb is the verb of the Kubernetes API, or the lower-case HTTP method of a non-resource request.
	Verb string
	// User is the authenticated user. Impersonated is meaningful if IsImpersonated.
	User           User
	Impersonated   User
	IsImpersonated bool
	// Constraint is the verb of constrained impersonation (KEP-5284) that allowed to impersonate, such as impersonate:associated-node; empty for the old
	// verb impersonate.
	Constraint   string
	SourceIPs    []string
	UserAgent    string
	ObjectRef    ObjectRef
	HasObjectRef bool
	// Code, StatusReason and StatusMessage are of the response's status; Code is 0 where there is none.
	Code          int32
	StatusReason  string
	StatusMessage string
	// RequestReceived and StageTime are in UTC, and zero where the event holds none.
	RequestReceived, StageTime time.Time
	// Decision and Reason are the annotations authorization.k8s.io/decision and authorization.k8s.io/reason.
	Decision, Reason string
	// IssuedCredential is the annotation authentication.kubernetes.io/issued-credential-id: that of the token which the request got.
	IssuedCredential string
	// Cut is true where the API server cut the bodies off, as the event was too long: the annotation audit.k8s.io/truncated.
	Cut bool
	// RequestObject and ResponseObject are JSON, checked but not decoded, and nil where absent.
	RequestObject, ResponseObject []byte
	// Derived says that the event was made from an entry of another log (GKE's Cloud Audit) that holds less than an audit event. Then
	// RequestURI is empty, so that no selector of a list or a watch is known; the groups of a user that is named like a node are assumed to be those of a
	// node; Code is translated from gRPC's; StageTime is RequestReceived.
	Derived bool
	// ReducedFrom is how many bytes the event had in the log where it was too long, and 0 for any other: then strings are cut off, the
	// response's body and a long one of the request are left out, and requestURI holds no parameter but those that count (see Reducer).
	ReducedFrom int64
	// ResponseBytes is how many bytes of these the response's body had, if the event was too long for that alone; else 0.
	ResponseBytes int64
	// Line is the line that the event begins on, counted as the caller of Chunk or Document counts.
	Line int
}

// PlainAddress is an address in the one form in which it is compared. Its zone may be any text, and is left out.
func PlainAddress(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	return a.Unmap().WithZone(""), err == nil
}

// Address is the address of the connection, false where the log has none. It is the last source address; those before it are the client's claims
// (k8s.io/apimachinery/pkg/util/net.SourceIPs).
func (ev *Event) Address() (address string, logged bool) {
	n := len(ev.SourceIPs)
	if n == 0 {
		return "", false
	}
	return ev.SourceIPs[n-1], true
}

// Effective returns the user that was authorized: the impersonated one where there is one.
func (ev *Event) Effective() *User {
	if ev.IsImpersonated {
		return &ev.Impersonated
	}
	return &ev.User
}

// Clone returns an event that shares no memory with ev.
func (ev *Event) Clone() *Event {
	c := *ev
	for _, s := range []*string{
		&c.AuditID, &c.RequestURI, &c.Verb, &c.UserAgent, &c.StatusReason, &c.StatusMessage, &c.Decision, &c.Reason, &c.Constraint, &c.IssuedCredential,
		&c.ObjectRef.Resource, &c.ObjectRef.Namespace, &c.ObjectRef.Name, &c.ObjectRef.UID,
		&c.ObjectRef.APIGroup, &c.ObjectRef.APIVersion, &c.ObjectRef.Subresource,
	} {
		*s = strings.Clone(*s)
	}
	for _, u := range []*User{&c.User, &c.Impersonated} {
		u.Username, u.UID, u.CredentialID = strings.Clone(u.Username), strings.Clone(u.UID), strings.Clone(u.CredentialID)
		u.Groups, u.Extra = CloneStrings(u.Groups), slices.Clone(u.Extra)
		for i := range u.Extra {
			x := &u.Extra[i]
			x.Key, x.Value = strings.Clone(x.Key), strings.Clone(x.Value)
		}
	}
	c.SourceIPs = CloneStrings(c.SourceIPs)
	c.RequestObject = slices.Clone(c.RequestObject)
	c.ResponseObject = slices.Clone(c.ResponseObject)
	return &c
}

// CloneStrings copies a list of an event, such as the groups of a user, so that it shares no memory with the event; nil stays nil.
func CloneStrings(in []string) []string {
	if in == nil {
		return nil
	}
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = strings.Clone(s)
	}
	return out
}
