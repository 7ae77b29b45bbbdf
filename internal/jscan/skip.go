package jscan

import (
	"encoding/binary"
	"math/bits"
)

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

// SkipAt forgets an earlier error and skips the value at data[pos:]. After it the reading continues in whatever surrounds that value:
// it is for stepping over an element that another method could not use.
func (s *Scanner) SkipAt(pos int) {
	s.pos, s.first, s.err = pos, false, nil
	s.Skip()
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

// skipNested consumes the object or array at pos. Up to 64 levels are remembered in one word; deeper ones by a call for each 64. The position is kept in
// a variable; only what is rare is left to the methods.
func (s *Scanner) skipNested(depth int) {
	var objects uint64 // bit n: level n is an object
	level := -1
	b, i := s.buf, s.pos
	for {
		// At the first byte of a value.
		if i >= len(b) {
			s.pos = i
			s.unexpected("")
			return
		}
		key := false // whether a key comes next, and not a value
		switch c := b[i]; {
		case c == '"':
			if i = s.stringFrom(i); i < 0 {
				return
			}
		case c == '{' || c == '[':
			if depth+level+2 > maxDepth {
				s.fail(TooDeep, i, "nested too deeply")
				return
			}
			if level == 63 {
				s.pos = i
				if s.skipNested(depth + 64); s.err != nil {
					return
				}
				i = s.pos
				break
			}
			level++
			i = spaceFrom(b, i+1)
			closing := c + 2 // '{'+2 is '}', '['+2 is ']'
			if i < len(b) && b[i] == closing {
				i++
				level--
				break
			}
			if key = c == '{'; key {
				objects |= 1 << uint(level)
			} else {
				objects &^= 1 << uint(level)
				continue
			}
		default:
			s.pos = i
			if !s.scalar() {
				return
			}
			i = s.pos
		}
		// Behind a value, move on to the next one at the same or an outer level.
		for !key {
			if level < 0 {
				s.pos = i
				return
			}
			i = spaceFrom(b, i)
			if i >= len(b) {
				s.pos = i
				s.unexpected("")
				return
			}
			object := objects>>uint(level)&1 != 0
			c := b[i]
			if c == ',' {
				i = spaceFrom(b, i+1)
				key = object
				break
			}
			if c != '}' && c != ']' || (c == '}') != object {
				s.pos = i
				s.unexpected("a comma")
				return
			}
			i++
			level--
		}
		if !key {
			continue
		}
		if i >= len(b) || b[i] != '"' {
			s.pos = i
			s.unexpected("a key in quotes")
			return
		}
		if i = s.stringFrom(i); i < 0 {
			return
		}
		if i = spaceFrom(b, i); i >= len(b) || b[i] != ':' {
			s.pos = i
			s.unexpected("a colon")
			return
		}
		i = spaceFrom(b, i+1)
	}
}

// spaceFrom returns the offset of the first byte from i on that is no white space.
func spaceFrom(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// stringFrom returns where the string ends that begins at offset i, or -1 after noting an error.
func (s *Scanner) stringFrom(i int) int {
	b := s.buf
	for n := i + 1; n+8 <= len(b); n += 8 {
		if stop := stops(binary.LittleEndian.Uint64(b[n:])); stop != 0 {
			if n += bits.TrailingZeros64(stop) >> 3; b[n] == '"' {
				return n + 1
			}
			break
		}
	}
	if s.pos = i; !s.quoted() {
		return -1
	}
	return s.pos
}
