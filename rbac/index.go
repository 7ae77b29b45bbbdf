package rbac

import (
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// subjectKey is what a subject is compared by. A service account is its user
// name, as the reference compares it.
type subjectKey struct {
	kind keyKind
	name string
}

type keyKind uint8

const (
	keyNobody keyKind = iota // a subject of an unknown kind, or an account without a namespace
	keyUser
	keyGroup
)

// subjectOf returns how a subject is named and compared in a binding of the
// given namespace, empty for a ClusterRoleBinding.
func subjectOf(s *rbacv1.Subject, namespace string) (SubjectRef, subjectKey) {
	ref := SubjectRef{Kind: s.Kind, Name: s.Name}
	switch s.Kind {
	case rbacv1.UserKind:
		return ref, subjectKey{keyUser, s.Name}
	case rbacv1.GroupKind:
		return ref, subjectKey{keyGroup, s.Name}
	case rbacv1.ServiceAccountKind:
		if ref.Namespace = s.Namespace; ref.Namespace == "" {
			ref.Namespace = namespace
		}
		if ref.Namespace != "" {
			return ref, subjectKey{keyUser, serviceaccount.MakeUsername(ref.Namespace, s.Name)}
		}
	}
	return ref, subjectKey{}
}

// index finds the bindings that have, or once had, a subject. A binding that it
// finds must still be asked what it was at the time in question.
//
// The lock is held for single steps only, never while anything is decided.
type index struct {
	mu         sync.RWMutex
	cluster    bySubject
	namespaces map[string]bySubject
}

// bySubject has lists of bindings, each ordered by name, by the name of a
// subject. What a list holds up to its length never changes.
type bySubject struct{ users, groups map[string][]*binding }

func newBySubject() bySubject {
	return bySubject{users: map[string][]*binding{}, groups: map[string][]*binding{}}
}

func newIndex() index {
	return index{cluster: newBySubject(), namespaces: map[string]bySubject{}}
}

// find appends to cluster and local the lists of bindings of the user's name
// and of each of its groups, in all namespaces and in the given one.
func (x *index) find(u *identity, namespace string, cluster, local [][]*binding) (_, _ [][]*binding) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	cluster = x.cluster.find(u, cluster)
	if namespace != "" {
		if in, ok := x.namespaces[namespace]; ok {
			local = in.find(u, local)
		}
	}
	return cluster, local
}

func (in bySubject) find(u *identity, lists [][]*binding) [][]*binding {
	if l := in.users[u.name]; l != nil {
		lists = append(lists, l)
	}
	for _, g := range u.groups {
		if l := in.groups[g]; l != nil {
			lists = append(lists, l)
		}
	}
	return lists
}

// lists returns where the bindings of b's scope are listed by the names of
// subjects of key's kind.
func (x *index) lists(key subjectKey, b *binding) map[string][]*binding {
	in := x.cluster
	if b.ref.Kind == KindRoleBinding {
		var ok bool
		if in, ok = x.namespaces[b.ref.Namespace]; !ok {
			in = newBySubject()
			x.namespaces[b.ref.Namespace] = in
		}
	}
	if key.kind == keyGroup {
		return in.groups
	}
	return in.users
}

// add lets the binding be found by key.
func (x *index) add(key subjectKey, b *binding) {
	x.mu.Lock()
	defer x.mu.Unlock()
	in := x.lists(key, b)
	list := in[key.name]
	n := len(list)
	i := n
	if n > 0 && list[n-1].ref.Name >= b.ref.Name {
		var found bool
		if i, found = slices.BinarySearchFunc(list, b.ref.Name, compareName); found {
			return
		}
	}
	if i == n { // beyond what any reader of the list looks at
		in[key.name] = append(list, b)
		return
	}
	longer := make([]*binding, 0, n+n/4+1)
	in[key.name] = append(append(append(longer, list[:i]...), b), list[i:]...)
}

// remove takes back add.
func (x *index) remove(key subjectKey, b *binding) {
	x.mu.Lock()
	defer x.mu.Unlock()
	in := x.lists(key, b)
	list := in[key.name]
	i, found := slices.BinarySearchFunc(list, b.ref.Name, compareName)
	if !found {
		return
	}
	if len(list) > 1 {
		in[key.name] = append(slices.Clone(list[:i]), list[i+1:]...)
		return
	}
	delete(in, key.name)
	if rest := x.namespaces[b.ref.Namespace]; b.ref.Kind == KindRoleBinding && len(rest.users)+len(rest.groups) == 0 {
		delete(x.namespaces, b.ref.Namespace)
	}
}

func compareName(b *binding, name string) int { return strings.Compare(b.ref.Name, name) }

// nextBinding takes the binding with the least name from the front of lists,
// once even if it is in several. It returns nil at the end of all.
func nextBinding(lists [][]*binding) *binding {
	var next *binding
	for _, l := range lists {
		if len(l) > 0 && (next == nil || (l[0] != next && l[0].ref.Name < next.ref.Name)) {
			next = l[0]
		}
	}
	for i, l := range lists {
		if len(l) > 0 && l[0] == next {
			lists[i] = l[1:]
		}
	}
	return next
}
