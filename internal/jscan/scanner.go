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

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"unsafe"
)

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

// SkipAt forgets an earlier error and skips the value at data[pos:]. After it the reading goes on in whatever surrounds that value:
// it is for stepping over an element that another method could not use.
func (s *Scanner) SkipAt(pos int) {
	s.pos, s.first, s.err = pos, false, nil
	s.Skip()
}

// Pos returns the offset in bytes of what is read next.
func (s *Scanner) Pos() int { return s.pos }

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

// Null consumes a null and returns true, or leaves another value where it is and returns false.
func (s *Scanner) Null() bool {
	if s.Peek() != Null {
		return false
	}
	return s.literal("null")
}

// Bool consumes true or false.
func (s *Scanner) Bool() bool {
	if s.Peek() != Bool {
		s.wrong("a boolean")
		return false
	}
	if s.buf[s.pos] == 't' {
		return s.literal("true")
	}
	s.literal("false")
	return false
}

// Int64 consumes a number that is an integer, in the sense in which encoding/json stores one in an int64: "1.0" and "1e2" are not.
func (s *Scanner) Int64() int64 {
	if s.Peek() != Number {
		s.wrong("an integer")
		return 0
	}
	start := s.pos
	if !s.number() {
		return 0
	}
	raw := s.buf[start:s.pos]
	// The status codes that nearly all numbers are.
	if len(raw) <= 9 && raw[0] != '-' {
		n, ok := int64(0), true
		for _, c := range raw {
			if c < '0' || c > '9' {
				ok = false
				break
			}
			n = n*10 + int64(c-'0')
		}
		if ok {
			return n
		}
	}
	n, err := strconv.ParseInt(view(raw), 10, 64)
	if err != nil {
		s.fail(WrongType, start, "number is no 64-bit integer")
		return 0
	}
	return n
}

// Raw consumes the next value, checks it and returns its bytes, without the white space around it.
func (s *Scanner) Raw() []byte {
	if s.err != nil {
		return nil
	}
	s.space()
	start := s.pos
	s.Skip()
	if s.err != nil {
		return nil
	}
	return s.buf[start:s.pos:s.pos]
}

// Slice returns the bytes of the text from start to end.
func (s *Scanner) Slice(start, end int) []byte { return s.buf[start:end:end] }

// Skip consumes the next value and checks that it is JSON.
func (s *Scanner) Skip() {
	if s.err != nil {
		return
	}
	s.space()
	if s.pos < len(s.buf) {
		switch c := s.buf[s.pos]; {
		case c == '"':
			s.quoted()
			return
		case c == '{' || c == '[':
			s.skipNested(s.depth)
			s.first = false
			return
		}
	}
	s.scalar()
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

// scalar consumes a string, a number or a literal.
func (s *Scanner) scalar() bool {
	if s.pos >= len(s.buf) {
		s.unexpected("")
		return false
	}
	switch c := s.buf[s.pos]; {
	case c == '"':
		return s.quoted()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	}
	s.unexpected("a value")
	return false
}

// skipNested consumes the object or array at pos. Up to 64 levels are remembered in one word; deeper ones by a call for each 64.
func (s *Scanner) skipNested(depth int) {
	var objects uint64 // bit n: level n is an object
	level := -1
	for {
		// At the first byte of a value.
		if s.pos >= len(s.buf) {
			s.unexpected("")
			return
		}
		if c := s.buf[s.pos]; c == '{' || c == '[' {
			if depth+level+2 > maxDepth {
				s.fail(TooDeep, s.pos, "nested too deeply")
				return
			}
			if level == 63 {
				if s.skipNested(depth + 64); s.err != nil {
					return
				}
			} else {
				level++
				s.pos++
				s.space()
				closing := c + 2 // '{'+2 is '}', '['+2 is ']'
				if s.pos < len(s.buf) && s.buf[s.pos] == closing {
					s.pos++
					level--
				} else if c == '{' {
					objects |= 1 << uint(level)
					if !s.skipKey() {
						return
					}
					continue
				} else {
					objects &^= 1 << uint(level)
					continue
				}
			}
		} else if c == '"' {
			if !s.quoted() {
				return
			}
		} else if !s.scalar() {
			return
		}
		if !s.after(&level, objects) {
			return
		}
	}
}

// after moves from the end of a value to the beginning of the next one at the same or an outer level. It is false when the
// outermost value is complete, and after an error.
func (s *Scanner) after(level *int, objects uint64) bool {
	for *level >= 0 {
		if s.pos < len(s.buf) && s.buf[s.pos] <= ' ' {
			s.space()
		}
		if s.pos >= len(s.buf) {
			s.unexpected("")
			return false
		}
		object := objects>>uint(*level)&1 != 0
		switch c := s.buf[s.pos]; {
		case c == ',':
			s.pos++
			s.space()
			return !object || s.skipKey()
		case c == '}' && object, c == ']' && !object:
			s.pos++
			*level--
		default:
			s.unexpected("a comma")
			return false
		}
	}
	return false
}

func (s *Scanner) skipKey() bool {
	if s.pos >= len(s.buf) || s.buf[s.pos] != '"' {
		s.unexpected("a key in quotes")
		return false
	}
	if !s.quoted() {
		return false
	}
	if s.pos < len(s.buf) && s.buf[s.pos] <= ' ' {
		s.space()
	}
	if s.pos >= len(s.buf) || s.buf[s.pos] != ':' {
		s.unexpected("a colon")
		return false
	}
	s.pos++
	s.space()
	return true
}

func (s *Scanner) literal(word string) bool {
	if rest := s.buf[s.pos:]; len(rest) >= len(word) && string(rest[:len(word)]) == word {
		s.pos += len(word)
		return true
	}
	for i := 1; i < len(word); i++ {
		if s.pos+i >= len(s.buf) {
			s.fail(Truncated, len(s.buf), "unexpected end")
			return false
		}
		if s.buf[s.pos+i] != word[i] {
			s.fail(Syntax, s.pos+i, "invalid literal")
			return false
		}
	}
	return false
}

func (s *Scanner) number() bool {
	b, i := s.buf, s.pos
	digits := func() bool {
		start := i
		for i < len(b) && '0' <= b[i] && b[i] <= '9' {
			i++
		}
		return i > start
	}
	if b[i] == '-' {
		i++
	}
	ok := true
	if i < len(b) && b[i] == '0' {
		i++
	} else {
		ok = digits()
	}
	if ok && i < len(b) && b[i] == '.' {
		i++
		ok = digits()
	}
	if ok && i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		ok = digits()
	}
	s.pos = i
	if !ok {
		s.unexpected("a digit")
	}
	return ok
}

// quoted consumes the string at pos and checks it.
func (s *Scanner) quoted() bool {
	_, _, ok := s.stringEnd()
	return ok
}

// The bytes of one 64-bit word, compared eight at a time.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// stringEnd consumes the string at pos and returns whether it holds escapes and whether it may hold bytes that are not ASCII.
func (s *Scanner) stringEnd() (escaped, wide, ok bool) {
	b, i := s.buf, s.pos+1
	var seen uint64
	for {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			// Flipping bit 1 makes a quote 0x20 and keeps control characters below that, so that one comparison finds both. The
			// lowest set bit of stop marks the first of them or of the backslashes; borrows disturb only bits above it.
			q, e := w^(ones*2), w^(ones*'\\')
			stop := ((q-ones*0x21)&^q | (e-ones)&^e) & highs
			if stop != 0 {
				n := bits.TrailingZeros64(stop)
				seen |= w & (1<<uint(n) - 1)
				i += n >> 3
				goto found
			}
			seen |= w
			i += 8
		}
		for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
			seen |= uint64(b[i])
			i++
		}
		if i >= len(b) {
			s.fail(Truncated, len(b), "unexpected end in a string")
			return false, false, false
		}
	found:
		switch b[i] {
		case '"':
			s.pos = i + 1
			return escaped, seen&highs != 0, true
		case '\\':
			n := s.escape(i)
			if n == 0 {
				return false, false, false
			}
			escaped = true
			i += n
		default:
			s.fail(Syntax, i, "control character in a string")
			return false, false, false
		}
	}
}

// escape returns the length of the escape at offset i, or 0 after noting an error.
func (s *Scanner) escape(i int) int {
	if i+1 >= len(s.buf) {
		s.fail(Truncated, len(s.buf), "unexpected end in a string")
		return 0
	}
	switch s.buf[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		for j := i + 2; j < i+6; j++ {
			if j >= len(s.buf) {
				s.fail(Truncated, len(s.buf), "unexpected end in a string")
				return 0
			}
			if unhex(s.buf[j]) < 0 {
				s.fail(Syntax, j, "invalid escape in a string")
				return 0
			}
		}
		return 6
	}
	s.fail(Syntax, i+1, "invalid escape in a string")
	return 0
}

func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
