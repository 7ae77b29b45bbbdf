package jscan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// String consumes a string and returns its meaning. The result aliases the text unless it had to be rewritten: see Scanner.
func (s *Scanner) String() string {
	if s.Peek() != String {
		s.wrong("a string")
		return ""
	}
	v, _ := s.text()
	return v
}

// StringOrNull consumes a string and returns its meaning, or a null and returns "".
func (s *Scanner) StringOrNull() string {
	// Nearly always the quote is the next byte.
	if s.pos >= len(s.buf) || s.buf[s.pos] != '"' || s.err != nil {
		if s.Null() {
			return ""
		}
		return s.String()
	}
	v, _ := s.text()
	return v
}

// text consumes the string that begins at pos.
func (s *Scanner) text() (string, bool) {
	start := s.pos + 1
	escaped, wide, ok := s.stringEnd()
	if !ok {
		return "", false
	}
	raw := s.buf[start : s.pos-1]
	valid := !wide || utf8.Valid(raw)
	if !escaped && valid {
		return view(raw), true
	}
	return s.unescape(raw, valid), true
}

const (
	arenaBlock = 16 << 10
	arenaLarge = 4 << 10
)

// unescape returns the meaning of the inside of a string whose escapes are known to be well formed, in memory of its own. valid is
// whether it is known to be UTF-8.
func (s *Scanner) unescape(raw []byte, valid bool) string {
	// No rewriting makes a text longer, but for a byte of invalid UTF-8, which becomes three.
	room := len(raw)
	if !valid {
		room *= 3
	}
	if room > arenaLarge {
		return view(appendUnescaped(make([]byte, 0, room), raw, valid))
	}
	if room > cap(s.arena)-len(s.arena) {
		s.arena = make([]byte, 0, arenaBlock)
	}
	start := len(s.arena)
	s.arena = appendUnescaped(s.arena, raw, valid)
	return view(s.arena[start:])
}

// appendUnescaped appends the meaning of the inside of a string.
func appendUnescaped(dst, raw []byte, valid bool) []byte {
	for len(raw) > 0 {
		run := bytes.IndexByte(raw, '\\')
		if run < 0 {
			run = len(raw)
		}
		if valid {
			dst = append(dst, raw[:run]...)
		} else {
			for rest := raw[:run]; len(rest) > 0; {
				r, n := utf8.DecodeRune(rest)
				dst = utf8.AppendRune(dst, r)
				rest = rest[n:]
			}
		}
		if raw = raw[run:]; len(raw) > 0 {
			var n int
			dst, n = appendEscape(dst, raw)
			raw = raw[n:]
		}
	}
	return dst
}

// appendEscape appends the meaning of the escape that raw begins with and returns its length.
func appendEscape(dst, raw []byte) ([]byte, int) {
	switch c := raw[1]; c {
	case 'b':
		return append(dst, '\b'), 2
	case 'f':
		return append(dst, '\f'), 2
	case 'n':
		return append(dst, '\n'), 2
	case 'r':
		return append(dst, '\r'), 2
	case 't':
		return append(dst, '\t'), 2
	case 'u':
		r := hex4(raw)
		if !utf16.IsSurrogate(r) {
			return utf8.AppendRune(dst, r), 6
		}
		if pair := utf16.DecodeRune(r, hex4(raw[6:])); pair != utf8.RuneError {
			return utf8.AppendRune(dst, pair), 12
		}
		return utf8.AppendRune(dst, utf8.RuneError), 6
	default:
		return append(dst, c), 2
	}
}

// hex4 returns the value of the \u escape that raw begins with, or -1 where there is none.
func hex4(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range raw[2:6] {
		r = r<<4 | rune(unhex(c))
	}
	return r
}

// unhex returns the value of a hexadecimal digit, or -1.
func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// Inside consumes a string and returns the bytes between its quotes, and whether they are its meaning as they stand. Where they are not,
// AppendUnescaped tells it. The bytes alias the text.
func (s *Scanner) Inside() (raw []byte, plain bool) {
	if s.Peek() != String {
		s.wrong("a string")
		return nil, false
	}
	start := s.pos + 1
	escaped, wide, ok := s.stringEnd()
	if !ok {
		return nil, false
	}
	raw = s.buf[start : s.pos-1 : s.pos-1]
	return raw, !escaped && (!wide || utf8.Valid(raw))
}

// AppendUnescaped appends the meaning of the inside of a string, as Inside returned it. It is no longer than raw but where raw is not UTF-8.
// It is made for long texts with many escapes, as JSON inside of JSON is.
func AppendUnescaped(dst, raw []byte) []byte {
	if !utf8.Valid(raw) {
		return appendUnescaped(dst, raw, false)
	}
	// Eight bytes are stored at a time, of which as many count as come before an escape. What is stored beyond them is written again.
	dst = slices.Grow(dst, len(raw)+8)
	from, to := 0, len(dst)
	room := dst[:cap(dst)]
	for from+8 <= len(raw) {
		w := binary.LittleEndian.Uint64(raw[from:])
		binary.LittleEndian.PutUint64(room[to:], w)
		e := w ^ ones*'\\'
		stop := (e - ones) &^ e & highs
		if stop == 0 {
			from, to = from+8, to+8
			continue
		}
		n := bits.TrailingZeros64(stop) >> 3
		from, to = from+n, to+n
		if c := raw[from+1]; c == '"' || c == '\\' {
			room[to] = c
			from, to = from+2, to+1
			continue
		}
		out, n := appendEscape(room[:to], raw[from:])
		from, to = from+n, len(out)
	}
	return appendUnescaped(room[:to], raw[from:], true)
}
