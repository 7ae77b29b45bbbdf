package audit

import (
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/internal/jscan"
)

// elasticPrefix is what the fields of an event are under in what Elastic's integration writes, as objects in objects or as keys with dots.
const elasticPrefix = "kubernetes.audit."

// maxFields is how deep the fields of an event nest, at most.
const maxFields = 8

// A fieldReader decodes events whose fields bear other names than audit.k8s.io gave them.
type fieldReader struct {
	s jscan.Scanner
	// inner is s while the object is read that a string holds, and inString says so.
	inner    jscan.Scanner
	inString bool
	// known turns the path of a field into the one of audit.k8s.io, or "" where it is none.
	known func(path string) string
	ev    *Event
	// path is the names of the keys around a value, with dots between them.
	path []byte
	// found is whether there was anything of an event.
	found bool
}

// elastic decodes the fields kubernetes.audit.* of the object at buf[from:to]. It is false where there are none.
//
// The integration replaces dots in the keys of annotations by underscores, and takes the metadata out of bodies: those then say nothing that
// state could be learned from, and are left out.
func (d *Decoder) elastic(from, to int) bool {
	f := d.fieldsOf(func(path string) string {
		if rest, ok := strings.CutPrefix(path, elasticPrefix); ok {
			return rest
		}
		if path == "kubernetes" || path == "kubernetes.audit" {
			return path
		}
		return ""
	})
	f.s.ResetAt(d.run.buf[:to], from)
	f.object(0)
	if !f.found {
		return false
	}
	if fault := f.s.Fault(); fault != nil {
		d.reportInside(EnvelopeElastic, fault.Offset, fault.Cause())
		return true
	}
	for _, body := range [...]*[]byte{&d.ev.RequestObject, &d.ev.ResponseObject} {
		if !f.hasMetadata(*body) {
			*body = nil
		}
	}
	d.accept(EnvelopeElastic, from, to)
	return true
}

// auditTable decodes a row of the table AKSAudit, or of those that have its columns, at buf[from:to].
func (d *Decoder) auditTable(from, to int) bool {
	f := d.fieldsOf(func(path string) string {
		switch path {
		case "AuditId":
			return "auditID"
		case "RequestUri":
			return "requestURI"
		case "RequestReceivedTime":
			return "requestReceivedTimestamp"
		case "StageReceivedTime":
			return "stageTimestamp"
		case "SourceIps":
			return "sourceIPs"
		case "Level", "Stage", "Verb", "User", "ImpersonatedUser", "UserAgent", "ObjectRef", "ResponseStatus", "RequestObject", "ResponseObject", "Annotations":
			return string(path[0]|0x20) + path[1:]
		}
		column, rest, deeper := strings.Cut(path, ".")
		switch {
		case !deeper:
			return ""
		case column == "User", column == "ImpersonatedUser", column == "ObjectRef", column == "ResponseStatus", column == "Annotations":
			return string(column[0]|0x20) + column[1:] + "." + rest
		}
		return ""
	})
	f.s.ResetAt(d.run.buf[:to], from)
	f.object(0)
	if fault := f.s.Fault(); fault != nil {
		d.reportInside(EnvelopeAKSAudit, fault.Offset, fault.Cause())
		return true
	}
	for _, body := range [...]*[]byte{&d.ev.RequestObject, &d.ev.ResponseObject} {
		if len(*body) > 0 && (*body)[0] == '"' {
			*body = d.bodyInString(*body)
		}
	}
	d.accept(EnvelopeAKSAudit, from, to)
	return true
}

// bodyInString returns the object that a string holds, and nil where it holds something else, as "skipped-too-big-size-object".
func (d *Decoder) bodyInString(quoted []byte) []byte {
	var s jscan.Scanner
	s.Reset(quoted)
	text := []byte(s.String())
	if s.Reset(text); s.Peek() != jscan.Object {
		return nil
	}
	body := s.Raw()
	s.End()
	if s.Err() != nil {
		return nil
	}
	return body
}

// accept counts the event that was made of buf[from:to], and gives it to emit if it is needed.
func (d *Decoder) accept(envelope Envelope, from, to int) {
	if to-from > d.bound() {
		d.report(from, TooLong(0, 0, int64(to-from), d.bound()).Cause)
		return
	}
	if d.take(from) {
		d.run.counts.Envelopes[envelope]++
	}
}

// hasMetadata is whether a body is an object that has metadata.
func (f *fieldReader) hasMetadata(body []byte) (found bool) {
	var key string
	f.s.Reset(body)
	for f.s.Object(); f.s.Key(&key); f.s.Skip() {
		found = found || key == "metadata"
	}
	return found
}

func (d *Decoder) fieldsOf(known func(string) string) *fieldReader {
	f := &d.layers.fields
	d.ev = Event{}
	f.known, f.ev, f.path, f.found, f.inString = known, &d.ev, f.path[:0], false, false
	return f
}

// object reads the members of an object, or of the object that a string holds.
func (f *fieldReader) object(depth int) {
	s := &f.s
	if depth > maxFields {
		s.Skip()
		return
	}
	var key string
	for s.Object(); s.Key(&key); {
		length := len(f.path)
		if length > 0 {
			f.path = append(f.path, '.')
		}
		f.path = append(f.path, key...)
		f.value(depth)
		f.path = f.path[:length]
	}
}

// value reads the value of the field at path.
func (f *fieldReader) value(depth int) {
	s, ev := &f.s, f.ev
	path := string(f.path)
	field := f.known(path)
	switch field {
	case "kubernetes", "kubernetes.audit", "user", "impersonatedUser", "objectRef", "responseStatus", "annotations", "authenticationMetadata", "user.extra", "impersonatedUser.extra":
		f.nested(depth)
		return
	case "auditID":
		ev.AuditID = f.text()
	case "verb":
		ev.Verb = f.text()
	case "level":
		ev.Level = levelOf(f.text())
	case "stage":
		ev.Stage = stageOf(f.text())
	case "requestURI":
		ev.RequestURI = f.text()
	case "userAgent":
		ev.UserAgent = f.text()
	case "sourceIPs":
		ev.SourceIPs = f.list()
	case "requestReceivedTimestamp":
		ev.RequestReceived = f.time()
	case "stageTimestamp":
		ev.StageTime = f.time()
	case "requestObject":
		ev.RequestObject = f.body()
	case "responseObject":
		ev.ResponseObject = f.body()
	case "responseStatus.code":
		f.code()
	case "responseStatus.reason":
		ev.StatusReason = f.text()
	case "authenticationMetadata.impersonationConstraint":
		ev.Constraint = f.text()
	case "responseStatus.message":
		ev.StatusMessage = f.text()
	case "annotations.authorization_k8s_io/decision", "annotations." + decisionKey:
		ev.Decision = f.text()
	case "annotations.authorization_k8s_io/reason", "annotations." + reasonKey:
		ev.Reason = f.text()
	case "annotations.authentication_kubernetes_io/issued-credential-id", "annotations." + issuedCredentialKey:
		ev.IssuedCredential = f.text()
	case "annotations.audit_k8s_io/truncated", "annotations." + truncatedKey:
		ev.Cut = f.text() == "true"
	default:
		switch {
		case f.user(&ev.User, field, "user."):
		case f.user(&ev.Impersonated, field, "impersonatedUser."):
			ev.IsImpersonated = true
		case f.reference(field):
			ev.HasObjectRef = true
		default:
			s.Skip()
		}
	}
	f.found = f.found || ev.AuditID != "" || ev.Verb != ""
}

// nested reads an object, or one that a string holds, or a null.
func (f *fieldReader) nested(depth int) {
	s := &f.s
	switch s.Peek() {
	case jscan.Object:
		if f.known(string(f.path)) == "objectRef" {
			f.ev.HasObjectRef = true
		}
		if f.known(string(f.path)) == "impersonatedUser" {
			f.ev.IsImpersonated = true
		}
		f.object(depth + 1)
	case jscan.String:
		text := s.String()
		if f.inString || !strings.HasPrefix(text, "{") {
			return
		}
		f.s, f.inner, f.inString = f.inner, f.s, true
		f.s.Reset([]byte(text))
		f.nested(depth + 1)
		f.s.End()
		failed := f.s.Err() != nil
		f.s, f.inner, f.inString = f.inner, f.s, false
		if failed {
			f.s.Fail("string holds no object")
		}
	default:
		s.Skip()
	}
}

func (f *fieldReader) user(u *User, field, prefix string) bool {
	name, ok := strings.CutPrefix(field, prefix)
	if !ok {
		return false
	}
	switch name {
	case "username":
		u.Username = f.text()
	case "uid":
		u.UID = f.text()
	case "groups":
		u.Groups = f.list()
	default:
		f.extra(u, name)
	}
	return true
}

// extra reads the values of a key of a user's extra.
func (f *fieldReader) extra(u *User, name string) {
	key, is := strings.CutPrefix(name, "extra.")
	if key == "authentication_kubernetes_io/credential-id" {
		key = credentialIDKey
	}
	if !is || key != credentialIDKey && u != &f.ev.Impersonated {
		f.s.Skip()
		return
	}
	values := f.list()
	if key == credentialIDKey && len(values) > 0 {
		u.CredentialID = values[0]
	}
	if u != &f.ev.Impersonated {
		return
	}
	for _, v := range values {
		u.Extra = append(u.Extra, Extra{key, v})
	}
	sortExtra(u.Extra)
}

func (f *fieldReader) reference(field string) bool {
	name, ok := strings.CutPrefix(field, "objectRef.")
	if !ok {
		return false
	}
	o := &f.ev.ObjectRef
	switch name {
	case "resource":
		o.Resource = f.text()
	case "namespace":
		o.Namespace = f.text()
	case "name":
		o.Name = f.text()
	case "uid":
		o.UID = f.text()
	case "apiGroup":
		o.APIGroup = f.text()
	case "apiVersion":
		o.APIVersion = f.text()
	case "subresource":
		o.Subresource = f.text()
	default:
		f.s.Skip()
	}
	return true
}

// text reads a string, a null, or the first element of an array, as which Elasticsearch may give any field.
func (f *fieldReader) text() (text string) {
	s := &f.s
	if s.Peek() != jscan.Array {
		return s.StringOrNull()
	}
	n := 0
	for s.Array(); s.More(); n++ {
		if n > 0 {
			s.Skip()
			continue
		}
		text = s.StringOrNull()
	}
	return text
}

// list reads an array of strings, one string, or a string that holds an array.
func (f *fieldReader) list() (list []string) {
	s := &f.s
	switch s.Peek() {
	case jscan.Array:
		for s.Array(); s.More(); {
			list = append(list, s.StringOrNull())
		}
	case jscan.String:
		text := s.String()
		if !strings.HasPrefix(text, "[") {
			return []string{text}
		}
		var inner jscan.Scanner
		inner.Reset([]byte(text))
		for inner.Array(); inner.More(); {
			list = append(list, inner.StringOrNull())
		}
		if inner.End(); inner.Err() != nil {
			s.Fail("string holds no array of strings")
		}
	default:
		s.Skip()
	}
	return list
}

// code reads a number, a string of one, or an array of one.
func (f *fieldReader) code() {
	s := &f.s
	switch s.Peek() {
	case jscan.Array:
		n := 0
		for s.Array(); s.More(); n++ {
			if n > 0 || s.Peek() == jscan.Array {
				s.Skip()
				continue
			}
			f.code()
		}
	case jscan.String:
		f.ev.Code = 0
		for _, c := range []byte(s.String()) {
			if c < '0' || c > '9' || f.ev.Code > 9999 {
				f.ev.Code = 0
				return
			}
			f.ev.Code = f.ev.Code*10 + int32(c-'0')
		}
	case jscan.Number:
		n := s.Int64()
		if int64(int32(n)) != n {
			s.Fail("number is no 32-bit integer")
			return
		}
		f.ev.Code = int32(n)
	default:
		s.Skip()
	}
}

func (f *fieldReader) body() []byte {
	if f.s.Null() {
		return nil
	}
	return f.s.Raw()
}

func (f *fieldReader) time() (t time.Time) {
	text := f.text()
	if text == "" || f.s.Err() != nil {
		return t
	}
	t, err := parseTime(text)
	if err != nil {
		f.s.Fail(err.Error())
	}
	return t
}
