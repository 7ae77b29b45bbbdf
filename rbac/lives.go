package rbac

import (
	"iter"
	"sort"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// GrantLife is a grant with the time in which it allowed a request without a
// break. From is zero when no beginning is known, To when it has not ended.
type GrantLife struct {
	Grant
	From, To time.Time
}

// Covers reports whether the grant allowed the request at t.
func (l *GrantLife) Covers(t time.Time) bool {
	return !t.Before(l.From) && (l.To.IsZero() || t.Before(l.To))
}

// GrantLives returns every way by which RBAC ever allowed the request, as far
// as the store remembers, each with its time: by binding as in Grants, and then
// by time. It allocates, and is not for every request of a log.
func (s *Store) GrantLives(attrs authorizer.Attributes) iter.Seq[GrantLife] {
	return func(yield func(GrantLife) bool) {
		info := attrs.GetUser()
		if info == nil {
			return
		}
		u := identity{info.GetName(), info.GetGroups()}
		r := requestOf(attrs)
		cluster, local := s.index.find(&u, attrs.GetNamespace(), nil, nil)
		for _, lists := range [][][]*binding{cluster, local} {
			for b := nextBinding(lists); b != nil; b = nextBinding(lists) {
				for _, l := range b.lives(&r, u.is) {
					if !yield(l) {
						return
					}
				}
			}
		}
	}
}

// GrantsToAnyone returns every way by which RBAC lets anyone make the request
// at t, whoever makes it, each with its time: in the order of Bindings and then
// of subjects. It looks at every binding there is.
func (s *Store) GrantsToAnyone(attrs authorizer.Attributes, t time.Time) iter.Seq[GrantLife] {
	return func(yield func(GrantLife) bool) {
		r, at := requestOf(attrs), instantOf(t)
		for _, b := range s.sorted() {
			if b.ref.Kind == KindRoleBinding && b.ref.Namespace != attrs.GetNamespace() {
				continue
			}
			v := b.at(at)
			if v == nil {
				continue
			}
			if rules := v.rules(at); rules == nil || !rules.allow(&r) {
				continue
			}
			for _, l := range b.lives(&r, func(subjectKey) bool { return true }) {
				if l.Covers(t) && !yield(l) {
					return
				}
			}
		}
	}
}

// lives returns the times in which the binding allowed the request to those of
// its subjects for which is reports true: by their place in the binding, and
// then by time.
func (b *binding) lives(r *request, is func(subjectKey) bool) []GrantLife {
	type life struct{ from, to instant }
	all := b.load()
	found := map[Grant][]life{}
	var order []Grant
	for i := range all {
		v := all[i].value
		if v == nil {
			continue
		}
		end := never
		if i+1 < len(all) {
			end = all[i+1].from
		}
		for _, allowed := range v.allowed(r, all[i].from, end) {
			for s, key := range v.keys {
				if !is(key) {
					continue
				}
				g := Grant{Binding: b.ref, Role: v.ref, Subject: v.subjects[s]}
				list := found[g]
				switch n := len(list); {
				case n == 0:
					order = append(order, g)
					list = append(list, life{allowed[0], allowed[1]})
				case list[n-1].to == allowed[0]:
					list[n-1].to = allowed[1]
				default:
					list = append(list, life{allowed[0], allowed[1]})
				}
				found[g] = list
			}
		}
	}
	var out []GrantLife
	for _, g := range order {
		for _, l := range found[g] {
			out = append(out, GrantLife{Grant: g, From: l.from.time(), To: l.to.time()})
		}
	}
	return out
}

// allowed returns when, from `from` until before `to`, the role's rules allowed
// the request.
func (v *bound) allowed(r *request, from, to instant) (out [][2]instant) {
	if v.role == nil {
		return nil
	}
	roles := v.role.load()
	first := sort.Search(len(roles), func(i int) bool { return roles[i].from > from })
	for i := max(first-1, 0); i < len(roles) && roles[i].from < to; i++ {
		if roles[i].value == nil || !roles[i].value.allow(r) {
			continue
		}
		lo, hi := max(from, roles[i].from), to
		if i+1 < len(roles) {
			hi = min(hi, roles[i+1].from)
		}
		if n := len(out); n > 0 && out[n-1][1] == lo {
			out[n-1][1] = hi
		} else if lo < hi {
			out = append(out, [2]instant{lo, hi})
		}
	}
	return out
}

// time is the zero time for an instant that stands for one that never was.
func (t instant) time() time.Time {
	if t == earliest || t >= latest {
		return time.Time{}
	}
	return time.Unix(0, int64(t)).UTC()
}
