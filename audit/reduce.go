package audit

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// What is kept of an event that is too long to be kept whole. Names in Kubernetes have at most 253 characters.
const (
	reducedString  = 8 << 10   // bytes of a string, or of the request's body
	reducedEvent   = 512 << 10 // bytes of all of it
	reducedList    = 16        // addresses, and the last one
	reducedSegment = 1 << 10   // bytes of a segment of the path
	reducedPath    = 64        // segments of the path
	reducedQuery   = 64 << 10  // bytes of the parameters that are kept
	reducedDepth   = 64        // of nested values
	reducedKey     = 128       // bytes of the name of a parameter
)

// reducedMark is the member of a reduced event that says how long it was. No client of kube-apiserver can write members of an event.
const reducedMark = "nodetrailReducedFrom"

// responseMark is the member that says how long the response's body was, where the event was too long for that alone.
const responseMark = "nodetrailResponseBytes"

// A Reducer reads one event that is too long to be kept, as kube-apiserver writes it, and keeps what decides about its request: it is again
// an event, with long strings cut off, without the response's body and a long one of the request, and with those parameters of the URI alone that the
// authorizer and nodetrail read.
// Its zero value is ready. It holds some hundred kilobytes, however long the event is. It is for one goroutine at a time.
//
// The last address of a request is the one that the connection came from, so that one is kept however many there are.
type Reducer struct {
	// Bound is what an event may have. If it has no more but for the response's body, and nothing else was left out of it or cut off, then it was the response
	// that was too long, and not the request. With 0, nothing says so.
	Bound int64

	out    []byte
	size   int64
	failed bool

	stack []byte // of the values around: { or [
	key   []byte // the member of the outermost object that is being read
	isKey bool   // the next string is a key
	done  bool   // the outermost object has ended

	// Of the string that is being read, if any.
	text   textState
	escape []byte // an escape that is not whole
	length int
	whole  int // where in out the last whole character ends

	skip    int // how deep the skipped value is that is being read, 0 for none
	skipped bool
	// at is how many bytes were read, from behind which of them the body that is being read begins, and response how many the response's has.
	at, from, response int64
	bodyAt             int  // where in out the request's body begins, 0 for another value
	cut                bool // anything but the response's body was left out or cut off

	addrs  int // elements of sourceIPs
	addrAt int // where in out the one begins that the next one replaces
	uri    uriReducer
}

type textState uint8

const (
	noText textState = iota
	keptText
	uriText
	skippedText
)

// reduce reads an event that is in memory and too long into ev, from what is kept of such, which it returns; false if nothing is, and then ev is
// as it was. One that was reduced before stays as it is.
func reduce(event []byte, bound int, ev *Event) ([]byte, bool) {
	if ev.ReducedFrom > 0 {
		return event, true
	}
	r := Reducer{Bound: int64(bound)}
	_, _ = r.Write(event) // which never fails
	reduced, ok := r.Event()
	if !ok {
		return nil, false
	}
	var rd reader
	var short Event
	rd.s.Reset(reduced)
	if rd.event(&short); rd.s.Err() != nil {
		return nil, false
	}
	*ev = short
	return reduced, true
}

// Reduced returns what a [Reducer] keeps of an event in memory that is longer than the bound; false if that is no event of kube-apiserver's.
func Reduced(event []byte, bound int) ([]byte, bool) {
	var ev Event
	return reduce(event, bound, &ev)
}

// Reset makes it ready for the next event.
func (r *Reducer) Reset() {
	*r = Reducer{Bound: r.Bound, out: r.out[:0], stack: r.stack[:0], key: r.key[:0], escape: r.escape[:0], uri: uriReducer{out: r.uri.out[:0], param: r.uri.param[:0]}}
}

// Size is how many bytes were written.
func (r *Reducer) Size() int64 { return r.size }

// Write takes in a part of the event. It never fails.
func (r *Reducer) Write(p []byte) (int, error) {
	r.at, r.size = r.size, r.size+int64(len(p))
	for _, c := range p {
		if r.failed {
			break
		}
		r.at++
		r.keepBody(c)
		if r.text != noText {
			r.inText(c)
		} else {
			r.between(c)
		}
		r.failed = r.failed || len(r.out) > reducedEvent
	}
	return len(p), nil
}

// Event returns the event as it was reduced; false if what was written is no whole event or cannot be reduced. The bytes are the Reducer's
// until Reset.
func (r *Reducer) Event() ([]byte, bool) {
	// So begin events on lines, and the items of a list.
	native := bytes.HasPrefix(r.out, []byte(`{"kind":"Event",`)) || bytes.HasPrefix(r.out, []byte(`{"level":"`))
	return r.out, native && r.done && !r.failed
}

// between takes in a character outside of strings.
func (r *Reducer) between(c byte) {
	if r.done {
		r.failed = c != ' ' && c != '\t' && c != '\r'
		return
	}
	if r.skip > 0 || r.skipped {
		r.skipping(c)
		return
	}
	switch c {
	case ' ', '\t', '\r':
	case '"':
		r.begin()
	case '{', '[':
		if len(r.stack) >= reducedDepth || len(r.stack) == 0 && c != '{' {
			r.failed = true
			return
		}
		r.out = append(r.out, c)
		r.stack = append(r.stack, c)
		r.isKey = c == '{'
		if c == '[' && r.inAddresses() {
			r.addrs, r.addrAt = 0, len(r.out)
		}
	case '}', ']':
		r.end(c)
	case ':':
		r.out = append(r.out, c)
		r.isKey = false
		if len(r.stack) == 1 && (string(r.key) == "requestObject" || string(r.key) == "responseObject") {
			r.skipped, r.from, r.bodyAt = true, r.at, 0
			if string(r.key) == "requestObject" {
				r.bodyAt = len(r.out)
			} else {
				r.out = append(r.out, "null"...)
			}
		}
	case ',':
		r.out = append(r.out, c)
		r.isKey = len(r.stack) > 0 && r.stack[len(r.stack)-1] == '{'
	default:
		r.out = append(r.out, c)
	}
	if len(r.stack) == 0 && !r.done {
		r.failed = true
	}
}

// end ends an object or an array.
func (r *Reducer) end(c byte) {
	if len(r.stack) == 0 || r.stack[len(r.stack)-1] != c-2 { // in ASCII { and } are two apart, as [ and ] are
		r.failed = true
		return
	}
	r.stack = r.stack[:len(r.stack)-1]
	if r.done = len(r.stack) == 0; r.done {
		r.out = strconv.AppendInt(append(r.out, `,"`+reducedMark+`":`...), r.size, 10)
		if r.response > 0 && !r.cut && r.size-r.response <= r.Bound {
			r.out = strconv.AppendInt(append(r.out, `,"`+responseMark+`":`...), r.response, 10)
		}
	}
	r.out = append(r.out, c)
	r.isKey = false
}

// skipping steps over a value.
func (r *Reducer) skipping(c byte) {
	switch c {
	case '"':
		r.text = skippedText
	case '{', '[':
		r.skip++
	case '}', ']':
		if r.skip == 0 { // the outermost object ends behind a number or a literal
			r.endSkipped()
			r.end(c)
			return
		}
		r.skip--
	case ',':
		if r.skip == 0 {
			r.endSkipped()
			r.out = append(r.out, c)
			r.isKey = true
		}
	}
}

// keepBody keeps the request's body as it is, while it is short.
func (r *Reducer) keepBody(c byte) {
	if !r.skipped || r.bodyAt == 0 {
		return
	}
	if r.out = append(r.out, c); len(r.out)-r.bodyAt > reducedString {
		r.out, r.bodyAt, r.cut = append(r.out[:r.bodyAt], "null"...), 0, true
	}
}

// endSkipped ends a body that was stepped over, behind it.
func (r *Reducer) endSkipped() {
	r.skipped = false
	switch {
	case r.bodyAt > 0: // what ends it was kept with it
		r.out = r.out[:len(r.out)-1]
	case string(r.key) == "responseObject":
		r.response += r.at - 1 - r.from
	}
}

func (r *Reducer) inAddresses() bool {
	return len(r.stack) == 2 && r.stack[1] == '[' && string(r.key) == "sourceIPs"
}

// begin begins a string.
func (r *Reducer) begin() {
	if r.inAddresses() {
		if r.addrs++; r.addrs > reducedList { // in place of the one before, with the comma behind it
			r.out, r.cut = r.out[:r.addrAt], true
		} else {
			r.addrAt = len(r.out)
		}
	}
	r.length, r.escape = 0, r.escape[:0]
	if r.isKey && len(r.stack) == 1 {
		r.key = r.key[:0]
	}
	if !r.isKey && len(r.stack) == 1 && string(r.key) == "requestURI" {
		r.text, r.uri = uriText, uriReducer{out: r.uri.out[:0], param: r.uri.param[:0]}
		return
	}
	r.text = keptText
	r.out = append(r.out, '"')
	r.whole = len(r.out)
}

// inText takes in a character of a string.
func (r *Reducer) inText(c byte) {
	switch {
	case len(r.escape) > 0:
		r.escape = append(r.escape, c)
		if len(r.escape) == 2 && c != 'u' || len(r.escape) == 6 {
			r.unit(r.escape)
			r.escape = r.escape[:0]
		}
	case c == '\\':
		r.escape = append(r.escape, c)
	case c == '"':
		r.endText()
	default:
		one := [1]byte{c}
		r.unit(one[:])
	}
}

// unit takes in an escape, or a byte that is none.
func (r *Reducer) unit(u []byte) {
	switch r.text {
	case uriText:
		r.length++
		if len(u) == 1 {
			r.failed = u[0] <= ' ' || u[0] == 0x7f || !r.uri.add(u[0])
			return
		}
		c, ok := unescaped(u)
		var buf [utf8.UTFMax]byte
		for _, b := range utf8.AppendRune(buf[:0], c) {
			ok = ok && r.uri.add(b)
		}
		r.failed = !ok
	case keptText:
		if r.length += len(u); r.length > reducedString {
			return
		}
		if len(u) > 1 || utf8.RuneStart(u[0]) {
			r.whole = len(r.out)
		}
		r.out = append(r.out, u...)
		if r.isKey && len(r.stack) == 1 {
			r.key = append(r.key, u...)
			r.failed = r.failed || len(u) > 1 // kube-apiserver escapes no letter of a key
		}
	}
}

// unescaped is the character that an escape in a URI stands for; false for what no URI holds.
func unescaped(u []byte) (rune, bool) {
	if len(u) == 2 {
		return rune(u[1]), u[1] == '"' || u[1] == '\\' || u[1] == '/'
	}
	n, err := strconv.ParseUint(string(u[2:]), 16, 16)
	return rune(n), err == nil && n > ' ' && n != 0x7f
}

func (r *Reducer) endText() {
	switch r.text {
	case uriText:
		r.cut = r.cut || r.length > reducedString
		uri, ok := r.uri.end()
		text, err := json.Marshal(string(uri))
		if r.failed = r.failed || !ok || err != nil; !r.failed {
			r.out = append(r.out, text...)
		}
	case keptText:
		if r.length > reducedString {
			r.out, r.cut = append(r.out[:r.whole], "..."...), true
		}
		r.out = append(r.out, '"')
	}
	r.text = noText
}

// uriReducer keeps of a request's URI a path of bounded segments and the parameters that count.
type uriReducer struct {
	out      []byte
	query    bool
	segment  int // bytes of the segment that is being read
	segments int

	param     []byte // the parameter that is being read, or the escape of the path
	kept      int    // bytes of those that were kept
	more      bool   // one was kept
	and       int    // how many ampersands there were
	forgotten bool   // the parameter is none that counts
}

// add takes in a character; false if what is left could be judged otherwise than the whole.
func (u *uriReducer) add(c byte) bool {
	switch {
	case u.query:
		return u.addQuery(c)
	case len(u.out) == 0 && c != '/':
		return false
	case c == '?':
		u.endEscape()
		u.query = true
		return true
	case len(u.param) > 0 && c != '/', c == '%':
		if u.param = append(u.param, c); len(u.param) == len("%2F") {
			u.endEscape()
		}
		return true
	}
	u.endEscape()
	one := [1]byte{c}
	u.unit(one[:], c == '/')
	return true
}

// endEscape takes in the escape of the path that is being read, whole or not.
func (u *uriReducer) endEscape() {
	if len(u.param) > 0 {
		u.unit(u.param, strings.EqualFold(string(u.param), "%2F")) // which parts segments as a plain slash does, once the path is decoded
		u.param = u.param[:0]
	}
}

// unit takes in a character of the path as it is written.
func (u *uriReducer) unit(c []byte, slash bool) {
	switch {
	case slash && u.segments <= 1 && u.segment == 0: // those at the beginning count as one
		u.out, u.segments = append(u.out[:0], '/'), 1
	case slash:
		if u.segments++; u.segments <= reducedPath {
			u.out = append(u.out, c...)
		}
		u.segment = 0
	case u.segments > reducedPath, u.segment > reducedSegment:
	case u.segment+len(c) > reducedSegment:
		u.out = append(u.out, "..."...)
		u.segment = reducedSegment + 1
	default:
		u.out = append(u.out, c...)
		u.segment += len(c)
	}
}

func (u *uriReducer) addQuery(c byte) bool {
	if c == '&' {
		u.and++
		ok := u.endParam()
		u.param, u.forgotten = u.param[:0], false
		return ok
	}
	if u.forgotten {
		return true
	}
	u.param = append(u.param, c)
	if c == '=' && !u.counts() || len(u.param) > reducedKey && !u.counts() {
		u.forgotten = true
	}
	return len(u.param)+u.kept <= reducedQuery
}

// counts reports whether the parameter is one that anybody looks at. It is asked when the name is whole, or cannot become any of those.
func (u *uriReducer) counts() bool {
	name, _, _ := strings.Cut(string(u.param[:min(len(u.param), reducedKey)]), "=")
	plain, err := url.QueryUnescape(name)
	return err == nil && (plain == "fieldSelector" || plain == "labelSelector" || plain == "dryRun" || plain == "timeoutSeconds")
}

// endParam keeps the parameter that has ended if it counts.
func (u *uriReducer) endParam() bool {
	if u.forgotten || len(u.param) == 0 || !u.counts() {
		return true
	}
	if u.kept += len(u.param) + 1; u.kept > reducedQuery {
		return false
	}
	if u.more {
		u.out = append(u.out, '&')
	} else {
		u.out = append(u.out, '?')
	}
	u.more = true
	u.out = append(u.out, u.param...)
	return true
}

// end returns the URI as it was reduced. Of one with too many parameters the API server reads none.
func (u *uriReducer) end() ([]byte, bool) {
	if !u.query {
		u.endEscape()
	} else if !u.endParam() {
		return nil, false
	}
	if u.and >= maxQueryParameters && u.more {
		path, _, _ := strings.Cut(string(u.out), "?")
		return []byte(path), true
	}
	return u.out, true
}
