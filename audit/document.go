package audit

import (
	"bytes"

	"github.com/nodetrail/nodetrail/internal/jscan"
)

// IsDocument is whether a log that begins with head, at best some KiB of it, is one JSON text spread over several lines, or on one
// line that does not end in head: a list or an array, as kubectl or a person would write it, or what a log store answers to a query. Such a log is for Document; any other has its
// events on lines of their own and is for Chunk.
func IsDocument(head []byte) bool {
	head = bytes.TrimPrefix(bytes.TrimLeft(head, "\x00"), byteOrderMark)
	var s jscan.Scanner
	s.Reset(head)
	if k := s.Peek(); k != jscan.Object && k != jscan.Array {
		return false
	}
	start := s.Pos()
	s.Skip()
	if f := s.Fault(); f != nil && f.Fault != jscan.Truncated {
		return false
	}
	first := head[start:]
	if n := bytes.IndexByte(first, '\n'); n >= 0 {
		// A value that ends on the line it begins on makes a log of lines.
		return s.Err() != nil || s.Pos() > start+n || exportHead(first)
	}
	if exportHead(first) {
		return true
	}
	if s.Err() == nil {
		return false
	}
	return first[0] == '[' || listHead(first)
}

// listHead is whether a value that does not end in head begins as an object of many events: an EventList, however it is written, or one whose first key is
// records or events.
func listHead(head []byte) bool {
	var s jscan.Scanner
	s.Reset(head)
	var key string
	n := 0
	for s.Object(); s.Key(&key); n++ {
		switch {
		case key == "kind" && s.Peek() == jscan.String:
			return s.StringOrNull() == "EventList" && s.Err() == nil
		case key == "items":
			return s.Peek() == jscan.Array
		case n == 0 && (key == "records" || key == "events"):
			return s.Peek() == jscan.Array
		case key == "apiVersion" || key == "metadata":
			s.Skip()
		default:
			return false
		}
	}
	return false
}

// Document decodes a log that is held in memory as a whole and whose JSON values may be spread over lines. It is Chunk in all else, but
// that what follows a syntax error is lost (of a list and of an array what came before it is not), and that NUL bytes are stepped over at both ends only. The first line is line 1.
func (d *Decoder) Document(doc []byte, emit func(*Event), malformed func(Malformed)) Counts {
	d.begin(doc, 1, emit, malformed)
	d.document()
	return d.total()
}

// document decodes the values of the whole of run.buf.
func (d *Decoder) document() {
	doc := d.run.buf
	from, to := 0, len(doc)
	for from < to && doc[from] == 0 {
		from++
	}
	for from < to && doc[to-1] == 0 {
		to--
	}
	d.run.counts.NULBytes += int64(len(doc) - (to - from))
	if bytes.HasPrefix(doc[from:to], byteOrderMark) {
		from += len(byteOrderMark)
	}
	d.values(from, to, true)
}
