package denylog

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	marker = "NODE DENY"
	source = "node_authorizer.go:"
)

// prefix is what is before klog's header: nothing, or what a container runtime, kubectl logs --timestamps or journald writes.
var prefix = regexp.MustCompile(`^(?:\d{4}-\d\d-\d\dT\S+ (?:(?:stdout|stderr) [FP] )?|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ \S+: )`)

// header is klog's header of a line that the Node authorizer wrote: severity, month and day, time, thread, file and line.
var header = regexp.MustCompile(`^[IWEF](\d{4} \d\d:\d\d:\d\d\.\d{6}) +\d+ (?:\S*/)?` + source + `\d+\] `)

// klogLine is the beginning of each header of klog.
var klogLine = regexp.MustCompile(`^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} `)

// said is what a line says.
type said struct {
	at time.Time
	// yearless says that the year of at is not known.
	yearless bool
	text     string // what follows the marker
	// open says that the text continues in the next lines.
	open bool
}

// parse reads a line. It returns false for a line that is not the Node authorizer's, and an empty text for one of which the form is not known.
func parse(line []byte) (said, bool) {
	if !bytes.Contains(line, []byte(marker)) {
		return said{}, false
	}
	line = bytes.TrimRight(line, "\r\n")
	if len(line) > 0 && line[0] == '{' {
		return parseJSON(line)
	}
	return parseText(string(line[len(prefix.Find(line)):]))
}

// isLog reports whether a line is one that klog wrote, in any of its forms.
func isLog(line []byte) bool {
	if len(line) > 0 && line[0] == '{' {
		return bytes.Contains(line, []byte(`"ts":`)) || bytes.Contains(line, []byte(`"log":`))
	}
	return klogLine.Match(line[len(prefix.Find(line)):])
}

func parseText(line string) (said, bool) {
	h := header.FindStringSubmatch(line)
	if h == nil {
		return said{}, false
	}
	rest := line[len(h[0]):]
	var out said
	switch {
	case strings.HasPrefix(rest, `"`+marker+`" err="`):
		text, err := strconv.Unquote(rest[len(marker)+len(`"" err=`):])
		if err != nil {
			return said{}, true
		}
		out.text = text
	case rest == `"`+marker+`" err=<`:
		out.open = true
	case strings.HasPrefix(rest, marker+": "):
		out.text = rest[len(marker)+2:]
	default: // another message of the same file, or a form that is not known
		return said{}, strings.HasPrefix(rest, marker) || strings.HasPrefix(rest, `"`+marker+`"`)
	}
	at, err := time.Parse("0102 15:04:05.000000", h[1])
	if err != nil {
		return said{}, true
	}
	out.at, out.yearless = at, true
	return out, true
}

// parseJSON reads a line in the JSON form of k8s.io/component-base/logs/json, or of a container runtime that wraps lines of any form.
func parseJSON(line []byte) (said, bool) {
	var in struct {
		TS     json.Number `json:"ts"`
		Caller string      `json:"caller"`
		Msg    string      `json:"msg"`
		Err    string      `json:"err"`
		Log    string      `json:"log"`
	}
	if json.Unmarshal(line, &in) != nil {
		return said{}, false
	}
	if in.Log != "" && in.Msg == "" {
		inner := strings.TrimRight(in.Log, "\r\n")
		if strings.HasPrefix(inner, "{") {
			if strings.Contains(inner, `"log"`) { // one wrapping is enough
				return said{}, false
			}
			return parseJSON([]byte(inner))
		}
		return parseText(inner)
	}
	if i := strings.LastIndexByte(in.Caller, '/'); !strings.HasPrefix(in.Caller[i+1:], source) {
		return said{}, false
	}
	out := said{text: in.Err}
	if in.Msg != marker {
		text, ok := strings.CutPrefix(in.Msg, marker+": ")
		if !ok {
			return said{}, strings.HasPrefix(in.Msg, marker)
		}
		out.text = text
	}
	ms, err := in.TS.Float64() // milliseconds since 1970
	if err != nil || ms < 0 || ms > 253402300799999 {
		return said{}, true
	}
	out.at = time.UnixMicro(int64(ms*1000 + 0.5)).UTC()
	return out, true
}

// asked is what a line with attributes says.
type asked struct {
	node, verb, group, resource, sub, namespace, name string
	// review says that an access review asked: upstream makes its attributes by value, those of a request by pointer.
	review bool
}

const record = "authorizer.AttributesRecord{"

// parseRecord reads "'NODE' &authorizer.AttributesRecord{…}", as %#v writes it. The node's name is not escaped and may hold the same; then the text is
// that of no request.
func parseRecord(text string) (asked, bool) {
	rest, ok := strings.CutPrefix(text, "'")
	if !ok {
		return asked{}, false
	}
	var out asked
	found := 0
	for i := 0; ; {
		j := strings.Index(rest[i:], record)
		if j < 0 {
			break
		}
		i += j
		if a, ok := fields(rest[i+len(record):]); ok {
			before, pointer := strings.CutSuffix(rest[:i], "&")
			if a.node, ok = strings.CutSuffix(before, "' "); ok {
				a.review = !pointer
				out = a
				found++
			}
		}
		i += len(record)
		if found > 1 {
			break
		}
	}
	return out, found == 1
}

var userPointer = regexp.MustCompile(`^User:\(\*[\w.]+\)\((?:0x[0-9a-f]+|nil)\)`)

// fields reads the fields of authorizer.AttributesRecord up to the closing brace, which must end the text.
func fields(s string) (a asked, ok bool) {
	p := userPointer.FindString(s)
	if p == "" {
		return a, false
	}
	s = s[len(p):]
	for _, f := range []struct {
		name string
		into *string
	}{
		{"Verb", &a.verb}, {"Namespace", &a.namespace}, {"APIGroup", &a.group}, {"APIVersion", nil}, {"Resource", &a.resource}, {"Subresource", &a.sub},
		{"Name", &a.name},
	} {
		var v string
		if v, s, ok = quoted(s, ", "+f.name+":"); !ok {
			return a, false
		}
		if f.into != nil {
			*f.into = v
		}
	}
	if s, ok = strings.CutPrefix(s, ", ResourceRequest:true"); !ok { // others are not asked of the graph
		return a, false
	}
	if _, s, ok = quoted(s, ", Path:"); !ok {
		return a, false
	}
	return a, closes(s)
}

// quoted reads a name and a quoted string.
func quoted(s, name string) (value, rest string, ok bool) {
	s, ok = strings.CutPrefix(s, name)
	if !ok {
		return "", "", false
	}
	q, err := strconv.QuotedPrefix(s)
	if err != nil || q[0] != '"' {
		return "", "", false
	}
	value, err = strconv.Unquote(q)
	return value, s[len(q):], err == nil
}

// closes reports whether s is the rest of a struct in Go's syntax: strings are quoted, and what is outside of them are names, numbers and brackets.
func closes(s string) bool {
	depth := 1
	for s != "" {
		switch c := s[0]; {
		case c == '"':
			q, err := strconv.QuotedPrefix(s)
			if err != nil {
				return false
			}
			s = s[len(q):]
			continue
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return s == "}"
			}
		case !strings.ContainsRune("()[]*.:, _-", rune(c)) && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z'):
			return false
		}
		s = s[1:]
	}
	return false
}
