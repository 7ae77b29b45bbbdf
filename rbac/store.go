package rbac

import (
	"sync"
	"sync/atomic"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Store holds the versions of RBAC objects over time. It is safe for concurrent
// use: readers never wait for more than the change of one entry of an index,
// and a reader sees each object either before or after a write.
//
// A version holds from its instant until the next one of the same object, that
// instant excluded. Objects may come in any order; of two at the same instant
// the one that came last counts. The store keeps parts of the objects that it
// is given, which must not be changed afterwards. Of aggregated cluster roles
// the stored rules count, as in the reference: a cluster's controller fills
// them.
type Store struct {
	writer       sync.Mutex // serializes writers; guards the maps
	roles        map[string]*role
	clusterRoles map[string]*role
	bindings     map[BindingRef]*binding

	index   index
	changes atomic.Uint64
	covered atomic.Int64 // an instant; never when nothing is
	pruned  atomic.Int64 // an instant
	blind   atomic.Int64 // an instant: from then on nobody watches; never when somebody does
	holes   atomic.Pointer[[]hole]
}

// NewStore returns a Store that knows nothing: what it does not allow is unknown
// until CoverFrom is called.
func NewStore() *Store {
	s := &Store{
		roles:        map[string]*role{},
		clusterRoles: map[string]*role{},
		bindings:     map[BindingRef]*binding{},
		index:        newIndex(),
	}
	s.covered.Store(int64(never))
	s.pruned.Store(int64(earliest))
	s.blind.Store(int64(never))
	return s
}

// CoverFrom says that from t on what the store has not seen does not exist.
// Before, absence is unknown. Of several calls the earliest time counts.
func (s *Store) CoverFrom(t time.Time) {
	s.writer.Lock()
	defer s.writer.Unlock()
	s.covered.Store(min(s.covered.Load(), int64(instantOf(t))))
}

// Covers reports whether absence is known at t: whether t is neither before the
// time of CoverFrom nor before what was forgotten by Prune, nor in a time that
// was given to Uncovered.
func (s *Store) Covers(t time.Time) bool {
	at := instantOf(t)
	return int64(at) >= s.covered.Load() && int64(at) >= s.pruned.Load() && s.watched(at)
}

// SetClusterRole says that the cluster role is as o from at on.
func (s *Store) SetClusterRole(o *rbacv1.ClusterRole, at time.Time) {
	s.setRole(s.clusterRoles, o.Name, o.Rules, at)
}

// DeleteClusterRole says that no such cluster role exists from at on.
func (s *Store) DeleteClusterRole(name string, at time.Time) {
	s.deleteRole(s.clusterRoles, name, at)
}

// SetRole says that the role is as o from at on.
func (s *Store) SetRole(o *rbacv1.Role, at time.Time) {
	s.setRole(s.roles, roleKey(o.Namespace, o.Name), o.Rules, at)
}

// DeleteRole says that no such role exists from at on.
func (s *Store) DeleteRole(namespace, name string, at time.Time) {
	s.deleteRole(s.roles, roleKey(namespace, name), at)
}

// SetClusterRoleBinding says that the cluster role binding is as o from at on.
func (s *Store) SetClusterRoleBinding(o *rbacv1.ClusterRoleBinding, at time.Time) {
	s.setBinding(BindingRef{KindClusterRoleBinding, "", o.Name}, &o.ObjectMeta, o.RoleRef, o.Subjects, at)
}

// DeleteClusterRoleBinding says that no such cluster role binding exists from
// at on.
func (s *Store) DeleteClusterRoleBinding(name string, at time.Time) {
	s.deleteBinding(BindingRef{KindClusterRoleBinding, "", name}, at)
}

// SetRoleBinding says that the role binding is as o from at on.
func (s *Store) SetRoleBinding(o *rbacv1.RoleBinding, at time.Time) {
	s.setBinding(BindingRef{KindRoleBinding, o.Namespace, o.Name}, &o.ObjectMeta, o.RoleRef, o.Subjects, at)
}

// DeleteRoleBinding says that no such role binding exists from at on.
func (s *Store) DeleteRoleBinding(namespace, name string, at time.Time) {
	s.deleteBinding(BindingRef{KindRoleBinding, namespace, name}, at)
}

// Changes counts the objects that were set and deleted, and the times that something was forgotten. While it is the same, the same objects are there.
func (s *Store) Changes() uint64 { return s.changes.Load() }

// roleKey is the key of a Role in the reference's informer, which looks up by
// the name alone where there is no namespace.
func roleKey(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func getRole(in map[string]*role, key string) *role {
	r := in[key]
	if r == nil {
		r = &role{}
		in[key] = r
	}
	return r
}

func (s *Store) setRole(in map[string]*role, key string, all []rbacv1.PolicyRule, at time.Time) {
	v := rulesOf(all)
	s.writer.Lock()
	defer s.writer.Unlock()
	getRole(in, key).set(instantOf(at), v, (*rules).equal)
	s.changes.Add(1)
}

func (s *Store) deleteRole(in map[string]*role, key string, at time.Time) {
	s.writer.Lock()
	defer s.writer.Unlock()
	getRole(in, key).set(instantOf(at), nil, nil)
	s.changes.Add(1)
}

func (s *Store) getBinding(ref BindingRef) *binding {
	b := s.bindings[ref]
	if b == nil {
		b = &binding{ref: ref}
		s.bindings[ref] = b
	}
	return b
}

func (s *Store) setBinding(ref BindingRef, meta *metav1.ObjectMeta, to rbacv1.RoleRef, subjects []rbacv1.Subject, at time.Time) {
	v := boundTo(ref.Namespace, to, subjects)
	s.writer.Lock()
	defer s.writer.Unlock()
	switch to.Kind {
	case KindClusterRole:
		v.role = getRole(s.clusterRoles, to.Name)
	case KindRole:
		v.role = getRole(s.roles, roleKey(ref.Namespace, to.Name))
	}
	b := s.getBinding(ref)
	for _, key := range v.keys { // before the version can be seen
		if key.kind != keyNobody {
			s.index.add(key, b)
		}
	}
	replaced, by := b.set(instantOf(at), v, (*bound).equal)
	s.unindex(b, replaced, by)
	b.identify(instantOf(at), string(meta.UID), meta.ResourceVersion)
	s.changes.Add(1)
}

func (s *Store) deleteBinding(ref BindingRef, at time.Time) {
	s.writer.Lock()
	defer s.writer.Unlock()
	b := s.getBinding(ref)
	replaced, by := b.set(instantOf(at), nil, nil)
	s.unindex(b, replaced, by)
	b.identify(instantOf(at), "", "")
	s.changes.Add(1)
}

// unindex takes the binding from the lists of subjects that were in its
// versions and are no more.
func (s *Store) unindex(b *binding, were, are []version[bound]) {
	if len(were) == 0 {
		return
	}
	kept := map[subjectKey]bool{}
	for _, v := range are {
		if v.value != nil {
			for _, key := range v.value.keys {
				kept[key] = true
			}
		}
	}
	for _, v := range were {
		if v.value == nil {
			continue
		}
		for _, key := range v.value.keys {
			if key.kind != keyNobody && !kept[key] {
				kept[key] = true // removed once is enough
				s.index.remove(key, b)
			}
		}
	}
}

// Prune forgets what was over by the given time. Answers for that time and all
// later ones stay as they are; for earlier ones absence becomes unknown. A
// version of an object that comes after it was forgotten is taken as new, even
// if it is older than the deletion: Prune before a time of which no more news
// is expected.
func (s *Store) Prune(before time.Time) {
	s.writer.Lock()
	defer s.writer.Unlock()
	defer s.changes.Add(1)
	at := instantOf(before)
	s.pruned.Store(max(s.pruned.Load(), int64(at)))
	s.pruneHoles(at)
	used := map[*role]bool{}
	for ref, b := range s.bindings {
		old, kept := b.prune(at)
		if len(kept) < len(old) {
			s.unindex(b, old, kept)
		}
		if len(kept) == 0 {
			delete(s.bindings, ref)
		}
		for _, v := range kept {
			if v.value != nil {
				used[v.value.role] = true
			}
		}
	}
	for _, in := range []map[string]*role{s.roles, s.clusterRoles} {
		for key, r := range in {
			if _, kept := r.prune(at); len(kept) == 0 && !used[r] {
				delete(in, key)
			}
		}
	}
}
