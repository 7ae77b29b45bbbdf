// Package jscan pulls values out of one JSON text that is held in memory.
//
// In: a byte slice. Out: keys, strings, numbers and raw values, as slices of that same memory wherever the text holds no escapes.
// It imports the standard library only.
//
// What it accepts is exactly what encoding/json (and so sigs.k8s.io/json) accepts, skipped values included: a value that is stepped
// over is checked to be JSON. Strings mean the same as there: escapes resolved, a lone surrogate and each byte of invalid UTF-8
// replaced by U+FFFD. Keys are compared by the caller, so case counts; of duplicate keys each one is delivered, in order.
//
//	s.Reset(data)
//	for s.Object(); s.Key(&key); {
//		switch key {
//		case "verb":
//			verb = s.String()
//		default:
//			s.Skip()
//		}
//	}
//	s.End()
//	err := s.Err()
//
// Errors stick: after the first one every method returns a zero value, every loop ends, and Err tells what it was.
package jscan

import "unsafe"

// maxDepth is how deep values may nest, as in encoding/json.
const maxDepth = 10000

// A Kind is the kind of a JSON value, known from its first byte.
type Kind uint8

// The kinds of a value. None means that no value begins at the position: the end of the text, a closing bracket or a stray byte.
const (
	None Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// A Scanner pulls values out of one JSON text. Its zero value is ready for Reset. It is not safe for concurrent use.
//
// Strings that hold no escapes alias the text: they stay good as long as the caller keeps the text unchanged. Strings with escapes
// live in memory that the Scanner never writes again, so that they outlive it.
type Scanner struct {
	buf   []byte
	pos   int
	depth int
	// first is true right after an opening bracket, where neither a comma nor a trailing comma is possible.
	first bool
	err   *Error
	arena []byte
}

// Reset makes s read data from its beginning and forgets an earlier error.
func (s *Scanner) Reset(data []byte) {
	s.buf, s.pos, s.depth, s.first, s.err = data, 0, 0, false, nil
}

// ResetAt is Reset with the reading beginning at data[pos:]; positions are counted from data[0].
func (s *Scanner) ResetAt(data []byte, pos int) {
	s.buf, s.pos, s.depth, s.first, s.err = data, pos, 0, false, nil
}

// Pos returns the offset in bytes of what is read next.
func (s *Scanner) Pos() int { return s.pos }

// Forward continues behind a value that is known to end at offset pos, as if it had been skipped.
func (s *Scanner) Forward(pos int) { s.pos, s.first = pos, false }

// Len returns the length of the text in bytes.
func (s *Scanner) Len() int { return len(s.buf) }

// A Mark is where a Scanner was in its text.
type Mark struct {
	pos, depth int
	first      bool
}

// Mark returns where s is.
func (s *Scanner) Mark() Mark { return Mark{s.pos, s.depth, s.first} }

// Back continues at a mark in the text that s was given last, and forgets an error.
func (s *Scanner) Back(m Mark) { s.pos, s.depth, s.first, s.err = m.pos, m.depth, m.first, nil }

// Leave continues behind an object that was entered and is known to end at offset pos, as if it had been read.
func (s *Scanner) Leave(pos int) {
	s.depth--
	s.Forward(pos)
}

// Err returns the first error, an *Error, or nil.
func (s *Scanner) Err() error {
	if s.err == nil {
		return nil
	}
	return s.err
}

// Fault returns the first error, or nil. It is Err for those who look into it.
func (s *Scanner) Fault() *Error { return s.err }

// Peek returns the kind of the next value without consuming it. At a position where a comma is due (inside an array) call More first.
func (s *Scanner) Peek() Kind {
	if s.err != nil {
		return None
	}
	s.space()
	if s.pos >= len(s.buf) {
		return None
	}
	return kinds[s.buf[s.pos]]
}

var kinds = [256]Kind{
	'n': Null, 't': Bool, 'f': Bool, '"': String, '[': Array, '{': Object, '-': Number,
	'0': Number, '1': Number, '2': Number, '3': Number, '4': Number, '5': Number, '6': Number, '7': Number, '8': Number, '9': Number,
}

// Object enters an object. Key then steps through it. Anything else is an error of kind WrongType.
func (s *Scanner) Object() { s.enter('{', "an object") }

// Array enters an array. More then steps through it. Anything else is an error of kind WrongType.
func (s *Scanner) Array() { s.enter('[', "an array") }

func (s *Scanner) enter(open byte, want string) {
	if s.err != nil {
		return
	}
	s.space()
	if s.pos >= len(s.buf) || s.buf[s.pos] != open {
		s.wrong(want)
		return
	}
	if s.depth++; s.depth > maxDepth {
		s.fail(TooDeep, s.pos, "nested too deeply")
		return
	}
	s.pos++
	s.first = true
}

// Key steps to the next member of the object and stores its key in key. It is false at the end of the object, which is then
// consumed, and after an error. The value must be consumed before the next call.
func (s *Scanner) Key(key *string) bool {
	if !s.step('}') {
		return false
	}
	if s.pos >= len(s.buf) || s.buf[s.pos] != '"' {
		s.unexpected("a key in quotes")
		return false
	}
	k, ok := s.text()
	if !ok {
		return false
	}
	// The colon nearly always follows at once.
	if s.pos >= len(s.buf) || s.buf[s.pos] != ':' {
		s.space()
		if s.pos >= len(s.buf) || s.buf[s.pos] != ':' {
			s.unexpected("a colon")
			return false
		}
	}
	s.pos++
	*key = k
	return true
}

// More steps to the next element of the array. It is false at the end of the array, which is then consumed, and after an error.
// The element must be consumed before the next call.
func (s *Scanner) More() bool { return s.step(']') }

// step moves to the first byte of the next member or element, or over the closing bracket.
func (s *Scanner) step(closing byte) bool {
	if s.err != nil {
		return false
	}
	s.space()
	if s.pos >= len(s.buf) {
		s.unexpected("")
		return false
	}
	c := s.buf[s.pos]
	if c == closing {
		s.pos++
		s.depth--
		s.first = false
		return false
	}
	if s.first {
		s.first = false
		return true
	}
	if c != ',' {
		s.unexpected("a comma")
		return false
	}
	s.pos++
	s.space()
	return true
}

// End checks that nothing but white space follows.
func (s *Scanner) End() {
	if s.err != nil {
		return
	}
	s.space()
	if s.pos < len(s.buf) {
		s.fail(Syntax, s.pos, "data after the value")
	}
}

// Space steps over white space and returns whether anything follows it.
func (s *Scanner) Space() bool {
	s.space()
	return s.pos < len(s.buf)
}

func (s *Scanner) space() {
	for s.pos < len(s.buf) {
		if c := s.buf[s.pos]; c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return
		}
		s.pos++
	}
}

func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
