package rbac

import (
	"slices"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"
)

// role is all that a name of a Role or ClusterRole ever stood for. It may be
// without versions, because a binding names it.
type role struct{ history[rules] }

// rules are the rules of a version of a role.
type rules struct {
	all                   []rbacv1.PolicyRule
	resource, nonResource []*rbacv1.PolicyRule // those that can match such a request at all
}

func rulesOf(all []rbacv1.PolicyRule) *rules {
	v := &rules{all: all}
	for i := range all {
		if len(all[i].Resources) > 0 {
			v.resource = append(v.resource, &all[i])
		}
		if len(all[i].NonResourceURLs) > 0 {
			v.nonResource = append(v.nonResource, &all[i])
		}
	}
	return v
}

func (v *rules) equal(w *rules) bool {
	return slices.EqualFunc(v.all, w.all, func(a, b rbacv1.PolicyRule) bool {
		return slices.Equal(a.Verbs, b.Verbs) && slices.Equal(a.APIGroups, b.APIGroups) && slices.Equal(a.Resources, b.Resources) &&
			slices.Equal(a.ResourceNames, b.ResourceNames) && slices.Equal(a.NonResourceURLs, b.NonResourceURLs)
	})
}

func (v *rules) allow(r *request) bool {
	some := v.nonResource
	if r.isResource {
		some = v.resource
	}
	for _, rule := range some {
		if r.allowedBy(rule) {
			return true
		}
	}
	return false
}

// binding is all that a name of a binding ever stood for.
type binding struct {
	ref BindingRef
	history[bound]
	latest atomic.Pointer[object]
}

// object is which object a binding is, from an instant on, and in which of its versions, all changes counted.
type object struct {
	from                 instant
	uid, resourceVersion string
}

// identify takes over which object the binding is from at on, unless a later one is known. Callers hold the store's lock.
func (b *binding) identify(at instant, uid, resourceVersion string) {
	if was := b.latest.Load(); was != nil {
		switch same := resourceVersion != "" && was.uid == uid && was.resourceVersion == resourceVersion; {
		case at < was.from && !same, at >= was.from && same:
			return
		}
	}
	b.latest.Store(&object{at, uid, resourceVersion})
}

// identityAt returns which object the binding is at an instant, as far as that is known.
func (b *binding) identityAt(at instant) (uid, resourceVersion string) {
	if is := b.latest.Load(); is != nil && is.from <= at {
		return is.uid, is.resourceVersion
	}
	return "", ""
}

// bound is what a version of a binding says.
type bound struct {
	ref      RoleRef
	role     *role // nil if ref is of no known kind
	subjects []SubjectRef
	keys     []subjectKey       // of each of the subjects
	first    map[subjectKey]int // the first subject with a key; nil when there are few
}

// manySubjects is from how many subjects on a table is quicker than a look at
// each.
const manySubjects = 16

// boundTo returns a version without its role looked up. A subject that is named
// more than once is so once.
func boundTo(namespace string, to rbacv1.RoleRef, subjects []rbacv1.Subject) *bound {
	v := &bound{ref: RoleRef{to.Kind, to.Name}}
	if len(subjects) == 0 {
		return v
	}
	v.subjects = make([]SubjectRef, 0, len(subjects))
	v.keys = make([]subjectKey, 0, len(subjects))
	seen := make(map[SubjectRef]bool, len(subjects))
	for i := range subjects {
		ref, key := subjectOf(&subjects[i], namespace)
		if seen[ref] {
			continue
		}
		seen[ref] = true
		v.subjects = append(v.subjects, ref)
		v.keys = append(v.keys, key)
	}
	if len(v.keys) >= manySubjects {
		v.first = make(map[subjectKey]int, len(v.keys))
		for i, key := range v.keys {
			if _, ok := v.first[key]; !ok {
				v.first[key] = i
			}
		}
	}
	return v
}

func (v *bound) equal(w *bound) bool {
	return v.ref == w.ref && v.role == w.role && slices.Equal(v.subjects, w.subjects)
}

// rules returns what the binding's role was at t, nil if there was none.
func (v *bound) rules(t instant) *rules {
	if v.role == nil {
		return nil
	}
	return v.role.at(t)
}

// identity is by what a user is known to bindings.
type identity struct {
	name   string
	groups []string
}

func (u *identity) is(key subjectKey) bool {
	switch key.kind {
	case keyUser:
		return u.name == key.name
	case keyGroup:
		return slices.Contains(u.groups, key.name)
	}
	return false
}

// firstSubject returns the place of the first subject that the user is, or -1.
func (v *bound) firstSubject(u *identity) int {
	if v.first == nil {
		return v.nextSubject(u, 0)
	}
	least, ok := v.first[subjectKey{keyUser, u.name}]
	if !ok {
		least = -1
	}
	for _, g := range u.groups {
		if i, ok := v.first[subjectKey{keyGroup, g}]; ok && (least < 0 || i < least) {
			least = i
		}
	}
	return least
}

// nextSubject is firstSubject among those from the i-th on.
func (v *bound) nextSubject(u *identity, i int) int {
	for ; i < len(v.keys); i++ {
		if u.is(v.keys[i]) {
			return i
		}
	}
	return -1
}
