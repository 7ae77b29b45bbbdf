package audit

import (
	"bytes"
	"fmt"

	"github.com/nodetrail/nodetrail/internal/jscan"
	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// Split takes a body apart that is one JSON value or several: an EventList, an array of events, or events. It gives each well-formed
// event to emit with the bytes that it was read from, in order, whether anything needs it or not (Want is not looked at, see Needed);
// and what is no event to malformed, with the bytes of the value, or all that follows where it is not known how far the value goes.
// What follows a syntax error is lost, what came before it in a list is not. The Event is used again after emit returns, but a copy
// of it stays good as long as body is left alone; raw aliases body. The first line is line 1. Neither function may be nil or use the
// Decoder. It reads what Document reads of a body without NUL bytes and byte-order marks; it counts a value that is malformed once, and
// Skipped stays 0.
func (d *Decoder) Split(body []byte, emit func(ev *Event, raw []byte), malformed func(m Malformed, raw []byte)) Counts {
	sp := splitter{d: d, s: &d.reader.s, body: body, limit: len(body), emit: emit, malformed: malformed}
	d.begin(body, 1, nil, nil)
	sp.values()
	return d.end()
}

// PartitionKey returns what keeps together the events that are judged together: the name of the node for a request by or as a node,
// else the audit ID. The same event always has the same key.
func PartitionKey(ev *Event) string {
	u := ev.Effective()
	if node, ok := nodeid.Of(u.Username, u.Groups); ok && node != "" {
		return node
	}
	return ev.AuditID
}

// A splitter is a body being split. Its methods are those of the Decoder with the same names, but that they keep track of bytes.
type splitter struct {
	d    *Decoder
	s    *jscan.Scanner
	body []byte
	// limit is where the value on top ends, or the body while that is not known.
	limit     int
	emit      func(*Event, []byte)
	malformed func(Malformed, []byte)
}

func (sp *splitter) values() {
	s := sp.s
	s.Reset(sp.body)
	for s.Space() {
		start := s.Pos()
		switch s.Peek() {
		case jscan.Object:
			if !sp.sentList(start) {
				sp.object(start, true)
			}
		case jscan.Array:
			sp.array()
		default:
			sp.report(start, start, len(sp.body), fmt.Sprintf("not a JSON object but %s", quote(sp.body[start:])))
			return
		}
		if s.Fault() != nil {
			if s.SkipAt(start); s.Err() != nil {
				return
			}
		}
	}
}

// listStart is what a list begins with as kube-apiserver sends it, up to its items.
const listStart = `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":`

// maxHeld bounds the events of a list that are held until the list has ended. kube-apiserver sends 400 by default.
const maxHeld = 1024

// heldEvent is an event, with where its bytes are.
type heldEvent struct {
	ev         Event
	start, end int
}

// sentList splits a list at start in one pass, if it is as kube-apiserver sends lists: its events are held until it has ended, or until the rest of it was
// checked to be JSON. Of any other object, and of a list with anything malformed or too long in the events held, it hands on nothing, and returns false with
// the scanner at the object.
func (sp *splitter) sentList(start int) bool {
	if !bytes.HasPrefix(sp.body[start:], []byte(listStart)) {
		return false
	}
	d, s, n := sp.d, sp.s, 0
	defer func() { clear(d.held[:n]) }()
	s.Object()
	s.Forward(start + len(listStart))
	plain := true
	for s.Array(); plain && n < maxHeld && s.More(); n++ {
		if n == len(d.held) {
			d.held = append(d.held, make([]heldEvent, max(64, n))...)
		}
		h := &d.held[n]
		s.Space()
		h.start = s.Pos()
		env := d.reader.event(&h.ev)
		h.end = s.Pos()
		plain = foreign(env, &h.ev) == "" && h.end-h.start <= d.bound()
	}
	rest := s.Mark()
	for plain && n == maxHeld && s.More() {
		s.Skip()
	}
	var key string
	if !plain || s.Key(&key) || s.Fault() != nil {
		s.ResetAt(sp.body, start)
		return false
	}
	end := s.Pos()
	d.run.counts.Read += int64(n)
	for i := range d.held[:n] {
		h := &d.held[i]
		h.ev.Line = d.lineOf(h.start)
		sp.emit(&h.ev, s.Slice(h.start, h.end))
	}
	if n == maxHeld {
		s.Back(rest)
		sp.elements()
		s.ResetAt(sp.body, end)
	}
	return true
}

// array splits an array of events, or the items of a list. A fault that is left in the scanner was reported.
func (sp *splitter) array() {
	sp.s.Array()
	sp.elements()
}

// elements splits what is left of an array.
func (sp *splitter) elements() {
	s := sp.s
	begin := s.Pos()
	for s.More() {
		s.Space()
		begin = s.Pos()
		if sp.object(begin, false); s.Err() != nil {
			return
		}
		begin = s.Pos()
	}
	if f := s.Fault(); f != nil {
		sp.report(f.Offset, begin, sp.limit, f.Cause())
	}
}

// object reads one event, or a list of events where lists may be. A fault that is left in the scanner was reported.
func (sp *splitter) object(start int, lists bool) {
	d, s := sp.d, sp.s
	env := d.reader.event(&d.ev)
	if f := s.Fault(); f != nil {
		if lists && env.kind == "EventList" && env.items >= 0 && f.Fault != jscan.WrongType {
			sp.tornList(start, env, f.Offset, f.Cause())
			return
		}
		sp.faulty(start, f.Offset, f.Cause())
		return
	}
	end := s.Pos()
	if lists && (env.kind == "EventList" || env.kind == "" && env.items >= 0 && d.ev.AuditID == "") {
		sp.list(start, end, env)
		return
	}
	cause, raw := foreign(env, &d.ev), s.Slice(start, end)
	if cause == "" && end-start > d.bound() {
		if reduced, ok := reduce(raw, d.bound(), &d.ev); ok {
			raw = reduced
		} else {
			cause = TooLong(0, 0, int64(end-start), d.bound()).Cause
		}
	}
	if cause != "" {
		sp.report(start, start, end, cause)
		return
	}
	d.run.counts.Read++
	d.ev.Line = d.lineOf(start)
	sp.emit(&d.ev, raw)
}

// faulty reports the value at start and steps over it, if it is JSON at all.
func (sp *splitter) faulty(start, offset int, cause string) {
	end := sp.limit
	if sp.s.SkipAt(start); sp.s.Err() == nil {
		end = sp.s.Pos()
	}
	sp.report(offset, start, end, cause)
}

// tornList splits what came before the fault in a list, and leaves the fault in the scanner.
func (sp *splitter) tornList(start int, env envelope, offset int, cause string) {
	s := sp.s
	s.ResetAt(sp.body, env.items)
	if !s.Null() {
		sp.array()
	}
	if s.Err() == nil { // it is behind the items
		sp.report(offset, s.Pos(), len(sp.body), cause)
		s.SkipAt(start)
	}
}

// list splits the items of a list that was checked to be JSON, and continues behind it.
func (sp *splitter) list(start, end int, env envelope) {
	if cause := foreignVersion(env); cause != "" {
		sp.report(end-1, start, end, cause)
		return
	}
	if env.items < 0 {
		return
	}
	s := sp.s
	s.ResetAt(sp.body[:end], env.items)
	sp.limit = end
	if !s.Null() {
		sp.array()
	}
	sp.limit = len(sp.body)
	s.ResetAt(sp.body, end)
}

// report hands on what is wrong with body[from:to].
func (sp *splitter) report(offset, from, to int, cause string) {
	d := sp.d
	d.run.counts.Malformed++
	sp.malformed(Malformed{Line: d.lineOf(offset), Offset: offset, Cause: cause}, sp.body[from:to:to])
}
