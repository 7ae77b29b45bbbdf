package audit

import (
	"slices"
	"strings"
)

// Subjects are users and groups whose requests are wanted. Nil holds none. It must not be changed while it is in use; then it may be used
// concurrently.
type Subjects struct {
	users, groups map[string]struct{}
	needles       [][]byte // how each of them ends in JSON, behind the quote
	unplain       bool     // one of them may be written in several ways, or they are too many
}

// maxNeedles bounds the names that lines are searched for. Of more each line is decoded.
const maxNeedles = 64

// Wants adds users and groups by their names.
func (s *Subjects) Wants(users, groups []string) {
	s.users, s.groups = s.add(s.users, users), s.add(s.groups, groups)
}

func (s *Subjects) add(to map[string]struct{}, names []string) map[string]struct{} {
	if to == nil {
		to = map[string]struct{}{}
	}
	for _, name := range names {
		if _, there := to[name]; there {
			continue
		}
		to[name] = struct{}{}
		s.needles = append(s.needles, []byte(name+`"`))
		s.unplain = s.unplain || len(s.needles) > maxNeedles || strings.ContainsFunc(name, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(":.-_@", r))
		})
	}
	return to
}

// Holds reports whether the user is one of them, or in one of the groups.
func (s *Subjects) Holds(u *User) bool {
	if s == nil {
		return false
	}
	if _, is := s.users[u.Username]; is {
		return true
	}
	return len(s.groups) > 0 && slices.ContainsFunc(u.Groups, func(g string) bool { _, is := s.groups[g]; return is })
}

// Empty reports whether there are none.
func (s *Subjects) Empty() bool { return s == nil || len(s.users)+len(s.groups) == 0 }

// strings are what a line of one of them holds behind a quote, if findable.
func (s *Subjects) strings() [][]byte {
	if s == nil {
		return nil
	}
	return s.needles
}

// findable reports whether a line that holds none of strings is of none of them.
func (s *Subjects) findable() bool { return s == nil || !s.unplain }
