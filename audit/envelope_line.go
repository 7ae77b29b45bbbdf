package audit

import (
	"bytes"

	"github.com/nodetrail/nodetrail/internal/jscan"
)

// oddLine decodes buf[from:to], which begins with no object and no array: a JSON string of an event, base64, a line of a container's log, or an
// event behind a host name or a syslog header. It is false where it is nothing of that, and then nothing was reported.
func (d *Decoder) oddLine(from, to int) bool {
	buf := d.run.buf
	line := buf[from:to]
	if line[0] == '"' {
		return d.stringLine(from, to)
	}
	if base64Head(line) {
		end := len(bytes.TrimRightFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == '\r' }))
		for _, c := range line[:end] {
			if !base64Byte(c) {
				return false
			}
		}
		d.plainText(line[:end], EnvelopeEncoded, from)
		return true
	}
	if start, whole, ok := containerLog(line); ok {
		if !whole {
			d.reportInside(EnvelopeContainerLog, from, "line was split by the container runtime")
			return true
		}
		d.counted(EnvelopeContainerLog, func() { d.values(skipBlanks(buf, from+start, to), to, false) })
		return true
	}
	if start, ok := logcliLine(line); ok {
		d.counted(EnvelopeLoki, func() { d.values(from+start, to, false) })
		return true
	}
	if start, ok := behindPrefix(line); ok {
		d.counted(EnvelopePrefixedLine, func() { d.values(from+start, to, false) })
		return true
	}
	return false
}

// stringLine decodes a line that is one JSON string, of something that may hold events.
func (d *Decoder) stringLine(from, to int) bool {
	s := &d.layers.fields.s
	s.ResetAt(d.run.buf[:to], from)
	raw, plain := s.Inside()
	s.End()
	if s.Err() != nil || !promising(raw) {
		return false
	}
	d.text(raw, plain, EnvelopeEncoded, from)
	return true
}

// counted runs decode, and counts the events that it finds under the envelope.
func (d *Decoder) counted(envelope Envelope, decode func()) {
	c := &d.run.counts
	read, wrapped := c.Read, c.wrapped()
	decode()
	c.Envelopes[envelope] += (c.Read - read) - (c.wrapped() - wrapped)
}

func skipBlanks(buf []byte, from, to int) int {
	for from < to && blank(buf[from]) {
		from++
	}
	return from
}

// containerLog reads the beginning of a line as CRI runtimes write it (time, stream, F for a whole line or P for a part, text). It returns where
// the text begins.
func containerLog(line []byte) (start int, whole, ok bool) {
	const shortest = len("2006-01-02T15:04:05Z stdout F ")
	if len(line) < shortest || line[4] != '-' || line[10] != 'T' {
		return 0, false, false
	}
	space := bytes.IndexByte(line[:min(len(line), 64)], ' ')
	if space < len("2006-01-02T15:04:05Z") {
		return 0, false, false
	}
	rest := line[space+1:]
	if !bytes.HasPrefix(rest, []byte("stdout ")) && !bytes.HasPrefix(rest, []byte("stderr ")) {
		return 0, false, false
	}
	start = space + 1 + len("stdout ")
	tags := bytes.IndexByte(line[start:], ' ')
	if tags < 1 {
		return 0, false, false
	}
	first, _, _ := bytes.Cut(line[start:start+tags], []byte(":"))
	switch string(first) {
	case "F":
		return start + tags + 1, true, true
	case "P":
		return start + tags + 1, false, true
	}
	return 0, false, false
}

// behindPrefix returns where an object begins behind what a forwarder put in front of it: a host name, as `oc adm node-logs` does, or
// anything else in which no quotes and no braces are, if what follows is an event as kube-apiserver writes it.
func behindPrefix(line []byte) (start int, ok bool) {
	const longest = 512
	head := line[:min(len(line), longest)]
	brace := bytes.IndexByte(head, '{')
	if brace < 1 || !blank(head[brace-1]) || bytes.ContainsAny(head[:brace], "}\"") || klogHead(line) {
		return 0, false
	}
	if bytes.HasPrefix(line[brace:], []byte(nativeHead)) {
		return brace, true
	}
	return brace, bytes.IndexByte(head[:brace], ' ') == brace-1 && hostName(head[:brace-1])
}

// klogHead is whether a line is kube-apiserver's own log, whose text others may choose.
func klogHead(line []byte) bool {
	if len(line) < 5 || bytes.IndexByte([]byte("IWEF"), line[0]) < 0 {
		return false
	}
	for _, c := range line[1:5] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

func hostName(name []byte) bool {
	for _, c := range name {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || c == '.' || c == '-' || c == '_' || c == ':') {
			return false
		}
	}
	return len(name) > 0 && len(name) <= 253
}

// promising is whether the raw inside of a string may hold events: JSON, something encoded, or a line with something in front.
func promising(raw []byte) bool {
	for len(raw) > 1 && raw[0] == '\\' && (raw[1] == 'n' || raw[1] == 't' || raw[1] == 'r') || len(raw) > 0 && raw[0] == ' ' {
		if raw[0] == ' ' {
			raw = raw[1:]
		} else {
			raw = raw[2:]
		}
	}
	switch {
	case len(raw) == 0:
		return false
	case raw[0] == '{', raw[0] == '[':
		return true
	case raw[0] == '\\':
		// A quote, so that it is a string once more, or an escape for any character at all.
		return len(raw) > 1 && (raw[1] == '"' || raw[1] == 'u')
	case base64Head(raw):
		return true
	}
	_, _, ok := containerLog(raw)
	if !ok {
		brace := bytes.IndexByte(raw[:min(len(raw), 512)], '{')
		ok = brace > 0 && raw[brace-1] == ' '
	}
	return ok
}

// inside returns the bytes between the quotes of a string that was found to be one.
func (m member) inside(buf []byte) []byte { return buf[m.from+1 : m.to-1 : m.to-1] }

// foundIn is whether a member of an object is a promising string.
func foundIn(buf []byte, m member) bool { return m.kind == jscan.String && promising(m.inside(buf)) }
