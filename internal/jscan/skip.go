package jscan

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
