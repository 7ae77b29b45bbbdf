package jscan

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

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

// stops marks the bytes of a word at which the reading of a string has something to do: quotes, backslashes and control characters. The lowest bit
// that is set marks the first of them; bits above it may be wrong.
func stops(w uint64) uint64 {
	// Flipping bit 1 makes a quote 0x20 and keeps control characters below that, so that one comparison finds both. Borrows disturb only higher bytes.
	q, e := w^(ones*2), w^(ones*'\\')
	return ((q-ones*0x21)&^q | (e-ones)&^e) & highs
}

// stringEnd consumes the string at pos and returns whether it holds escapes and whether it may hold bytes that are not ASCII.
func (s *Scanner) stringEnd() (escaped, wide, ok bool) {
	b, i := s.buf, s.pos+1
	var seen uint64
	for {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			if stop := stops(w); stop != 0 {
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
			// JSON inside of JSON has hardly any other escapes.
			if i+1 < len(b) && (b[i+1] == '"' || b[i+1] == '\\') {
				escaped = true
				i += 2
				continue
			}
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
