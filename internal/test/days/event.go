package days

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"time"
)

// Stages of an event.
const (
	StageReceived = "RequestReceived"
	StageStarted  = "ResponseStarted"
	StageComplete = "ResponseComplete"
	StagePanic    = "Panic"
)

// Levels of an event, as an audit policy names them.
const (
	LevelMetadata = "Metadata"
	LevelRequest  = "Request"
)

// User is who made a request. CredentialID is empty where the cluster's version logs none.
type User struct {
	Username, UID string
	Groups        []string
	CredentialID  string
	Scope         string // of the extra, as a client that acts as the user can ask for
	certificate   []byte // whose ID it is; nil where the version logs none
}

// Ref is an event's objectRef.
type Ref struct {
	Group, Version, Resource, Subresource string
	Namespace, Name, UID                  string
	ResourceVersion                       string
}

// Event is one line of the log, before it is rendered. Events are shared between a day and its mutations: change a copy.
type Event struct {
	Level, AuditID, Stage string
	Verb, URI             string
	User                  *User
	Impersonated          *User
	Constraint            string // the mode of constrained impersonation
	SourceIPs             []string
	UserAgent             string
	Ref                   *Ref // nil: no resource
	Code                  int
	// Message and Reason are the failure's, if it is one.
	Message, Reason string
	// Request is the request's body, logged from level Request on.
	Request          json.RawMessage
	Received, Staged time.Time
	// Decision is the annotation authorization.k8s.io/decision; where it is empty, the event has no annotations.
	Decision, DecisionReason string
	// Issued is the annotation on a token that was issued.
	Issued string
	// Server is the index of the API server that wrote the event.
	Server int
	// ownAddress says that it is harmless only as it comes from an address of its Node.
	ownAddress bool
	// rare says that it is one of those of a kubelet's start: the creation of a Node and what follows it.
	rare bool
	// Cut is how many bytes of the line were written; 0 means all. If Glued, not even the newline was.
	Cut   int
	Glued bool
	// Nulled says that NUL bytes are in the place of the line. Hole is how many stand in front of it.
	Nulled bool
	Hole   int

	rendered rendering[Event]
}

// IsNode reports whether a node identity made the request with its own credential.
func (e *Event) IsNode() bool { return nodeOf(e.User) != "" && e.Impersonated == nil }

// nodeOf returns the name of the node that a user is, or "".
func nodeOf(u *User) string {
	const prefix = "system:node:"
	if u != nil && len(u.Username) > len(prefix) && u.Username[:len(prefix)] == prefix {
		return u.Username[len(prefix):]
	}
	return ""
}

// Line returns its line as it is in the log.
func (e *Event) Line() []byte { return e.appendLine(nil) }

// appendLine appends the event with its newline.
func (e *Event) appendLine(b []byte) []byte {
	if r := &e.rendered; r.of == e {
		return append(b, r.before...)
	}
	return e.render(b)
}

// render renders the event with its newline, in the order of fields of kube-apiserver.
func (e *Event) render(b []byte) []byte {
	b = append(b, make([]byte, e.Hole)...)
	from := len(b)
	b = append(b, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"`...)
	b = append(b, e.Level...)
	b = append(b, `","auditID":`...)
	b = appendString(b, e.AuditID)
	b = append(b, `,"stage":"`...)
	b = append(b, e.Stage...)
	b = append(b, `","requestURI":`...)
	b = appendString(b, e.URI)
	b = append(b, `,"verb":"`...)
	b = append(b, e.Verb...)
	b = append(b, `","user":`...)
	b = e.User.append(b)
	if e.Impersonated != nil {
		b = append(b, `,"impersonatedUser":`...)
		b = e.Impersonated.append(b)
	}
	if e.Constraint != "" {
		b = append(appendString(append(b, `,"authenticationMetadata":{"impersonationConstraint":`...), e.Constraint), '}')
	}
	b = append(b, `,"sourceIPs":`...)
	b = appendStrings(b, e.SourceIPs)
	if e.UserAgent != "" {
		b = append(b, `,"userAgent":`...)
		b = appendString(b, e.UserAgent)
	}
	if e.Ref != nil {
		b = e.Ref.append(b)
	}
	b = e.appendStatus(b)
	if e.Request != nil && e.Level != LevelMetadata {
		b = append(b, `,"requestObject":`...)
		b = append(b, e.Request...)
	}
	b = append(b, `,"requestReceivedTimestamp":"`...)
	b = appendMicro(b, e.Received)
	b = append(b, `","stageTimestamp":"`...)
	b = appendMicro(b, e.Staged)
	b = append(b, '"')
	b = e.appendAnnotations(b)
	b = append(b, "}\n"...)
	if e.Nulled {
		clear(b[from : len(b)-1])
	}
	if e.Cut > 0 && from+e.Cut < len(b) {
		if b = b[:from+e.Cut]; !e.Glued {
			b = append(b, '\n')
		}
	}
	return b
}

func (e *Event) appendStatus(b []byte) []byte {
	b = append(b, `,"responseStatus":{"metadata":{}`...)
	if e.Message != "" {
		b = append(b, `,"status":"Failure","message":`...)
		b = appendString(b, e.Message)
		b = append(b, `,"reason":"`...)
		b = append(b, e.Reason...)
		b = append(b, '"')
		if e.Ref != nil {
			b = append(b, `,"details":{`...)
			if e.Ref.Name != "" {
				b = append(appendString(append(b, `"name":`...), e.Ref.Name), ',')
			}
			if e.Ref.Group != "" {
				b = append(appendString(append(b, `"group":`...), e.Ref.Group), ',')
			}
			b = append(appendString(append(b, `"kind":`...), e.Ref.Resource), '}')
		}
	}
	if e.Code == 201 && e.Ref != nil && (e.Ref.Subresource == "binding" || e.Ref.Subresource == "eviction") {
		b = append(b, `,"status":"Success"`...)
	}
	b = append(b, `,"code":`...)
	b = strconv.AppendInt(b, int64(e.Code), 10)
	return append(b, '}')
}

func (e *Event) appendAnnotations(b []byte) []byte {
	if e.Decision == "" {
		return b
	}
	b = append(b, `,"annotations":{`...)
	if e.Issued != "" {
		b = append(appendString(append(b, `"authentication.kubernetes.io/issued-credential-id":`...), e.Issued), ',')
	}
	b = append(b, `"authorization.k8s.io/decision":"`...)
	b = append(b, e.Decision...)
	b = append(b, `","authorization.k8s.io/reason":`...)
	return append(appendString(b, e.DecisionReason), '}')
}

func (u *User) append(b []byte) []byte {
	b = append(b, `{"username":`...)
	b = appendString(b, u.Username)
	if u.UID != "" {
		b = appendString(append(b, `,"uid":`...), u.UID)
	}
	if len(u.Groups) > 0 {
		b = appendStrings(append(b, `,"groups":`...), u.Groups)
	}
	if u.Scope != "" {
		b = append(appendString(append(b, `,"extra":{"scopes":[`...), u.Scope), "]}"...)
	}
	if u.CredentialID != "" {
		b = appendString(append(b, `,"extra":{"authentication.kubernetes.io/credential-id":[`...), u.CredentialID)
		b = append(b, "]}"...)
	}
	return append(b, '}')
}

func (r *Ref) append(b []byte) []byte {
	b = appendString(append(b, `,"objectRef":{"resource":`...), r.Resource)
	for _, f := range [...]struct{ key, value string }{
		{`,"namespace":`, r.Namespace}, {`,"name":`, r.Name}, {`,"uid":`, r.UID}, {`,"apiGroup":`, r.Group}, {`,"apiVersion":`, r.Version},
		{`,"resourceVersion":`, r.ResourceVersion}, {`,"subresource":`, r.Subresource},
	} {
		if f.value != "" {
			b = appendString(append(b, f.key...), f.value)
		}
	}
	return append(b, '}')
}

func appendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
	return append(b, ']')
}

// appendString quotes as encoding/json does, which escapes &, < and > too: kube-apiserver writes its log with it.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '&' || c == '<' || c == '>' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // a string always marshals
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendMicro writes a MicroTime as kube-apiserver does: always six digits.
func appendMicro(b []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
}

const hexDigits = "0123456789abcdef"

// hexString is n random hexadecimal digits.
func hexString(r *rand.Rand, n int) string {
	b := make([]byte, n)
	var v uint64
	for i := range b {
		if i%16 == 0 {
			v = r.Uint64()
		}
		b[i] = hexDigits[v&15]
		v >>= 4
	}
	return string(b)
}

// uuid is a random UUID of version 4.
func uuid(r *rand.Rand) string {
	b := make([]byte, 36)
	v, w := r.Uint64(), r.Uint64()
	for i := range b {
		switch i {
		case 8, 13, 18, 23:
			b[i] = '-'
			continue
		case 14:
			b[i] = '4'
			continue
		case 19:
			b[i] = "89ab"[v&3]
		default:
			b[i] = hexDigits[v&15]
		}
		v = v>>4 | w<<60
		w >>= 4
	}
	return string(b)
}
