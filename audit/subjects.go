package audit

import "slices"

// Subjects are users and groups whose requests are wanted. Nil holds none. It must not be changed while it is in use; then it may be used
// concurrently.
type Subjects struct {
	users, groups map[string]struct{}
}

// Wants adds users and groups by their names.
func (s *Subjects) Wants(users, groups []string) {
	s.users, s.groups = with(s.users, users), with(s.groups, groups)
}

func with(to map[string]struct{}, names []string) map[string]struct{} {
	if to == nil {
		to = map[string]struct{}{}
	}
	for _, name := range names {
		to[name] = struct{}{}
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
