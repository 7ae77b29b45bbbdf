package audit

import (
	"math"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/internal/jscan"
)

const (
	issuedCredentialKey = "authentication.kubernetes.io/issued-credential-id"
	credentialIDKey     = "authentication.kubernetes.io/credential-id"
	decisionKey         = "authorization.k8s.io/decision"
	truncatedKey        = "audit.k8s.io/truncated" // is "true" where there is one
	reasonKey           = "authorization.k8s.io/reason"
)

// One bit for each key that is used, to notice when one comes twice.
const (
	seenKind = 1 << iota
	seenAPIVersion
	seenLevel
	seenAuditID
	seenStage
	seenRequestURI
	seenVerb
	seenUser
	seenImpersonated
	seenSourceIPs
	seenUserAgent
	seenObjectRef
	seenStatus
	seenRequestObject
	seenResponseObject
	seenReceived
	seenStageTime
	seenAnnotations
	seenItems
	seenReduced
	seenResponseBytes
	seenMetadata
)

// A reader decodes single events. It holds the memory that events share.
type reader struct {
	s jscan.Scanner
	// strings is where slices of strings are cut from. What was handed out is never written again.
	strings []string
	// whole are the keys of the event before the one that was read last.
	whole, last int
	// twice is set when a key came twice where one pass cannot tell what that means.
	twice bool
	runs  runs
}

// An envelope is what an object tells in addition to the event's own fields.
type envelope struct {
	kind, apiVersion string
	// items is where the value of "items" begins, or -1.
	items int
}

// event decodes the object that begins at the scanner's position into ev. Errors are in the scanner, at the object's position or later.
func (r *reader) event(ev *Event) envelope {
	start := r.s.Pos()
	r.twice = false
	env := r.onePass(ev)
	if r.twice && r.s.Err() == nil {
		env = r.merged(start, ev)
	}
	return env
}

// onePass decodes an event in which no used key comes twice; otherwise it sets twice.
func (r *reader) onePass(ev *Event) envelope {
	*ev = Event{}
	env := envelope{items: -1}
	var key string
	seen := 0
	r.whole = 0
	r.s.Object()
	r.runs.open(placeStart, r.s.Pos()-1)
	for r.key(&key, ev, &env, &seen) {
		r.whole = seen
		bit, common := r.common(key, ev, &env)
		if !common {
			r.closeRun()
			bit = r.own(key, ev, &env)
		}
		r.note(&seen, bit)
	}
	r.last = seen &^ r.whole
	return env
}

// common reads the value of a member that events have in common with others; it is false, and reads nothing, if the key is of a member that is
// nearly always the event's own.
func (r *reader) common(key string, ev *Event, env *envelope) (bit int, common bool) {
	switch key {
	case "kind":
		bit, env.kind = seenKind, r.s.StringOrNull()
	case "apiVersion":
		bit, env.apiVersion = seenAPIVersion, r.s.StringOrNull()
	case "level":
		bit, ev.Level = seenLevel, levelOf(r.s.StringOrNull())
	case "stage":
		bit, ev.Stage = seenStage, stageOf(r.s.StringOrNull())
	case "user":
		bit = seenUser
		r.user(&ev.User, nil)
	case "impersonatedUser":
		bit, ev.IsImpersonated = seenImpersonated, r.user(&ev.Impersonated, &ev.Impersonated.Extra)
	case "sourceIPs":
		bit, ev.SourceIPs = seenSourceIPs, r.list()
	case "userAgent":
		bit, ev.UserAgent = seenUserAgent, r.s.StringOrNull()
	case "responseStatus":
		bit = seenStatus
		r.status(ev)
	case "annotations":
		bit = seenAnnotations
		r.annotations(ev)
	case "authenticationMetadata":
		bit = seenMetadata
		r.metadata(ev)
	case "auditID", "requestURI", "verb", "objectRef", "requestObject", "responseObject", "requestReceivedTimestamp", "stageTimestamp", reducedMark, responseMark, "items":
		return 0, false
	default:
		r.s.Skip()
	}
	return bit, true
}

// own reads the value of any other member.
func (r *reader) own(key string, ev *Event, env *envelope) (bit int) {
	place := noPlace
	switch key {
	case "auditID":
		bit, place, ev.AuditID = seenAuditID, placeID, r.s.StringOrNull()
	case "requestURI":
		bit, place, ev.RequestURI = seenRequestURI, placeURI, r.s.StringOrNull()
	case "verb":
		bit, place, ev.Verb = seenVerb, placeVerb, r.s.StringOrNull()
	case "objectRef":
		bit, place, ev.HasObjectRef = seenObjectRef, placeRef, r.objectRef(&ev.ObjectRef)
	case "requestObject":
		bit, place, ev.RequestObject = seenRequestObject, placeBody, r.body()
	case "responseObject":
		bit, place, ev.ResponseObject = seenResponseObject, placeBody, r.body()
	case "requestReceivedTimestamp":
		bit, place, ev.RequestReceived = seenReceived, placeReceived, r.time()
	case "stageTimestamp":
		bit, place, ev.StageTime = seenStageTime, placeStageTime, r.time()
	case reducedMark:
		bit, ev.ReducedFrom = seenReduced, r.bytes()
	case responseMark:
		bit, ev.ResponseBytes = seenResponseBytes, r.bytes()
	case "items":
		bit = seenItems
		r.s.Space()
		env.items = r.s.Pos()
		r.s.Skip()
	}
	r.runs.open(place, r.s.Pos())
	return bit
}

// metadata reads what the event says of the authentication.
func (r *reader) metadata(ev *Event) {
	s := &r.s
	if s.Null() {
		return
	}
	var key string
	seen := 0
	for s.Object(); s.Key(&key); {
		if key != "impersonationConstraint" {
			s.Skip()
			continue
		}
		ev.Constraint = r.s.StringOrNull()
		r.note(&seen, 1)
	}
}

// bytes reads a number of bytes that a Reducer wrote; what is no number is 0.
func (r *reader) bytes() int64 {
	r.s.Space()
	if r.s.Peek() != jscan.Number {
		r.s.Skip()
		return 0
	}
	return r.s.Int64()
}

// note remembers that a key was seen.
func (r *reader) note(seen *int, bit int) {
	if *seen&bit != 0 {
		r.twice = true
	}
	*seen |= bit
}

// body cuts out a value without decoding it.
func (r *reader) body() []byte {
	if r.s.Null() {
		return nil
	}
	return r.s.Raw()
}

func (r *reader) time() time.Time {
	if r.s.Null() {
		return time.Time{}
	}
	text := r.s.String()
	if r.s.Err() != nil {
		return time.Time{}
	}
	t, err := parseTime(text)
	if err != nil {
		r.s.Fail(err.Error())
	}
	return t
}

// list reads an array of strings.
func (r *reader) list() []string {
	s := &r.s
	if s.Null() {
		return nil
	}
	start := len(r.strings)
	for s.Array(); s.More(); {
		if len(r.strings) == cap(r.strings) {
			grown := make([]string, len(r.strings)-start, max(256, 2*(len(r.strings)-start)))
			copy(grown, r.strings[start:])
			r.strings, start = grown, 0
		}
		r.strings = append(r.strings, r.s.StringOrNull())
	}
	return r.strings[start:len(r.strings):len(r.strings)]
}

// user reads a UserInfo and returns whether there was one, and not a null. It appends what its extra holds to extra, unless that is nil.
func (r *reader) user(u *User, extra *[]Extra) bool {
	s := &r.s
	if s.Null() {
		return false
	}
	var key string
	seen := 0
	for s.Object(); s.Key(&key); {
		bit := 0
		switch key {
		case "username":
			bit, u.Username = 1, r.s.StringOrNull()
		case "uid":
			bit, u.UID = 2, r.s.StringOrNull()
		case "groups":
			bit, u.Groups = 4, r.list()
		case "extra":
			bit, u.CredentialID = 8, r.extra(extra)
		default:
			s.Skip()
		}
		r.note(&seen, bit)
	}
	return true
}

// extra reads the extra of a user and returns the credential ID in it. It appends the values to all, unless that is nil.
func (r *reader) extra(all *[]Extra) (id string) {
	s := &r.s
	if s.Null() {
		return ""
	}
	var key string
	seen := 0
	for s.Object(); s.Key(&key); {
		if key != credentialIDKey && all == nil {
			s.Skip()
			continue
		}
		if key == credentialIDKey {
			r.note(&seen, 1)
		} else if slices.ContainsFunc(*all, func(x Extra) bool { return x.Key == key }) {
			r.twice = true
		}
		if s.Null() {
			continue
		}
		n := 0
		for s.Array(); s.More(); n++ {
			v := r.s.StringOrNull()
			if n == 0 && key == credentialIDKey {
				id = v
			}
			if all != nil {
				*all = append(*all, Extra{key, v})
			}
		}
	}
	if all != nil {
		sortExtra(*all)
	}
	return id
}

func (r *reader) objectRef(o *ObjectRef) bool {
	s := &r.s
	if s.Null() {
		return false
	}
	var key string
	seen := 0
	for s.Object(); s.Key(&key); {
		bit := 0
		switch key {
		case "resource":
			bit, o.Resource = 1, r.s.StringOrNull()
		case "namespace":
			bit, o.Namespace = 2, r.s.StringOrNull()
		case "name":
			bit, o.Name = 4, r.s.StringOrNull()
		case "uid":
			bit, o.UID = 8, r.s.StringOrNull()
		case "apiGroup":
			bit, o.APIGroup = 16, r.s.StringOrNull()
		case "apiVersion":
			bit, o.APIVersion = 32, r.s.StringOrNull()
		case "subresource":
			bit, o.Subresource = 64, r.s.StringOrNull()
		default:
			s.Skip()
		}
		r.note(&seen, bit)
	}
	return true
}

func (r *reader) status(ev *Event) {
	s := &r.s
	if s.Null() {
		return
	}
	var key string
	seen := 0
	for s.Object(); s.Key(&key); {
		bit := 0
		switch key {
		case "code":
			bit, ev.Code = 1, r.int32()
		case "reason":
			bit, ev.StatusReason = 2, r.s.StringOrNull()
		case "message":
			bit, ev.StatusMessage = 4, r.s.StringOrNull()
		default:
			s.Skip()
		}
		r.note(&seen, bit)
	}
}

func (r *reader) int32() int32 {
	if r.s.Null() {
		return 0
	}
	n := r.s.Int64()
	if n < math.MinInt32 || n > math.MaxInt32 {
		r.s.Fail("number is no 32-bit integer")
		return 0
	}
	return int32(n)
}

func (r *reader) annotations(ev *Event) {
	s := &r.s
	if s.Null() {
		return
	}
	var key string
	seen := 0
	for s.Object(); s.Key(&key); {
		bit := 0
		switch key {
		case decisionKey:
			bit, ev.Decision = 1, r.s.StringOrNull()
		case reasonKey:
			bit, ev.Reason = 2, r.s.StringOrNull()
		case issuedCredentialKey:
			bit, ev.IssuedCredential = 4, r.s.StringOrNull()
		case truncatedKey:
			bit, ev.Cut = 8, r.s.StringOrNull() == "true"
		default:
			s.Skip()
		}
		r.note(&seen, bit)
	}
}
