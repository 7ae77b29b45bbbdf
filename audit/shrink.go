package audit

import (
	"errors"
	"io"
	"strconv"
)

// A Shrinker reads a list or an array of events, however long, and gives it back with each event that is longer than MaxEvent reduced (see Reducer),
// so that one padded event does not take the others of its list along. What is no such list comes back as it is. An event that cannot be reduced
// comes back as a string. It is for one goroutine.
type Shrinker struct {
	// R is read.
	R io.Reader
	// MaxEvent bounds an event, in bytes. Beyond Half bytes of output it is Least.
	MaxEvent, Least int
	Half            int64

	out     []byte // what was not returned yet, from at on
	at      int
	emitted int64
	in      []byte
	err     error

	stack   []byte // of the values around: { or [
	quoted  bool
	escaped bool

	// Of the event that is being read: how deep the stack was around it, and what was read of it.
	event   bool
	depth   int
	held    []byte
	reduced bool // it went to the reducer
	long    Reducer
}

const shrinkChunk = 64 << 10

// lostEvent begins what stands for an event that was lost: no event, and malformed for whoever reads it.
const lostEvent = `"an event of this length in bytes cannot be reduced: `

// Read implements io.Reader.
func (s *Shrinker) Read(p []byte) (int, error) {
	for s.at == len(s.out) {
		if s.err != nil {
			return 0, s.err
		}
		s.out, s.at = s.out[:0], 0
		if s.in == nil {
			s.in = make([]byte, shrinkChunk)
		}
		var n int
		n, s.err = s.R.Read(s.in)
		s.take(s.in[:n])
		if errors.Is(s.err, io.EOF) { // a torn event is as torn as it came, but no longer
			s.out = append(s.out, s.held...)
			s.held = s.held[:0]
		}
	}
	n := copy(p, s.out[s.at:])
	s.at += n
	s.emitted += int64(n)
	return n, nil
}

func (s *Shrinker) bound() int {
	if s.Half > 0 && s.emitted+int64(len(s.out)) > s.Half {
		return min(s.Least, s.MaxEvent)
	}
	return s.MaxEvent
}

// take takes in what was read.
func (s *Shrinker) take(p []byte) {
	from := 0
	for i, c := range p {
		switch {
		case s.escaped:
			s.escaped = false
		case s.quoted:
			s.escaped, s.quoted = c == '\\', c != '"'
		case c == '"':
			s.quoted = true
		case c == '{' || c == '[':
			if c == '{' && !s.event && s.inList() {
				s.out = append(s.out, p[from:i]...)
				from, s.event, s.depth, s.reduced = i, true, len(s.stack), false
			}
			s.stack = append(s.stack, c)
		case c == '}' || c == ']':
			if len(s.stack) > 0 {
				s.stack = s.stack[:len(s.stack)-1]
			}
			if s.event && len(s.stack) == s.depth {
				s.hold(p[from : i+1])
				s.end()
				from = i + 1
			}
		}
	}
	if s.event {
		s.hold(p[from:])
		return
	}
	s.out = append(s.out, p[from:]...)
}

// inList reports whether what begins here is an element of an array that is outermost, or a member of the outermost object.
func (s *Shrinker) inList() bool { return string(s.stack) == "[" || string(s.stack) == "{[" }

// hold keeps a part of the event, or reduces it.
func (s *Shrinker) hold(p []byte) {
	if !s.reduced && len(s.held)+len(p) > s.bound() {
		s.reduced = true
		s.long.Reset()
		s.long.Bound = int64(s.bound())
		_, _ = s.long.Write(s.held) // which never fails
		s.held = s.held[:0]
	}
	if s.reduced {
		_, _ = s.long.Write(p)
		return
	}
	s.held = append(s.held, p...)
}

// end ends an event.
func (s *Shrinker) end() {
	s.event = false
	if !s.reduced {
		s.out = append(s.out, s.held...)
		s.held = s.held[:0]
		return
	}
	if event, ok := s.long.Event(); ok {
		s.out = append(s.out, event...)
		return
	}
	s.out = append(strconv.AppendInt(append(s.out, lostEvent...), s.long.Size(), 10), '"')
}
