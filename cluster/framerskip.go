package cluster

import (
	"bytes"
	"fmt"
	"io"
)

// fill reads more input behind what is kept. It reports whether there is a byte at pos now.
func (f *framer) fill() bool {
	if f.pos < len(f.buf) {
		return true
	}
	if f.eof {
		return false
	}
	keep := f.pos
	if f.mark >= 0 {
		keep = f.mark
	}
	if keep > 0 && (keep >= len(f.buf)/2 || len(f.buf) == cap(f.buf)) {
		n := copy(f.buf, f.buf[keep:])
		f.buf = f.buf[:n]
		f.pos -= keep
		if f.mark >= 0 {
			f.mark -= keep
		}
	}
	if len(f.buf) == cap(f.buf) {
		grown := make([]byte, len(f.buf), 2*cap(f.buf))
		copy(grown, f.buf)
		f.buf = grown
	}
	for empty := 0; ; empty++ {
		n, err := f.r.Read(f.buf[len(f.buf):cap(f.buf)])
		f.buf = f.buf[:len(f.buf)+n]
		if err != nil {
			f.eof = true
			if err != io.EOF {
				f.rdErr = err
			}
		} else if n == 0 && empty > 100 {
			f.eof, f.rdErr = true, io.ErrNoProgress
		}
		if n > 0 || f.eof {
			return f.pos < len(f.buf)
		}
	}
}

// peek skips white space, and the NULs that a crash can leave in a file, and returns the byte that follows; false at the end of the input.
func (f *framer) peek() (byte, bool) {
	for {
		for f.pos < len(f.buf) {
			switch c := f.buf[f.pos]; c {
			case '\n':
				f.line++
				f.pos++
			case ' ', '\t', '\r', 0:
				f.pos++
			default:
				return c, true
			}
		}
		if !f.fill() {
			return 0, false
		}
	}
}

func (f *framer) endError() error {
	if f.rdErr != nil {
		return f.rdErr
	}
	return errCutOff
}

func (f *framer) syntax(format string, args ...any) error {
	return &syntaxError{line: f.line, msg: fmt.Sprintf(format, args...)}
}

// skipString consumes a string whose opening quote is at pos. A line break in it shows that it was cut off.
func (f *framer) skipString() error {
	f.pos++
	for {
		rest := f.buf[f.pos:]
		i := bytes.IndexByte(rest, '"')
		part := rest
		if i >= 0 {
			part = rest[:i]
		}
		if nl := bytes.IndexByte(part, '\n'); nl >= 0 {
			f.pos += nl
			return f.syntax("a line break inside a string")
		}
		if esc := bytes.IndexByte(part, '\\'); esc >= 0 {
			f.pos += esc + 1
			if !f.fill() {
				return f.endError()
			}
			if f.buf[f.pos] == '\n' {
				return f.syntax("a line break inside a string")
			}
			f.pos++
			if f.pos == len(f.buf) && !f.fill() {
				return f.endError()
			}
			continue
		}
		if i >= 0 {
			f.pos += i + 1
			return nil
		}
		f.pos = len(f.buf)
		if f.mark >= 0 && f.pos-f.mark > f.max {
			return errTooLong
		}
		if !f.fill() {
			return f.endError()
		}
	}
}

// skipValue consumes one value and returns its place in buf, relative to mark.
func (f *framer) skipValue() (from, to int, err error) {
	c, ok := f.peek()
	if !ok {
		return 0, 0, f.endError()
	}
	from = f.pos - f.mark
	switch c {
	case '{', '[':
		err = f.skipNested()
	case '"':
		err = f.skipString()
	case '}', ']', ',', ':':
		err = f.syntax("unexpected %q", c)
	default:
		if err = f.skipScalar(); err == nil && f.pos-f.mark == from {
			err = f.syntax("unexpected %q", c)
		}
	}
	return from, f.pos - f.mark, err
}

func (f *framer) skipScalar() error {
	for {
		for f.pos < len(f.buf) {
			switch c := f.buf[f.pos]; {
			case c == ',' || c == '}' || c == ']' || c == ':' || c <= ' ':
				return nil
			case c == '"' || c == '{' || c == '[' || c >= 0x7f:
				return f.syntax("unexpected %q", c)
			}
			f.pos++
		}
		if f.mark >= 0 && f.pos-f.mark > f.max {
			return errTooLong
		}
		if !f.fill() {
			if f.rdErr != nil {
				return f.rdErr
			}
			return nil
		}
	}
}

// maxNesting bounds how deep the arrays and objects of a value are: no decoder takes more.
const maxNesting = 10_000

// skipNested consumes an object or an array. A bracket that opens where none may (an object must be preceded by a colon inside
// another object) is how a value that was cut off at the end of a line shows itself.
func (f *framer) skipNested() error {
	f.stack = f.stack[:0]
	var last byte // last significant byte
	for {
		for f.pos < len(f.buf) {
			c := f.buf[f.pos]
			switch c {
			case ' ', '\t', '\r':
				f.pos++
				continue
			case '\n':
				f.line++
				f.pos++
				continue
			case '"':
				if err := f.skipString(); err != nil {
					return err
				}
				last = c
				continue
			case '{', '[':
				if n := len(f.stack); n > 0 && (f.stack[n-1] == '{' && last != ':' || f.stack[n-1] == '[' && last != '[' && last != ',') {
					return f.syntax("unexpected %q", c)
				}
				if len(f.stack) >= maxNesting {
					return f.syntax("nested too deeply")
				}
				f.stack = append(f.stack, c)
			case '}', ']':
				n := len(f.stack)
				if f.stack[n-1] != c-2 {
					return f.syntax("unexpected %q", c)
				}
				f.stack = f.stack[:n-1]
				if n == 1 {
					f.pos++
					return nil
				}
			}
			last = c
			f.pos++
		}
		if f.mark >= 0 && f.pos-f.mark > f.max {
			return errTooLong
		}
		if !f.fill() {
			return f.endError()
		}
	}
}

// resync continues after a syntax error: at the next line that begins with a brace behind the one on which the broken value began, which
// is the next value both of JSON lines and of a pretty-printed stream. It reports whether a value remains; inside a list there is no telling.
func (f *framer) resync() bool {
	if len(f.nesting) > 0 {
		return false
	}
	if f.mark >= 0 {
		f.pos, f.line = f.mark, f.atLine
	}
	f.mark = -1
	for {
		i := bytes.IndexByte(f.buf[f.pos:], '\n')
		if i < 0 {
			f.pos = len(f.buf)
			if !f.fill() {
				return false
			}
			continue
		}
		f.pos += i + 1
		f.line++
		if !f.fill() {
			return false
		}
		if f.buf[f.pos] == '{' {
			return true
		}
	}
}
