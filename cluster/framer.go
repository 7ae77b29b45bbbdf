package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// framer cuts a stream of JSON values into single ones without decoding them: journal entries whether on one line or pretty-printed,
// the elements of an array, and the items of a list one by one, so that a list of any length takes the memory of one item.
//
// It checks only so much of the grammar as tells it where a value ends, and where a value was cut off and another begins.
type framer struct {
	r     io.Reader
	buf   []byte
	pos   int // next byte that was not consumed
	mark  int // what from here on is still needed; -1: nothing
	line  int // line of buf[pos], from 1
	eof   bool
	rdErr error
	max   int // longest value in bytes

	stack   []byte // open brackets of the value being skipped
	nesting []frame
	cur     value
	atLine  int  // where the last error's value began
	list    bool // between the first item of a list and the list's own end
}

// frame is an array whose elements are handed out one by one.
type frame struct {
	list  bool // the items of a list, rather than an array at the top
	count int
}

type fieldID uint8

const (
	fieldKind fieldID = iota
	fieldAPIVersion
	fieldType
	fieldObject
	fieldObservedAt
	fieldNotBefore
	numFields
)

type valueForm uint8

const (
	// formObject is a whole JSON object.
	formObject valueForm = iota
	// formItem is one of the items of a list.
	formItem
	// formListEnd follows the last item of a list; only now is the list's kind certain.
	formListEnd
	// formOther is a value that is no object.
	formOther
)

// value is one framed value. Its bytes are valid until the next call of next.
type value struct {
	form   valueForm
	line   int
	raw    []byte
	fields [numFields][]byte // those of the object itself; for formItem and formListEnd kind and apiVersion of the list as far as known
}

// syntaxError is a value that is no JSON. The framer can go on after it, see resync.
type syntaxError struct {
	line int
	msg  string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.msg) }

var (
	errCutOff  = errors.New("the input ends in the middle of a value")
	errTooLong = errors.New("a value is longer than the bound")
)

func newFramer(r io.Reader, maxValue int) *framer {
	return &framer{r: r, mark: -1, line: 1, max: maxValue, buf: make([]byte, 0, 64<<10)}
}

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

// next returns the next value, io.EOF after the last one, a *syntaxError for one that is none (resync then goes on), or what
// made reading impossible.
func (f *framer) next() (*value, error) {
	for {
		v, err := f.step()
		if v != nil || err != nil {
			return v, err
		}
	}
}

// step is next, or moves into or out of an array and returns nothing.
func (f *framer) step() (*value, error) {
	f.mark = -1
	if n := len(f.nesting); n > 0 {
		return f.nextElement(&f.nesting[n-1])
	}
	c, ok := f.peek()
	if !ok {
		if f.rdErr != nil {
			return nil, f.rdErr
		}
		return nil, io.EOF
	}
	f.cur = value{line: f.line}
	f.atLine = f.line
	f.mark = f.pos
	switch c {
	case '[':
		f.pos++
		f.nesting = append(f.nesting, frame{})
		return nil, nil
	case '{':
		return f.walk(false)
	}
	return nil, f.syntax("unexpected %q where an object was expected", c)
}

func (f *framer) whole(form valueForm) (*value, error) {
	from, to, err := f.skipValue()
	if err != nil {
		return nil, err
	}
	f.cur.form, f.cur.raw = form, f.buf[f.mark+from:f.mark+to]
	return &f.cur, nil
}

func (f *framer) nextElement(in *frame) (*value, error) {
	c, ok := f.peek()
	if !ok {
		return nil, f.endError()
	}
	if c == ']' {
		f.pos++
		list := in.list
		f.nesting = f.nesting[:len(f.nesting)-1]
		if !list {
			return nil, nil
		}
		return f.walk(true)
	}
	if in.count > 0 {
		if c != ',' {
			return nil, f.syntax("unexpected %q between the elements of a list", c)
		}
		f.pos++
		if c, ok = f.peek(); !ok {
			return nil, f.endError()
		}
	}
	in.count++
	f.atLine = f.line
	f.mark = f.pos
	f.cur.line = f.line
	if in.list {
		return f.whole(formItem)
	}
	f.cur = value{line: f.line}
	if c == '{' {
		return f.walk(false)
	}
	return f.whole(formOther)
}

// walk goes through the keys of an object, from its brace or, resumed, from behind its items.
func (f *framer) walk(resumed bool) (*value, error) {
	var spans [numFields][2]int
	if !resumed {
		f.pos++
	} else {
		f.mark = f.pos
	}
	for first := !resumed; ; first = false {
		c, ok := f.peek()
		switch {
		case !ok:
			return nil, f.endError()
		case c == '}':
			f.pos++
			f.setFields(spans, resumed)
			f.cur.form, f.cur.raw = formObject, f.buf[f.mark:f.pos]
			if resumed {
				f.cur.form, f.cur.raw = formListEnd, nil
				f.list = false
			}
			return &f.cur, nil
		case !first && c != ',':
			return nil, f.syntax("unexpected %q between the members of an object", c)
		case !first:
			f.pos++
			if c, ok = f.peek(); !ok {
				return nil, f.endError()
			}
		}
		if c != '"' {
			return nil, f.syntax("unexpected %q where a member's name was expected", c)
		}
		items, err := f.member(&spans)
		if err != nil {
			return nil, err
		}
		if items && len(f.nesting) < 2 {
			f.setFields(spans, true)
			f.pos++
			f.nesting = append(f.nesting, frame{list: true})
			f.list = true
			return nil, nil
		}
	}
}

// member consumes a name and, unless it is the items of a list, its value.
func (f *framer) member(spans *[numFields][2]int) (items bool, err error) {
	from, to, err := f.skipValue()
	if err != nil {
		return false, err
	}
	id := numFields
	switch string(f.buf[f.mark+from+1 : f.mark+to-1]) {
	case "kind":
		id = fieldKind
	case "apiVersion":
		id = fieldAPIVersion
	case "type":
		id = fieldType
	case "object":
		id = fieldObject
	case "observedAt":
		id = fieldObservedAt
	case "notBefore":
		id = fieldNotBefore
	case "items":
		items = true
	}
	c, ok := f.peek()
	if !ok {
		return false, f.endError()
	}
	if c != ':' {
		return false, f.syntax("unexpected %q after a member's name", c)
	}
	f.pos++
	if items {
		if c, ok = f.peek(); ok && c == '[' {
			return true, nil
		}
	}
	from, to, err = f.skipValue()
	if err == nil && id != numFields {
		spans[id] = [2]int{from, to}
	}
	return false, err
}

// setFields resolves the places of the fields. Those of a list are copied, since its items overwrite the buffer.
func (f *framer) setFields(spans [numFields][2]int, keep bool) {
	for id, s := range spans {
		if s[1] == 0 {
			continue
		}
		f.cur.fields[id] = f.buf[f.mark+s[0] : f.mark+s[1]]
		if keep {
			f.cur.fields[id] = bytes.Clone(f.cur.fields[id])
		}
	}
}

// resync goes on after a syntax error: at the next line that begins with a brace behind the one on which the broken value began, which
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
