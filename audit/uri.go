package audit

import (
	"net/url"
	"strings"
)

// splitURI returns the decoded path and the raw query of a request URI, as net/http reads one. It is false, with an empty path, where
// net/http would have refused it.
func splitURI(uri string) (path, query string, ok bool) {
	if uri == "" {
		return "", "", false
	}
	if uri[0] != '/' {
		u, err := url.ParseRequestURI(uri)
		if err != nil {
			return "", "", false
		}
		return u.Path, u.RawQuery, true
	}
	end := len(uri)
	if i := strings.IndexByte(uri, '?'); i >= 0 {
		end = i
	}
	for i := 0; i < len(uri); i++ {
		if c := uri[i]; c < ' ' || c == 0x7f {
			return "", "", false
		}
	}
	path = uri[:end]
	if end < len(uri) {
		query = uri[end+1:]
	}
	if strings.IndexByte(path, '%') >= 0 {
		var err error
		if path, err = url.PathUnescape(path); err != nil {
			return "", "", false
		}
	}
	return path, query, true
}

// QueryParameter returns the first value of a parameter of the request's URI, as the API server reads it, and whether there is one.
func (ev *Event) QueryParameter(key string) (value string, ok bool) {
	_, query, _ := splitURI(ev.RequestURI)
	if value, ok = queryValue(query, key); !ok {
		return "", false
	}
	value, err := url.QueryUnescape(value)
	return value, err == nil
}

// maxQueryParameters is beyond how many parameters net/url takes none.
const maxQueryParameters = 10000

// queryValue returns the first value of a key in a query, still escaped. It steps over what url.ParseQuery steps over: parameters with
// a semicolon, and those that do not unescape.
func queryValue(query, key string) (string, bool) {
	if len(query) > maxQueryParameters && strings.Count(query, "&") >= maxQueryParameters {
		return "", false
	}
	for query != "" {
		var parameter string
		parameter, query, _ = strings.Cut(query, "&")
		name, value, _ := strings.Cut(parameter, "=")
		if name != key {
			if !strings.ContainsAny(name, "%+") {
				continue
			}
			if plainName, err := url.QueryUnescape(name); err != nil || plainName != key {
				continue
			}
		}
		if strings.Contains(parameter, ";") {
			continue
		}
		if !wellEscaped(value) {
			continue
		}
		return value, true
	}
	return "", false
}

// wellEscaped is whether two hexadecimal digits follow every percent sign.
func wellEscaped(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] == '%' {
			if i+2 >= len(s) || !hexDigit(s[i+1]) || !hexDigit(s[i+2]) {
				return false
			}
			i += 2
		}
	}
	return true
}

func hexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
