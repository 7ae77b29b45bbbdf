package metrics

import (
	"strings"
	"time"
)

// Other stands for all values of a label beyond its bound.
const Other = "other"

// set bounds the values of a label: those that come first have their own, the rest are Other.
type set struct {
	most int
	seen map[string]string
}

func newSet(most int) set { return set{most: most, seen: map[string]string{}} }

// label returns the value, made printable, or Other.
func (s *set) label(v string) string {
	if l, ok := s.seen[v]; ok {
		return l
	}
	if len(s.seen) >= s.most {
		return Other
	}
	l := clean(v)
	s.seen[strings.Clone(v)] = l
	return l
}

// clean is a text as a label's value.
func clean(s string) string {
	const most = 256
	if len(s) > most {
		s = s[:most]
	}
	return strings.Clone(strings.ToValidUTF8(s, "\ufffd"))
}

// product returns the name of a client's product as a label: what no program calls itself is Other.
func product(s string) string {
	if s == "" || len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Other
	}
	return s
}

// idle is how long a node must not have been seen for its series to make room for another's. Nodes come and go for years.
const idle = 6 * time.Hour

// exemplar is an auditID as an exemplar has it, nil if it cannot be one: all of an exemplar's labels have at most 128 runes.
func exemplar(auditID string) map[string]string {
	if auditID == "" || len(auditID) > 100 || strings.ContainsFunc(auditID, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil
	}
	return map[string]string{"auditID": strings.Clone(auditID)}
}
