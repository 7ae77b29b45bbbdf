package nodeadmission

import (
	"bytes"
	"encoding/binary"
	"unsafe"
)

// tokenRequest is what the plugin reads of a TokenRequest.
type tokenRequest struct {
	audiences int
	audience  string // the first
	bound     bool
	ref       objectRef
}

type objectRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// readToken reads a TokenRequest. Those of kubelets are read without being decoded, and what is read of them shares memory with the body.
func readToken(body []byte) (t tokenRequest, ok bool) {
	r := tokenReader{body: body}
	if r.usual() {
		return r.tokenRequest, true
	}
	r = tokenReader{body: body}
	if members(body, 0, r.top) == len(body) {
		return r.tokenRequest, true
	}
	var o struct {
		Spec struct {
			Audiences      []string   `json:"audiences"`
			BoundObjectRef *objectRef `json:"boundObjectRef"`
		} `json:"spec"`
	}
	if !decode(body, &o) {
		return t, false
	}
	if t.audiences = len(o.Spec.Audiences); t.audiences > 0 {
		t.audience = o.Spec.Audiences[0]
	}
	if t.bound = o.Spec.BoundObjectRef != nil; t.bound {
		t.ref = *o.Spec.BoundObjectRef
	}
	return t, true
}

// tokenReader reads a TokenRequest that has each member once, and texts of printable ASCII without escapes.
type tokenReader struct {
	tokenRequest
	body []byte
	seen uint8 // a bit for each member that counts
}

// usual reads a TokenRequest with its members in the order in which Kubernetes writes them, as those of kubelets have them. It is false for any other.
func (r *tokenReader) usual() bool {
	i := r.after(0, `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{`)
	if i < 0 {
		return false
	}
	// If there were more than the metadata before the first brace that shuts, or if that brace were in a text, it would not be JSON with what follows.
	if i = r.after(i+max(0, bytes.IndexByte(r.body[i:], '}')), `},"spec":{"audiences":`); i < 0 {
		return false
	}
	if i = r.list(i); i < 0 {
		return false
	}
	if i = r.after(i, `,"expirationSeconds":`); i < 0 {
		return false
	}
	for i < len(r.body) && r.body[i] >= '0' && r.body[i] <= '9' {
		i++
	}
	if i = r.after(i, `,"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":`); i < 0 {
		return false
	}
	if i = textAt(r.body, i, &r.ref.Name); i < 0 {
		return false
	}
	if i = r.after(i, `,"uid":`); i < 0 {
		return false
	}
	if i = textAt(r.body, i, &r.ref.UID); i < 0 {
		return false
	}
	r.bound, r.ref.Kind, r.ref.APIVersion = true, "Pod", "v1"
	return r.after(i, `}},"status":{"token":"","expirationTimestamp":null}}`) == len(r.body)
}

// after returns where the text ends that is at i, or -1 if it is not there.
func (r *tokenReader) after(i int, text string) int {
	if end := i + len(text); end <= len(r.body) && string(r.body[i:end]) == text {
		return end
	}
	return -1
}

// once is false if the member was there before.
func (r *tokenReader) once(bit uint8) bool {
	before := r.seen
	r.seen |= bit
	return before&bit == 0
}

func (r *tokenReader) top(key []byte, value int) int {
	if string(key) != "spec" {
		return skip(r.body, value)
	}
	if !r.once(1) {
		return -1
	}
	return members(r.body, value, r.spec)
}

func (r *tokenReader) spec(key []byte, value int) int {
	switch string(key) {
	case "audiences":
		if !r.once(2) {
			return -1
		}
		return r.list(value)
	case "boundObjectRef":
		if !r.once(4) {
			return -1
		}
		r.bound = true
		return members(r.body, value, r.reference)
	}
	return skip(r.body, value)
}

func (r *tokenReader) reference(key []byte, value int) int {
	var (
		to  *string
		bit uint8
	)
	switch string(key) {
	case "apiVersion":
		to, bit = &r.ref.APIVersion, 8
	case "kind":
		to, bit = &r.ref.Kind, 16
	case "name":
		to, bit = &r.ref.Name, 32
	case "uid":
		to, bit = &r.ref.UID, 64
	default:
		return skip(r.body, value)
	}
	if !r.once(bit) {
		return -1
	}
	return textAt(r.body, value, to)
}

// list reads an array of texts.
func (r *tokenReader) list(i int) int {
	if i >= len(r.body) || r.body[i] != '[' {
		return -1
	}
	i = space(r.body, i+1)
	if i < len(r.body) && r.body[i] == ']' {
		return i + 1
	}
	for {
		var text string
		if i = textAt(r.body, i, &text); i < 0 {
			return -1
		}
		if r.audiences++; r.audiences == 1 {
			r.audience = text
		}
		i = space(r.body, i)
		switch {
		case i >= len(r.body):
			return -1
		case r.body[i] == ']':
			return i + 1
		case r.body[i] != ',':
			return -1
		}
		i = space(r.body, i+1)
	}
}

// textAt reads the string at i and returns where it ends, or -1 for one that is not as it is written. The string shares memory with the body.
func textAt(body []byte, i int, into *string) int {
	if i >= len(body) || body[i] != '"' {
		return -1
	}
	start := i + 1
	size := bytes.IndexByte(body[start:], '"')
	if size < 0 || !plain(body[start:start+size]) {
		return -1
	}
	*into = unsafe.String(unsafe.SliceData(body[start:]), size)
	return start + size + 1
}

// plain reports whether a text is of printable ASCII without backslashes. It looks at eight bytes at a time: the highest bit of a byte of strange is set where
// a byte is not so, and may be set in those that follow it.
func plain(text []byte) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for len(text) >= 8 {
		w := binary.LittleEndian.Uint64(text)
		escape := w ^ ones*'\\'
		if strange := w | (w + ones) | (w - ones*' ') | (escape - ones); strange&high != 0 {
			return false
		}
		if len(text) == 8 {
			return true
		}
		text = text[min(8, len(text)-8):]
	}
	for _, c := range text {
		if c < ' ' || c >= 0x7f || c == '\\' {
			return false
		}
	}
	return true
}
