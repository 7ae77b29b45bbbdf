package nodeadmission

import (
	"bytes"

	"k8s.io/apimachinery/pkg/util/json"
)

// decode reads JSON as the API server does, and reports whether there was any that could be read.
func decode(data []byte, into any) bool {
	return len(data) > 0 && json.Unmarshal(data, into) == nil
}

// objectParts says which members of an object bear on the answer to a change of it.
type objectParts struct {
	metadata, spec, status []string
	names                  []needle // one of them is in each path to those members
	holders                []string // what such a member is in, if that is not among the names
	typed                  any      // for strategic merge patches
}

// leaves reports whether a body that is a merge patch of any type certainly leaves the parts as they are: kubelets' patches of a status do. False means
// that it has to be decoded.
func (p *objectParts) leaves(body []byte) bool { return p.free(body) || p.walked(body) }

// free is a first look, at what occurs anywhere in the text: it takes a tenth of the time of a walk through it. A patch that has none of the parts' names can
// change them only by a directive, or by a null in place of the member that they are in: anything else in its place is refused before the plugin is asked.
// The names of members are as written if the text has no escape.
func (p *objectParts) free(body []byte) bool {
	applied, null := needle{`"apiVersion"`, 4}, needle{"null", 1} // a server-side apply has the former
	i := space(body, 0)
	if i == len(body) || body[i] != '{' || body[len(body)-1] != '}' || bytes.IndexByte(body, '\\') >= 0 || has(body, applied) {
		return false
	}
	for rest := body; ; {
		at := bytes.IndexByte(rest, '$')
		if at < 0 {
			break
		}
		if rest = rest[at:]; len(rest) < len(elementOrder) || string(rest[:len(elementOrder)]) != elementOrder {
			return false
		}
		rest = rest[1:]
	}
	for _, n := range p.names {
		if has(body, n) {
			return false
		}
	}
	for end := 0; len(p.holders) > 0; {
		if end = next(body, end, null); end < 0 {
			break
		}
		if endsIn(body[:end-len(null.text)], p.holders) {
			return false
		}
	}
	return true
}

// endsIn reports whether the text ends in one of the names and a colon.
func endsIn(text []byte, names []string) bool {
	end := spaceBefore(text, len(text))
	if end == 0 || text[end-1] != ':' {
		return false
	}
	text = text[:spaceBefore(text, end-1)]
	for _, name := range names {
		if len(text) >= len(name) && string(text[len(text)-len(name):]) == name {
			return true
		}
	}
	return false
}

// needle is a text to be found. Two of its bytes, from the given one on, are seldom in bodies.
type needle struct {
	text string
	rare int
}

func has(body []byte, n needle) bool { return next(body, 0, n) >= 0 }

// next returns where the first occurrence of the text that begins at i or later ends, or -1.
func next(body []byte, i int, n needle) int {
	for i += n.rare; ; i++ {
		if i >= len(body) {
			return -1
		}
		at := bytes.IndexByte(body[i:], n.text[n.rare])
		if at < 0 {
			return -1
		}
		i += at
		if i+1 < len(body) && body[i+1] == n.text[n.rare+1] {
			start, end := i-n.rare, i-n.rare+len(n.text)
			if end <= len(body) && string(body[start:end]) == n.text {
				return end
			}
		}
	}
}

// walked looks at each member of the text as deep as the parts lie.
func (p *objectParts) walked(body []byte) bool {
	return members(body, 0, func(key []byte, value int) int {
		var inner []string
		switch string(key) {
		case "metadata":
			inner = p.metadata
		case "spec":
			inner = p.spec
		case "status":
			inner = p.status
		case "apiVersion", "kind": // a server-side apply has them
			return -1
		default:
			if len(key) > 0 && key[0] == '$' {
				return -1
			}
		}
		if len(inner) == 0 {
			return skip(body, value)
		}
		return members(body, value, func(key []byte, value int) int {
			if !untouched(key, inner) {
				return -1
			}
			return skip(body, value)
		})
	}) >= 0
}

// untouched reports whether a member of a patch does not bear on the given ones. Directives of a strategic merge patch name a member after a slash, or
// concern all.
func untouched[K string | []byte](key K, inner []string) bool {
	if len(key) > 0 && key[0] == '$' {
		if len(key) <= len(elementOrder) || string(key[:len(elementOrder)]) != elementOrder {
			return false
		}
		key = key[len(elementOrder):]
	}
	for _, i := range inner {
		if string(key) == i {
			return false
		}
	}
	return true
}

// elementOrder begins the directive that tells kubelets' order of a list. It changes nothing but that list.
const elementOrder = "$setElementOrder/"

// members calls f with each key of the JSON object at i, and with where its value begins. f returns where the value ends, or -1. members returns where the
// object ends, or -1 if f did so once, for what is no object, for keys with escapes, and for what is not JSON. So each byte is looked at once.
func members(data []byte, i int, f func(key []byte, value int) int) int {
	i = space(data, i)
	if i >= len(data) || data[i] != '{' {
		return -1
	}
	i = space(data, i+1)
	if i < len(data) && data[i] == '}' {
		return i + 1
	}
	for i < len(data) && data[i] == '"' {
		end := bytes.IndexByte(data[i+1:], '"')
		if end < 0 {
			return -1
		}
		key := data[i+1 : i+1+end]
		i = space(data, i+end+2)
		if i >= len(data) || data[i] != ':' || bytes.IndexByte(key, '\\') >= 0 {
			return -1
		}
		if i = f(key, space(data, i+1)); i < 0 {
			return -1
		}
		i = space(data, i)
		if i < len(data) && data[i] == '}' {
			return i + 1
		}
		if i >= len(data) || data[i] != ',' {
			return -1
		}
		i = space(data, i+1)
	}
	return -1
}

func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// spaceBefore returns where the white space before i begins.
func spaceBefore(data []byte, i int) int {
	for i > 0 && (data[i-1] == ' ' || data[i-1] == '\n' || data[i-1] == '\t' || data[i-1] == '\r') {
		i--
	}
	return i
}

// structural are the bytes by which values end or are put together.
var structural = [256]bool{'"': true, '{': true, '}': true, '[': true, ']': true, ',': true}

// skip returns the end of the value that begins at i, or -1.
func skip(data []byte, i int) int {
	depth := 0
	for i < len(data) {
		if !structural[data[i]] {
			i++
			continue
		}
		switch data[i] {
		case '"':
			if i = skipString(data, i); i < 0 {
				return -1
			}
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
			if depth < 0 {
				return i
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return -1
}

// skipString returns the end of the string that begins at i, or -1. Most are short, so that a plain loop is the fastest.
func skipString(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return -1
}
