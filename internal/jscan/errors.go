package jscan

import "fmt"

// A Fault says what sort of error an Error is.
type Fault uint8

// The sorts of errors.
const (
	// Syntax means that the text is not JSON.
	Syntax Fault = iota + 1
	// Truncated means that the text ended in the middle of a value: more bytes could have made it JSON.
	Truncated
	// WrongType means that the text may well be JSON, but the value is of another type than the caller asked for.
	WrongType
	// TooDeep means that values nest deeper than encoding/json allows.
	TooDeep
)

// An Error says why and at which offset in bytes a text could not be read.
type Error struct {
	Fault  Fault
	Offset int
	msg    string
}

// Error never quotes the text beyond one byte.
func (e *Error) Error() string { return fmt.Sprintf("%s at offset %d", e.msg, e.Offset) }

// Cause is Error without the offset.
func (e *Error) Cause() string { return e.msg }

func (s *Scanner) fail(f Fault, at int, msg string) {
	if s.err == nil {
		s.err = &Error{Fault: f, Offset: at, msg: msg}
	}
}

// Fail makes the caller's own finding about the value that ends or begins at the current position the error that sticks.
func (s *Scanner) Fail(msg string) { s.fail(WrongType, s.pos, msg) }

// unexpected notes that something else stands where want should.
func (s *Scanner) unexpected(want string) {
	if s.pos >= len(s.buf) {
		s.fail(Truncated, len(s.buf), "unexpected end")
		return
	}
	s.fail(Syntax, s.pos, fmt.Sprintf("unexpected %q instead of %s", rune(s.buf[s.pos]), want))
}

// wrong notes that the next value is not of the wanted type, or is no value at all.
func (s *Scanner) wrong(want string) {
	if s.err != nil {
		return
	}
	if s.Peek() == None {
		s.unexpected(want)
		return
	}
	s.fail(WrongType, s.pos, "value is not "+want)
}
