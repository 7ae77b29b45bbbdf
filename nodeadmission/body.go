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
	typed                  any // for strategic merge patches
}

// leaves reports whether a body that is a merge patch of any type certainly leaves the parts as they are: kubelets' patches of a status do. False means
// that it has to be decoded.
func (p *objectParts) leaves(body []byte) bool {
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
