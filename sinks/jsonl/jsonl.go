// Package jsonl writes verdicts and findings as JSON lines; the former are the contract's section 5.
//
// What goes in: one [Verdict] at a time, or the findings of a queue; what comes out: a line for each, on an io.Writer that is buffered or in
// a [File] that follows its rotation. The package imports sinks.
package jsonl

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/nodetrail/nodetrail/wording"
)

// Verdict is one judged request. Strings may alias memory that is used again after Write returns.
type Verdict struct {
	AuditID                                                      string
	Time                                                         time.Time
	Node, Verb, APIGroup, Resource, Subresource, Namespace, Name string
	// Path is that of a non-resource request.
	Path    string
	Verdict string
	Race    bool
	Reason  string
	Detail  string
	Observed
	// Admission is about the admission plugin NodeRestriction, nil where it is not asked. Then the line does not have it.
	Admission *Admission
	Code      int32
	UserAgent string
	SourceIPs []string
	Findings  []string
}

// Observed is the API server's own word.
type Observed struct {
	Decision, Authorizer, NodeVerdict, ObservedReason string
	// Grant is nil where RBAC did not allow the request.
	Grant *Grant
}

// Admission is what the admission plugin NodeRestriction says of a write of a node: allow, deny with the code and the message of the refusal, or unknown
// with what is missing. Observed is what the response tells of the API server's own: allow, deny, other, or none.
type Admission struct {
	Verdict          string
	Code             int32
	Message, Missing string
	Race             bool
	Observed         string
}

// Grant is the RBAC binding, role and subject of an observed allow.
type Grant struct {
	BindingKind, BindingNamespace, BindingName string
	RoleKind, RoleName                         string
	SubjectKind, SubjectName                   string
}

// Writer writes lines. Not safe for concurrent use.
type Writer struct {
	w   *bufio.Writer
	buf []byte
}

// NewWriter returns a buffered Writer; Flush ends it.
func NewWriter(w io.Writer) *Writer { return &Writer{w: bufio.NewWriterSize(w, 64<<10)} }

// Write writes one line.
func (w *Writer) Write(v *Verdict) error {
	w.buf = append(v.appendTo(w.buf[:0]), '\n')
	if _, err := w.w.Write(w.buf); err != nil {
		return fmt.Errorf("writing verdicts: %w", err)
	}
	return nil
}

// Flush writes what is buffered.
func (w *Writer) Flush() error {
	if err := w.w.Flush(); err != nil {
		return fmt.Errorf("writing verdicts: %w", err)
	}
	return nil
}

func (v *Verdict) appendTo(b []byte) []byte {
	b = str(b, `{"auditID":`, v.AuditID)
	b = append(b, `,"time":"`...)
	b = v.Time.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	b = str(b, `,"node":`, v.Node)
	b = str(b, `,"verb":`, v.Verb)
	b = str(b, `,"apiGroup":`, v.APIGroup)
	b = str(b, `,"resource":`, v.Resource)
	b = str(b, `,"subresource":`, v.Subresource)
	b = str(b, `,"namespace":`, v.Namespace)
	b = str(b, `,"name":`, v.Name)
	b = str(b, `,"path":`, v.Path)
	b = str(b, `,"verdict":`, v.Verdict)
	b = append(b, `,"race":`...)
	b = strconv.AppendBool(b, v.Race)
	b = str(b, `,"reason":`, v.Reason)
	b = str(b, `,"detail":`, v.Detail)
	b = v.Observed.appendTo(b)
	b = v.Admission.appendTo(b)
	b = append(b, `,"code":`...)
	b = strconv.AppendInt(b, int64(v.Code), 10)
	b = str(b, `,"userAgent":`, v.UserAgent)
	b = list(b, `,"sourceIPs":`, v.SourceIPs)
	b = list(b, `,"findings":`, v.Findings)
	return append(b, '}')
}

func (o *Observed) appendTo(b []byte) []byte {
	b = str(b, `,"observed":{"decision":`, o.Decision)
	b = str(b, `,"authorizer":`, o.Authorizer)
	b = str(b, `,"nodeVerdict":`, o.NodeVerdict)
	b = str(b, `,"reason":`, o.ObservedReason)
	g := o.Grant
	if g == nil {
		return append(b, `,"binding":null,"role":null,"subject":null}`...)
	}
	b = str(b, `,"binding":{"kind":`, g.BindingKind)
	b = str(b, `,"namespace":`, g.BindingNamespace)
	b = str(b, `,"name":`, g.BindingName)
	b = str(b, `},"role":{"kind":`, g.RoleKind)
	b = str(b, `,"name":`, g.RoleName)
	b = str(b, `},"subject":{"kind":`, g.SubjectKind)
	b = str(b, `,"name":`, g.SubjectName)
	return append(b, `}}`...)
}

func (a *Admission) appendTo(b []byte) []byte {
	if a == nil {
		return b
	}
	b = str(b, `,"admission":{"verdict":`, a.Verdict)
	b = append(b, `,"code":`...)
	b = strconv.AppendInt(b, int64(a.Code), 10)
	b = str(b, `,"message":`, a.Message)
	b = str(b, `,"missing":`, a.Missing)
	b = append(b, `,"race":`...)
	b = strconv.AppendBool(b, a.Race)
	b = str(b, `,"observed":`, a.Observed)
	return append(b, '}')
}

func list(b []byte, key string, all []string) []byte {
	b = append(b, key...)
	b = append(b, '[')
	for i, s := range all {
		sep := ","
		if i == 0 {
			sep = ""
		}
		b = str(b, sep, s)
	}
	return append(b, ']')
}

// str appends the key as it is and the value as a JSON string. Invalid UTF-8 becomes U+FFFD; control characters, the two line
// separators that break JavaScript and what turns the direction of writing are escaped.
func str(b []byte, key, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, key...)
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' && c != 0x7f {
				i++
				continue
			}
			b = append(b, s[from:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, `\n`...)
			case '\t':
				b = append(b, `\t`...)
			default:
				b = append(b, `\u00`...)
				b = append(b, hex[c>>4], hex[c&15])
			}
			i++
			from = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(b, s[from:i]...)
			b = append(b, `\ufffd`...)
			from = i + size
		case wording.Hidden(r):
			b = append(b, s[from:i]...)
			b = wording.AppendEscape(b, r)
			from = i + size
		}
		i += size
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}
