package cluster

import (
	"bytes"
	"encoding/json"
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
	fieldMetadata
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
	fields [numFields][]byte // those of the object itself; for formItem and formListEnd those of the list as far as known
}

// syntaxError is a value that is no JSON. The framer can continue after it, see resync.
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

// next returns the next value, io.EOF after the last one, a *syntaxError for one that is none (resync then continues), or what
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
	name := f.buf[f.mark+from+1 : f.mark+to-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		var text string
		if json.Unmarshal(f.buf[f.mark+from:f.mark+to], &text) != nil {
			return false, f.syntax("a member's name with an invalid escape")
		}
		name = []byte(text)
	}
	id := numFields
	switch string(name) {
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
	case "metadata":
		id = fieldMetadata
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
		if f.cur.fields[id] != nil { // the items were read by the one before them
			return false, f.syntax("a list has a member twice: before its items and after them")
		}
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
