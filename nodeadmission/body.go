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
	return members(body, func(key, value []byte) bool {
		var inner []string
		switch string(key) {
		case "metadata":
			inner = p.metadata
		case "spec":
			inner = p.spec
		case "status":
			inner = p.status
		case "apiVersion", "kind": // a server-side apply has them
			return false
		default:
			return len(key) == 0 || key[0] != '$'
		}
		if len(inner) == 0 {
			return true
		}
		return members(value, func(key, _ []byte) bool { return untouched(key, inner) })
	})
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

// members calls f with each member of a JSON object as long as it returns true, and reports whether it always did. It is false for what is
// no object, for keys with escapes, and for what is not JSON.
func members(data []byte, f func(key, value []byte) bool) bool {
	data = bytes.TrimLeft(data, " \t\r\n")
	if len(data) == 0 || data[0] != '{' {
		return false
	}
	i := space(data, 1)
	if i < len(data) && data[i] == '}' {
		return true
	}
	for i < len(data) && data[i] == '"' {
		end := bytes.IndexByte(data[i+1:], '"')
		if end < 0 {
			return false
		}
		key := data[i+1 : i+1+end]
		i = space(data, i+end+2)
		if i >= len(data) || data[i] != ':' || bytes.IndexByte(key, '\\') >= 0 {
			return false
		}
		start := space(data, i+1)
		i = skip(data, start)
		if i < 0 || !f(key, data[start:i]) {
			return false
		}
		i = space(data, i)
		if i < len(data) && data[i] == '}' {
			return true
		}
		if i >= len(data) || data[i] != ',' {
			return false
		}
		i = space(data, i+1)
	}
	return false
}

func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// skip returns the end of the value that begins at i, or -1.
func skip(data []byte, i int) int {
	depth := 0
	for i < len(data) {
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
